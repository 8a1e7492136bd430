"""What counts as live and as ready, and when something was replicated last."""

from __future__ import annotations

import pytest

from mm2.replication import replication_latency
from mm2.replication.replication_latency import LatencySnapshot
from mm2.status import process_health
from mm2.status.process_health import (
    FlowReadiness,
    MonotonicLastReplication,
    ReplicationActivityTracker,
    ReplicationEvidenceKind,
)

NOW_MS = 1_790_000_000_000
NOW_S = 7_000.0
HOUR_S = 3_600


def pulse(crossed_s=None, idle_s=None):
    """Both so long ago."""
    at_s = [
        replication_latency.NEVER_S if ago_s is None else NOW_S - ago_s
        for ago_s in (crossed_s, idle_s)
    ]
    return LatencySnapshot(replicated_at_s=at_s[0], caught_up_at_s=at_s[1])


BATCH, NOTHING_LEFT = ReplicationEvidenceKind.BATCH, ReplicationEvidenceKind.NOTHING_LEFT


@pytest.mark.parametrize(
    ("pulses", "ago_s", "by"),
    [
        ([pulse(3)], 3, BATCH),
        ([pulse(9), pulse(3), pulse()], 3, BATCH),
        ([pulse(9, 2), pulse(8, 1)], 2, NOTHING_LEFT),
        ([pulse(9, 2), pulse(3)], 3, BATCH),
        ([pulse(2, 2)], 2, BATCH),
        ([pulse(None, 7)], 7, NOTHING_LEFT),
    ],
    ids=["one", "any", "all rest", "one does not", "both at once", "never yet"],
)
def test_any_batch_counts_and_all_must_rest(pulses, ago_s, by):
    found = process_health.find_last_replication(pulses, all_move=True)
    assert found == MonotonicLastReplication(at_s=NOW_S - ago_s, evidence=by)


@pytest.mark.parametrize("pulses", [[], [pulse()], [pulse(None, 1), pulse()]])
def test_nothing_may_be_known(pulses):
    assert process_health.find_last_replication(pulses, all_move=True) is None


def test_all_cannot_rest_while_something_is_not_copied():
    pulses = [pulse(9, 2), pulse(8, 1)]
    found = process_health.find_last_replication(pulses, all_move=False)
    assert found == MonotonicLastReplication(at_s=NOW_S - 8, evidence=BATCH)


class Looks:
    """At a flow of which this node copies something."""

    def __init__(self) -> None:
        self.crossings = ReplicationActivityTracker()

    def at(self, *pulses, later_s=0.0, step_s=0, copies=True, all_move=True):
        """So much later; `step_s`: by so much the wall clock has been set since."""
        return self.crossings.observe(
            "a->b",
            pulses,
            copies=copies,
            all_move=all_move,
            now_s=NOW_S + later_s,
            wall_ms=NOW_MS + round((later_s + step_s) * 1000),
        )


def test_before_the_first_crossing_it_is_since_the_flow_began_here():
    looks = Looks()
    assert looks.at().at_ms == NOW_MS
    later = looks.at(pulse(), later_s=9)
    assert (later.at_ms, later.last) == (NOW_MS, None)
    assert looks.at(pulse(2)).at_ms == NOW_MS - 2_000, "also one from before the first look"


def test_what_crossed_last_is_known_when_a_copy_is_gone():
    looks = Looks()
    assert looks.at(pulse(9, 2), pulse(8, 3)).at_ms == NOW_MS - 3_000
    for pulses in ([pulse(9, 1)], [pulse(9, 0), pulse()], []):
        found = looks.at(*pulses, all_move=False)
        assert (found.at_ms, found.last.evidence) == (NOW_MS - 3_000, NOTHING_LEFT)
    assert looks.at(pulse(1), all_move=False).at_ms == NOW_MS - 1_000


def test_of_the_same_copies_the_newest_pulse_counts_as_it_is():
    """Where a moment lies on this process's clock is known better by and by."""
    looks = Looks()
    assert looks.at(pulse(3)).at_ms == NOW_MS - 3_000
    assert looks.at(pulse(9)).at_ms == NOW_MS - 9_000
    assert looks.at(pulse(4)._replace(incarnation=5)).at_ms == NOW_MS - 4_000
    assert looks.at(pulse(9)).at_ms == NOW_MS - 4_000, "another life knows of another crossing"
    assert looks.at(pulse(9)).at_ms == NOW_MS - 4_000


@pytest.mark.parametrize("step_h", [6, -6, -12])
def test_a_step_of_the_wall_clock_makes_nothing_younger_or_older(step_h):
    looks = Looks()
    looks.at(pulse(3), step_s=6 * HOUR_S)
    found = looks.at(pulse(3), later_s=100, step_s=step_h * HOUR_S)
    now_ms = NOW_MS + (100 + step_h * HOUR_S) * 1000
    assert now_ms - found.at_ms == 103_000
    begun = Looks()
    begun.at(step_s=6 * HOUR_S)
    found = begun.at(later_s=100, step_s=step_h * HOUR_S)
    assert (now_ms - found.at_ms, found.last) == (100_000, None)


def test_what_is_copied_elsewhere_or_is_no_more_is_forgotten():
    looks = Looks()
    looks.at(pulse(5))
    assert looks.at(pulse(5), copies=False) is None
    assert looks.at().at_ms == NOW_MS
    looks.at(pulse(5))
    looks.crossings.retain_flows(["b->a"])
    assert looks.at().at_ms == NOW_MS


def standing(joined=True, configured=True, serves=True, reason=""):
    return FlowReadiness(
        flow="a->b", joined=joined, configured=configured, is_serving=serves, reason=reason
    )


@pytest.mark.parametrize(
    ("seen", "well", "said"),
    [
        (standing(), True, "joined, configured, tasks running"),
        (standing(reason="it was stopped"), True, "it was stopped"),
        (
            standing(joined=False, configured=False, serves=False, reason="b is asked"),
            False,
            "has not joined its group: b is asked",
        ),
        (
            standing(configured=False, serves=False),
            False,
            "the connectors do not have the configuration in the file",
        ),
        (
            standing(serves=False, reason="task 3 is being started"),
            False,
            "its tasks are not running: task 3 is being started",
        ),
    ],
)
def test_ready_is_joined_configured_and_serving(seen, well, said):
    verdict = process_health.check_readiness([seen], engine_ready=True)
    assert (verdict.is_healthy, verdict.findings[1].reason) == (well, said)
    assert verdict.findings[0].is_healthy


def test_without_an_engine_nothing_is_ready():
    verdict = process_health.check_readiness([standing()], engine_ready=False)
    assert (verdict.is_healthy, verdict.findings[0].reason) == (
        False,
        "the copy engine is starting",
    )


@pytest.mark.parametrize(
    ("silent_s", "crashed", "well", "said"),
    [
        (0.2, "", True, "last main loop iteration 0.2 s ago"),
        (60.0, "", True, "last main loop iteration 60.0 s ago"),
        (61.0, "", False, "no iteration of the main loop for 61 s (maximum 60 s)"),
        (0.2, "flow a->b: KeyError()", False, "internal error in mm2: flow a->b: KeyError()"),
    ],
)
def test_live_is_a_main_loop_that_comes_round(silent_s, crashed, well, said):
    verdict = process_health.check_liveness(silent_s=silent_s, crashed=crashed)
    assert (verdict.is_healthy, verdict.findings[0].reason) == (well, said)
