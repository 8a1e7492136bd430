"""Halts that need more than one process, a foreign producer, missing rights or old brokers: each is
brought about on real brokers, its remedy is typed as printed, and the topic is replicated again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin

from connect_runtime.protocol.produce_requests import ProduceBatch
from mm2 import suggested_commands
from mm2.formats import record_set_splitter
from mm2.sandbox import java_server_process
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.support import (
    content,
    eventually,
    granted,
    kafka,
    mirror,
    obeying,
    old_authorizer,
    operations,
    source_connectors,
)
from tests.support.connect_workers import Kind, Mode, Worker
from tests.support.granted import Rights
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror
from tests.support.wire import Driver

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(900)]

SOON_S = 180.0
USER = "mirror"
AGAIN = b"after the remedy"


def settings(east: Properties, west: Properties, *topics: str, **more: Any) -> dict[str, Any]:
    return mirror.settings(east, west, topics=[*topics], spark={"engine": "inline"}, **more)


def replicates(east: Properties, west: Properties, topic: str, *, remote_topic: str = "") -> None:
    """What is produced from now on arrives."""
    kafka.produce(east, topic, [Outgoing(value=AGAIN)])
    remote_topic = remote_topic or f"east.{topic}"
    eventually.eventually(
        lambda: [e.value for e in kafka.read_partition(west, remote_topic)][-1:] == [AGAIN],
        SOON_S,
        lambda: f"{[e.value for e in kafka.read_partition(west, remote_topic)][-5:]}",
        interval_s=0.5,
    )


def all_replicate(run: Mirror) -> None:
    """Figures follow soon."""
    eventually.eventually(lambda: run.stopped() == set(), SOON_S, lambda: f"{run.stopped()}")


# Several owners


def test_two_owners_of_one_flow_are_told_until_one_of_them_is_stopped(
    tmp_path: Path, own_cluster: Any, connect_group: Any
):
    """`mm2 run` and a Connect worker of another group, then a Connect worker that runs alone."""
    east, west = (own_cluster(name).client_properties() for name in ("east", "west"))
    kafka.create_topic(east, "orders")
    connector = {
        **source_connectors.config(east, west, aliases=("east", "west"), topics="orders"),
        "emit.heartbeats.enabled": "false",
        "mm2.engine": "inline",
    }
    with Mirror(tmp_path, settings(east, west, "orders")) as run:
        kafka.produce(east, "orders", content.some(3))
        run.await_records(3, topic="orders")
        other = connect_group(west).start("other", Kind.OURS)
        other.configure("copies", connector)
        remedy = remedy_while_producing(east, lambda: run.log)
        assert remedy.startswith("mm2 restart 'east->west' --topic orders ")
        assert other.stop() == 143
        obeying.obey(remedy, folder=tmp_path)
        replicates(east, west, "orders")
        with standalone(tmp_path, west, connector) as alone:
            remedy = remedy_while_producing(east, alone.log_text)
            assert remedy.startswith(
                f"curl -f -X POST '{suggested_commands.WORKER_URL_PLACEHOLDER}/connectors/copies/"
            )
            assert run.stop() == 143
            obeying.obey(remedy, folder=tmp_path, worker=alone.url)
            replicates(east, west, "orders")
    sent, there = kafka.read_partition(east, "orders"), kafka.read_partition(west, "east.orders")
    assert kafka.differences(sent, there) == []


def remedy_while_producing(east: Properties, log: Callable[[], str]) -> str:
    """Owners notice only when they write that they are fenced."""

    def halted() -> str:
        kafka.produce(east, "orders", content.some(1))
        found = re.search(r"\[fenced-by-another-owner\] .*", log())
        return suggested_commands.extract_remedy_from_message(found[0]) if found else ""

    return eventually.eventually(halted, SOON_S, log, interval_s=0.5)


def standalone(folder: Path, west: Properties, connector: dict[str, str]) -> Worker:
    return Worker(
        Kind.OURS,
        {**west, "offset.storage.file.filename": str(folder / "offsets")},
        folder=folder,
        name="alone",
        mode=Mode.STANDALONE,
        connectors=[connector],
    )


# What stands on the mirror


def test_what_stands_on_the_mirror_and_not_on_the_source_is_left_behind(
    tmp_path: Path, own_cluster: Any
):
    """Another producer's open transaction; what this flow wrote, and what another producer wrote,
    behind everything that the source has."""
    east, west = (own_cluster(name).client_properties() for name in ("east", "west"))
    for topic in ("opened", "tail", "stranger"):
        kafka.create_topic(east, topic)
        kafka.produce(east, topic, content.some(10))
    given = settings(east, west, "opened", "tail", "stranger")
    with Mirror(tmp_path, given) as run:
        for topic in ("opened", "tail", "stranger"):
            run.await_records(10, topic=topic)
        leave_open(west, "east.opened")
        kafka.produce(east, "opened", content.some(2))
        remedy = obeying.remedy_in_log(run, "opened", "hanging-transaction", SOON_S)
        assert "kafka-transactions.sh" in remedy
        obeying.obey(remedy, folder=tmp_path)
        replicates(east, west, "opened")
        eventually.eventually(
            lambda: any(
                b"stranger" in (each.key or b"")
                for part in kafka.read_topic(west, "mm2-offsets.east.internal").values()
                for each in part
            ),
            SOON_S,
            "progress is stored",
            interval_s=1.0,
        )
        assert run.stop() == 143
    write_late(west, "east.tail")
    kafka.produce(west, "east.stranger", content.some(3))
    with Mirror(tmp_path, given, name="second") as run:
        for topic, why in (
            ("tail", "the last records of this flow do not match tail-0: the source ends at 10"),
            ("stranger", "the last records of MirrorMaker 2 do not match stranger-0"),
        ):
            remedy = obeying.remedy_in_log(run, topic, "tail-mismatch", SOON_S)
            assert why in run.log
            assert "--partition 0 --from offset:10 " in remedy
            obeying.obey(remedy, folder=tmp_path)
            replicates(east, west, topic)
        all_replicate(run)
        assert run.stop() == 143


def leave_open(target: Properties, topic: str) -> None:
    """A transaction that its producer abandons."""
    producer = kafka.transactional_producer(target, "abandoned", transaction_timeout_ms=600_000)
    producer.begin_transaction()
    kafka.send(producer, topic, content.some(1))
    kafka.flush(producer)


def write_late(target: Properties, topic: str) -> None:
    """A batch of the mirror's last writer, of records that no map tells of."""
    with Driver(target) as driver:
        driver.leader(topic)
        headers = [
            each for each, _ in record_set_splitter.iter_batches(driver.fetch(topic).records)
        ]
        last = headers[-1]
        written = sum(
            each.record_count
            for each in headers
            if not each.is_control and each.producer_epoch == last.producer_epoch
        )
        stamp = Stamp(
            producer_id=last.producer_id,
            producer_epoch=last.producer_epoch,
            base_sequence=written,
        )
        late = [Record(value=b"late", timestamp=driver.clock.wall_ms()) for _ in range(3)]
        held = memoryview(bytearray(batches.data(late, stamp)))
        (answer,) = driver.produce([ProduceBatch(topic, driver.topic_id(topic), 0, held)])
        assert answer.error_code == 0


# Rights


def test_rights_that_are_taken_away_or_never_given(tmp_path: Path, own_cluster: Any):
    """To the offset map of the flow that leads back, and to the transactional id."""
    sides = [own_cluster(name, users=[USER]) for name in ("east", "west")]
    east, west = (each.client_properties() for each in sides)
    granted.allow(sides[0], USER, ON_SOURCE)
    granted.allow(sides[1], USER, ON_TARGET)
    kafka.create_topic(east, "orders")
    kafka.produce(east, "orders", content.some(10), enable_idempotence=True)
    given = settings(
        *(each.client_properties(USER) for each in sides),
        "orders",
        delivery="transactional",
        replication_policy_class="IdentityReplicationPolicy",
    )
    with Mirror(tmp_path, given) as run:
        remedy = obeying.remedy_in_log(run, "orders", "reverse-flow-unreadable", SOON_S)
        as_administrator(tmp_path, east)
        obeying.obey(remedy, folder=tmp_path)
        run.await_records(10, SOON_S, topic="orders")
        replicates(east, west, "orders", remote_topic="orders")
        all_replicate(run)
        deny_transactional_ids(west)
        kafka.produce(east, "orders", content.some(5))
        remedy = obeying.remedy_in_log(run, "orders", "refused-by-target", SOON_S)
        assert "--transactional-id 'mm2-east->west-'" in remedy
        as_administrator(tmp_path, west)
        obeying.obey(remedy, folder=tmp_path)
        replicates(east, west, "orders", remote_topic="orders")
        all_replicate(run)
        assert run.stop() == 143
    sent, there = kafka.read_partition(east, "orders"), kafka.read_partition(west, "orders")
    assert kafka.differences(sent, there) == []


def deny_transactional_ids(properties: Properties) -> None:
    anything: Any = None
    every = admin.AclBindingFilter(
        admin.ResourceType.TRANSACTIONAL_ID,
        anything,
        admin.ResourcePatternType.ANY,
        f"User:{USER}",
        anything,
        admin.AclOperation.ANY,
        admin.AclPermissionType.ANY,
    )
    kafka.delete_acls(properties, [every])


def test_brokers_that_judge_as_before_2_8_want_a_right_to_producer_ids(
    tmp_path: Path, own_cluster: Any, east: SandboxCluster, topic: Any
):
    source, name = east.client_properties(), topic()
    kafka.create_topic(source, name)
    kafka.produce(source, name, content.some(10))
    side = own_cluster(
        "west",
        users=[USER],
        jvm=(*java_server_process.TEST_JVM_FLAGS, *old_authorizer.flags(tmp_path)),
        settings={"authorizer.class.name": old_authorizer.NAME},
    )
    west = side.client_properties()
    granted.allow(side, USER, {**ON_TARGET, ("TOPIC", "east."): ON_TARGET["TOPIC", "orders"]})
    given = settings(source, side.client_properties(USER), name, delivery="at-least-once")
    with Mirror(tmp_path, given) as run:
        remedy = obeying.remedy_in_log(run, name, "refused-by-target", SOON_S)
        assert "--operation IdempotentWrite --cluster" in remedy
        as_administrator(tmp_path, west)
        obeying.obey(remedy, folder=tmp_path)
        replicates(source, west, name)
        all_replicate(run)
        assert run.stop() == 143


def as_administrator(folder: Path, properties: Properties) -> None:
    lines = "".join(f"{key}={value}\n" for key, value in properties.items())
    (folder / suggested_commands.ADMIN_PROPERTIES_PLACEHOLDER).write_text(lines)


ON_SOURCE: Rights = {
    ("TOPIC", "orders"): ("DESCRIBE", "DESCRIBE_CONFIGS", "READ"),
    ("TOPIC", "mm2-offset-syncs.west.internal"): ("CREATE", "DESCRIBE", "READ", "WRITE"),
    ("GROUP", "*"): ("DESCRIBE",),
    ("BROKER", "kafka-cluster"): ("DESCRIBE",),
}
ON_TARGET: Rights = {
    ("TOPIC", "orders"): (
        *("CREATE", "ALTER", "ALTER_CONFIGS", "DESCRIBE", "DESCRIBE_CONFIGS"),
        *("READ", "WRITE"),
    ),
    ("TOPIC", "east."): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("TOPIC", "mm2-"): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("TOPIC", "heartbeats"): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("GROUP", "east-mm2"): ("DESCRIBE", "READ"),
    ("TRANSACTIONAL_ID", "mm2-east->west-"): ("DESCRIBE", "WRITE"),
    ("BROKER", "kafka-cluster"): ("ALTER", "DESCRIBE", "DESCRIBE_CONFIGS"),
}


# Topics without ids


@pytest.mark.kafka_versions("2.8")
def test_topics_without_ids_that_go_and_come_back(tmp_path: Path, own_cluster: Any):
    """A source topic that is away, and a mirror topic that is another one."""
    old = {"kafka_version": "2.8", "settings": {"inter.broker.protocol.version": "2.7"}}
    sides = own_cluster("east", **old), own_cluster("west", brokers=3, **old)
    east, west = (each.client_properties() for each in sides)
    for topic in ("away", "another"):
        kafka.create_topic(east, topic)
        kafka.produce(east, topic, content.some(10))
    kafka.create_topic(west, "east.another", replicas=[[1, 2]])
    move_leader(sides[1], "east.another")
    given = settings(
        *(east, west, "away", "another"),
        refresh_topics_interval_seconds=3600,
        replication_factor=-1,
    )
    with Mirror(tmp_path, given) as run:
        for topic in ("away", "another"):
            run.await_records(10, SOON_S, topic=topic)
        operations.delete(east, "away")
        operations.recreate(west, "east.another", replicas=[[1, 2]])
        kafka.produce(east, "another", content.some(2))
        for topic, code in (("away", "refused-by-source"), ("another", "recreated")):
            run.await_stopped(topic, code, SOON_S)
        assert "Create the topic first; " in run.log
        kafka.create_topic(east, "away")
        # The first remedy restarts the task, which does not end the other topic's halt.
        for topic, code in (("away", "refused-by-source"), ("another", "recreated")):
            obeying.obey(obeying.remedy_of(run, topic, code, SOON_S), folder=tmp_path)
            replicates(east, west, topic)
        all_replicate(run)
        assert run.stop() == 143
    # What was in flight when the topic was made again may stand there, too.
    sent, there = kafka.read_partition(east, "another"), kafka.read_partition(west, "east.another")
    assert kafka.differences(sent, there[-len(sent) :]) == []


def move_leader(side: SandboxCluster, topic: str) -> None:
    """From broker 1 to broker 2: what is written from now on has a leader epoch that a new topic
    of the name lacks."""
    properties = side.client_properties()
    side.brokers[1].stop()
    eventually.eventually(lambda: kafka.partitions(properties, topic)[0].leader == 2, SOON_S)
    side.brokers[1].start()
    eventually.eventually(lambda: len(kafka.partitions(properties, topic)[0].isrs) == 2, SOON_S)
