"""The delivery model: the real copy machine against a modelled world, judged as readers see it.

Schedules are random from a seed; a failing one names its seed, and `schedule.run(seed,
tracing=True)` plays it again. Each planted fault must be caught, as what it is: else the judge
proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import pytest

from tests.model.delivery import faults, judge, schedule, weather
from tests.model.delivery.faults import (
    AbortedTailCounted,
    AnchorBeforeAcknowledgement,
    AnchorsOutOfPlace,
    BaseOffsetUnchecked,
    InitProducerOnly,
    LogEndCompared,
    NewPartitionUnmarked,
    NoFence,
    QueueTakenForSkipped,
    SequencesCounted,
    TailIgnored,
    TailShifted,
    TakesAgainAtOnce,
    UnknownTakenForDone,
)
from tests.model.delivery.judge import Kind
from tests.model.delivery.open_faults import BeginsAtStable, OpenMadeUp, StableUnseen
from tests.model.delivery.openings import (
    AgeOfTheQueue,
    BackToTheBatch,
    GapsUnmapped,
    OneTooMany,
    StartOverlooked,
)
from tests.model.delivery.owner import MakeCopy
from tests.model.delivery.schedule import Outcome
from tests.model.delivery.silences import (
    DeletedHeadCounted,
    GoneTakenForMatched,
    IncidentsWithoutTarget,
    NoIncidentForAnotherId,
    NothingBelieved,
)
from tests.model.delivery.weather import Weather
from tests.support import examples

QUICK = 300
FULL = 20_000
CHUNKS = 20
CAUGHT_WITHIN = 100
"""Schedules within which a planted fault must show as the kind that it is.

Today the slowest, that no marker is written where all is empty, shows in the 92nd.
"""

LONG = weather.with_some(days=True, id_expiry_s=7 * weather.DAY_S, crashes=True, freezes=True)
"""Days pass: brokers forget who wrote, coordinators do not yet."""
OLD = weather.with_some(
    days=True,
    id_expiry_s=1.5 * weather.DAY_S,
    timestamps="old",
    compaction=False,
    filtered=False,
    crashes=True,
    freezes=True,
    lost=0.04,
    slow=0.1,
)
PLAIN = {"source_elections": False, "crowded": 0.0, "damaged": 0.0}
"""Where a fault is rare, nothing else is to happen in its stead."""
STORMY = {"crashes": True, "freezes": True, "slow": 0.1, "stuck": 0.02}
TWINS = weather.with_some(few_epochs=True, **STORMY)
"""Producer ids are used up quickly: another one follows, and nothing fences the one before."""
GUESTS = weather.with_some(few_epochs=True, shared=True, **STORMY)
"""The same where others write too, so that no offset is expected."""
QUIET = weather.with_some(
    freezes=True,
    days=False,
    unfenced=False,
    lost=0.0,
    stuck=0.0,
    clean_elections=False,
    unclean_elections=False,
    refusals=False,
)
"""Nothing but owners that freeze: two write, and nothing else makes them take again."""
LEFT_OPEN = {
    "unclean_elections": True,
    "target_retention": True,
    "few_epochs": True,
    "timestamps": "old",
    "days": True,
    "compaction": False,
    "unfenced": False,
}
HANGING = weather.with_some(**LEFT_OPEN)
"""Elections take the markers of transactions that no producer id of now can end."""
HANGING_SEEDS = (5, 13, 18, 43, 44, 49)
DELETED_BEGINNING = 14641
"""An unclean election takes the marker of a transaction, another producer id follows, and retention
deletes what it begins with: readers of committed records stand still at the log's start."""
TYPED = "person   types kafka-transactions.sh"
GRANTED = "person   types kafka-acls.sh"
UNTOLD = weather.with_some(undescribed=True, late_stable=True, **LEFT_OPEN)
"""The target does not say which transactions are open, and tells late how far readers see."""
UNTOLD_SEEDS = (12, 17, 22, 41, 45, 49)
HEALTHY = weather.with_some(
    undescribed=True,
    late_stable=True,
    always_transactional=True,
    owners=1,
    days=False,
    crashes=False,
    freezes=False,
    restarts=False,
    refusals=False,
    requests=False,
    clean_elections=False,
    unclean_elections=False,
    target_retention=False,
    lost=0.0,
    stuck=0.0,
    unfenced=False,
    shared=False,
)
"""The same, and nothing is wrong."""
LOSSY = weather.with_some(lost=0.04, slow=0.1, stuck=0.02)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A machine with a fault, the weather that brings it out, and what it breaks."""

    make: MakeCopy
    kind: Kind
    conditions: Callable[[Random], Weather] = weather.draw


LOST, DOUBLED = Kind.LOST, Kind.DOUBLED
STOPPED, UNSETTLED, CLAIMED = Kind.STOPPED, Kind.UNSETTLED, Kind.CLAIMED

PLANTED = {
    "no fence": Planted(make=NoFence, kind=DOUBLED, conditions=QUIET),
    "a new epoch without marker": Planted(make=InitProducerOnly, kind=DOUBLED),
    "no marker where all is empty": Planted(make=NewPartitionUnmarked, kind=STOPPED),
    "fence never renewed": Planted(make=faults.fence_never_renewed, kind=DOUBLED, conditions=LONG),
    "tail ignored": Planted(make=TailIgnored, kind=DOUBLED),
    "tail shifted": Planted(make=TailShifted, kind=DOUBLED),
    "aborted tail counted": Planted(make=AbortedTailCounted, kind=LOST),
    "sequences counted": Planted(make=SequencesCounted, kind=DOUBLED),
    "gone taken for matched": Planted(
        make=GoneTakenForMatched,
        kind=LOST,
        conditions=weather.with_some(
            identical=True, source_retention=True, crashes=True, restarts=True, lost=0.04
        ),
    ),
    "deleted head counted": Planted(
        make=DeletedHeadCounted,
        kind=LOST,
        conditions=weather.with_some(
            target_retention=True,
            crashes=True,
            restarts=False,
            clean_elections=False,
            unclean_elections=False,
            source_retention=False,
            source_truncation=False,
            lost=0.04,
            timestamps="mixed",
            batches=45,
            compaction=False,
            unfenced=False,
            **PLAIN,
        ),
    ),
    "log end compared": Planted(make=LogEndCompared, kind=LOST),
    "anchor before acknowledgement": Planted(make=AnchorBeforeAcknowledgement, kind=LOST),
    "anchors out of place": Planted(make=AnchorsOutOfPlace, kind=Kind.MAP),
    "unknown taken for done": Planted(make=UnknownTakenForDone, kind=LOST, conditions=LOSSY),
    "queue taken for skipped": Planted(
        make=QueueTakenForSkipped, kind=LOST, conditions=weather.with_some(joins=False)
    ),
    "base offset unchecked": Planted(make=BaseOffsetUnchecked, kind=DOUBLED, conditions=TWINS),
    "old records outside transactions": Planted(
        make=faults.old_records_outside_transactions, kind=DOUBLED, conditions=OLD
    ),
    "no incident for another id": Planted(
        make=NoIncidentForAnotherId, kind=DOUBLED, conditions=GUESTS
    ),
    "incidents without a target range": Planted(
        make=IncidentsWithoutTarget,
        kind=DOUBLED,
        conditions=weather.with_some(
            source_retention=True,
            target_retention=True,
            unclean_elections=True,
            crashes=True,
            freezes=True,
            lost=0.04,
            **PLAIN,
        ),
    ),
    "incidents for nothing": Planted(make=NothingBelieved, kind=CLAIMED),
    "start inside a batch overlooked": Planted(
        make=StartOverlooked,
        kind=Kind.INVARIANT,
        conditions=weather.with_some(unclean_elections=True, largest=95, crashes=True),
    ),
    "gaps unmapped": Planted(
        make=GapsUnmapped, kind=Kind.MAP, conditions=weather.with_some(filtered=True)
    ),
    "one batch too many joined": Planted(make=OneTooMany, kind=LOST),
    "back to the start of a batch": Planted(
        make=BackToTheBatch, kind=DOUBLED, conditions=weather.in_parts
    ),
    "transactions for what has to wait": Planted(
        make=AgeOfTheQueue, kind=UNSETTLED, conditions=weather.in_parts
    ),
    "last stable offset unseen": Planted(make=StableUnseen, kind=LOST, conditions=HANGING),
    "open transaction made up": Planted(make=OpenMadeUp, kind=STOPPED),
    "open transaction misnamed": Planted(make=BeginsAtStable, kind=STOPPED, conditions=HANGING),
    "fenced, takes again at once": Planted(make=TakesAgainAtOnce, kind=UNSETTLED),
}
CONTENT_SEES = {LOST: "aborted tail counted", DOUBLED: "tail ignored"}
"""Of each kind a fault that the comparison of contents is the first to see."""


def violations(
    seeds: range, *, conditions: Callable[[Random], Weather] = weather.draw
) -> list[str]:
    found: list[str] = []
    for seed in seeds:
        outcome = schedule.run(seed, conditions=conditions)
        found.extend(f"seed {seed}: {each}" for each in outcome.violations)
    return found


@pytest.mark.timeout(120)
def test_nothing_is_lost_and_nothing_doubled_in_random_schedules() -> None:
    assert violations(range(examples.of(QUICK))) == []


@pytest.mark.timeout(120)
def test_nothing_is_lost_and_nothing_doubled_where_batches_are_opened_in_parts() -> None:
    assert violations(range(examples.of(QUICK // 2)), conditions=weather.in_parts) == []


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chunk", range(4))
def test_nothing_is_lost_and_nothing_doubled_in_parts_in_many_schedules(chunk: int) -> None:
    size = FULL // CHUNKS
    first = QUICK + chunk * size
    assert violations(range(first, first + size), conditions=weather.in_parts) == []


def test_an_era_that_another_unfenced_owner_began_meanwhile_is_not_superseded() -> None:
    assert violations(range(3144, 3145), conditions=weather.in_parts) == []


def test_a_transaction_that_nobody_ends_is_told_and_copied_again_once_a_person_aborts_it() -> None:
    """Also where it began is deleted: it must be named all the same."""
    found = schedule.run(DELETED_BEGINNING, tracing=True)
    assert found.violations == []
    typed = [each for each in found.trace if TYPED in each]
    assert [each.partition("abort ")[2] for each in typed] == [
        "--topic a.t --partition 0 --start-offset 11"
    ]


@pytest.mark.timeout(120)
def test_nothing_is_lost_where_transactions_are_left_that_nobody_ends() -> None:
    found = [schedule.run(seed, conditions=HANGING, tracing=True) for seed in HANGING_SEEDS]
    assert [each.violations for each in found if each.violations] == []
    assert any(TYPED in line for each in found for line in each.trace)


def test_who_is_not_told_which_transactions_are_open_asks_for_that_right_or_finds_them() -> None:
    found = [schedule.run(seed, conditions=UNTOLD, tracing=True) for seed in UNTOLD_SEEDS]
    assert [each.violations for each in found if each.violations] == []
    typed = [(GRANTED in text, TYPED in text) for text in ("\n".join(each.trace) for each in found)]
    assert {(True, True), (False, True)} <= set(typed)


def test_a_sound_mirror_is_not_taken_again_because_nobody_says_which_are_open() -> None:
    found = [schedule.run(seed, conditions=HEALTHY, tracing=True) for seed in range(10)]
    assert [each.violations for each in found if each.violations] == []
    trace = [line for each in found for line in each.trace]
    assert any("FindOpenTransactions -> InstructionRefused" in line for line in trace)
    assert not any("a transaction is open before the marker" in line for line in trace)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_is_lost_and_nothing_doubled_in_many_random_schedules(chunk: int) -> None:
    size = FULL // CHUNKS
    first = QUICK + chunk * size
    assert violations(range(first, first + size)) == []


@pytest.mark.timeout(120)
@pytest.mark.judges
@pytest.mark.parametrize("fault", PLANTED)
def test_the_judge_sees_a_planted_fault_as_what_it_is(fault: str) -> None:
    planted = PLANTED[fault]
    first = next((each for each in outcomes(planted) if planted.kind in each.kinds), None)
    assert first is not None
    sound = schedule.run(first.seed, conditions=planted.conditions)
    assert sound.violations == [], "it is not the fault that shows"


@pytest.mark.timeout(120)
@pytest.mark.judges
@pytest.mark.parametrize("kind", CONTENT_SEES)
def test_contents_alone_tell_a_loss_and_a_double(kind: Kind) -> None:
    """No stop and no broken invariant was there before them to tell it."""
    first = next(each for each in outcomes(PLANTED[CONTENT_SEES[kind]]) if each.violations)
    assert first.kinds <= {kind, Kind.MAP}
    assert judge.kind_of(first.violations[0]) is kind


def outcomes(planted: Planted) -> Iterator[Outcome]:
    for seed in range(CAUGHT_WITHIN):
        yield schedule.run(seed, make=planted.make, conditions=planted.conditions)
