"""Records that pass over several clusters, and clusters that mirror each other: no loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect_runtime.system import system_clock
from mm2.client.mirror_client import MirrorClient
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Heartbeat
from tests.support import eventually, kafka, mirror
from tests.support.both_ways import Locals
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

Sides = dict[str, Properties]

DEFAULT, IDENTITY = "DefaultReplicationPolicy", "IdentityReplicationPolicy"
INLINE = {"engine": "inline"}
PARTITIONS = 2
QUIET_S = 3.0
MINUTES_S = 240.0


def settings(sides: Sides, *ends: str, policy: str, spark: dict[str, Any]) -> dict[str, Any]:
    """Flows such as `a b` of all topics, heartbeats too."""
    flows = [
        {
            "from": source,
            "to": target,
            "topics": ".*",
            "replication.policy.class": policy,
            "replication.factor": 1,
        }
        for source, target in (each.split() for each in ends)
    ]
    clusters = {alias: dict(properties) for alias, properties in sides.items()}
    return {"clusters": clusters, "flows": flows, "spark": spark}


def started(own_cluster: Any, *aliases: str) -> Sides:
    return {alias: own_cluster(alias).client_properties() for alias in aliases}


def beat(sides: Sides, home: str) -> None:
    """As the flow to this cluster would write it there."""
    kafka.create_topic(sides[home], "heartbeats")
    key, value = _heartbeat(home)
    kafka.produce(sides[home], "heartbeats", [Outgoing(key=key, value=value)])


def _heartbeat(home: str) -> tuple[bytes, bytes]:
    return mirrormaker2_records.encode_heartbeat(Heartbeat(source="else", target=home, at_ms=17))


def await_beat(sides: Sides, run: Mirror, there: str, topic: str, *, of: str) -> None:
    """The heartbeat of cluster `of` has come."""

    def come() -> bool:
        if topic not in kafka.topics(sides[there]):
            return False
        found = kafka.read_partition(sides[there], topic)
        return _heartbeat(of) in [(each.key, each.value) for each in found]

    eventually.eventually(
        come, 60.0, lambda: f"{there} {topic}: {kafka.topics(sides[there])}\n{run.tail}"
    )


def await_copy(sides: Sides, run: Mirror, there: str, topic: str, *, of: str) -> None:
    """`topic` of cluster `there` holds what `of` (cluster and topic) holds, in order, once."""
    home, name = of.split()

    def wrong() -> list[str]:
        if topic not in kafka.topics(sides[there]):
            return [f"{topic} is not there"]
        found = []
        for number in range(kafka.partition_count(sides[home], name)):
            read = [
                kafka.read_partition(sides[side], where, number, isolation="read_committed")
                for side, where in ((home, name), (there, topic))
            ]
            found += kafka.differences(*read) if read[0] else ["nothing to compare"]
        return found

    eventually.eventually(
        lambda: not wrong(), 60.0, lambda: f"{there} {topic}: {wrong()}\n{run.tail}", interval_s=0.5
    )


def ordinary(properties: Properties) -> set[str]:
    """Topics but those of Kafka and MirrorMaker themselves."""
    own = ("heartbeats", ".checkpoints.internal")
    found = {each for each in kafka.topics(properties) if not each.endswith(own)}
    return {each for each in found if not each.startswith(("__", "mm2-"))}


def beats(properties: Properties) -> set[str]:
    return {each for each in kafka.topics(properties) if each.endswith("heartbeats")}


def hops(properties: Properties, origin: str, *, source: str, policy: str) -> int | None:
    java = f"org.apache.kafka.connect.mirror.{policy}"
    props = {**properties, "replication.policy.class": java, "source.cluster.alias": source}
    with MirrorClient(props) as asked:
        return asked.replication_hops(origin)


def await_quiet(sides: Sides) -> None:
    """Nothing is written any more, anywhere: what went in circles would."""
    ends = all_ends(sides)
    system_clock.wait_until(lambda: False, timeout_s=QUIET_S, interval_s=QUIET_S)
    assert all_ends(sides) == ends


def all_ends(sides: Sides) -> dict[tuple[str, str], list[int]]:
    return {
        (alias, topic): [
            kafka.offsets(properties, topic, number)[1]
            for number in range(kafka.partition_count(properties, topic))
        ]
        for alias, properties in sides.items()
        for topic in ordinary(properties)
    }


POLICIES = pytest.mark.parametrize(
    ("policy", "at_east", "at_west"),
    [
        pytest.param(DEFAULT, "north.orders", "east.north.orders", id="default"),
        pytest.param(IDENTITY, "orders", "orders", id="identity", marks=pytest.mark.full),
    ],
)


def keep_on(seconds: float, *producers: Locals) -> None:
    """They write for so long, and some rounds in any case."""
    end_s = mirror.CLOCK.now_s() + seconds
    while True:
        for each in producers:
            each.go_on(10)
        if mirror.CLOCK.now_s() >= end_s:
            break
    for each in producers:
        each.stop()


def chain(
    folder: Path,
    sides: Sides,
    policy: str,
    *,
    at_east: str,
    at_west: str,
    spark: dict[str, Any],
    seconds: float,
) -> None:
    """What is born in the north gets to the east and from there to the west."""
    kafka.create_topic(sides["north"], "orders", partitions=PARTITIONS)
    beat(sides, "north")
    given = settings(sides, "north east", "east west", policy=policy, spark=spark)
    given["flows"][1]["refresh.topics.interval.seconds"] = 1
    here = Locals(sides["north"], "orders", home="north", partitions=PARTITIONS)
    with here, Mirror(folder, given) as run:
        run.await_records(5, flow="east->west")
        keep_on(seconds, here)
        await_copy(sides, run, "east", at_east, of="north orders")
        await_copy(sides, run, "west", at_west, of="north orders")
        await_beat(sides, run, "west", "east.north.heartbeats", of="north")
        await_quiet(sides)
        assert hops(sides["east"], "north", source="north", policy=policy) == 1
        assert hops(sides["west"], "north", source="east", policy=policy) == 2
        assert ordinary(sides["west"]) == {at_west}


@POLICIES
def test_a_chain_brings_each_record_once_to_each_place(
    tmp_path: Path, own_cluster: Any, policy: str, at_east: str, at_west: str
) -> None:
    sides = started(own_cluster, "north", "east", "west")
    places = {"at_east": at_east, "at_west": at_west}
    chain(tmp_path, sides, policy, **places, spark=INLINE, seconds=0.0)


@POLICIES
@pytest.mark.full
@pytest.mark.timeout(MINUTES_S + 300)
def test_a_chain_for_minutes(
    tmp_path: Path, own_cluster: Any, policy: str, at_east: str, at_west: str
) -> None:
    sides = started(own_cluster, "north", "east", "west")
    places = {"at_east": at_east, "at_west": at_west}
    chain(tmp_path, sides, policy, **places, spark={}, seconds=MINUTES_S)


def both_rename(folder: Path, sides: Sides, *, spark: dict[str, Any], seconds: float) -> None:
    """Two clusters that mirror all of each other's topics, for a while."""
    for alias, properties in sides.items():
        kafka.create_topic(properties, "orders", partitions=PARTITIONS)
        beat(sides, alias)
    given = settings(sides, "east west", "west east", policy=DEFAULT, spark=spark)
    for flow in given["flows"]:
        flow["refresh.topics.interval.seconds"] = 1
    here, there = (
        Locals(properties, "orders", home=alias, partitions=PARTITIONS)
        for alias, properties in sides.items()
    )
    with here, there, Mirror(folder, given) as run:
        keep_on(seconds, here, there)
        for home, other in (("east", "west"), ("west", "east")):
            await_copy(sides, run, other, f"{home}.orders", of=f"{home} orders")
            await_beat(sides, run, other, f"{home}.heartbeats", of=home)
            assert hops(sides[other], home, source=home, policy=DEFAULT) == 1
            assert ordinary(sides[other]) == {"orders", f"{home}.orders"}
            assert beats(sides[other]) == {"heartbeats", f"{home}.heartbeats"}
        await_quiet(sides)


@pytest.mark.full
def test_two_clusters_that_rename_each_others_topics(tmp_path: Path, own_cluster: Any) -> None:
    both_rename(tmp_path, started(own_cluster, "east", "west"), spark=INLINE, seconds=5.0)


@pytest.mark.full
@pytest.mark.timeout(MINUTES_S + 300)
def test_two_clusters_that_rename_each_others_topics_for_minutes(
    tmp_path: Path, own_cluster: Any
) -> None:
    both_rename(tmp_path, started(own_cluster, "east", "west"), spark={}, seconds=MINUTES_S)
