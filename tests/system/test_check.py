"""`mm2 check` on real brokers: a sound set-up has no findings, each broken one is named."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connect_runtime.system.system_clock import SystemClock
from mm2.cli import main
from mm2.sandbox import cluster_security, port_reservation
from mm2.sandbox.spark_cluster import SparkCluster, SparkClusterSpec
from tests.support import gates, granted, kafka, old_broker, operations, root_logging
from tests.support.gates import Gate
from tests.support.granted import Rights
from tests.support.kafka import Properties

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

TOPIC = "mm2-check-subject"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
CLOCK = SystemClock()
ON_SOURCE: Rights = {
    ("TOPIC", TOPIC): ("DESCRIBE", "DESCRIBE_CONFIGS", "READ"),
    ("TOPIC", "mm2-offset-syncs.dst.internal"): ("CREATE", "DESCRIBE", "READ", "WRITE"),
    ("GROUP", "*"): ("DESCRIBE",),
}
ON_TARGET: Rights = {
    ("TOPIC", "src."): (
        *("CREATE", "ALTER", "ALTER_CONFIGS", "DESCRIBE", "DESCRIBE_CONFIGS"),
        *("READ", "WRITE"),
    ),
    ("TOPIC", "mm2-"): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("TOPIC", "heartbeats"): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("GROUP", "src-mm2"): ("DESCRIBE", "READ"),
    ("TRANSACTIONAL_ID", "mm2-src->dst-"): ("DESCRIBE", "WRITE"),
    ("BROKER", "kafka-cluster"): ("DESCRIBE_CONFIGS",),
}
Resource = tuple[str, str]
LACKING: dict[str, tuple[Rights, Resource, tuple[str, ...]]] = {
    "enough": (ON_TARGET, ("TOPIC", "none"), ()),
    "unread": (ON_SOURCE, ("TOPIC", TOPIC), ("READ",)),
    "unseen": (ON_SOURCE, ("TOPIC", TOPIC), ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")),
    "ungrouped": (ON_SOURCE, ("GROUP", "*"), ("DESCRIBE",)),
    "unmade": (ON_TARGET, ("TOPIC", "src."), ("CREATE",)),
    "unwritten": (ON_TARGET, ("TOPIC", "src."), ("WRITE",)),
    "unjoined": (ON_TARGET, ("GROUP", "src-mm2"), ("READ", "DESCRIBE")),
    "unfenced": (ON_TARGET, ("TRANSACTIONAL_ID", "mm2-src->dst-"), ("WRITE", "DESCRIBE")),
    "untold": (ON_TARGET, ("BROKER", "kafka-cluster"), ("DESCRIBE_CONFIGS",)),
}
"""Users by what they are refused: all rights of one side but these."""

Found = list[dict[str, Any]]
Check = Callable[..., Found]


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    with root_logging.kept():
        yield


def rights_of(user: str) -> Rights:
    rights, resource, lacking = LACKING[user]
    kept = {
        each: tuple(word for word in words if each != resource or word not in lacking)
        for each, words in rights.items()
    }
    return {each: words for each, words in kept.items() if words}


@pytest.fixture(scope="module")
def gate(tmp_path_factory) -> Iterator[Gate]:
    with gates.opened(tmp_path_factory.mktemp("gate"), list(LACKING)) as found:
        properties = found.cluster.client_properties()
        kafka.create_topic(properties, TOPIC)
        for user in LACKING:
            granted.allow(found.cluster, user, rights_of(user))
        yield found


@pytest.fixture
def plain(west) -> dict[str, str]:
    """A cluster without any security, with the topic that is to be mirrored."""
    properties: dict[str, str] = west.client_properties()
    with contextlib.suppress(Exception):  # another test of this file has made it
        kafka.create_topic(properties, TOPIC)
    return properties


@pytest.fixture
def check(tmp_path, capsys) -> Check:
    def run(given: dict[str, Any], *, code: int = 1, timeout: str = "20") -> Found:
        """All findings; what was given in secret is in no output."""
        file = tmp_path / "clusters.yaml"
        file.write_text(json.dumps(given))
        capsys.readouterr()
        status = main.run_command(["check", str(file), "--json", "--timeout", timeout])
        printed = capsys.readouterr()
        assert printed.out, printed.err
        told = json.loads(printed.out)
        secrets = re.findall(r'password=\\"([^\\]+)', json.dumps(given))
        assert bool(secrets) == ("jaas" in json.dumps(given))
        for secret in secrets:
            assert secret not in printed.out + printed.err
        assert status == code, json.dumps(told, indent=1)
        assert told["version"] == 1
        return list(told["findings"])

    return run


def flow(source: Properties, target: Properties, **options: Any) -> dict[str, Any]:
    """A file with one flow src->dst; keys with `_` for `.`."""
    spark = options.pop("spark", {"engine": "inline"})
    usual = {
        "topics": TOPIC,
        "replication.factor": 1,
        "heartbeats.replication.enabled": False,
        "sync.topic.acls.enabled": False,
    }
    keys = usual | {key.replace("_", "."): value for key, value in options.items()}
    return {
        "clusters": {"src": dict(source), "dst": dict(target)},
        "flows": [{"from": "src", "to": "dst", **keys}],
        "spark": spark,
    }


def door(gate: Gate, listener: str, **properties: str) -> dict[str, str]:
    """Client properties, with `_` for `.`, of who comes in there."""
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return {"bootstrap.servers": gate.at(listener), **given}


def trusting(gate: Gate, listener: str) -> dict[str, str]:
    authority = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(gate.authority)}
    return door(gate, listener, security_protocol="SSL", **authority)


# Sound ones


def test_a_sound_set_up_has_no_findings(gate, plain, check):
    assert check(flow(plain, gate.cluster.client_properties()), code=0) == []


def test_the_rights_that_readme_lists_are_enough(gate, plain, check):
    assert check(flow(plain, gate.cluster.client_properties("enough")), code=0) == []


def test_what_is_told_to_people_has_a_table_and_what_mends_it(gate, plain, tmp_path, capsys):
    nobody = port_reservation.reserve_port()
    file = tmp_path / "clusters.yaml"
    given = flow(plain, {"bootstrap.servers": f"127.0.0.1:{nobody.port}"})
    file.write_text(json.dumps(given))
    assert main.run_command(["check", str(file)]) == 1
    nobody.release()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("DNS", "NETWORK", "LISTENER", "PROTOCOL", "RIGHTS", "TOPICS", "SETTINGS", "SPARK"),
    ]
    assert lines[1].split() == ["src", "ok", "ok", "ok", "ok", "-", "-", "-", "-"]
    assert lines[2].split() == ["dst", "ok", "FAILED", "skipped", "skipped", "-", "-", "-", "-"]
    assert lines[3].split()[:5] == ["src->dst", "-", "-", "-", "skipped"]
    assert f"  $ nc -vz 127.0.0.1 {nobody.port}" in lines
    assert lines[-1] == "verdict: FAILED, 1 failure"


# The way to a cluster


def only(found: Found, code: str, word: str, subject: str = "dst") -> dict[str, Any]:
    assert [each["code"] for each in found] == [code], json.dumps(found, indent=1)
    (told,) = found
    assert (told["area"], told["subject"]) == (word, subject)
    assert told["effect"]
    assert told["fix"]
    return told


def test_a_wrong_port(plain, check):
    nobody = port_reservation.reserve_port()
    found = check(flow({"bootstrap.servers": f"127.0.0.1:{nobody.port}"}, plain))
    nobody.release()
    told = only(found, "network", "NETWORK", "src")
    assert "refused" in told["text"]
    assert told["command"] == f"nc -vz 127.0.0.1 {nobody.port}"


def test_a_host_that_does_not_resolve(plain, check):
    told = only(
        check(flow(plain, {"bootstrap.servers": "kafka.nowhere.invalid:9092"})), "dns", "DNS"
    )
    assert told["command"] == "getent ahosts kafka.nowhere.invalid"


def test_a_port_that_never_answers_holds_nothing_up(plain, check):
    reserved = port_reservation.reserve_port()
    address = f"127.0.0.1:{reserved.port}"
    with socket.create_server(("127.0.0.1", reserved.port)):
        began_s = CLOCK.now_s()
        found = check(flow(plain, {"bootstrap.servers": address}), timeout="2")
        took_s = CLOCK.now_s() - began_s
    reserved.release()
    told = only(found, "network", "NETWORK")
    assert "no response" in told["text"]
    assert took_s < 20.0  # two rounds of 2 s, on a machine that has much else to do


def test_one_dead_address_among_others_is_a_warning(gate, plain, check):
    nobody = port_reservation.reserve_port()
    both = f"{plain['bootstrap.servers']},127.0.0.1:{nobody.port}"
    found = check(
        flow({**plain, "bootstrap.servers": both}, gate.cluster.client_properties()), code=0
    )
    nobody.release()
    assert only(found, "network", "NETWORK", "src")["severity"] == "warning"


def test_plaintext_to_a_port_with_tls(gate, plain, check):
    found = check(flow(plain, door(gate, gates.TLS)))
    assert "uses TLS" in only(found, "listener", "LISTENER")["text"]


def test_tls_to_a_port_without(gate, plain, check):
    found = check(flow(plain, trusting(gate, gates.PLAIN)))
    only(found, "listener", "LISTENER")


def test_an_expired_certificate(gate, plain, check):
    only(check(flow(plain, trusting(gate, gates.EXPIRED))), "tls-expired", "TLS")


def test_a_certificate_that_ends_soon(gate, plain, check):
    found = check(flow(plain, trusting(gate, gates.SOON)))  # which has no rights there
    (told,) = [each for each in found if each["code"] == "tls-expires-soon"]
    assert (told["area"], told["subject"], told["severity"]) == ("TLS", "dst", "warning")
    assert "expires in 9 days" in told["text"]


def test_a_certificate_for_another_host(gate, plain, check):
    only(check(flow(plain, trusting(gate, gates.ELSEWHERE))), "tls-host-name", "TLS")


def test_a_certificate_of_an_authority_that_is_not_trusted(gate, plain, check):
    others = str(gate.cluster.folder / "security" / "ca.pem")
    given = {**trusting(gate, gates.TLS), "ssl.truststore.location": others}
    only(check(flow(plain, given)), "tls-untrusted", "TLS")


def test_a_listener_that_wants_a_certificate_of_ours(gate, plain, check):
    only(check(flow(plain, trusting(gate, gates.MUTUAL))), "tls-client", "TLS")


def test_a_wrong_password(gate, plain, check):
    given = gate.cluster.client_properties()
    given["sasl.jaas.config"] = re.sub(
        'password="[^"]*"', 'password="wr0ng-one"', given["sasl.jaas.config"]
    )
    told = only(check(flow(plain, given)), "auth-refused", "AUTH")
    assert "--entity-name admin" in told["command"]


def test_a_mechanism_that_the_listener_does_not_offer(gate, plain, check):
    login = gate.cluster.client_properties(mechanism=cluster_security.SCRAM_256)
    given = {
        **login,
        "bootstrap.servers": gate.at(gates.SASL),
        "security.protocol": "SASL_PLAINTEXT",
    }
    told = only(check(flow(plain, given)), "auth-mechanism", "AUTH")
    assert "it offers PLAIN" in told["text"]


def test_a_login_where_none_is_wanted(gate, plain, check):
    login = gate.cluster.client_properties()
    given = {
        **login,
        "bootstrap.servers": gate.at(gates.PLAIN),
        "security.protocol": "SASL_PLAINTEXT",
    }
    only(check(flow(plain, given)), "listener", "LISTENER")


def test_no_login_where_one_is_wanted(gate, plain, check):
    only(check(flow(plain, door(gate, gates.SASL))), "listener", "LISTENER")


def test_brokers_that_advertise_an_address_that_nobody_reaches(gate, plain, check):
    found = check(flow(plain, door(gate, gates.LOST)))
    told = only(found, "broker-unreachable", "LISTENER")
    assert f"broker 1 advertises {gate.lost}" in told["text"]


def test_brokers_that_are_too_old(plain, check):
    with old_broker.serving() as address:
        found = check(flow(plain, {"bootstrap.servers": address}))
    assert "metadata" in only(found, "protocol", "PROTOCOL")["text"]


# Rights


def as_source(gate: Gate, user: str, plain: Properties) -> dict[str, Any]:
    return flow(gate.cluster.client_properties(user), plain)


def as_target(gate: Gate, user: str, plain: Properties) -> dict[str, Any]:
    return flow(plain, gate.cluster.client_properties(user))


def test_a_topic_that_may_not_be_read(gate, plain, check):
    told = only(check(as_source(gate, "unread", plain)), "right-topic-read", "RIGHTS", "src->dst")
    assert "User:unread (consumer) is not authorized to READ" in told["text"]
    assert f"--allow-principal User:unread --operation Read --topic {TOPIC}" in told["command"]


def test_topics_that_may_not_even_be_seen(gate, plain, check):
    found = check(as_source(gate, "unseen", plain), code=0)
    assert "--operation Describe" in only(found, "no-topics", "TOPICS", "src->dst")["command"]


def test_groups_that_may_not_be_seen(gate, plain, check):
    found = check(as_source(gate, "ungrouped", plain), code=0)
    told = only(found, "right-group-describe", "RIGHTS", "src->dst")
    assert "--operation Describe --group '*'" in told["command"]


@pytest.mark.parametrize(
    ("user", "code", "operation"),
    [("unmade", "right-topic-create", "Create"), ("unwritten", "right-topic-write", "Write")],
)
def test_mirrors_that_may_not_be_made_or_written(gate, plain, check, user, code, operation):
    """Checkpoints stand under the same prefix."""
    found = check(as_target(gate, user, plain))
    assert {(each["code"], each["area"]) for each in found} == {(code, "RIGHTS")}
    commands = [each["command"] for each in found]
    for name in (f"src.{TOPIC}", "src.checkpoints.internal"):
        assert [each for each in commands if f"--operation {operation} --topic {name}" in each]


def test_a_group_that_may_not_be_joined(gate, plain, check):
    found = check(as_target(gate, "unjoined", plain))
    told = only(found, "right-group-describe-read", "RIGHTS", "src->dst")
    assert "--group src-mm2" in told["command"]


def test_transactional_ids_that_may_not_be_used(gate, plain, check):
    found = check(as_target(gate, "unfenced", plain), code=0)
    told = only(found, "at-least-once", "RIGHTS", "src->dst")
    assert "--transactional-id 'mm2-src->dst-'" in told["command"]


def test_settings_of_brokers_that_may_not_be_read(gate, plain, check):
    found = check(as_target(gate, "untold", plain), code=0)
    assert "right-cluster-describe-configs" in [each["code"] for each in found]
    assert {each["severity"] for each in found} <= {"warning", "note"}


# Topics and settings


def test_batches_that_the_target_would_not_take(gate, plain, check):
    properties = gate.cluster.client_properties()
    name = kafka.create_topic(properties, "large", config={"max.message.bytes": "9000000"})
    given = flow(properties, plain, topics=name, config_properties_exclude=["max.message.bytes"])
    told = only(check(given, code=0), "mirror-max-message-bytes", "SETTINGS", "src->dst")
    assert "but 9000000 on the source" in told["text"]
    assert "--config max.message.bytes=9000000" in told["command"]


def test_more_replicas_than_brokers(gate, plain, check):
    found = check(flow(plain, gate.cluster.client_properties(), replication_factor=3))
    (told,) = [each for each in found if each["severity"] == "failed"]
    assert (told["code"], told["area"]) == ("replication-factor", "SETTINGS")
    assert (
        told["text"] == "replication.factor 3 exceeds the 1 broker of dst and the 1 broker of src"
    )
    assert told["fix"].startswith("set flows[0].replication.factor (")
    assert f"src.{TOPIC}" in told["affects"]
    internal = ("mm2-configs.src.internal", "mm2-offset-map.src.internal", "heartbeats")
    assert set(internal) <= set(told["affects"])
    assert not [each for each in found if "INVALID_REPLICATION_FACTOR" in each["text"]]


@pytest.fixture
def soiled(gate) -> Iterator[Callable[..., None]]:
    """Makes a topic of the flow's own otherwise than it has to be, for one test."""
    properties = gate.cluster.client_properties()
    made: list[str] = []

    def make(name: str, **options: Any) -> None:
        made.append(kafka.create_topic(properties, name, **options))

    yield make
    for name in made:
        operations.delete(properties, name)


def test_a_topic_of_our_own_that_forgets_by_age(gate, plain, check, soiled):
    name = "mm2-configs.src.internal"
    soiled(name, config={"cleanup.policy": "delete"})
    told = only(
        check(flow(plain, gate.cluster.client_properties())),
        "state-topic-cleanup",
        "TOPICS",
        "src->dst",
    )
    assert f"--entity-name {name} --add-config cleanup.policy=compact" in told["command"]


def test_a_topic_of_our_own_with_too_many_partitions(gate, plain, check, soiled):
    soiled("mm2-offset-map.src.internal", partitions=3, config={"cleanup.policy": "compact"})
    found = check(flow(plain, gate.cluster.client_properties()))
    assert "3 partitions" in only(found, "state-topic-partitions", "TOPICS", "src->dst")["text"]


def test_one_cluster_under_two_names(plain, check):
    given = flow(plain, plain, replication_policy_class=IDENTITY)
    found = check(given)
    assert [each["severity"] for each in found if each["code"] == "same-cluster"] == ["failed"]


# Slots


def test_a_spark_master_that_nobody_reaches(gate, plain, check):
    nobody = port_reservation.reserve_port()
    spark = {"master": f"spark://127.0.0.1:{nobody.port}", "allow.insecure.spark": True}
    found = check(flow(plain, gate.cluster.client_properties(), spark=spark))
    nobody.release()
    told = only(found, "spark-master", "SPARK", "spark")
    assert told["command"] == f"nc -vz 127.0.0.1 {nobody.port}"


def test_fewer_slots_than_tasks(gate, plain, check):
    spark = {"master": "local[1,1]"}
    given = flow(plain, gate.cluster.client_properties(), spark=spark, tasks_max=3)
    told = only(check(given, code=0), "spark-few-slots", "SPARK", "spark")
    assert "2 tasks wait" in told["effect"]


@pytest.mark.full
def test_a_spark_without_workers_has_no_slots(gate, plain, check):
    with SparkCluster(SparkClusterSpec(workers=0)) as spark:
        settings = {"master": spark.url, "allow.insecure.spark": True}
        found = check(flow(plain, gate.cluster.client_properties(), spark=settings))
    only(found, "spark-no-slots", "SPARK", "spark")


@pytest.mark.full
def test_a_spark_with_workers_has_slots(gate, plain, check):
    with SparkCluster(SparkClusterSpec(workers=1)) as spark:
        settings = {"master": spark.url, "allow.insecure.spark": True}
        given = flow(plain, gate.cluster.client_properties(), spark=settings)
        assert check(given, code=0) == []
