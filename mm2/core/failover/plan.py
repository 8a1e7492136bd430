"""The plan of a move from one cluster to the other, in numbers, with its verdict.

Nothing here is done: `steps` says in which order things are, `journal` which were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mm2.core.failover import findings, group_moves, orders, seen, verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What moving now would cost. Lag as DESIGN defines it, None where it cannot be told. `silent`,
    `unmoved` and `checkpointed_ms` as in `seen.Seen`; of the topics `untold` nothing is known."""

    wanted: orders.Wanted
    at_ms: int
    flow: str
    mirrored: tuple[seen.Mirrored, ...]
    groups: tuple[group_moves.GroupMove, ...]
    unmoved: tuple[seen.UnmovedGroup, ...] = ()
    silent: str = ""
    untold: tuple[str, ...] = ()
    checkpointed_ms: int | None = None
    unreplicated: tuple[seen.Unreplicated, ...] = ()
    findings: tuple[verdicts.Finding, ...] = field(default=())

    @property
    def verdict(self) -> verdicts.Verdict:
        return verdicts.verdict(self.findings)

    @property
    def lag_records(self) -> int | None:
        """Of all partitions: the recovery point in records; None as soon as one is unknown."""
        found = [each.lag_records for each in self.mirrored]
        return None if None in found or self.untold else sum(each or 0 for each in found)

    @property
    def lag_ms(self) -> int | None:
        """Of the partition that is furthest behind: the recovery point in time."""
        found = [each.lag_ms(self.at_ms) for each in self.mirrored]
        return (
            None if None in found or self.untold else max((each or 0 for each in found), default=0)
        )

    @property
    def newest_ms(self) -> int | None:
        """Timestamp of the newest record that arrived of what nobody knows the lag of: what was
        written later may be missing."""
        return max((each.newest_ms for each in self.mirrored if each.newest_ms), default=None)

    @property
    def unreplicated_records(self) -> int | None:
        """What the cluster gone to holds that never reached this one; None: too many to count."""
        found = [each.records for each in self.unreplicated]
        return None if None in found else sum(each or 0 for each in found)


def make(
    wanted: orders.Wanted,
    found: seen.Seen,
    translate: seen.Translate,
    *,
    settled: seen.Settled | None = None,
) -> Plan:
    """Numbers and verdict, of what was seen. `settled`: this is the last look of a planned move,
    when the flow is stopped and fenced: what was only worth knowing before forbids it now."""
    mirrored = {each.partition: each for each in found.mirrored}
    groups = tuple(
        group_moves.plan(
            each,
            translate,
            mirrored=mirrored,
            logs=found.logs,
            unheard=found.unheard,
            sets_back=wanted.sets_back,
        )
        for each in sorted(found.groups, key=lambda group: group.name)
    )
    told = findings.find(wanted, found, groups, settled=settled)
    return Plan(
        wanted=wanted,
        at_ms=found.at_ms,
        flow=found.flow,
        mirrored=tuple(sorted(found.mirrored, key=lambda each: each.partition)),
        groups=groups,
        unmoved=found.unmoved,
        silent=found.silent,
        untold=tuple(sorted(found.untold)),
        checkpointed_ms=found.checkpointed_ms,
        unreplicated=found.unreplicated,
        findings=tuple(verdicts.weighed(each, wanted.accepted) for each in told),
    )


def with_more(found: Plan, more: Iterable[verdicts.Finding]) -> Plan:
    """The plan with further findings, weighed as its own."""
    weighed = tuple(verdicts.weighed(each, found.wanted.accepted) for each in more)
    return replace(found, findings=(*found.findings, *weighed))
