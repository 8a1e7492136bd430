"""What taking a partition starts from, and what it can come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mm2.core.copy import budget, facts, fence, instructions, opening, pairing, setup, stops
from mm2.core.copy import opposite as copy_opposite
from mm2.formats import map_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Who takes what: `owner` marks this worker's anchors, `wall_ms` is read for receipts only,
    `transform` is what is done to the records on their way. What is opened counts against `held`,
    the task's budget. `opposite`: the source's producers as far as they are known. `ours`: the
    producer ids that takes have known for ours.
    """

    where: setup.PartitionSetup
    owner: bytes
    wall_ms: Callable[[], int]
    transform: opening.Transform | None = None
    held: budget.Budget = field(default_factory=pairing.no_budget)
    opposite: copy_opposite.Known = field(default_factory=copy_opposite.Known)
    ours: set[int] = field(default_factory=set)

    @property
    def producers(self) -> Mapping[int, bool] | None:
        """As `opposite.Known.by_id`; None where no flow leads back."""
        return self.opposite.by_id if self.where.opposite_map else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The partition is fenced, and this is what the map topic said afterwards."""

    context: Context
    fence: fence.Fence
    known: facts.Facts

    @property
    def where(self) -> setup.PartitionSetup:
        return self.context.where

    @property
    def ordinal(self) -> int:
        """Our producer id's place among all that ever wrote the partition.

        A place that another id holds too is none, and neither is one below the newest anchor's or
        era's: our transactional id was not used in between. Nobody fences two owners that have no
        transactional id and read the same map: their ids keep their places apart.
        """
        number = self.fence.producer.id
        places = list(self.known.producers.values())
        held = self.known.producers.get(number)
        anchor = self.known.anchor
        newest = max(anchor.key.ordinal if anchor is not None else 0, self.known.era_ordinal)
        if held is not None and held >= newest and places.count(held) == 1:
            return held
        apart = 0 if self.fence.holds else number % PLACES_APART
        return max([newest, *places]) + 1 + apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The partition is ours: go on at `source`; the target's next data offset is `target`.

    Not `fenced`, older owners may still write. `take_start` is the source offset at which pairing
    began, `runs` are what it learned and `seams` where those may be cut. The first anchor must be
    stored before the first batch is sent. `spared` records were found on the target, of which no
    anchor told: they are not copied again.
    """

    producer: instructions.ProducerIdentity
    leader_epoch: int
    era: int
    ordinal: int
    take_start: int
    source: int
    target: int
    source_epoch: int = -1
    runs: tuple[map_record.Run, ...] = ()
    seams: tuple[pairing.Seam, ...] = ()
    fenced: bool = True
    spared: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginAgain:
    """Something moved meanwhile; `reason` says what. The whole Take starts over after a backoff.

    `lasting`: what it is if it comes again and again.
    """

    reason: str
    lasting: stops.Stop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """While we took the partition, somebody got a newer epoch than `than`, which was ours."""

    than: instructions.ProducerIdentity


Outcome = Taken | BeginAgain | Fenced | stops.Stop


def not_fenced(where: setup.PartitionSetup, failure: fence.Failure) -> Outcome:
    """What it means for the partition that its marker could not be written or read."""
    match failure:
        case fence.NewerOwner():
            return Fenced(than=failure.than)
        case fence.Refusal():
            return stops.refused(
                where, failure.message, code=failure.code, retry_after_s=fence.RETRY_REFUSED_S
            )
        case fence.Disturbed():
            return BeginAgain(reason=failure.reason)


def again(doing: str, answer: instructions.Answer) -> BeginAgain:
    """A question of this attempt was refused or not answered."""
    match answer:
        case instructions.Refused():
            why = answer.message or f"error {answer.code}"
        case instructions.Unanswered():
            why = answer.reason
        case _:
            raise AssertionError(f"{doing}: answered with {answer}")
    return BeginAgain(reason=f"{doing}: {why}")


def read_facts(
    context: Context, *, target: int | None = None
) -> instructions.Script[facts.Facts | BeginAgain | stops.Stop]:
    """Read the partition's facts; `target` as in `instructions.ReadFacts`. The only way to read
    them: returns a `Stop` if a record of the map that may concern the partition is unreadable."""
    known = yield instructions.ReadFacts(target=target)
    if not isinstance(known, facts.Facts):
        return again("reading the offset map", known)
    if known.unreadable is not None:
        return stops.map_unreadable(context.where, known.unreadable)
    return known


def stuck(doing: str) -> BeginAgain:
    return BeginAgain(reason=f"{doing}: the broker gave nothing new in {READS_WITHOUT_NEWS} reads")


PLACES_APART = 997
"""Brokers give out producer ids in blocks of 1,000."""
READS_WITHOUT_NEWS = 50
"""Reads that bring nothing (each waits a little at the broker) before an attempt is given up."""
