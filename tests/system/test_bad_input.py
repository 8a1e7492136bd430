"""What is wrong is named, with where and what to do; all else goes on, and nothing is lost.

Here: settings, clusters and topics that are wrong from the start. `test_bad_brokers.py` has brokers
that cannot do their work, `test_topics_that_change.py` what happens while a flow runs.
"""

from __future__ import annotations

import re
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import port_reservation
from tests.support import content, eventually, kafka, mirror
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

CLOCK = SystemClock()
HOUR_MS = 3_600_000
WIDEST_MS = str(2**63 - 1)
INLINE = {"engine": "inline"}
"""Where Spark is not what is looked at."""


# Settings


def test_text_that_is_no_yaml_is_refused_with_its_line(tmp_path):
    status, log = mirror.run_to_end(tmp_path, "clusters:\n  east: {bootstrap\nflows: [}\n")
    assert status == 2
    assert re.search(r"catch-up\.yaml:3", log), log
    assert "Traceback" not in log


def test_all_mistakes_are_told_at_once(tmp_path):
    given = """\
clusters:
  east: {bootstrap.servers: localhost}
flows:
  - {from: east, to: wset, topic: orders}
"""
    status, log = mirror.run_to_end(tmp_path, given)
    assert status == 2
    assert re.search(r":2\b.*bootstrap\.servers", log), log
    assert re.search(r":4\b.*wset", log), log
    assert re.search(r":4\b.*topic.*did you mean.*topics", log), log


def test_a_spark_that_does_not_start_ends_the_run_and_its_log_is_there(tmp_path, east, west):
    given = mirror.settings(
        east.client_properties(),
        west.client_properties(),
        spark={"conf": {"spark.driver.memory": "100m"}},
    )
    status, log = mirror.run_to_end(tmp_path, given)
    assert status == 1
    ended = re.search(r"mm2: east->west: .*memory.*; Spark's log is kept in (\S+) until", log)
    assert ended is not None, log
    assert "memory" in (Path(ended[1]) / "spark.log").read_text()


# Clusters


def two_flows(bad_source: dict[str, str], east: Any, west: Any, topic: str) -> dict[str, Any]:
    """A flow from a cluster that is well, and one from another that is not."""
    given = mirror.settings(
        east.client_properties(), west.client_properties(), topics=topic, spark=INLINE
    )
    given["clusters"]["elsewhere"] = bad_source
    given["flows"].append({**given["flows"][0], "from": "elsewhere"})
    return given


@pytest.mark.full
def test_an_unreachable_cluster_is_named_and_the_other_flow_copies(tmp_path, east, west, topic):
    name = kafka.create_topic(east.client_properties(), topic("orders"))
    kafka.produce(east.client_properties(), name, content.some())
    nowhere = f"127.0.0.1:{port_reservation.reserve_port().port}"
    given = two_flows({"bootstrap.servers": nowhere}, east, west, name)
    with Mirror(tmp_path, given, "--until-caught-up", "--timeout", "60") as run:
        run.await_records(20, flow="east->west")
        run.await_log(rf"elsewhere->west.*elsewhere.*{nowhere}", 60.0)
        assert run.wait(120.0) == 1
        assert re.search(rf"not caught up[\s\S]*elsewhere->west.*{nowhere}", run.log), run.tail
    content.assert_mirrored(east.client_properties(), west.client_properties(), name)


def test_a_wrong_password_fails_its_flow_and_is_not_told(tmp_path, own_cluster, east, west, topic):
    name = kafka.create_topic(east.client_properties(), topic("orders"))
    kafka.produce(east.client_properties(), name, content.some())
    secure = own_cluster("secure", users=["alice"])
    wrong = secure.client_properties("alice")
    wrong["sasl.jaas.config"] = re.sub(
        r'password="[^"]+"', 'password="not-the-password"', wrong["sasl.jaas.config"]
    )
    given = two_flows(wrong, east, west, name)
    with Mirror(tmp_path, given, "--until-caught-up") as run:
        assert run.wait(150.0) == 1, run.tail
        assert re.search(r"elsewhere->west.*elsewhere.*(uthentication|password)", run.log), run.log
        assert "not-the-password" not in run.log
    content.assert_mirrored(east.client_properties(), west.client_properties(), name)


def test_a_metrics_port_in_use_starts_nothing_unless_metrics_are_optional(
    tmp_path, east, west, topic
):
    name = kafka.create_topic(east.client_properties(), topic("orders"))
    kafka.produce(east.client_properties(), name, content.some())
    given = mirror.settings(
        east.client_properties(), west.client_properties(), topics=name, spark=INLINE
    )
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        status, log = mirror.run_to_end(
            tmp_path, given, "--until-caught-up", "--metrics-port", str(port)
        )
        assert status == 1, log
        assert re.search(rf"mm2: .*port {port}: Address already in use; nothing was started", log)
        given["metrics"] = {"required": False}
        status, log = mirror.run_to_end(
            tmp_path, given, "--until-caught-up", "--metrics-port", str(port)
        )
    assert status == 0, log
    assert re.search(rf"WARNING.*port {port}.*/health.*not served.*Replication continues", log)
    content.assert_mirrored(east.client_properties(), west.client_properties(), name)


# Topics


@pytest.fixture
def odd_pair(own_cluster):
    """A source that takes large records and compacts soon; an ordinary target."""
    settings = {"message.max.bytes": "8000000", "log.cleaner.backoff.ms": "200"}
    return own_cluster("east", settings=settings), own_cluster("west")


def test_topics_that_cannot_be_copied_stop_alone(tmp_path, odd_pair):
    east, west = (each.client_properties() for each in odd_pair)
    make_odd_topics(east, west)
    given = mirror.settings(east, west, tasks_max=2, sync_topic_configs_enabled=False, spark=INLINE)
    status, log = mirror.run_to_end(
        tmp_path, given, "--until-caught-up", "--timeout", "120", timeout_s=200.0
    )
    assert status == 1
    told = log[log.index("not caught up") :]
    for topic, what in {
        "large": r"east\.large-0 refused.*offset 5 .*RECORD_TOO_LARGE.*max\.message\.bytes",
        "future": r"refused.*offset 5 .*INVALID_TIMESTAMP.*message\.timestamp\.after\.max\.ms",
        "append-time-mirror": r"LogAppendTime.*set message\.timestamp\.type=CreateTime",
        "not-empty": r"contains records at offset 0.*mm2 topic reset",
    }.items():
        assert re.search(rf"east->west {topic}-0: .*{what}", told), (topic, told)
    for topic in ("good", "append-time", "compacted", "recompressed"):
        assert f"{topic}-0" not in told
    content.assert_mirrored(east, west, "good", "compacted", "recompressed")
    content.assert_mirrored(east, west, "append-time", restamped=True)
    # What came before the trouble is there, once; nothing after it was let through.
    for topic in ("large", "future"):
        assert len(kafka.read_partition(west, f"east.{topic}")) == 5


def make_odd_topics(east: Properties, west: Properties) -> None:
    for topic, here, there in (
        ("good", {}, None),
        ("append-time", {"message.timestamp.type": "LogAppendTime"}, {}),
        ("compacted", COMPACTED, None),
        ("large", {}, None),
        (
            "future",
            {"message.timestamp.after.max.ms": WIDEST_MS},
            {"message.timestamp.after.max.ms": "1000"},
        ),
        ("append-time-mirror", {}, {"message.timestamp.type": "LogAppendTime"}),
        ("recompressed", {}, {"compression.type": "gzip"}),
        ("not-empty", {}, {}),
    ):
        kafka.create_topic(east, topic, config=here)
        if there is not None:
            kafka.create_topic(west, f"east.{topic}", config=there)
        if topic != "compacted":
            kafka.produce(east, topic, content.some(5))
    kafka.produce(east, "large", content.some(1, bytes_each=3_000_000), message_max_bytes=8_000_000)
    kafka.produce(east, "future", content.some(5, timestamp=CLOCK.wall_ms() + 2 * HOUR_MS))
    kafka.produce(west, "east.not-empty", content.some(3))
    make_gaps(east, "compacted")


COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}


def make_gaps(east: Properties, topic: str) -> None:
    """Write the same keys until compaction has taken records out of batches."""
    written = 0

    def has_gaps() -> bool:
        nonlocal written
        keys = (b"same", b"other-%d" % written, b"same")
        kafka.produce(east, topic, [Outgoing(key=key, value=b"v") for key in keys])
        written += len(keys)
        return len(kafka.read_partition(east, topic)) < written - 6

    eventually.eventually(has_gaps, 90.0, "compaction leaves gaps")


@pytest.mark.full
def test_what_a_user_may_not_do_stops_its_topic_alone(tmp_path, own_cluster, east):
    """And when it is allowed at last, the topic goes on by itself."""
    source = east.client_properties()
    target = own_cluster("west", users=["mirror"])
    allow_all_but(target, "east.forbidden")
    for topic in ("allowed", "forbidden"):
        kafka.create_topic(source, topic)
        kafka.produce(source, topic, content.some())
    given = mirror.settings(
        source, target.client_properties("mirror"), topics=["allowed", "forbidden"], spark=INLINE
    )
    with Mirror(tmp_path, given) as run:
        run.await_stopped("forbidden", "refused-by-target")
        told = run.await_log(r".*east\.forbidden.*AUTHORIZATION_FAILED.*")[0]
        assert re.search(r"(?i)write|allow|grant", told), told
        run.await_records(20, topic="allowed")
        kafka.produce(source, "allowed", content.some())
        run.await_records(40, topic="allowed")
        allow(target, "east.forbidden")
        run.await_records(20, topic="forbidden")
        assert run.stopped() == set()
        assert run.stop() == 143
    content.assert_mirrored(source, target.client_properties(), "allowed", "forbidden")


@pytest.mark.full
def test_without_the_right_to_fence_copying_goes_on_at_least_once_and_says_so(
    tmp_path, own_cluster, east
):
    source = east.client_properties()
    target = own_cluster("west", users=["mirror"])
    allow_all_but(target, "east.nothing")
    denial = rule("TRANSACTIONAL_ID", "*", "WRITE", "DENY")
    kafka.create_acls(target.client_properties(), [denial])
    kafka.create_topic(source, "plain")
    kafka.produce(source, "plain", content.some())
    given = mirror.settings(source, target.client_properties("mirror"), topics="plain")
    with Mirror(tmp_path, given) as run:
        run.await_records(20, topic="plain")
        run.await_log(r"at least once.*kafka-acls.*--transactional-id")
        assert run.figure("mm2_unfenced_partitions", topic="plain") == 1
        assert run.stop() == 143
    kafka.produce(source, "plain", content.some())
    assert "caught up: 1 partition, 20 records" in mirror.catch_up(tmp_path, given)
    content.assert_mirrored(source, target.client_properties(), "plain")


def allow_all_but(target: Any, topic: str) -> None:
    """The user `mirror` may do everything, except write to one topic."""
    kinds = ("BROKER", "TOPIC", "GROUP", "TRANSACTIONAL_ID")
    rules = [rule(kind, "kafka-cluster" if kind == "BROKER" else "*") for kind in kinds]
    kafka.create_acls(target.client_properties(), [*rules, rule("TOPIC", topic, "WRITE", "DENY")])


def allow(target: Any, topic: str) -> None:
    denial = rule("TOPIC", topic, "WRITE", "DENY", filter_=True)
    kafka.delete_acls(target.client_properties(), [denial])


def rule(
    kind: str, name: str, operation: str = "ALL", permission: str = "ALLOW", filter_: bool = False
) -> Any:
    from confluent_kafka import admin

    make = admin.AclBindingFilter if filter_ else admin.AclBinding
    return make(
        admin.ResourceType[kind],
        name,
        admin.ResourcePatternType.LITERAL,
        "User:mirror",
        "*",
        admin.AclOperation[operation],
        admin.AclPermissionType[permission],
    )
