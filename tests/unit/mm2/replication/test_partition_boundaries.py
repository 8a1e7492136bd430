"""Transactions, renewing the fence and closing, of `mm2.replication.partition_replicator`."""

from __future__ import annotations

import pytest

from mm2.formats import offset_map_records, record_batch
from mm2.replication import partition_transactions, producer_fencing
from mm2.replication.partition_halt_messages import HaltCause
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    AppendToFlowState,
    CommitTransaction,
    InitProducer,
    InstructionRefused,
    ReadRecoveredState,
    ReadTarget,
)
from mm2.topics.flow_config import DeliveryMode, TargetTopicAccess
from tests.fakes import copying, scripts
from tests.fakes.copying import World

Phase = PartitionPhase
ALWAYS = DeliveryMode.TRANSACTIONAL
batch = copying.batch
LOG = tuple(batch(at) for at in range(8))
ADD, COMMIT, READ = (
    AddToTransaction,
    CommitTransaction,
    ReadTarget,
)


def old(at):
    return batch(at, timestamp=copying.OLD)


OLD = tuple(old(at) for at in range(8))


def header(sent):
    return record_batch.read_batch_header(memoryview(sent))


def transactional(held):
    """Of the data batches: do they stand in transactions?"""
    found = [header(each) for each in held]
    return [each.is_transactional for each in found if not each.is_control]


def said(world):
    """What the newest anchor that was given out says."""
    item = world.anchors[-1].items[-1]
    return offset_map_records.decode_map_value(
        offset_map_records.decode_map_key(item.key), item.value
    )


# Into transactions


def test_fresh_batches_go_outside_transactions():
    world = copying.begun(*LOG)
    world.copied(*LOG)
    assert transactional(world.mirror) == [False] * 8
    assert world.asked == []


def test_old_batches_go_in_a_transaction_that_is_committed_when_nothing_follows():
    world = copying.begun(*OLD)
    world.copied(*OLD)
    assert transactional(world.mirror) == [True] * 8
    assert world.kinds[:3] == [ADD, COMMIT, READ]
    assert (said(world).through, said(world).target_next) == (8, world.end)
    assert header(world.mirror[-1]).is_control


def test_what_was_sent_before_is_sealed_by_a_marker_before_the_first_transaction():
    world = copying.begun(*LOG)
    world.copied(LOG[0]).forget()
    world.offer(old(1))
    assert world.kinds[:4] == [AppendToFlowState, ADD, COMMIT, READ]
    world.tick()
    assert world.kinds[-1] is ADD
    assert world.send() == 1
    assert transactional(world.in_flight) == [True]


def test_a_switch_waits_until_nothing_is_in_flight():
    world = copying.begun(*LOG)
    world.offer(LOG[0], old(1))
    assert world.send() == 1
    assert world.asked == []
    world.acknowledge()
    assert world.kinds[:4] == [AppendToFlowState, ADD, COMMIT, READ]


def test_nothing_is_sent_before_the_partition_is_in_the_transaction():
    world = copying.begun()
    world.withheld.add(ADD)
    world.offer(*OLD)
    assert (world.standing.phase, world.send()) == (Phase.BOUNDARY, 0)
    world.withheld.clear()
    world.do([world.open])
    assert world.send() == 5


def test_delivery_in_transactions_is_always_so():
    world = copying.begun(*LOG, delivery=ALWAYS)
    assert world.copy.transaction_mode.is_active
    world.copied(*LOG)
    world.tick(partition_transactions.MODE_HOLD_S).copied(batch(8))
    assert transactional(world.mirror) == [True] * 9


# Commits


def test_a_transaction_is_committed_after_a_while_even_with_more_to_send():
    world = copying.begun(delivery=ALWAYS)
    world.offer(*LOG)
    assert world.send() == 5
    world.now_s += partition_transactions.COMMIT_INTERVAL_S
    world.acknowledge()
    assert world.send() == 0
    for _ in range(4):
        assert COMMIT not in world.kinds
        world.acknowledge()
    assert COMMIT in world.kinds
    world.tick()
    assert world.send() == 3


def test_no_anchor_speaks_of_an_open_transaction():
    world = copying.begun(delivery=ALWAYS)
    world.offer(*LOG[:2])
    world.send()
    world.acknowledge().tick(5.0)
    assert world.anchors == []
    world.acknowledge()
    assert said(world).through == 2


def test_an_obstacle_is_met_only_when_the_transaction_before_it_is_committed():
    world = copying.begun()
    world.withheld.add(COMMIT)
    world.offer(*OLD[:2], copying.damaged(2))
    world.send()
    world.acknowledge().acknowledge()
    assert (world.standing.phase, world.standing.halt) == (Phase.BOUNDARY, None)
    world.withheld.clear()
    world.do([world.open]).tick()
    assert world.standing.phase is Phase.WAITING
    assert "source offset 2: the checksum" in world.standing.reason
    assert said(world).through == 2


def test_a_reaction_in_a_transaction_gives_out_no_anchor_for_it():
    world = copying.begun(delivery=ALWAYS)
    world.offer(*LOG[:2])
    world.send()
    world.acknowledge()
    world.do(world.copy.on_produce_error(6, "", world.now_s))
    assert world.standing.phase is Phase.WAITING
    assert world.anchors == []


# And out of them


def test_fresh_batches_among_old_ones_stay_in_transactions_and_then_leave_them():
    world = copying.begun()
    world.copied(old(0)).copied(batch(1))
    modes = [world.copy.transaction_mode.is_active]
    world.now_s += partition_transactions.MODE_HOLD_S
    world.copied(batch(2), batch(3))
    assert [*modes, world.copy.transaction_mode.is_active] == [True, False]
    assert transactional(world.mirror) == [True, True, False, False]


def test_an_open_transaction_is_committed_before_the_mode_ends():
    world = copying.begun()
    world.offer(old(0))
    world.send()
    world.now_s += partition_transactions.MODE_HOLD_S
    world.offer(batch(1))
    assert world.send() == 0
    world.acknowledge().tick()
    assert world.send() == 1
    assert transactional(world.in_flight) == [False]
    assert header(world.mirror[-1]).is_control


# Paused


def test_pausing_leaves_no_transaction_open():
    world = copying.begun(delivery=ALWAYS)
    world.offer(*LOG)
    world.copy.paused = True
    world.tick(0.5).tick(0.5)
    assert world.kinds == [ADD, COMMIT, READ, AppendToFlowState]
    assert world.standing.phase is Phase.COPYING
    world.copy.paused = False
    world.tick()
    assert world.send() == 5


# Markers that stand elsewhere


def test_somebody_elses_write_before_our_marker_takes_an_exclusive_mirror_again():
    world = copying.begun(*LOG, delivery=ALWAYS)
    world.offer(LOG[0])
    world.send()
    world.withheld.add(COMMIT)
    world.acknowledge()
    world.append(scripts.data(0, b"x", producer=(99, 0)), world.end)
    world.withheld.clear()
    world.do([world.open])
    assert world.standing.halt.cause is HaltCause.FOREIGN_WRITES


def test_a_shared_mirror_goes_on_behind_the_marker_wherever_it_stands():
    world = copying.begun(*LOG, delivery=ALWAYS, target_topics=TargetTopicAccess.SHARED)
    world.offer(LOG[0])
    world.send()
    world.withheld.add(COMMIT)
    world.acknowledge()
    world.append(scripts.data(0, b"x", producer=(99, 0)), world.end)
    world.withheld.clear()
    world.do([world.open])
    assert world.standing.phase is Phase.COPYING
    assert said(world).target_next == world.end


def test_a_marker_under_another_leader_takes_the_partition_again():
    world = copying.begun(*OLD)
    world.offer(*OLD[:2])
    world.send()
    world.leader_epoch = 3
    world.acknowledge().acknowledge()
    assert InitProducer in world.kinds
    assert (world.standing.phase, world.copy.map.leader_epoch) == (Phase.COPYING, 3)
    assert world.copy.source.position == 2


# Boundaries that fail


@pytest.mark.parametrize(
    ("answer", "phase"),
    [
        (InstructionRefused(code=47), Phase.ACQUIRING),
        (InstructionRefused(code=53), Phase.HALTED),
        (InstructionRefused(code=6), Phase.WAITING),
        (scripts.LOST, Phase.WAITING),
    ],
)
@pytest.mark.parametrize("question", [ADD, COMMIT])
def test_a_boundary_that_fails_forgets_the_queue_and_goes_back_to_it(question, answer, phase):
    world = copying.begun(delivery=ALWAYS)
    world.withheld.add(ReadRecoveredState)
    world.answers[question] = [answer]
    world.offer(*LOG)
    world.send()
    world.now_s += partition_transactions.COMMIT_INTERVAL_S
    while world.in_flight:
        world.acknowledge()
    assert world.standing.phase is phase
    assert world.copy.send_queue.queued_batches == 0
    assert world.copy.source.position == (0 if question is ADD else 5)
    assert world.budget.held_bytes == 0
    if phase is Phase.HALTED:
        assert world.standing.halt.retry_after_s == producer_fencing.DENIED_RETRY_DELAY_S


# Renewing the fence


def test_the_fence_is_renewed_by_an_idle_owner():
    world = copying.begun(renew_after_s=100.0)
    assert world.tick(99.0).asked == []
    world.tick(1.0)
    assert world.kinds[:3] == [ADD, COMMIT, READ]
    assert (said(world).target_next, said(world).last_crc) == (world.end, None)
    world.forget()
    assert world.tick(99.0).asked == []


def test_a_busy_owner_renews_it_at_the_next_drained_boundary_and_goes_on():
    world = copying.begun(*LOG, renew_after_s=100.0)
    world.offer(*LOG)
    world.send()
    world.tick(100.0)
    assert world.asked == []
    while world.in_flight:
        world.acknowledge()
    assert COMMIT in world.kinds
    assert world.send() == 3
    assert header(world.in_flight[0]).base_sequence == 5
    world.acknowledge()
    assert world.copy.map.through == 6


def test_a_transactions_marker_renews_the_fence_too():
    world = copying.begun(*LOG, renew_after_s=100.0, delivery=ALWAYS)
    world.tick(90.0).copied(LOG[0]).forget()
    assert world.tick(90.0).asked == []


# Closing


def close(world):
    return world.do(world.copy.close(world.now_s))


def test_an_idle_copy_closes_at_once():
    world = close(copying.begun(*LOG))
    assert (world.standing.phase, world.anchors) == (Phase.CLOSED, [])


def test_closing_waits_for_what_is_in_flight_and_gives_out_a_last_anchor():
    world = copying.begun(*LOG)
    world.offer(*LOG)
    world.send()
    close(world)
    for _ in range(5):
        assert world.standing.phase is Phase.COPYING
        assert (world.send(), world.copy.accepts_fetched_records) == (0, False)
        world.acknowledge()
    assert world.standing.phase is Phase.CLOSED
    assert said(world).through == 5
    world.copy.on_segment_stored(world.anchors[-1].token)
    assert world.copy.is_all_progress_recorded


def test_closing_while_taking_leaves_the_script_alone():
    world = World()
    world.withheld.add(InitProducer)
    token = world.tick().copy.script_runner.token
    close(world)
    assert world.standing.phase is Phase.CLOSED
    assert world.copy.script_runner.token != token
    assert not world.copy.script_runner.is_instruction_outstanding(world.open)


def test_closing_in_a_transaction_commits_it_first():
    world = copying.begun(delivery=ALWAYS)
    world.offer(*LOG)
    world.send()
    close(world)
    while world.in_flight:
        world.acknowledge()
    assert COMMIT in world.kinds
    assert world.tick().standing.phase is Phase.CLOSED
    assert said(world).through == 5


@pytest.mark.parametrize("question", [ADD, COMMIT])
def test_closing_at_a_boundary_waits_for_its_end(question):
    world = copying.begun(delivery=ALWAYS)
    world.withheld.add(question)
    world.offer(LOG[0])
    if world.send():
        world.acknowledge()
    assert close(world).standing.phase is Phase.BOUNDARY
    world.withheld.clear()
    world.do([world.open]).tick().tick()
    assert world.standing.phase is Phase.CLOSED
    assert header(world.mirror[-1]).is_control


def test_what_waits_or_stands_still_closes_at_once():
    waiting = World()
    assert close(waiting).standing.phase is Phase.CLOSED
    stopped = copying.begun(*LOG)
    stopped.do(stopped.copy.on_fetch_error(29, stopped.now_s))
    assert close(stopped).standing.phase is Phase.CLOSED


def test_a_reaction_met_while_closing_ends_in_closing():
    world = copying.begun(*LOG)
    world.offer(LOG[0])
    world.send()
    close(world)
    world.do(world.copy.on_produce_error(6, "", world.now_s)).tick()
    assert world.standing.phase is Phase.CLOSED
