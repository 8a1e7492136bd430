from __future__ import annotations

import itertools
from random import Random

import pytest

from mm2.replication import partition_retry_delays
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_state import PartitionPhase, PartitionState

Phase = PartitionPhase
FOR_A_WHILE = PartitionHalt(cause=HaltCause.REFUSED_BY_TARGET, message="no", retry_after_s=30.0)
FOR_GOOD = PartitionHalt(cause=HaltCause.CORRUPT_BATCH, message="damaged")


def waited(*reasons):
    found = PartitionState()
    for reason in reasons:
        found.begin_backoff(reason, 5.0, random=Random(1))
    return found


def test_a_partition_begins_by_waiting_and_is_due_at_once():
    found = PartitionState()
    assert (found.phase, found.reason, found.wake_at_s) == (Phase.WAITING, "not started", 0.0)
    assert (found.is_idle, found.needs_tick_soon) == (True, True)


def test_waits_grow_to_a_bound_until_a_batch_is_stored():
    found, random = PartitionState(), Random(1)
    waits = []
    for _ in range(12):
        found.begin_backoff("lost", 5.0, random=random)
        waits.append(found.wake_at_s - 5.0)
    assert all(after > before for before, after in itertools.pairwise(waits[:7]))
    assert max(waits) <= partition_retry_delays.BACKOFF_MAX_S
    found.reset_retries()
    found.begin_backoff("lost", 5.0, random=random)
    assert found.wake_at_s - 5.0 <= 2 * partition_retry_delays.BACKOFF_INITIAL_S


def test_the_first_reason_stays_named_until_something_is_copied():
    found = waited("disk full")
    assert found.reason == "disk full"
    found.begin_backoff("no leader", 6.0, random=Random(1))
    assert found.reason == "no leader; first error: disk full"
    found.begin_acquiring()
    assert (
        found.reason
        == "fencing the partition and matching the target's tail again; first error: disk full"
    )
    found.begin_copying()
    assert found.reason == ""
    found.begin_acquiring()
    assert found.reason == "fencing the partition and matching the target's tail"


@pytest.mark.parametrize(
    ("stop", "wake_at_s", "restless"), [(FOR_A_WHILE, 35.0, True), (FOR_GOOD, float("inf"), False)]
)
def test_what_stands_still_says_why_and_until_when(stop, wake_at_s, restless):
    found = PartitionState()
    found.halt_partition(stop, 5.0)
    again = ". The next attempt is in 30 s." if stop is FOR_A_WHILE else ""
    assert (found.phase, found.halt, found.reason) == (
        Phase.HALTED,
        stop,
        stop.coded_message + again,
    )
    assert (found.wake_at_s, found.needs_tick_soon, found.is_idle) == (wake_at_s, restless, True)
    found.closing = True
    assert found.needs_tick_soon


def retry_waits(found, stop, times):
    """How long it stands still each time that it is tried and comes to the same."""
    waits, now_s = [], 5.0
    for _ in range(times):
        found.halt_partition(stop, now_s)
        waits.append(found.wake_at_s - now_s)
        assert f"in {waits[-1]:.0f} s" in found.reason
        now_s = found.wake_at_s + 10.0
        found.begin_acquiring()
        found.begin_copying()
    return waits


def test_the_same_stop_waits_twice_as_long_each_time_up_to_ten_minutes():
    waits = retry_waits(PartitionState(), FOR_A_WHILE, 40)
    assert waits[:6] == [30.0, 60.0, 120.0, 240.0, 480.0, partition_retry_delays.HALT_RETRY_MAX_S]
    assert waits[-1] == partition_retry_delays.HALT_RETRY_MAX_S


def test_a_batch_that_is_stored_ends_the_row():
    found = PartitionState()
    seen = [found.has_errors]
    retry_waits(found, FOR_A_WHILE, 3)
    seen.append(found.has_errors)
    found.reset_retries()
    assert [*seen, found.has_errors] == [False, True, False]
    assert retry_waits(found, FOR_A_WHILE, 1) == [30.0]


def test_another_stop_is_another_row():
    found = PartitionState()
    retry_waits(found, FOR_A_WHILE, 3)
    other = PartitionHalt(cause=HaltCause.HANGING_TRANSACTION, message="hangs", retry_after_s=30.0)
    assert retry_waits(found, other, 2) == [30.0, 60.0]


def test_what_may_pass_lasts_after_some_tries_and_at_once_behind_its_stop():
    found, now_s = PartitionState(), 5.0
    tries = [
        found.record_error_and_check_persistence(FOR_A_WHILE, now_s + each)
        for each in range(partition_retry_delays.TRANSIENT_RETRIES + 1)
    ]
    assert tries == [False] * partition_retry_delays.TRANSIENT_RETRIES + [True]
    found.halt_partition(FOR_A_WHILE, now_s)
    assert found.record_error_and_check_persistence(FOR_A_WHILE, found.wake_at_s + 1.0)
    found.reset_retries()
    assert not found.record_error_and_check_persistence(FOR_A_WHILE, found.wake_at_s + 2.0)


def test_a_take_forgets_the_stop_and_asking_by_whom_does_not():
    found = PartitionState()
    found.halt_partition(FOR_A_WHILE, 5.0)
    found.begin_owner_check()
    assert (found.phase, found.halt) == (Phase.ACQUIRING, FOR_A_WHILE)
    found.begin_acquiring()
    assert (found.phase, found.halt) == (Phase.ACQUIRING, None)


def test_fenced_off_is_a_stop_with_its_cause():
    found = PartitionState()
    stop = PartitionHalt(cause=HaltCause.FENCED, message="taken over")
    found.mark_fenced(stop)
    assert (found.phase, found.reason, found.halt) == (Phase.FENCED, stop.coded_message, stop)


@pytest.mark.parametrize(
    ("change", "phase"),
    [
        (PartitionState.begin_acquiring, Phase.ACQUIRING),
        (PartitionState.begin_owner_check, Phase.ACQUIRING),
        (PartitionState.begin_copying, Phase.COPYING),
        (PartitionState.begin_pause_between_batches, Phase.BOUNDARY),
        (PartitionState.close, Phase.CLOSED),
    ],
)
def test_only_what_waits_or_stands_still_is_idle_and_needs_the_clock(change, phase):
    found = PartitionState(closing=True)
    change(found)
    assert (found.phase, found.is_idle, found.needs_tick_soon) == (phase, False, False)
