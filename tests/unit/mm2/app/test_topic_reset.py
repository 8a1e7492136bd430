from __future__ import annotations

import itertools

import pytest

from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import clock
from mm2.app import topic_reset
from mm2.connectors.share import flow_ledger
from mm2.core import filters, flows, naming
from mm2.core.offsets import offset_map
from mm2.formats import map_record
from tests.fakes import admin as fake_admin
from tests.fakes import flow_log as fake_flow_log

EXCLUDED = (*filters.DEFAULT_TOPICS_EXCLUDE, "secret")
MAP_TOPIC = naming.map_topic("east")
FLOW = flows.Flow(source="east", target="west", topics=filters.topic_filter(exclude=EXCLUDED))
P0 = ids.TopicPartition("orders", 0)


def segment(through: int) -> map_record.Segment:
    return map_record.Segment(
        leader_epoch=0,
        source_epoch=0,
        owner=bytes(8),
        take_start=0,
        through=through,
        target_next=through,
        last_crc=None,
        runs=(map_record.Run(0, 0),),
    )


class World:
    """Two clusters in memory; `orders` has three partitions on the source."""

    def __init__(self) -> None:
        self.east = fake_admin.FakeCluster()
        self.west = fake_admin.FakeCluster()
        self.east.create("orders", partitions=3)
        self.east.create("secret")
        self.log = fake_flow_log.FakeFlowLog(self.west, source_alias="east")
        self.paused: list[float] = []
        self.meanwhile = lambda: None

    def tools(self, numbers=None) -> resume.Tools:
        ids_of_requests = numbers or itertools.count(1)
        return resume.Tools(
            source=fake_admin.FakeAdmin(self.east),
            ledger=flow_ledger.FlowLedger(self.log),
            clock=clock.SystemClock(),
            pause=self.pause,
            new_id=lambda: f"request-{next(ids_of_requests)}",
        )

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)
        self.meanwhile()

    def write(self, key: map_record.MapKey, value: map_record.MapValue) -> None:
        log = self.west.topics[MAP_TOPIC].log
        log.append((map_record.encode_key(key), map_record.encode_value(value)))

    def anchor(self, through: int, *, partition: int = 0, epoch: int = 1) -> None:
        if MAP_TOPIC not in self.west.topics:
            self.west.create(MAP_TOPIC, cleanup_policy="compact")
        key = map_record.SegmentKey(
            topic="orders", partition=partition, era=2, ordinal=1, epoch=epoch, first_source=0
        )
        self.write(key, segment(through))

    def ask(self, position="earliest", *, topic="orders", partitions=(), force=False):
        order = resume.Order(flow=FLOW, topic=topic, partitions=partitions, position=position)
        return resume.resume(order, self.tools(), force=force)

    def map(self) -> offset_map.OffsetMap:
        found = offset_map.OffsetMap()
        for key, value in self.west.topics[MAP_TOPIC].log:
            found.apply(key, value)
        return found


def test_every_partition_of_the_topic_gets_a_request_of_its_own():
    world = World()
    recorded = world.ask("latest")
    assert [str(each.partition) for each in recorded] == ["orders-0", "orders-1", "orders-2"]
    requests = [world.map().partition(each.partition).open_request for each in recorded]
    assert [each and each.position for each in requests] == ["latest"] * 3
    assert len({each and each.request for each in requests}) == 3


def test_only_the_named_partitions_get_one():
    world = World()
    recorded = world.ask("1700000000000", partitions=(2, 0, 2))
    assert [each.partition.partition for each in recorded] == [0, 2]
    assert world.map().partition(ids.TopicPartition("orders", 1)).request is None


def test_a_later_request_replaces_an_earlier_one():
    world = World()
    world.ask("earliest", partitions=(0,))
    world.ask("latest", partitions=(0,))
    request = world.map().partition(P0).open_request
    assert request is not None
    assert request.position == "latest"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"topic": "order"}, "no topic 'order'; did you mean 'orders'"),
        ({"topic": "secret"}, "does not mirror topic 'secret'"),
        ({"partitions": (3,)}, "no partition 3; it has 0 to 2"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(asked, words):
    world = World()
    with pytest.raises(resume.WrongRequestError, match=words):
        world.ask(**asked)
    assert world.west.topics == {}


def test_a_source_that_does_not_answer_is_an_error():
    world = World()
    world.east.away = True
    with pytest.raises(kafka_errors.UnreachableError):
        world.ask()


def test_a_flow_whose_anchors_move_is_refused():
    world = World()
    world.anchor(100)
    world.meanwhile = lambda: world.anchor(105)
    with pytest.raises(resume.FlowRunsError, match=r"orders-0 moved within 2\.5 s"):
        world.ask(partitions=(1,))
    assert world.paused == [2.5]
    assert world.map().partition(P0).request is None


def test_a_flow_that_is_taken_over_meanwhile_is_refused():
    world = World()
    world.anchor(100)
    world.meanwhile = lambda: world.anchor(100, epoch=2)
    with pytest.raises(resume.FlowRunsError):
        world.ask()


def test_force_asks_nobody():
    world = World()
    world.anchor(100)
    world.meanwhile = lambda: world.anchor(105)
    assert len(world.ask(force=True)) == 3
    assert world.paused == []


def test_a_request_that_cannot_be_recorded_is_an_error():
    world = World()
    world.log = fake_flow_log.FakeFlowLog(world.west, source_alias="east", max_record_bytes=10)
    with pytest.raises(errors.ConnectError):
        world.ask()


def test_somebody_elses_request_at_the_same_time_is_noticed():
    world = World()
    ledger = flow_ledger.FlowLedger(world.log)
    world.anchor(1)
    other = map_record.Request(request="other", position="latest")
    work = ledger.work

    def work_and_be_overtaken(timeout_s: float) -> None:
        work(timeout_s)
        world.write(map_record.RequestKey(topic="orders", partition=0), other)

    ledger.work = work_and_be_overtaken  # type: ignore[method-assign]  # somebody else, in between
    tools = resume.Tools(
        source=fake_admin.FakeAdmin(world.east),
        ledger=ledger,
        clock=clock.SystemClock(),
        pause=world.pause,
        new_id=lambda: "ours",
    )
    order = resume.Order(flow=FLOW, topic="orders", partitions=(0,), position="earliest")
    with pytest.raises(errors.RetriableError, match="somebody else"):
        resume.resume(order, tools, force=True)


@pytest.mark.parametrize(
    ("position", "words"),
    [
        ("earliest", ["at the first record", "below offset 100", "twice"]),
        ("latest", ["behind the last record", "from offset 100", "left out, with a receipt"]),
        ("offset:80", ["at source offset 80", "below offset 100", "twice"]),
        ("1700000000000", ["2023-11-14T22:13:20.000+00:00", "twice", "left out"]),
    ],
)
def test_what_will_happen_is_told(position, words):
    world = World()
    world.anchor(100)
    era = map_record.Era(
        source_cluster="a",
        target_cluster="b",
        source_topic_id=bytes(16),
        target_topic_id=bytes(16),
        first_source=0,
        first_target=0,
    )
    world.write(map_record.EraKey(topic="orders", partition=0, era=2, ordinal=1, epoch=1), era)
    copied, fresh, _ = (each.describe() for each in world.ask(position))
    assert "copied up to source offset 100; at the next start era 3 begins" in copied
    assert all(each in copied for each in words), copied
    assert "orders-1: never copied so far; at the next start era 1 begins" in fresh


def test_the_request_is_in_the_map_topic_alone():
    world = World()
    world.ask()
    receipts = world.west.topics[naming.receipts_topic("east")]
    assert receipts.log == []
