"""The delivery model: the real copy machine against a modelled world, judged as readers see it.

Schedules are random from a seed; a failing one names its seed, and `schedule.run(seed,
tracing=True)` plays it again. Each planted fault must be caught: else the judge proves nothing.
"""

from __future__ import annotations

import pytest

from tests.model.delivery import faults, owner, schedule

QUICK = 300
FULL = 20_000
CHUNKS = 20
CAUGHT_WITHIN = 150
"""Schedules within which a planted fault must show; it takes fewer than 70 today."""

PLANTED = [
    faults.AbortedTailCounted,
    faults.AnchorBeforeAcknowledgement,
    faults.BaseOffsetUnchecked,
    faults.InitProducerOnly,
    faults.LogEndCompared,
    faults.NewPartitionUnmarked,
    faults.NoFence,
    faults.QueueTakenForSkipped,
    faults.SequencesCounted,
    faults.TailIgnored,
    faults.TailShifted,
    faults.TakesAgainAtOnce,
    faults.UnknownTakenForDone,
    faults.old_records_outside_transactions,
]


def violations(seeds: range) -> list[str]:
    found: list[str] = []
    for seed in seeds:
        outcome = schedule.run(seed)
        found.extend(f"seed {seed}: {each}" for each in outcome.violations)
    return found


@pytest.mark.timeout(120)
def test_nothing_is_lost_and_nothing_doubled_in_random_schedules() -> None:
    assert violations(range(QUICK)) == []


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_is_lost_and_nothing_doubled_in_many_random_schedules(chunk: int) -> None:
    size = FULL // CHUNKS
    first = QUICK + chunk * size
    assert violations(range(first, first + size)) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.__name__)
def test_the_judge_sees_a_planted_fault(fault: owner.MakeCopy) -> None:
    assert any(schedule.run(seed, make=fault).violations for seed in range(CAUGHT_WITHIN))
