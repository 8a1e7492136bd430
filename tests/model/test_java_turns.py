"""The delivery model where MirrorMaker 2 and ours take turns on one partition.

Java copies at least once, stores its progress now and then, and is stopped or killed. Whatever it
has doubled stays; ours must lose nothing, and add no double of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest

from mm2.replication import takeover_from_java
from mm2.replication.java_offset_map_reconstruction import JavaOffsetSyncs
from tests.model.delivery import java_faults, schedule, weather
from tests.model.delivery.java_faults import (
    DoublesCounted,
    LastPlaceBelieved,
    OneWriterOnly,
    OnlyCommitted,
    SteppingBackUnseen,
)
from tests.model.delivery.judge import Kind
from tests.model.delivery.schedule import Outcome
from tests.model.delivery.weather import Weather
from tests.support import examples

QUICK = 150
FULL = 10_000
CHUNKS = 10
CAUGHT_WITHIN = 100
"""Schedules within which a planted fault must show as the kind that it is."""


def violations(seeds: range) -> list[str]:
    found: list[str] = []
    for seed in seeds:
        outcome = schedule.run(seed, conditions=weather.java_turns)
        found.extend(f"seed {seed}: {each}" for each in outcome.violations)
    return found


@pytest.mark.timeout(120)
def test_taking_turns_with_java_loses_nothing_and_doubles_nothing_more() -> None:
    assert violations(range(examples.of(QUICK))) == []


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_taking_turns_with_java_in_many_random_schedules(chunk: int) -> None:
    size = FULL // CHUNKS
    first = QUICK + chunk * size
    assert violations(range(first, first + size)) == []


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What stands in the place of `owner`'s `name`, and the promises of which one breaks."""

    owner: object
    name: str
    fault: object
    kinds: frozenset[Kind]
    conditions: Callable[[Random], Weather] = weather.java_turns


def _retracing(fault: type, *kinds: Kind) -> Planted:
    return Planted(
        owner=takeover_from_java, name="MapReconstruction", fault=fault, kinds=frozenset(kinds)
    )


def _side_by_side(random: Random) -> Weather:
    return dataclasses.replace(weather.java_turns(random), shared=False, overlaps=True)


LOST, DOUBLED = Kind.LOST, Kind.DOUBLED
STOPPED, CLAIMED = Kind.STOPPED, Kind.CLAIMED

PLANTED = {
    "stepping back unseen": _retracing(SteppingBackUnseen, STOPPED, CLAIMED),
    "records counted": _retracing(DoublesCounted, LOST),
    "last place believed": _retracing(LastPlaceBelieved, DOUBLED),
    "one writer only": dataclasses.replace(
        _retracing(OneWriterOnly, STOPPED, CLAIMED), conditions=_side_by_side
    ),
    "only what is committed": _retracing(OnlyCommitted, STOPPED, CLAIMED),
    "newest sync believed": Planted(
        owner=JavaOffsetSyncs,
        name="find_sync_below",
        fault=java_faults.newest,
        kinds=frozenset({DOUBLED}),
    ),
    "our own word taken for Java's": Planted(
        owner=takeover_from_java,
        name="find_java_records",
        fault=java_faults.believe_any_sync,
        kinds=frozenset({LOST}),
        conditions=weather.with_some(
            java="told", unclean_elections=True, crashes=True, timestamps="fresh", shared=False
        ),
    ),
}


@pytest.mark.timeout(120)
@pytest.mark.judges
@pytest.mark.parametrize("fault", PLANTED)
def test_the_judge_sees_a_planted_fault(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[fault]
    with monkeypatch.context() as bent:
        bent.setattr(planted.owner, planted.name, planted.fault)
        outcomes = (_run(seed, planted) for seed in range(CAUGHT_WITHIN))
        first = next((each for each in outcomes if each.kinds & planted.kinds), None)
    assert first is not None
    sound = schedule.run(first.seed, conditions=planted.conditions)
    assert sound.violations == [], "it is not the fault that shows"


def _run(seed: int, planted: Planted) -> Outcome:
    return schedule.run(seed, conditions=planted.conditions, tracing=True)
