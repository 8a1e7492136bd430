"""A topic that was deleted and created again under a running copy stops its partition for good."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.copy import instructions, standing, stops
from mm2.formats import map_record
from tests.fakes import copying

Phase = standing.Phase
LOG = tuple(copying.batch(at) for at in range(4))
OURS, OTHER = bytes([1] * 16), bytes([2] * 16)
IDS: dict[str, Any] = {"source_topic_id": OURS, "target_topic_id": OURS}


def seen(world: copying.World, topic_id: bytes, *, on_target: bool = True) -> copying.World:
    return world.do(world.copy.topic_seen(topic_id, world.now_s, on_target=on_target))


def assert_stands_for_good(world: copying.World, name: str) -> None:
    copy = world.copy
    assert copy.standing.phase is Phase.STOPPED
    assert copy.standing.stop is not None
    assert copy.standing.stop.cause is stops.Cause.RECREATED
    assert name in copy.standing.reason
    assert "mm2 topic reset" in copy.standing.reason
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
    assert world.standing.stop is None
    world.tick(after_s=10.0)
    assert world.standing.phase is Phase.COPYING


@pytest.mark.parametrize("topic_id", [OURS, map_record.NO_TOPIC_ID])
def test_the_same_topic_id_or_none_is_no_news(topic_id):
    world = copying.begun(*LOG, **IDS)
    for on_target in (True, False):
        seen(world, topic_id, on_target=on_target)
    assert world.standing.phase is Phase.COPYING


def test_a_take_is_given_up():
    world = copying.World(*LOG, **IDS)
    world.withheld = {instructions.InitProducer}
    world.tick()
    assert world.standing.phase is Phase.TAKING
    seen(world, OTHER)
    assert_stands_for_good(world, "mirror topic a.orders")


def test_a_wait_ends_in_standing_still():
    world = copying.begun(*LOG, **IDS)
    world.offer(*LOG[:1])
    world.send()
    world.do(world.copy.produce_refused(100, "", world.now_s))
    assert world.standing.phase is Phase.WAITING
    seen(world, OTHER)
    assert_stands_for_good(world, "mirror topic a.orders")


def test_it_is_not_forgotten_when_another_reaction_came_first():
    world = copying.begun(*LOG, **IDS)
    world.offer(*LOG[:2])
    world.send()
    world.do(world.copy.produce_refused(100, "", world.now_s))
    seen(world, OTHER)
    world.do(world.copy.produce_refused(100, "", world.now_s))
    world.tick(after_s=1000.0)
    assert_stands_for_good(world, "mirror topic a.orders")


@pytest.mark.parametrize("on_target", [True, False])
@pytest.mark.parametrize(
    "crossed", [instructions.AddToTransaction, instructions.CommitTransaction], ids=["open", "end"]
)
def test_news_at_a_boundary_stop_the_copy_behind_it(crossed, on_target):
    world = copying.begun(*LOG, **IDS)
    world.withheld = {crossed}
    world.offer(copying.batch(4, timestamp=copying.OLD))
    if crossed is instructions.CommitTransaction:
        world.send()
        world.acknowledge()
    assert world.standing.phase is Phase.BOUNDARY
    seen(world, OTHER, on_target=on_target)
    world.withheld = set()
    world.do([world.open])
    assert_stands_for_good(world, "orders")
