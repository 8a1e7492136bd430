"""What counts as live, as ready and as replicating, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core import health
from mm2.core.copy import crossing

NOW_MS = 1_790_000_000_000
WITHIN_S = 60.0


def pulse(crossed_s=None, idle_s=None):
    """Both so long ago."""
    crossed_ms, idle_ms = (
        -1 if ago_s is None else NOW_MS - round(ago_s * 1000) for ago_s in (crossed_s, idle_s)
    )
    return crossing.Pulse(crossed_ms=crossed_ms, idle_ms=idle_ms)


BATCH, NOTHING_LEFT = health.By.BATCH, health.By.NOTHING_LEFT


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
    found = health.last_crossing(pulses)
    assert found == health.Crossing(at_ms=NOW_MS - ago_s * 1000, by=by)


@pytest.mark.parametrize("pulses", [[], [pulse()], [pulse(None, 1), pulse()]])
def test_nothing_may_be_known(pulses):
    assert health.last_crossing(pulses) is None


def flow(ago_s=1.0, **changed):
    given: dict[str, Any] = {
        "flow": "a->b",
        "held": "",
        "here": 3,
        "elsewhere": 0,
        "last": None if ago_s is None else health.last_crossing([pulse(ago_s)]),
    }
    return health.Flow(**(given | changed))


@pytest.mark.parametrize(
    ("seen", "well", "said"),
    [
        (flow(1.0), True, "1.0 s ago the target acknowledged a batch"),
        (flow(60.0), True, "60.0 s ago the target acknowledged a batch"),
        (
            flow(60.1),
            False,
            "nothing since: 60.1 s ago the target acknowledged a batch; allowed are 60 s",
        ),
        (flow(None), False, "nothing has crossed yet; allowed are 60 s"),
        (flow(1.0, held="it is paused"), False, "it is paused"),
        (flow(None, here=0), False, "it has no partition to copy"),
        (
            flow(None, here=0, elsewhere=4),
            True,
            "its 4 partitions are copied by other nodes, which know more",
        ),
        (flow(None, elsewhere=4), False, "nothing has crossed yet; allowed are 60 s"),
        (flow(-5.0), True, "0.0 s ago the target acknowledged a batch"),
    ],
)
def test_a_flow_replicates_if_something_crossed_within_the_objective(seen, well, said):
    verdict = health.replicating([seen], within_s=WITHIN_S, now_ms=NOW_MS)
    (finding,) = verdict.findings
    assert (verdict.well, finding.well, finding.reason) == (well, well, said)
    assert finding.flow == "a->b"


def test_all_flows_must():
    both = [flow(1.0), flow(90.0, flow="b->a")]
    verdict = health.replicating(both, within_s=WITHIN_S, now_ms=NOW_MS)
    assert [each.well for each in verdict.findings] == [True, False]
    assert not verdict.well


def test_without_a_flow_nothing_replicates():
    assert not health.replicating([], within_s=WITHIN_S, now_ms=NOW_MS).well


def standing(joined=True, configured=True, serves=True, reason=""):
    return health.Standing(
        flow="a->b", joined=joined, configured=configured, serves=serves, reason=reason
    )


@pytest.mark.parametrize(
    ("seen", "well", "said"),
    [
        (standing(), True, "joined, configured, serving"),
        (standing(reason="it was stopped"), True, "it was stopped"),
        (
            standing(joined=False, configured=False, serves=False, reason="b is asked"),
            False,
            "has not joined its group: b is asked",
        ),
        (
            standing(configured=False, serves=False),
            False,
            "its connectors are not configured as the file says",
        ),
        (
            standing(serves=False, reason="task 3 is being started"),
            False,
            "what it was given to run has not begun: task 3 is being started",
        ),
    ],
)
def test_ready_is_joined_configured_and_serving(seen, well, said):
    verdict = health.ready([seen], engine_ready=True)
    assert (verdict.well, verdict.findings[1].reason) == (well, said)
    assert verdict.findings[0].well


def test_without_an_engine_nothing_is_ready():
    verdict = health.ready([standing()], engine_ready=False)
    assert (verdict.well, verdict.findings[0].reason) == (False, "the engine starts")


@pytest.mark.parametrize(
    ("silent_s", "crashed", "well", "said"),
    [
        (0.2, "", True, "the main loop came round 0.2 s ago"),
        (60.0, "", True, "the main loop came round 60.0 s ago"),
        (61.0, "", False, "the main loop has not come round for 61 s; allowed are 60 s"),
        (0.2, "flow a->b: KeyError()", False, "an error in mm2 itself: flow a->b: KeyError()"),
    ],
)
def test_live_is_a_main_loop_that_comes_round(silent_s, crashed, well, said):
    verdict = health.live(silent_s=silent_s, crashed=crashed)
    assert (verdict.well, verdict.findings[0].reason) == (well, said)
