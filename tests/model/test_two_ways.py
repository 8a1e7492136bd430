"""The delivery model with a flow that leads back: what it brought into the source stays there.

Schedules as in `test_delivery`; each planted fault must be caught, as what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from mm2.replication.partition_replicator import PartitionReplicator
from tests.model.delivery import circles, schedule, weather
from tests.model.delivery.circles import AskedAtMarkers, NotReadToTheEnd, TheirsPaired
from tests.model.delivery.judge import Kind
from tests.model.delivery.owner import MakeCopy
from tests.model.delivery.weather import Weather
from tests.support import examples

QUICK = 150
FULL = 10_000
CHUNKS = 10
CAUGHT_WITHIN = 60

TWO_WAYS = weather.with_some(two_way=True, shared=True)
CRASHING = weather.with_some(two_way=True, shared=True, crashes=True, slow=0.1)
PLANTED: dict[str, tuple[MakeCopy, Kind, Callable[[Random], Weather]]] = {
    "nobody is asked": (circles.nobody_asked, Kind.BACK, TWO_WAYS),
    "not read to the end": (NotReadToTheEnd, Kind.BACK, TWO_WAYS),
    "asked at markers": (AskedAtMarkers, Kind.BACK, TWO_WAYS),
    "theirs paired": (TheirsPaired, Kind.CLAIMED, CRASHING),
}


def violations(seeds: range) -> list[str]:
    return [
        f"seed {seed}: {each}"
        for seed in seeds
        for each in schedule.run(seed, conditions=TWO_WAYS).violations
    ]


@pytest.mark.timeout(120)
def test_what_the_opposite_flow_brought_is_not_copied_back_and_all_else_once() -> None:
    assert violations(range(examples.of(QUICK))) == []


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_the_opposite_flow_brought_is_not_copied_back_in_many_schedules(chunk: int) -> None:
    size = FULL // CHUNKS
    first = QUICK + chunk * size
    assert violations(range(first, first + size)) == []


@pytest.mark.timeout(120)
@pytest.mark.judges
@pytest.mark.parametrize("fault", PLANTED)
def test_the_judge_sees_a_planted_fault_as_what_it_is(fault: str) -> None:
    make, kind, conditions = PLANTED[fault]
    seen = (schedule.run(seed, make=make, conditions=conditions) for seed in range(CAUGHT_WITHIN))
    first = next((each for each in seen if kind in each.kinds), None)
    assert first is not None
    sound = schedule.run(first.seed, make=PartitionReplicator, conditions=conditions)
    assert sound.violations == [], "it is not the fault that shows"
