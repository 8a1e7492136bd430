"""A topic that was deleted and created again under a running copy stops its partition for good."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.formats import offset_map_records
from mm2.replication.partition_halt_messages import HaltCause
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.recovery_instructions import AddToTransaction, CommitTransaction, InitProducer
from tests.fakes import copying
from tests.fakes.copying import World

Phase = PartitionPhase
LOG = tuple(copying.batch(at) for at in range(4))
OURS, OTHER = bytes([1] * 16), bytes([2] * 16)
IDS: dict[str, Any] = {"source_topic_id": OURS, "target_topic_id": OURS}


def seen(world: World, topic_id: bytes, *, on_target: bool = True) -> World:
    return world.do(world.copy.on_topic_id_received(topic_id, world.now_s, on_target=on_target))


def assert_stands_for_good(world: World, name: str) -> None:
    copy = world.copy
    assert copy.state.phase is Phase.HALTED
    assert copy.state.halt is not None
    assert copy.state.halt.cause is HaltCause.RECREATED
    assert name in copy.state.reason
    assert "mm2 topic reset" in copy.state.reason
    world.forget()
    world.tick(after_s=1e6)
    assert world.kinds == []


@pytest.mark.parametrize(
    ("on_target", "name"), [(True, "mirror topic a.orders"), (False, "source topic orders")]
)
def test_another_topic_id_stops_a_copy_once_what_is_in_flight_is_settled(on_target, name):
    world = copying.begun(*LOG, **IDS)
    world.offer(*LOG[:2])
    world.send()
    seen(world, OTHER, on_target=on_target)
    assert world.standing.phase is Phase.COPYING
    world.acknowledge()
    world.acknowledge()
    assert_stands_for_good(world, name)


@pytest.mark.parametrize("on_target", [True, False])
def test_what_a_broker_that_is_late_with_news_told_passes(on_target):
    world = copying.begun(*LOG, **IDS)
    world.offer(*LOG[:2])
    world.send()
    seen(world, OTHER, on_target=on_target)
    world.acknowledge()
    world.acknowledge()
    assert_stands_for_good(world, "orders")
    seen(world, OURS, on_target=on_target)
    assert world.standing.halt is None
    world.tick(after_s=10.0)
    assert world.standing.phase is Phase.COPYING


@pytest.mark.parametrize("topic_id", [OURS, offset_map_records.NO_TOPIC_ID])
def test_the_same_topic_id_or_none_is_no_news(topic_id):
    world = copying.begun(*LOG, **IDS)
    for on_target in (True, False):
        seen(world, topic_id, on_target=on_target)
    assert world.standing.phase is Phase.COPYING


def test_a_take_is_given_up():
    world = World(*LOG, **IDS)
    world.withheld = {InitProducer}
    world.tick()
    assert world.standing.phase is Phase.ACQUIRING
    seen(world, OTHER)
    assert_stands_for_good(world, "mirror topic a.orders")


def test_a_wait_ends_in_standing_still():
    world = copying.begun(*LOG, **IDS)
    world.offer(*LOG[:1])
    world.send()
    world.do(world.copy.on_produce_error(100, "", world.now_s))
    assert world.standing.phase is Phase.WAITING
    seen(world, OTHER)
    assert_stands_for_good(world, "mirror topic a.orders")


def test_it_is_not_forgotten_when_another_reaction_came_first():
    world = copying.begun(*LOG, **IDS)
    world.offer(*LOG[:2])
    world.send()
    world.do(world.copy.on_produce_error(100, "", world.now_s))
    seen(world, OTHER)
    world.do(world.copy.on_produce_error(100, "", world.now_s))
    world.tick(after_s=1000.0)
    assert_stands_for_good(world, "mirror topic a.orders")


@pytest.mark.parametrize("on_target", [True, False])
@pytest.mark.parametrize("crossed", [AddToTransaction, CommitTransaction], ids=["open", "end"])
def test_news_at_a_boundary_stop_the_copy_behind_it(crossed, on_target):
    world = copying.begun(*LOG, **IDS)
    world.withheld = {crossed}
    world.offer(copying.batch(4, timestamp=copying.OLD))
    if crossed is CommitTransaction:
        world.send()
        world.acknowledge()
    assert world.standing.phase is Phase.BOUNDARY
    seen(world, OTHER, on_target=on_target)
    world.withheld = set()
    world.do([world.open])
    assert_stands_for_good(world, "orders")
