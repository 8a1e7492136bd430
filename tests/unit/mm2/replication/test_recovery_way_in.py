from __future__ import annotations

from random import Random

import pytest

from mm2.replication import (
    error_policy,
    partition_halt_messages,
    partition_recovery,
    partition_retry_delays,
    producer_fencing,
)
from mm2.replication.error_policy import ErrorAction, ErrorReaction
from mm2.replication.offset_map_writer import MapWriter
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_recovery import PartitionRecovery, RecoveryScriptRunner
from mm2.replication.partition_state import PartitionPhase, PartitionState
from mm2.replication.producer_fencing import FencingDenied, FencingInterrupted, NewerOwner
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    Delay,
    InitProducer,
    InstructionRefused,
    ReadRecoveredState,
    ReadSource,
    RecoveredState,
    RefreshTargetMetadata,
    RequestAcquisition,
    UnreadableStateRecord,
)
from mm2.replication.recovery_outcomes import OwnershipLost, RetryRecovery
from tests.fakes import scripts, taking

Phase = PartitionPhase
Then = ErrorAction
OTHER = taking.known(taking.anchor(0, 1, order=(1, 9), owner=b"other___"))
COPIED = taking.known(taking.anchor(0, 50))
STOP = PartitionHalt(cause=HaltCause.CORRUPT_BATCH, message="damaged")
RECREATED = PartitionHalt(cause=HaltCause.RECREATED, message="another topic")
OURS, ANOTHER = b"1" * 16, b"2" * 16
ASKED = RefreshTargetMetadata()
"""What whoever copies wants to have done after a take."""


class Way:
    """A way in whose questions are answered at once, but those whose kind is `withheld`."""

    def __init__(self, *, in_group=False, **changed):
        self.now_s = 1000.0
        self.answers = taking.answers(**changed)
        self.withheld = None
        self.asked = []
        self.taken = []
        self.standing = PartitionState()
        self.runner = RecoveryScriptRunner(taking.where())
        self.way = PartitionRecovery(
            taking.context(source_topic_id=OURS, target_topic_id=OURS, in_group=in_group),
            state=self.standing,
            runner=self.runner,
            random=Random(1),
            on_acquired=self._taken,
        )

    def _taken(self, *found):
        self.taken.append(found)
        self.standing.begin_copying()
        return [ASKED]

    def tick(self, after_s=0.0, *, paused=False):
        self.now_s += after_s
        return self.do(self.way.tick(self.now_s, paused=paused))

    def do(self, found):
        for each in found:
            self.asked.append(each)
            if not self.runner.is_instruction_outstanding(each) or type(each) is self.withheld:
                continue
            if isinstance(each, Delay):
                self.now_s += each.delay_s
            answer = self.answers.get(type(each), scripts.DONE)
            given = answer(each) if callable(answer) else answer
            self.do(self.runner.on_response(given, self.now_s))
        return self

    @property
    def kinds(self):
        return [type(each) for each in self.asked]


def copying():
    way = Way().tick()
    assert way.standing.phase is Phase.COPYING
    way.asked.clear()
    return way


def taking_held():
    way = Way()
    way.withheld = InitProducer
    way.tick()
    assert way.standing.phase is Phase.ACQUIRING
    way.asked.clear()
    return way


# Taking


def test_a_take_hands_over_what_it_found_and_the_time():
    way = Way().tick()
    ((taken, written, now_s),) = way.taken
    assert (taken.source, taken.target, now_s) == (100, 51, 1000.0)
    assert isinstance(written, MapWriter)
    assert way.asked[-1] is ASKED
    assert way.tick(1e6).taken == [(taken, written, 1000.0)]


def test_nothing_is_taken_during_a_pause():
    way = Way().tick(paused=True)
    assert (way.standing.phase, way.asked) == (Phase.WAITING, [])
    assert way.tick().standing.phase is Phase.COPYING


def test_a_take_that_fails_waits_and_is_tried_again():
    way = Way(RequestAcquisition=scripts.LOST).tick()
    assert way.standing.phase is Phase.WAITING
    assert way.standing.reason == "requesting permission from the worker: connection lost"
    assert way.kinds == [RequestAcquisition, RefreshTargetMetadata]
    assert way.tick(0.01).kinds == way.kinds[:2]
    way.answers[RequestAcquisition] = scripts.DONE
    assert way.tick(partition_retry_delays.BACKOFF_INITIAL_S * 2).standing.phase is Phase.COPYING


def test_waiting_grows_while_nothing_is_copied():
    way = Way(RequestAcquisition=scripts.LOST)
    waits = []
    for _ in range(6):
        way.tick(max(0.0, way.standing.wake_at_s - way.now_s))
        waits.append(way.standing.wake_at_s - way.now_s)
    assert waits == sorted(waits)
    assert waits[-1] > 8 * waits[0]


def test_a_take_that_is_refused_stands_still_for_a_while():
    way = Way(InitProducer=InstructionRefused(code=31)).tick()
    assert way.standing.phase is Phase.HALTED
    way.answers[InitProducer] = taking.US
    assert way.tick(producer_fencing.DENIED_RETRY_DELAY_S - 1.0).standing.phase is Phase.HALTED
    assert way.tick(1.0).standing.phase is Phase.COPYING
    assert way.standing.halt is None


def test_what_may_pass_by_itself_is_tried_a_few_times_before_it_is_a_stop():
    way = Way(ReadRecoveredState=COPIED, ReadSource=InstructionRefused(code=3)).tick()
    tries = 1
    while way.standing.phase is Phase.WAITING:
        assert "missing (deleted?)" in way.standing.reason
        way.tick(max(0.0, way.standing.wake_at_s - way.now_s))
        tries += 1
    assert tries == partition_retry_delays.TRANSIENT_RETRIES + 1
    assert way.standing.phase is Phase.HALTED
    assert "missing (deleted?)" in way.standing.reason
    assert way.tick(error_policy.HALT_RETRY_DELAY_S).standing.phase is Phase.HALTED
    assert "in 60 s" in way.standing.reason


def test_what_passes_by_itself_is_no_stop():
    way = Way(ReadRecoveredState=COPIED, ReadSource=InstructionRefused(code=100)).tick()
    assert way.standing.phase is Phase.WAITING
    way.answers[ReadSource] = scripts.records(end=0)
    assert way.tick(1.0).standing.phase is Phase.COPYING


# Fenced


def test_fenced_while_taking_asks_by_whom_and_takes_again_when_nobody_has_appeared():
    way = Way(AddToTransaction=InstructionRefused(code=47)).tick()
    assert (way.standing.phase, way.standing.reason) == (
        Phase.WAITING,
        "fenced, but no other owner was found",
    )
    way.answers[AddToTransaction] = scripts.DONE
    assert way.tick(1.0).standing.phase is Phase.COPYING


def test_fenced_by_another_owner_is_the_end():
    way = copying()
    way.answers[ReadRecoveredState] = OTHER
    way.do(way.way.check_fence(taking.US, way.now_s))
    assert way.standing.phase is Phase.FENCED
    assert "another mm2 process acquired this partition of flow a->b" in way.standing.reason
    way.asked.clear()
    assert way.tick(1e6).asked == []


def test_in_a_group_who_is_fenced_takes_it_again_once_it_may():
    way = Way(in_group=True).tick()
    way.answers[ReadRecoveredState] = OTHER
    way.answers[RequestAcquisition] = scripts.LOST
    way.do(way.way.check_fence(taking.US, way.now_s))
    assert (way.standing.phase, way.standing.reason) == (
        Phase.WAITING,
        partition_recovery.FENCED_REASON,
    )
    assert way.tick(1.0).standing.phase is Phase.WAITING, "the group does not say so"
    way.answers |= {**taking.answers(), RequestAcquisition: scripts.DONE}
    assert way.tick(20.0).standing.phase is Phase.COPYING


def fenced_in_a_group(times):
    """Each time the group has confirmed the partition, and a batch was stored since."""
    way = Way(in_group=True).tick()
    way.answers[ReadRecoveredState] = OTHER
    for _ in range(times):
        assert way.standing.reason == ""
        way.standing.reset_retries()
        way.do(way.way.check_fence(taking.US, way.now_s))
        if way.standing.phase is Phase.WAITING:
            way.answers |= taking.answers()
            way.tick(20.0)
            way.answers[ReadRecoveredState] = OTHER
    return way


def test_two_groups_that_fence_each_other_are_told_though_both_store_batches():
    assert (
        fenced_in_a_group(partition_retry_delays.TRANSIENT_RETRIES).standing.phase is Phase.COPYING
    )
    way = fenced_in_a_group(partition_retry_delays.TRANSIENT_RETRIES + 1)
    assert (way.standing.phase, way.standing.halt.cause) == (Phase.HALTED, HaltCause.FENCED)
    assert "may run in one group of nodes only" in way.standing.reason
    assert "The next attempt is in 30 s." in way.standing.reason
    way.answers |= taking.answers()
    way.tick(30.0)
    assert way.standing.phase is Phase.COPYING
    way.answers[ReadRecoveredState] = OTHER
    way.standing.reset_retries()
    way.do(way.way.check_fence(taking.US, way.now_s))
    assert "The next attempt is in 60 s." in way.standing.reason


def test_fenced_again_and_again_by_nobody_is_not_told():
    way = fenced_in_a_group(partition_retry_delays.TRANSIENT_RETRIES)
    way.answers |= taking.answers()
    way.do(way.way.check_fence(taking.US, way.now_s))
    assert (way.standing.phase, way.standing.reason) == (
        Phase.WAITING,
        "fenced, but no other owner was found",
    )


# Coming back


@pytest.mark.parametrize(
    ("reaction", "phase"),
    [
        (ErrorReaction(action=Then.REACQUIRE, reason="moved"), Phase.COPYING),
        (ErrorReaction(action=Then.BACK_OFF, reason="moved"), Phase.WAITING),
        (ErrorReaction(action=Then.CHECK_FENCE, reason="moved"), Phase.FENCED),
        (ErrorReaction(action=Then.HALT, reason="moved", halt=STOP), Phase.HALTED),
    ],
    ids=lambda each: str(each)[:20],
)
def test_what_broke_the_copying_off_says_what_follows(reaction, phase):
    way = copying()
    way.answers[ReadRecoveredState] = OTHER if phase is Phase.FENCED else taking.known()
    way.do(way.way.apply_error_reaction(reaction, taking.US, now_s=way.now_s))
    assert way.standing.phase is phase
    assert len(way.taken) == (2 if reaction.action is Then.REACQUIRE else 1)


@pytest.mark.parametrize(
    ("outcome", "phase"),
    [
        (RetryRecovery(reason="moved"), Phase.WAITING),
        (OwnershipLost(fenced_producer=taking.US), Phase.FENCED),
        (STOP, Phase.HALTED),
        (FencingInterrupted(reason="moved"), Phase.WAITING),
        (NewerOwner(fenced_producer=taking.US), Phase.FENCED),
        (FencingDenied(code=29, message="no"), Phase.HALTED),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_a_script_came_to_says_what_follows(outcome, phase):
    way = copying()
    way.answers[ReadRecoveredState] = OTHER
    way.do(way.way.on_script_failed(outcome, way.now_s))
    assert way.standing.phase is phase


def test_while_the_map_is_unreadable_it_is_not_known_who_fenced_us():
    way = copying()
    unreadable = UnreadableStateRecord(offset=9, why="garbage")
    way.answers[ReadRecoveredState] = RecoveredState(unreadable=unreadable)
    way.do(way.way.on_script_failed(NewerOwner(fenced_producer=taking.US), way.now_s))
    assert way.standing.phase is Phase.HALTED
    assert way.standing.halt == partition_halt_messages.build_map_unreadable_halt(
        taking.where(), unreadable
    )


def test_an_outcome_that_is_none_is_a_programmers_error():
    with pytest.raises(AssertionError, match="42"):
        Way().way.on_script_failed(42, 0.0)


# What happens meanwhile


def come_back(way):
    """Whatever broke the copying off, nothing may be begun."""
    for back in (way.start_acquisition, lambda now_s: way.check_fence(taking.US, now_s)):
        assert back(0.0) == []


def seen(way, topic_id, *, on_target=False):
    return way.do(way.way.on_topic_id_received(topic_id, way.now_s, on_target=on_target))


def assert_stopped_as_recreated(way):
    assert way.standing.phase is Phase.HALTED
    assert way.standing.halt.cause is HaltCause.RECREATED


def test_a_recreated_topic_gives_a_take_up():
    way = taking_held()
    token = way.runner.token
    seen(way, ANOTHER)
    assert_stopped_as_recreated(way)
    assert (way.runner.is_running, way.runner.token == token) == (False, False)
    assert way.tick(1e6).asked == []


def test_a_recreated_topic_ends_a_wait():
    way = Way(RequestAcquisition=scripts.LOST).tick()
    seen(way, ANOTHER)
    assert_stopped_as_recreated(way)
    assert not way.standing.needs_tick_soon


def test_a_recreated_topic_waits_for_whoever_copies_and_is_not_forgotten():
    way = copying()
    seen(way, ANOTHER)
    assert way.standing.phase is Phase.COPYING
    come_back(way.way)
    assert_stopped_as_recreated(way)


@pytest.mark.parametrize("on_target", [True, False])
def test_a_topic_that_is_ours_again_is_taken_once_that_has_lasted(on_target):
    """The first metadata came from a broker that was late with news: it told of the old topic."""
    way = Way(RequestAcquisition=scripts.LOST).tick()
    seen(way, ANOTHER, on_target=on_target)
    seen(way, ANOTHER, on_target=on_target)
    seen(way, OURS, on_target=not on_target)
    assert_stopped_as_recreated(way)
    way.asked.clear()
    seen(way, OURS, on_target=on_target)
    assert (way.standing.phase, way.kinds) == (Phase.WAITING, [RefreshTargetMetadata])
    assert way.tick(after_s=9.0).standing.phase is Phase.WAITING
    seen(way, ANOTHER, on_target=on_target)
    assert_stopped_as_recreated(way)
    seen(way, OURS, on_target=on_target)
    way.answers = taking.answers()
    assert way.tick(after_s=10.0).standing.phase is Phase.COPYING


def test_a_topic_is_ours_again_when_both_sides_say_so():
    way = Way(RequestAcquisition=scripts.LOST).tick()
    seen(way, ANOTHER)
    seen(way, ANOTHER, on_target=True)
    seen(way, OURS)
    assert "mirror topic" in way.standing.reason
    assert_stopped_as_recreated(way)
    seen(way, OURS, on_target=True)
    assert way.standing.phase is Phase.WAITING


def test_what_was_over_before_the_copying_had_ended_is_no_stop():
    way = copying()
    seen(way, ANOTHER)
    stop = way.standing.recreated_topic_halt
    seen(way, OURS)
    then = ErrorReaction(action=Then.HALT, reason=stop.message, halt=stop)
    way.do(way.way.apply_error_reaction(then, taking.US, now_s=way.now_s))
    assert way.standing.phase is Phase.WAITING


def test_a_topic_that_is_ours_does_not_lift_what_the_map_says():
    """The topic that was copied last had another id than the one that is there since."""
    way = Way(RequestAcquisition=scripts.LOST).tick()
    way.standing.halt_partition(RECREATED, way.now_s)
    seen(way, OURS)
    assert_stopped_as_recreated(way)


def close(way):
    way.standing.closing = True
    way.way.close()
    return way


def test_closing_gives_a_take_up():
    way = close(taking_held())
    assert (way.standing.phase, way.runner.is_running) == (Phase.CLOSED, False)


def test_what_waits_or_stands_still_closes_at_once():
    stopped = Way()
    stopped.standing.halt_partition(STOP, 0.0)
    for way in (Way(), stopped):
        assert close(way).standing.phase is Phase.CLOSED


def test_closing_waits_for_whoever_copies_and_nothing_is_begun_after_it():
    way = close(copying())
    phases = [way.standing.phase]
    come_back(way.way)
    assert [*phases, way.standing.phase] == [Phase.COPYING, Phase.CLOSED]


def test_a_wait_that_follows_closing_ends_at_the_next_tick():
    way = close(copying())
    way.do(way.way.retry_after_backoff("lost", way.now_s))
    assert way.tick().standing.phase is Phase.CLOSED
