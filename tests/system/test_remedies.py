"""Each remedy that a halted partition prints, typed as printed while the flow runs: it replicates.

One flow in the file, one broker on each side. More remedies are typed where their halts are tested:
`tests/unit/mm2/test_remedies_are_executed.py` lists all of them.
"""

from __future__ import annotations

import functools
import re
import shutil
from typing import Any

import pytest

from mm2 import exit_codes, suggested_commands
from mm2.formats import offset_map_records, record_set_splitter
from mm2.formats.offset_map_records import EraKey, NewEraRequestKey
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import (
    content,
    eventually,
    granted,
    kafka,
    mirror,
    obeying,
    operations,
    own_classes,
)
from tests.support.granted import Rights
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

INLINE = {"engine": "inline"}
SOON_S = 90.0
HOUR_MS = 3_600_000
POISON = b"poison"


@pytest.fixture
def pair(own_cluster: Any) -> tuple[SandboxCluster, SandboxCluster]:
    return own_cluster("east"), own_cluster("west")


def settings(east: Properties, west: Properties, *topics: str, **more: Any) -> dict[str, Any]:
    return mirror.settings(east, west, topics=[*topics], spark=INLINE, **more)


def sent(west: Properties, topic: str) -> list[bytes | None]:
    return [each.value for each in kafka.read_partition(west, f"east.{topic}")]


def await_values(west: Properties, topic: str, values: list[bytes]) -> None:
    """Until the end of the mirror topic is these."""
    eventually.eventually(
        lambda: sent(west, topic)[-len(values) :] == values,
        SOON_S,
        lambda: f"{topic}: {sent(west, topic)[-20:]}",
        interval_s=0.5,
    )


def replicates(east: Properties, west: Properties, topic: str) -> None:
    """What is produced from now on arrives."""
    kafka.produce(east, topic, [Outgoing(value=b"after the remedy")])
    await_values(west, topic, [b"after the remedy"])


def test_a_source_that_lost_its_log_is_replicated_again(tmp_path, pair):
    """Same topic id, but the log ends before what was replicated."""
    east, west = (each.client_properties() for each in pair)
    kafka.create_topic(east, "orders")
    kafka.produce(east, "orders", content.some(30))
    with Mirror(tmp_path, settings(east, west, "orders")) as run:
        run.await_records(30, topic="orders")
        lose_log(pair[0], "orders")
        kafka.produce(east, "orders", content.some(5))
        said = obeying.obey(obeying.remedy_of(run, "orders", "source-truncated"), folder=tmp_path)
        assert "orders-0: replicating again from source offset 0" in said
        await_values(west, "orders", [each.value or b"" for each in content.some(5)])
        replicates(east, west, "orders")
        assert run.stopped() == set()
        assert run.stop() == 143


def lose_log(side: SandboxCluster, topic: str) -> None:
    side.stop()
    shutil.rmtree(side.brokers[1].folder / "data" / f"{topic}-0")
    side.start()


@pytest.mark.full
def test_the_decision_holds_when_nobody_runs_the_flow_and_while_it_is_paused(tmp_path, pair):
    """And a second node that this machine knows nothing of restarts its tasks, too."""
    east, west = (each.client_properties() for each in pair)
    kafka.create_topic(east, "orders")
    kafka.produce(east, "orders", [Outgoing(value=b"one"), Outgoing(value=b"two")])
    given = settings(east, west, "orders")
    mirror.catch_up(tmp_path, given)
    path = tmp_path / "catch-up.yaml"
    reset = ("topic", "reset", "east->west", "orders", "--config", path, "--from")
    done = mirror.mm2(*reset, "earliest")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "orders-0: replicated up to source offset 2; starts again" in done.stdout
    assert "no process runs east->west" in done.stdout
    assert f"mm2 run --config {path}" in done.stdout
    with Mirror(tmp_path, given) as run:
        await_values(west, "orders", [b"one", b"two"] * 2)
        # The file of another name: no process here runs it, the flow's group has a node.
        done = mirror.mm2(*reset, "earliest")
        assert done.returncode == exit_codes.UNKNOWN, done.stdout + done.stderr
        assert "restarted all tasks" in done.stdout
        begun = (
            r"^orders-0: restarted at source offset 0; its state is available only on node "
            r"\S+:\d+: run mm2 status there$"
        )
        assert re.search(begun, done.stdout, re.MULTILINE), done.stdout
        await_values(west, "orders", [b"one", b"two"] * 3)
        named = ("east->west", "--config", run.settings_path)
        assert mirror.mm2("pause", *named, "--topic", "orders").returncode == 0
        done = mirror.mm2(*reset, "latest")
        assert "topic orders is paused: the reset takes effect when" in done.stdout
        assert mirror.mm2("resume", *named, "--topic", "orders").returncode == 0
        eventually.eventually(lambda: more(east, west), SOON_S, lambda: run.tail, interval_s=1.0)
        assert (
            mirror.mm2(
                "topic", "reset", "east->west", "order", "--from", "latest", "--config", path
            ).returncode
            == 2
        )
        assert run.stop() == 143


def more(east: Properties, west: Properties) -> bool:
    """Produce one more; has any of them arrived?"""
    kafka.produce(east, "orders", [Outgoing(value=b"more")])
    return b"more" in sent(west, "orders")


@pytest.mark.full
def test_what_the_target_rejects_is_allowed_or_skipped(tmp_path, own_cluster):
    source = own_cluster("east", settings={"message.max.bytes": "8000000"})
    east, west = source.client_properties(), own_cluster("west").client_properties()
    small = {"segment.bytes": "1048576", "max.message.bytes": "8000000"}
    for topic, here, there in (
        ("large", {}, {}),
        ("skipped", {}, {}),
        ("long", {}, small),
        (
            "future",
            {"message.timestamp.after.max.ms": str(2**63 - 1)},
            {"message.timestamp.after.max.ms": "1000"},
        ),
        ("appended", {}, {"message.timestamp.type": "LogAppendTime"}),
        ("restamped", {}, {}),
        ("not-empty", {}, {}),
    ):
        kafka.create_topic(east, topic, config=here)
        kafka.create_topic(west, f"east.{topic}", config=there)
        kafka.produce(east, topic, content.some(5))
    kafka.produce(west, "east.not-empty", content.some(3))
    topics = ("large", "skipped", "long", "future", "appended", "restamped", "not-empty")
    given = settings(east, west, *topics, sync_topic_configs_enabled=False)
    with Mirror(tmp_path, given) as run:
        for topic in ("large", "skipped", "long", "future", "restamped"):
            run.await_records(5, topic=topic)
        large = content.some(1, bytes_each=3_000_000)
        for topic in ("large", "skipped", "long"):
            kafka.produce(east, topic, large, message_max_bytes=8_000_000)
        soon = mirror.CLOCK.wall_ms() + 2 * HOUR_MS
        kafka.produce(east, "future", content.some(5, timestamp=soon))
        operations.configure(west, "east.restamped", {"message.timestamp.type": "LogAppendTime"})
        kafka.produce(east, "restamped", content.some(2))
        remedies = {
            topic: obeying.remedy_of(run, topic, code)
            for topic, code in {
                "large": "refused-by-target",
                "skipped": "refused-by-target",
                "long": "refused-by-target",
                "future": "refused-by-target",
                "appended": "target-setting",
                "restamped": "timestamps-rewritten",
                "not-empty": "target-not-empty",
            }.items()
        }
        # Beside the remedy its message offers to skip the record.
        remedies["skipped"] = (
            f"mm2 topic reset 'east->west' skipped --partition 0 --from offset:6 "
            f"--config {run.settings_path}"
        )
        log = run.log
        assert f"skip it ({remedies['skipped']})" in log, log[-3000:]
        # The last one restarts the flow, so that the first ones are tried at once.
        for topic in sorted(remedies, key=lambda topic: topic == "appended"):
            obeying.obey(remedies[topic], folder=tmp_path)
        for topic in remedies:
            replicates(east, west, topic)
        eventually.eventually(lambda: run.stopped() == set(), SOON_S, lambda: f"{run.stopped()}")
        assert large[0].value in sent(west, "large")
        assert large[0].value not in sent(west, "skipped")
        assert run.stop() == 143


@pytest.mark.full
def test_a_record_that_a_transform_fails_on_is_skipped(tmp_path, pair):
    east, west = (each.client_properties() for each in pair)
    kafka.create_topic(east, "orders")
    given = settings(
        east,
        west,
        "orders",
        transforms="picky",
        transforms_picky_type=f"{own_classes.NAME}:Picky",
        transforms_picky_poison=POISON.decode(),
    )
    with Mirror(tmp_path, given) as run:
        values = [b"one", POISON, b"two"]
        for each in values:
            kafka.produce(east, "orders", [Outgoing(value=each)])
        obeying.obey(obeying.remedy_of(run, "orders", "transform-failed"), folder=tmp_path)
        await_values(west, "orders", [b"one", b"two"])
        replicates(east, west, "orders")
        assert run.stop() == 143


@pytest.mark.full
def test_a_mirror_that_cannot_be_read_is_appended_to(tmp_path, pair):
    """A first start reads what its mirror topic holds."""
    east, west = (each.client_properties() for each in pair)
    kafka.create_topic(east, "orders")
    kafka.produce(east, "orders", content.some(5))
    kafka.create_topic(west, "east.orders")
    kafka.produce(west, "east.orders", content.some(5))
    damage_last_batch(pair[1], "east.orders")
    with Mirror(tmp_path, settings(east, west, "orders")) as run:
        obeying.obey(obeying.remedy_of(run, "orders", "tail-mismatch"), folder=tmp_path)
        run.await_records(5, topic="orders")
        kafka.produce(east, "orders", content.some(2))
        run.await_records(7, topic="orders")
        assert run.stopped() == set()
        assert run.stop() == 143


def damage_last_batch(side: SandboxCluster, topic: str) -> None:
    """Flip a bit in the last batch of records on the stopped broker's disk."""
    side.stop()
    log = side.brokers[1].folder / "data" / f"{topic}-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    found = [
        (header, bytes(batch))
        for header, batch in record_set_splitter.iter_batches(memoryview(bytes(data)))
        if not header.is_control
    ]
    header, batch = found[-1]
    data[bytes(data).rindex(batch) + header.size - 3] ^= 0x10
    log.write_bytes(data)
    side.start()


@pytest.mark.full
def test_rights_that_are_printed_are_all_that_is_lacking(tmp_path, own_cluster):
    """On the source and on the target, typed by an administrator."""
    east, west = (own_cluster(name, users=["mirror"]) for name in ("east", "west"))
    source, target = east.client_properties(), west.client_properties()
    granted.allow(east, "mirror", ON_SOURCE)
    granted.allow(west, "mirror", ON_TARGET)
    for topic in ("unreadable", "unwritable"):
        kafka.create_topic(source, topic)
        kafka.create_topic(target, f"east.{topic}")
        kafka.produce(source, topic, content.some(5))
    given = settings(
        east.client_properties("mirror"),
        west.client_properties("mirror"),
        "unreadable",
        "unwritable",
    )
    with Mirror(tmp_path, given) as run:
        for topic, code, side in (
            ("unreadable", "refused-by-source", source),
            ("unwritable", "refused-by-target", target),
        ):
            lines = "".join(f"{key}={value}\n" for key, value in side.items())
            (tmp_path / suggested_commands.ADMIN_PROPERTIES_PLACEHOLDER).write_text(lines)
            obeying.obey(obeying.remedy_of(run, topic, code), folder=tmp_path)
            eventually.eventually(
                functools.partial(has_all, target, topic),
                SOON_S,
                lambda: run.tail,
                interval_s=0.5,
            )
        assert run.stop() == 143


def has_all(target: Properties, topic: str) -> bool:
    return len(kafka.read_partition(target, f"east.{topic}")) == 5


ON_SOURCE: Rights = {
    ("TOPIC", "un"): ("DESCRIBE", "DESCRIBE_CONFIGS"),
    ("TOPIC", "unwritable"): ("READ",),
    ("TOPIC", "mm2-offset-syncs.west.internal"): ("CREATE", "DESCRIBE", "READ", "WRITE"),
    ("GROUP", "*"): ("DESCRIBE",),
    ("BROKER", "kafka-cluster"): ("DESCRIBE",),
}
ON_TARGET: Rights = {
    ("TOPIC", "east."): (
        "CREATE",
        "ALTER",
        "ALTER_CONFIGS",
        "DESCRIBE",
        "DESCRIBE_CONFIGS",
        "READ",
    ),
    ("TOPIC", "east.unreadable"): ("WRITE",),
    ("TOPIC", "mm2-"): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("TOPIC", "heartbeats"): ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"),
    ("GROUP", "east-mm2"): ("DESCRIBE", "READ"),
    ("TRANSACTIONAL_ID", "mm2-east->west-"): ("DESCRIBE", "WRITE"),
    ("BROKER", "kafka-cluster"): ("ALTER", "DESCRIBE", "DESCRIBE_CONFIGS"),
}


def await_halted(run: Mirror, *topics: str) -> None:
    """These and no others; metrics are a little late, and each topic is tried again at times."""
    eventually.eventually(
        lambda: {topic for topic, _ in run.stopped()} == set(topics),
        SOON_S,
        lambda: f"halted: {run.stopped()}\n{run.tail}",
    )


def eras_of(target: Properties) -> dict[str, bytes]:
    """The keys of eras in the offset map, by topic."""
    keys = [each.key for each in kafka.read_partition(target, "mm2-offset-map.east.internal")]
    named = [(offset_map_records.decode_map_key(key), key) for key in keys if key]
    return {name.topic: key for name, key in named if isinstance(name, EraKey)}


@pytest.mark.full
def test_a_record_of_the_map_that_nobody_can_read_is_skipped(tmp_path, pair):
    """Its key is garbage, so all partitions are halted; one that names a topic halts that. Without
    its era, unreadable or deleted, a partition begins again."""
    east, west = (each.client_properties() for each in pair)
    topics = ("orders", "payments", "returns", "stock")
    for topic in topics:
        kafka.create_topic(east, topic)
        kafka.produce(east, topic, [Outgoing(value=b"before")])
    given = settings(east, west, *topics)
    mirror.catch_up(tmp_path, given)
    eras = eras_of(west)
    named = offset_map_records.encode_map_key(NewEraRequestKey(topic="payments", partition=0))
    kafka.produce(
        west,
        "mm2-offset-map.east.internal",
        [
            Outgoing(key=b"\x01\x03garbage", value=b"?"),
            Outgoing(key=named, value=b"?"),
            Outgoing(key=eras["returns"], value=b"?"),
            Outgoing(key=eras["stock"], value=None),
        ],
    )
    with Mirror(tmp_path, given) as run:
        for topic in topics:
            run.await_stopped(topic, "offset-map-unreadable", SOON_S)
        obeying.obey(obeying.remedy_of(run, "orders", "offset-map-unreadable"), folder=tmp_path)
        replicates(east, west, "orders")
        await_halted(run, *topics[1:])
        said = obeying.obey(
            obeying.remedy_of(run, "payments", "offset-map-unreadable"), folder=tmp_path
        )
        assert "which halted all partitions of topic payments of east->west" in said
        replicates(east, west, "payments")
        assert sent(west, "orders") == [b"before", b"after the remedy"]
        for topic in ("returns", "stock"):
            obeying.obey(obeying.remedy_of(run, topic, "offset-map-unreadable"), folder=tmp_path)
            replicates(east, west, topic)
            assert sent(west, topic) == [b"before", b"before", b"after the remedy"]
        await_halted(run)
        incidents = mirror.mm2("incidents", run.settings_path)
        assert incidents.stdout.count("map-record-skipped") == 3, incidents.stdout
        assert incidents.stdout.count("new-era-requested") == 2, incidents.stdout
        assert run.stop() == 143
