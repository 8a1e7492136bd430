"""A partition whose source the opposite flow writes to as well."""

from __future__ import annotations

from typing import Any

import pytest

from mm2 import suggested_commands
from mm2.replication.partition_halt_messages import HaltCause
from mm2.replication.partition_retry_delays import TRANSIENT_RETRIES
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.recovery_instructions import (
    FindReverseFlowProducers,
    InitProducer,
    InstructionRefused,
    NoResponse,
    ReverseFlowProducers,
)
from mm2.topics.flow_config import TargetTopicAccess
from tests.fakes import copying, scripts
from tests.fakes.copying import World
from tests.fakes.scripts import Log

ASKS = FindReverseFlowProducers
LOCAL, THEIRS = (50, 0), (60, 0)
MAP = "mm2-offset-map.b.internal"
NOBODY = ReverseFlowProducers(producers=frozenset())


def begun(**changed: Any) -> World:
    shared = TargetTopicAccess.SHARED
    return copying.begun(opposite_map=MAP, target_topics=shared, **changed)


def phase(world: World) -> PartitionPhase:
    return world.standing.phase


def wants_data(world: World) -> bool:
    return world.copy.accepts_fetched_records


def told(world: World, *theirs: int) -> World:
    world.answers.setdefault(ASKS, []).append(ReverseFlowProducers(producers=frozenset(theirs)))
    return world


def test_whose_a_batch_is_is_asked_once_and_theirs_is_skipped():
    world = told(begun(), THEIRS[0])
    mine, theirs = copying.batch(0, producer=LOCAL), copying.batch(1, producer=THEIRS)
    world.offer(mine, theirs)
    assert world.send() == 0
    assert [each for each in world.asked if isinstance(each, ASKS)] == [ASKS(producers=(50, 60))]
    assert (world.copy.source.position, world.copy.accepts_fetched_records) == (0, True)
    world.copied(mine, theirs, copying.batch(2, producer=LOCAL))
    assert (world.copy.source.position, world.copy.counters.records) == (3, 2)
    world.copied(copying.batch(3, producer=THEIRS))
    assert (world.copy.source.position, world.copy.counters.records) == (4, 2)
    assert world.kinds.count(ASKS) == 1
    assert world.copy.map is not None
    assert world.copy.map.through == 4


def test_nobody_is_asked_where_no_flow_leads_back():
    world = copying.begun().copied(copying.batch(0, producer=LOCAL))
    assert (world.kinds.count(ASKS), world.copy.counters.records) == (0, 1)


def test_nothing_is_fetched_until_the_answer_is_there():
    world = begun()
    world.withheld.add(ASKS)
    world.offer(copying.batch(0, producer=LOCAL))
    assert phase(world) is PartitionPhase.BOUNDARY
    assert not wants_data(world)
    world.withheld.clear()
    world.do(world.copy.script_runner.on_response(NOBODY, world.now_s))
    assert wants_data(world)
    world.copied(copying.batch(0, producer=LOCAL))
    assert world.copy.counters.records == 1


def test_what_stands_before_a_stranger_is_copied_first():
    world = told(begun())
    world.offer(copying.batch(0), copying.batch(1, producer=LOCAL))
    assert (world.send(), world.kinds.count(ASKS)) == (1, 0)
    assert not wants_data(world)
    world.acknowledge()
    assert world.kinds.count(ASKS) == 1
    assert wants_data(world)


def test_one_who_asks_is_called_again_soon():
    """The stranger stands behind a batch that the answer to the last one in flight sets free."""
    world = told(begun())
    world.offer(copying.batch(0), copying.batch(1, producer=LOCAL))
    assert world.copy.needs_tick_soon


def test_without_an_answer_the_partition_is_taken_again_and_nothing_is_copied():
    world = begun()
    world.answers[ASKS] = [scripts.LOST]
    world.offer(copying.batch(0, producer=LOCAL))
    assert phase(world) is PartitionPhase.WAITING
    assert "looking up the reverse flow's producers: connection lost" in world.standing.reason
    told(world).tick(after_s=1.0)
    assert phase(world) is PartitionPhase.COPYING
    world.offer(copying.batch(0, producer=LOCAL))
    world.copied(copying.batch(0, producer=LOCAL))
    assert world.copy.counters.records == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (InstructionRefused(code=29, message="no right to read it"), "--operation Read --topic"),
        (NoResponse(reason="no right to read it"), "--describe --topic"),
    ],
)
def test_an_answer_that_stays_away_is_told_to_people(answer, expected):
    world = begun()
    for _ in range(TRANSIENT_RETRIES + 1):
        world.answers[ASKS] = [answer]
        world.tick(after_s=max(0.0, world.standing.wake_at_s - world.now_s))
        if phase(world) is PartitionPhase.COPYING:
            world.offer(copying.batch(0, producer=LOCAL))
    stop = world.standing.halt
    assert stop is not None
    assert (stop.cause, stop.retry_after_s) == (HaltCause.REVERSE_FLOW_UNREADABLE, 15.0)
    assert "no right to read it" in stop.message
    (command,) = suggested_commands.extract_remedy_from_message(stop.message).splitlines()
    assert f"{expected} {MAP}" in command


def test_who_is_asked_to_end_does_not_ask_any_more():
    world = begun()
    world.offer(copying.batch(0), copying.batch(1, producer=LOCAL))
    world.send()
    world.do(world.copy.close(world.now_s))
    world.acknowledge()
    assert phase(world) is PartitionPhase.CLOSED
    assert world.kinds.count(ASKS) == 0


def test_a_leader_that_changed_while_it_was_asked_is_noticed_then():
    world = begun()
    world.withheld.add(ASKS)
    world.offer(copying.batch(0, producer=LOCAL))
    world.leader_epoch += 1
    world.do(world.copy.on_leader_epoch_received(world.leader_epoch, world.now_s))
    assert phase(world) is PartitionPhase.BOUNDARY
    world.withheld.clear()
    before = world.kinds.count(InitProducer)
    world.do(world.copy.script_runner.on_response(NOBODY, world.now_s))
    assert world.kinds.count(InitProducer) == before + 1


# Taken again: the tail pairs with what was copied, and with nothing of theirs


def test_pairing_skips_what_the_opposite_flow_wrote():
    mine, theirs, last = (
        copying.batch(0, b"a", producer=LOCAL),
        copying.batch(1, b"b", producer=THEIRS),
        copying.batch(2, b"c", producer=LOCAL),
    )
    world = told(begun(), THEIRS[0])
    world.source = Log(mine, theirs, last)
    world.offer(mine, theirs, last).copied(mine, theirs, last)
    assert world.copy.counters.records == 2
    another = World(mine, theirs, last, opposite_map=MAP, target_topics=TargetTopicAccess.SHARED)
    another.map, another.mirror, another._producer = world.map, world.mirror, world._producer
    told(another, THEIRS[0]).tick()
    assert phase(another) is PartitionPhase.COPYING, another.standing.reason
    assert another.kinds.count(ASKS) == 1
    assert another.copy.source.position == 3
