"""What the two clusters of a flow can do, and what delivery follows from it (planner).

A probe observes (`pipeline/target_probe`), this decides, and `mm2 probe` tells both. Exactly once
rests on the fence: a transactional id of the flow's own, an older epoch that is refused, and
acknowledgements that say where a batch stands. Where one of them is missing, copying goes on at
least once: whoever takes a partition fences nobody, so a former owner's last batches may arrive
among the new owner's. Each is found by the acknowledged offset that is not the expected one, and
by pairing, and counted.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connect_runtime.wire.codec import versions


class Side(enum.Enum):
    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededApi:
    """An API that the copy speaks, in a version from `low` to `high`.

    `only_for_the_fence`: without it the copy works, at least once.
    """

    name: str
    low: int
    high: int
    only_for_the_fence: bool = False

    @property
    def key(self) -> int:
        return versions.API_KEYS[self.name]


_READING = (
    NeededApi(name="metadata", low=7, high=13),
    NeededApi(name="fetch", low=versions.FETCH[0], high=versions.FETCH[1]),
    NeededApi(name="list_offsets", low=4, high=11),
)
NEEDED: Mapping[Side, tuple[NeededApi, ...]] = {
    Side.SOURCE: _READING,
    Side.TARGET: (
        *_READING,
        NeededApi(name="produce", low=versions.PRODUCE[0], high=versions.PRODUCE[1]),
        NeededApi(name="offset_for_leader_epoch", low=2, high=4),
        NeededApi(name="init_producer_id", low=1, high=3),
        NeededApi(name="find_coordinator", low=1, high=6, only_for_the_fence=True),
        NeededApi(name="add_partitions_to_txn", low=0, high=3, only_for_the_fence=True),
        NeededApi(name="end_txn", low=1, high=3, only_for_the_fence=True),
    ),
}


class Check(enum.Enum):
    """What is tried on a partition of our own on the target, in this order."""

    TRANSACTIONAL_ID = "our transactional ids may be used"
    MARKER = "the marker of an empty transaction can be read"
    OFFSET = "a batch is acknowledged at the offset where it stands"
    UNCHANGED = "a batch is kept as it was sent"
    DUPLICATE = "a batch that comes twice is stored once"
    SEQUENCE = "a batch is refused whose predecessor is missing"
    FENCE = "an older epoch is refused"
    SUCCESSOR = "the newer epoch may write"


class Outcome(enum.Enum):
    """`DENIED`: we have not the right to. `UNKNOWN`: it could not be tried to its end."""

    HOLDS = "holds"
    FAILS = "fails"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`detail` says what was seen instead; empty where it holds."""

    outcome: Outcome
    detail: str = ""


HOLDS = Answer(outcome=Outcome.HOLDS)
NOT_TRIED = Answer(outcome=Outcome.UNKNOWN, detail="not tried")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One cluster as the probe found it.

    `spoken[name]`: the version of an API that we would speak, None where no version fits.
    `topic_ids` None: no topic was seen. A target's alone: `checks`, and `tells_expiration`, whether
    the brokers tell how long they remember a producer (None: not asked).
    """

    alias: str
    spoken: Mapping[str, int | None]
    topic_ids: bool | None = None
    tells_expiration: bool | None = None
    checks: Mapping[Check, Answer] = field(default_factory=dict)

    def answer(self, check: Check) -> Answer:
        return self.checks.get(check, NOT_TRIED)

    def missing(self, side: Side) -> list[NeededApi]:
        return [each for each in NEEDED[side] if self.spoken.get(each.name) is None]


class Delivery(enum.Enum):
    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"
    NONE = "cannot be mirrored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a flow will do between two clusters.

    `proven` is False where something that delivery rests on could not be tried; it is then taken
    for granted, as on any Apache Kafka. `reasons` say why it is not exactly once, each with a way
    on where there is one; `notes` what else is different here.
    """

    delivery: Delivery
    proven: bool
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fenced(self) -> bool:
        """Is a partition taken by a fence? If not, without one (at least once)."""
        return self.delivery is Delivery.EXACTLY_ONCE

    def __str__(self) -> str:
        told = self.delivery.value
        if self.delivery is Delivery.EXACTLY_ONCE and not self.proven:
            told += ", not proven here"
        return told


_FENCE = (Check.TRANSACTIONAL_ID, Check.MARKER, Check.FENCE, Check.SUCCESSOR)
_ORDER = (Check.OFFSET, Check.DUPLICATE, Check.SEQUENCE)
_WHY: Mapping[Check, str] = {
    Check.TRANSACTIONAL_ID: "nothing can be fenced",
    Check.MARKER: "nobody could tell when a fence is in place",
    Check.FENCE: "a former owner could still write",
    Check.SUCCESSOR: "a fence shuts out its own owner",
    Check.OFFSET: "duplicates cannot be seen where they are written",
    Check.DUPLICATE: "the brokers keep no producer's state",
    Check.SEQUENCE: "batches behind a refused one would be stored in its place",
}


def decide(source: Observed, target: Observed, *, transactional_prefix: str) -> Verdict:
    """What follows for a flow; `transactional_prefix` begins all its transactional ids."""
    missing = [
        f"{observed.alias} does not speak {api.name} in any version from {api.low} to {api.high}"
        for side, observed in ((Side.SOURCE, source), (Side.TARGET, target))
        for api in observed.missing(side)
        if not api.only_for_the_fence
    ]
    notes = tuple(_notes(source, target))
    if missing:
        return Verdict(delivery=Delivery.NONE, proven=True, reasons=tuple(missing), notes=notes)
    reasons = tuple(_reasons(target, transactional_prefix))
    unknown = [
        check for check in (*_FENCE, *_ORDER) if target.answer(check).outcome is Outcome.UNKNOWN
    ]
    if reasons:
        return Verdict(delivery=Delivery.AT_LEAST_ONCE, proven=True, reasons=reasons, notes=notes)
    untried = tuple(
        f"{target.alias}: not tried whether {check.value}: {target.answer(check).detail}"
        for check in unknown[:1]
    )
    return Verdict(
        delivery=Delivery.EXACTLY_ONCE, proven=not unknown, reasons=(), notes=(*untried, *notes)
    )


def _reasons(target: Observed, transactional_prefix: str) -> Iterator[str]:
    for api in target.missing(Side.TARGET):
        yield f"{target.alias} does not speak {api.name}, so {_WHY[Check.TRANSACTIONAL_ID]}"
    for check in (*_FENCE, *_ORDER):
        answer = target.answer(check)
        if answer.outcome is Outcome.DENIED:
            yield (
                f"{target.alias} denies it that {check.value}, so {_WHY[check]}: grant WRITE and "
                f"DESCRIBE on transactional ids with the prefix {transactional_prefix}, and WRITE "
                "on the mirror topics"
            )
        elif answer.outcome is Outcome.FAILS:
            yield f"on {target.alias} it fails that {check.value} ({answer.detail}): {_WHY[check]}"


def _notes(source: Observed, target: Observed) -> Iterator[str]:
    unchanged = target.answer(Check.UNCHANGED)
    if unchanged.outcome is Outcome.FAILS:
        yield (
            f"{target.alias} rewrites batches ({unchanged.detail}): what was copied is compared "
            "record by record, which costs more"
        )
    if target.tells_expiration is False:
        yield (
            f"{target.alias} does not tell how long its brokers remember a producer: 24 hours are "
            "assumed; grant DESCRIBE_CONFIGS on the cluster"
        )
    for each in (source, target):
        if each.topic_ids is False:
            yield (
                f"{each.alias} has no topic ids: a topic that was deleted and created again is "
                "told by its leader epochs and offsets"
            )
