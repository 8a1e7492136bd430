"""The plan of a move from one cluster to the other, in numbers, with its verdict.

Nothing here is done: `steps` says in which order things are, `journal` which were.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from mm2.core.failover import group_moves, seen
from mm2.core.offsets import group_sync

_Way = group_moves.Way


class Kind(enum.Enum):
    """EMERGENCY: `from` is lost, or as good as; PLANNED: both clusters serve, nothing may be
    lost."""

    EMERGENCY = "failover"
    PLANNED = "switch-over"


class Weight(enum.Enum):
    """How much a finding weighs: it forbids the move, costs something, or is worth knowing."""

    FORBIDS = "no-go"
    COSTS = "cost"
    NOTE = "note"


class Verdict(enum.Enum):
    GO = "GO"
    GO_AT_A_COST = "GO, AT A COST"
    NO_GO = "NO-GO"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`code` is for programs and stays the same; `text` says what was found and what to do."""

    weight: Weight
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the operator asked for. `accepted`: codes of findings that shall not forbid."""

    origin: str
    destination: str
    kind: Kind
    sets_back: bool = False
    accepted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What moving now would cost. Lag as DESIGN defines it, None where it cannot be told."""

    wanted: Wanted
    at_ms: int
    flow: str
    mirrored: tuple[seen.Mirrored, ...]
    groups: tuple[group_moves.GroupMove, ...]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def verdict(self) -> Verdict:
        weights = {each.weight for each in self.findings}
        if Weight.FORBIDS in weights:
            return Verdict.NO_GO
        return Verdict.GO_AT_A_COST if Weight.COSTS in weights else Verdict.GO

    @property
    def lag_records(self) -> int | None:
        """Of all partitions: the recovery point in records; None as soon as one is unknown."""
        found = [each.lag_records for each in self.mirrored]
        return None if None in found else sum(each or 0 for each in found)

    @property
    def lag_ms(self) -> int | None:
        """Of the partition that is furthest behind: the recovery point in time."""
        found = [each.lag_ms(self.at_ms) for each in self.mirrored]
        return None if None in found else max((each or 0 for each in found), default=0)

    @property
    def newest_ms(self) -> int | None:
        """Timestamp of the newest record that arrived: what was written later may be missing."""
        return max((each.newest_ms for each in self.mirrored if each.newest_ms), default=None)

    @property
    def again_max(self) -> int:
        return sum(each.again_max for each in self.groups)


def make(wanted: Wanted, found: seen.Seen, translate: seen.Translate) -> Plan:
    """Numbers and verdict, of what was seen."""
    mirrored = {each.partition: each for each in found.mirrored}
    groups = tuple(
        group_moves.plan(
            each, translate, mirrored=mirrored, logs=found.logs, sets_back=wanted.sets_back
        )
        for each in sorted(found.groups, key=lambda group: group.name)
    )
    findings = [*_of_mirrors(wanted, found), *_of_groups(wanted, groups)]
    return Plan(
        wanted=wanted,
        at_ms=found.at_ms,
        flow=found.flow,
        mirrored=tuple(sorted(found.mirrored, key=lambda each: each.partition)),
        groups=groups,
        findings=tuple(_accepted(each, wanted) for each in findings),
    )


def _accepted(finding: Finding, wanted: Wanted) -> Finding:
    if finding.weight is Weight.FORBIDS and finding.code in wanted.accepted:
        return Finding(weight=Weight.COSTS, code=finding.code, text=finding.text)
    return finding


def _of_mirrors(wanted: Wanted, found: seen.Seen) -> Iterator[Finding]:
    here, there = wanted.origin, wanted.destination
    if not found.mirrored:
        yield Finding(
            weight=Weight.FORBIDS,
            code="nothing-mirrored",
            text=f"the flow {found.flow} has mirrored nothing to {there} yet",
        )
    if not found.from_answers:
        planned = wanted.kind is Kind.PLANNED
        yield Finding(
            weight=Weight.FORBIDS if planned else Weight.COSTS,
            code="origin-unreachable",
            text=f"{here} does not answer: what it holds that {there} lacks cannot be counted"
            + ("; a planned move needs both (leave --planned away if it is lost)" * planned),
        )
    for each in found.mirrored:
        yield from _of_mirror(wanted, each)
    if found.losses:
        yield Finding(
            weight=Weight.NOTE,
            code="losses",
            text=f"{found.losses} receipts say that records were lost before: see mm2 receipts",
        )


def _of_mirror(wanted: Wanted, each: seen.Mirrored) -> Iterator[Finding]:
    name = f"{each.partition}"
    if each.stopped:
        yield Finding(
            weight=Weight.FORBIDS, code="stopped", text=f"{name} is not copied: {each.stopped}"
        )
    if each.there is None:
        yield Finding(
            weight=Weight.FORBIDS,
            code="mirror-missing",
            text=f"{name}: there is no {each.mirror} on {wanted.destination}",
        )
    lag = each.lag_records
    if lag:
        planned = wanted.kind is Kind.PLANNED
        yield Finding(
            weight=Weight.NOTE if planned else Weight.COSTS,
            code="lag",
            text=f"{name}: {lag} records of {wanted.origin} are not on {wanted.destination}"
            + (" yet; they are waited for" if planned else ""),
        )
    if each.here is not None and each.copied_to is not None and each.copied_to > each.here.end:
        yield Finding(
            weight=Weight.FORBIDS,
            code="origin-truncated",
            text=f"{name} ends at {each.here.end} on {wanted.origin}, but was copied up to "
            f"{each.copied_to}: it was truncated or made anew",
        )


_BARRED = {
    group_sync.GroupState.ACTIVE: ("group-active", "has members there already: stop them"),
    group_sync.GroupState.FOREIGN: ("group-foreign", "is no consumers' group there"),
    group_sync.GroupState.UNKNOWN: ("group-unknown", "could not be looked at there: try again"),
}


def _of_groups(wanted: Wanted, groups: tuple[group_moves.GroupMove, ...]) -> Iterator[Finding]:
    there = wanted.destination
    if not groups:
        yield Finding(weight=Weight.NOTE, code="no-groups", text="no group has a position to move")
    for group in groups:
        if group.barred is not None:
            code, words = _BARRED[group.barred]
            yield Finding(
                weight=Weight.FORBIDS, code=code, text=f"group {group.group} on {there} {words}"
            )
        if group.state is group_sync.GroupState.ACTIVE and wanted.kind is Kind.EMERGENCY:
            yield Finding(
                weight=Weight.COSTS,
                code="group-still-here",
                text=f"group {group.group} has members on {wanted.origin} still: what they read "
                "from now on is read again",
            )
        if group.origin is seen.Origin.CHECKPOINTED:
            yield Finding(
                weight=Weight.COSTS,
                code="as-of-checkpoint",
                text=f"group {group.group}: what it read after its last checkpoint is read again",
            )
        yield from _of_moves(wanted, group)


def _of_moves(wanted: Wanted, group: group_moves.GroupMove) -> Iterator[Finding]:
    for each in group.partitions:
        where = f"group {group.group}, {each.partition}"
        match each.way:
            case _Way.UNTRANSLATED:
                text = f"its offset {each.committed} has no place there ({each.why})"
                yield Finding(weight=Weight.FORBIDS, code="untranslated", text=f"{where}: {text}")
            case _Way.MISSING | _Way.PAST_THE_END:
                text = f"its place there, {each.mirror} at {each.to}, does not exist"
                yield Finding(weight=Weight.FORBIDS, code="no-place", text=f"{where}: {text}")
            case _Way.IS_AHEAD:
                text = (
                    f"it has read up to {each.at} there, beyond its place {each.to}; it is left "
                    "there (--set-back would let it read again)"
                )
                yield Finding(weight=Weight.NOTE, code="is-ahead", text=f"{where}: {text}")
            case _Way.NOT_MIRRORED:
                yield Finding(
                    weight=Weight.NOTE, code="not-mirrored", text=f"{where}: it is not mirrored"
                )
            case _:
                pass
        if each.again_max:
            text = f"up to {each.again_max} records are read again"
            yield Finding(weight=Weight.COSTS, code="again", text=f"{where}: {text}")
        if each.unmirrored:
            text = f"{each.unmirrored} records it has read are not on {wanted.destination}"
            yield Finding(weight=Weight.COSTS, code="unmirrored", text=f"{where}: {text}")
        if each.gone:
            text = f"{each.gone} records were deleted there before it read them"
            yield Finding(weight=Weight.COSTS, code="gone", text=f"{where}: {text}")
