"""Each remedy that a flow's set-up prints, typed as printed while the flow runs: it replicates, and
what was told is over.

`test_remedies.py` has those of halted partitions.
"""

from __future__ import annotations

import functools
import json
import random
import re
import shutil
import subprocess
from typing import Any, cast

import pytest
from confluent_kafka import admin

from mm2 import suggested_commands
from mm2.kafka import kafka_client_interfaces
from mm2.sandbox import java_server_process, kafka_jars
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import content, eventually, granted, kafka, mirror, obeying, operations
from tests.support.granted import Rights
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(600)]

INLINE = {"engine": "inline"}
SOON_S = 180.0


@pytest.fixture
def pair(own_cluster: Any) -> tuple[SandboxCluster, SandboxCluster]:
    return own_cluster("east"), own_cluster("west")


def settings(east: Properties, west: Properties, *topics: str, **more: Any) -> dict[str, Any]:
    return mirror.settings(east, west, topics=[*topics], spark=INLINE, **more)


def replicates(east: Properties, west: Properties, topic: str, value: bytes) -> None:
    """What is produced from now on arrives."""
    kafka.produce(east, topic, [Outgoing(value=value)], message_max_bytes=2_000_000)

    def last() -> list[bytes | None]:
        return [each.value for each in kafka.read_partition(west, f"east.{topic}")][-1:]

    eventually.eventually(lambda: last() == [value], SOON_S, lambda: f"{topic}: {last()!r}")


def status(run: Mirror) -> str:
    return mirror.mm2("status", "--config", run.settings_path).stdout


def line_of(run: Mirror, pattern: str) -> str:
    """The line of `mm2 status` that holds a match, once there is one."""
    found: list[str] = []

    def shown() -> bool:
        found[:] = [line for line in status(run).splitlines() if re.search(pattern, line)]
        return bool(found)

    eventually.eventually(shown, SOON_S, lambda: f"{status(run)}\n{run.tail}", interval_s=1.0)
    return found[0]


def await_gone(run: Mirror, pattern: str) -> None:
    """Until `mm2 status` has no match."""
    eventually.eventually(
        lambda: not re.search(pattern, status(run)),
        SOON_S,
        lambda: f"{status(run)}\n{run.tail}",
        interval_s=1.0,
    )


def test_topics_of_the_flow_that_were_made_otherwise_are_mended(tmp_path, pair):
    """Those of its map: with a second partition before its first start, later with another
    cleanup.policy."""
    east, west = (each.client_properties() for each in pair)
    kafka.create_topic(east, "orders")
    ours = sorted(kafka_client_interfaces.build_flow_state_topic_names("east").values())
    kafka.create_topic(west, ours[0], partitions=2)
    given = settings(east, west, "orders")
    with Mirror(tmp_path, given) as run:
        line = line_of(run, f"{re.escape(ours[0])}.*it has 2 partitions")
        obeying.obey(suggested_commands.extract_remedy_from_message(line), folder=tmp_path)
        replicates(east, west, "orders", b"first")
        await_gone(run, "Remedy")
        assert run.stop() == 143
    operations.configure(west, ours[1], {"cleanup.policy": "delete"})
    with Mirror(tmp_path, given) as run:
        line = line_of(run, f"{re.escape(ours[1])}.*cleanup.policy is delete")
        obeying.obey(suggested_commands.extract_remedy_from_message(line), folder=tmp_path)
        replicates(east, west, "orders", b"second")
        await_gone(run, "Remedy")
        assert run.stop() == 143


def test_what_a_right_is_lacking_for_is_done_once_it_is_granted(tmp_path, own_cluster):
    """Rights without which a flow replicates all the same, and warns."""
    east, west = (own_cluster(name, users=["mirror"]) for name in ("east", "west"))
    source, target = east.client_properties(), west.client_properties()
    granted.allow(east, "mirror", ON_SOURCE)
    kafka.create_acls(source, [READER])
    granted.allow(west, "mirror", ON_TARGET)
    kafka.create_topic(source, "orders", config={"max.message.bytes": "2000000"})
    kafka.produce(source, "orders", content.some(5))
    given = settings(
        east.client_properties("mirror"),
        west.client_properties("mirror"),
        "orders",
        sync_topic_acls_enabled=True,
        sync_topic_acls_interval_seconds=2,
        sync_topic_configs_interval_seconds=2,
        refresh_topics_interval_seconds=2,
    )
    with Mirror(tmp_path, given) as run:
        run.await_records(5)

        def allow(on: SandboxCluster, line: str) -> None:
            lines = "".join(f"{key}={value}\n" for key, value in on.client_properties().items())
            (tmp_path / suggested_commands.ADMIN_PROPERTIES_PLACEHOLDER).write_text(lines)
            obeying.obey(suggested_commands.extract_remedy_from_message(line), folder=tmp_path)

        unread = line_of(run, "not authorized to read .* on the target; assuming")
        unseen = line_of(run, "not authorized to read the source topic's configs")
        unfenced = line_of(run, "replicated at least once")
        logged = run.await_log(r"so zombie writers cannot be fenced: .*")[0]
        told = mirror.mm2("why", "--config", run.settings_path, "orders").stdout
        (why,) = [line for line in told.splitlines() if suggested_commands.REMEDY_PREFIX in line]
        assert (
            suggested_commands.extract_remedy_from_message(why)
            == suggested_commands.extract_remedy_from_message(logged)
            == suggested_commands.extract_remedy_from_message(unfenced)
        )
        allow(east, run.await_log(r"reading ACLs: .*")[0])
        allow(west, run.await_log(r"copying ACLs: .*")[0])
        allow(west, unread)
        allow(east, unseen)
        allow(west, why)
        await_gone(run, suggested_commands.REMEDY_PREFIX)
        replicates(source, target, "orders", b"once")
        assert "Remedy" not in mirror.mm2("why", "--config", run.settings_path, "orders").stdout
        eventually.eventually(lambda: "User:reader" in readers(target, "east.orders"), SOON_S)
        eventually.eventually(
            lambda: operations.settings(target, "east.orders")["max.message.bytes"] == "2000000",
            SOON_S,
        )
        assert run.stop() == 143


READER = admin.AclBinding(
    admin.ResourceType.TOPIC,
    "orders",
    admin.ResourcePatternType.LITERAL,
    "User:reader",
    "*",
    admin.AclOperation.READ,
    admin.AclPermissionType.ALLOW,
)


def readers(properties: Properties, topic: str) -> list[str]:
    """Whose ACLs of the topic there are."""
    wanted = admin.AclBindingFilter(
        admin.ResourceType.TOPIC,
        topic,
        admin.ResourcePatternType.ANY,
        cast("str", None),
        cast("str", None),
        admin.AclOperation.ANY,
        admin.AclPermissionType.ANY,
    )
    client = kafka.admin_client(properties)
    found = kafka.retried(lambda: client.describe_acls(wanted).result(SOON_S))
    return [each.principal for each in found]


ON_SOURCE: Rights = {
    ("TOPIC", "orders"): ("DESCRIBE", "READ"),
    ("TOPIC", "mm2-offset-syncs.west.internal"): ("CREATE", "DESCRIBE", "READ", "WRITE"),
    ("GROUP", "*"): ("DESCRIBE",),
}
ON_TARGET: Rights = {
    ("TOPIC", "east."): (
        *("CREATE", "ALTER", "ALTER_CONFIGS", "DESCRIBE", "DESCRIBE_CONFIGS"),
        *("READ", "WRITE"),
    ),
    ("TOPIC", "mm2-"): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("TOPIC", "heartbeats"): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("GROUP", "east-mm2"): ("DESCRIBE", "READ"),
}


def test_what_is_warned_of_is_over_once_its_remedy_is_typed(tmp_path, pair):
    """Settings of mirror topics, what operators have paused, and what the source will delete."""
    east, west = (each.client_properties() for each in pair)
    kafka.create_topic(east, "orders", config={"max.message.bytes": "2000000"})
    kafka.create_topic(west, "east.orders", config=OTHERWISE)
    kafka.create_topic(east, "aging", config={"retention.ms": str(DAY_MS)})
    given = settings(
        east,
        west,
        "orders",
        "aging",
        refresh_topics_interval_seconds=2,
        sync_topic_configs_enabled=False,
        emit_checkpoints_interval_seconds=1,
    )
    with Mirror(tmp_path, given) as run:
        config = ("--config", run.settings_path)
        for topic in ("orders", "aging"):
            replicates(east, west, topic, b"before")
        for setting in OTHERWISE:
            line = line_of(run, f"warning: .*orders.*{re.escape(setting)} is ")
            obeying.obey(suggested_commands.extract_remedy_from_message(line), folder=tmp_path)
        await_gone(run, suggested_commands.REMEDY_PREFIX)
        replicates(east, west, "orders", random.Random(1).randbytes(1_500_000))

        run.pause_connector("MirrorCheckpointConnector")
        line = line_of(run, "MirrorCheckpointConnector is paused by an operator")
        obeying.obey(suggested_commands.extract_remedy_from_message(line), folder=tmp_path)
        await_gone(run, "MirrorCheckpointConnector")

        assert mirror.mm2("pause", "east->west", *config, "--topic", "aging").returncode == 0
        old = Outgoing(value=b"old", timestamp=mirror.CLOCK.wall_ms() - DAY_MS * 8 // 10)
        warned = re.compile(r"aging-0: the source deletes unreplicated records in .*")

        def produce_until_warned() -> bool:
            """The first ones may be replicated before the pause is in force."""
            if not warned.search(run.log):
                kafka.produce(east, "aging", [old])
            return bool(warned.search(run.log))

        eventually.eventually(produce_until_warned, SOON_S, lambda: run.tail, interval_s=2.0)
        line = warned.findall(run.log)[0]
        obeying.obey(suggested_commands.extract_remedy_from_message(line), folder=tmp_path)
        run.await_log("aging: no longer at risk of data loss")
        assert operations.settings(east, "aging")["retention.ms"] == str(2 * DAY_MS)
        told = mirror.mm2("why", *config, "aging").stdout
        (line,) = [line for line in told.splitlines() if suggested_commands.REMEDY_PREFIX in line]
        obeying.obey(suggested_commands.extract_remedy_from_message(line), folder=tmp_path)
        replicates(east, west, "aging", b"after")
        sent = [each.value for each in kafka.read_partition(east, "aging")]
        assert [each.value for each in kafka.read_partition(west, "east.aging")] == sent
        replicates(east, west, "orders", b"after")
        assert run.stop() == 143


DAY_MS = 86_400_000
OTHERWISE = {
    "max.message.bytes": "1000000",
    "compression.type": "gzip",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "3600000000",
}


def test_a_topic_that_is_gone_is_left_out(tmp_path, pair):
    """The remedy says to edit the file: so it is, and reloaded as printed."""
    east, west = (each.client_properties() for each in pair)
    for topic in ("orders", "old"):
        kafka.create_topic(east, topic)
    given = settings(east, west, "orders", "old")
    with Mirror(tmp_path, given) as run:
        for topic in ("orders", "old"):
            replicates(east, west, topic, b"before")
        operations.delete(east, "old")
        remedy = obeying.remedy_of(run, "old", "refused-by-source")
        given["flows"][0]["topics.exclude"] = ["old"]
        run.settings_path.write_text(json.dumps(given, indent=1))
        obeying.obey(remedy, folder=tmp_path)
        await_gone(run, suggested_commands.REMEDY_PREFIX)
        assert run.stopped() == set()
        replicates(east, west, "orders", b"after")
        assert run.stop() == 143


@pytest.mark.kafka_versions("2.8")
def test_a_target_that_lacks_a_codec_is_given_another(tmp_path, own_cluster):
    """Brokers know zstd from 2.1 on, and by the version that they speak among themselves."""
    west = own_cluster(
        "west", kafka_version="2.8", settings={"inter.broker.protocol.version": "2.0"}
    ).client_properties()
    east = own_cluster("east").client_properties()
    kafka.create_topic(east, "orders")
    with Mirror(tmp_path, settings(east, west, "orders")) as run:
        replicates(east, west, "orders", b"before")
        kafka.produce(east, "orders", content.some(50), compression_type="zstd")
        remedy = obeying.remedy_of(run, "orders", "refused-by-target")
        obeying.obey(remedy, folder=tmp_path)
        replicates(east, west, "orders", b"after")
        assert len(kafka.read_partition(west, "east.orders")) == 52
        await_gone(run, suggested_commands.REMEDY_PREFIX)
        assert run.stop() == 143


POLICY = """
import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

public class NoMirrors implements CreateTopicPolicy {
    public void validate(RequestMetadata asked) {
        boolean mirror = asked.topic().matches("east[.](orders|users)");
        if (mirror && !new java.io.File("ALLOWED").exists()) {
            throw new PolicyViolationException("no mirror topics");
        }
    }
    public void configure(Map<String, ?> configs) {}
    public void close() {}
}
"""


def test_a_mirror_topic_that_a_policy_forbids_is_made_once_it_may_be(
    tmp_path, own_cluster, monkeypatch
):
    """`create.topic.policy.class.name` on the target; the other way is to leave the topic out."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("no javac to compile a policy with")
    allowed, source = tmp_path / "allowed", tmp_path / "NoMirrors.java"
    source.write_text(POLICY.replace("ALLOWED", str(allowed)))
    jars = kafka_jars.ensure_jars(kafka_jars.KAFKA_JARS)
    subprocess.run([compiler, "-cp", f"{jars}/*", "-d", tmp_path, source], check=True, timeout=100)
    east = own_cluster("east").client_properties()
    monkeypatch.setattr(
        java_server_process,
        "make_java_command",
        functools.partial(java_server_process.make_java_command, classes=[tmp_path]),
    )
    policy = {"create.topic.policy.class.name": "NoMirrors"}
    west = own_cluster("west", settings=policy).client_properties()
    for topic in ("orders", "users"):
        kafka.create_topic(east, topic)
    given = settings(east, west, "orders", "users")
    with Mirror(tmp_path, given) as run:
        remedy = obeying.remedy_of(run, "orders", "topic-refused")
        line = line_of(run, r"halted .*users-0: \[topic-refused\]")
        reload = re.search(r"topics\.exclude \((mm2 reload .*?)\)", line)
        assert reload, line
        given["flows"][0]["topics.exclude"] = ["users"]
        run.settings_path.write_text(json.dumps(given, indent=1))
        obeying.obey(reload[1], folder=tmp_path)
        allowed.touch()
        obeying.obey(remedy, folder=tmp_path)
        replicates(east, west, "orders", b"allowed")
        await_gone(run, suggested_commands.REMEDY_PREFIX)
        assert run.stop() == 143
