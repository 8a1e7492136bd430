"""Steady traffic and the end of a copy (`mm2.replication.partition_replicator`): found by the
delivery model."""

from __future__ import annotations

import pytest

from mm2.replication.partition_state import PartitionPhase
from mm2.replication.recovery_instructions import (
    CommitTransaction,
    ReadRecoveredState,
    RequestAcquisition,
)
from mm2.topics.flow_config import DeliveryMode
from tests.fakes import copying

Phase = PartitionPhase
batch = copying.batch
LOG = tuple(batch(at) for at in range(8))


def test_steady_traffic_pauses_when_the_fence_is_due_for_renewal():
    world = copying.begun(*LOG, renew_after_s=100.0)
    world.offer(*LOG[:6])
    assert world.send() == 5
    world.now_s += 100.0
    world.acknowledge()
    assert world.send() == 0  # never drained, the renewal would never come
    for _ in range(4):
        world.acknowledge()
    assert CommitTransaction in world.kinds
    assert world.send() == 1


@pytest.mark.parametrize("code", [47, 45, 7])
def test_a_reaction_while_closing_begins_nothing_new(code):
    world = copying.begun(*LOG)
    world.offer(*LOG[:2])
    world.send()
    world.do(world.copy.close(world.now_s))
    world.forget()
    world.do(world.copy.on_produce_error(code, "", world.now_s))
    world.do(world.copy.on_produce_error(code, "", world.now_s))
    world.tick()
    assert world.standing.phase is Phase.CLOSED
    assert RequestAcquisition not in world.kinds
    assert ReadRecoveredState not in world.kinds


def test_a_batch_stored_elsewhere_while_closing_ends_in_closing():
    world = copying.begun(*LOG)
    world.offer(*LOG[:1])
    world.send()
    world.do(world.copy.close(world.now_s))
    world.forget()
    world.acknowledge(skip=2)
    assert world.standing.phase is Phase.CLOSED
    assert RequestAcquisition not in world.kinds


def test_what_no_anchor_will_ever_say_is_not_waited_for():
    world = copying.begun(*LOG, delivery=DeliveryMode.TRANSACTIONAL)
    world.offer(*LOG[:2])
    world.tick()
    world.send()
    world.acknowledge()
    world.do(world.copy.on_produce_response_lost("cut off", world.now_s))
    assert world.standing.reason == "cut off"
    world.do(world.copy.close(world.now_s))
    assert world.standing.phase is Phase.CLOSED
    assert world.copy.is_all_progress_recorded


def test_a_copy_that_is_fenced_while_it_closes_hands_out_its_last_anchor():
    world = copying.begun(*LOG)
    world.offer(*LOG[:2])
    world.send()
    world.acknowledge()
    world.do(world.copy.close(world.now_s))
    world.do(world.copy.on_produce_error(47, "", world.now_s))
    assert world.standing.phase is Phase.CLOSED
    assert not world.copy.is_all_progress_recorded
    for anchor in world.anchors:
        world.copy.on_segment_stored(anchor.token)
    assert world.copy.is_all_progress_recorded
