"""Waits, before a planned move stops the flow, until no group reads and no producer writes.

Both clusters have to agree twice, some time apart: no lag at all, no open transaction and the same
end offsets. A producer that was forgotten shows because an end offset moves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from mm2.clusters import mirror_state
from mm2.clusters.pair_snapshot import MirroredPartition
from mm2.failover import plan_findings
from mm2.failover.move_context import MoveContext
from mm2.failover.move_request import MoveRequest
from mm2.offsets.group_offset_sync import GroupState


@dataclass(slots=True)
class EndsAgreement:
    """`settle_s` seconds lie between the first and the last look that agree. `why` says what does
    not, `moved` which end has changed last between two looks that did, "" where none has; `ends`
    are those of the newest look that agreed. `leaves_unheard`: a partition that the cluster that is
    left does not answer for is passed over, as long as it answers for others."""

    settle_s: float
    leaves_unheard: bool = False
    why: str = "nothing was looked at"
    moved: str = ""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    _since_s: float | None = None

    def look(self, mirrored: Iterable[MirroredPartition], now_s: float) -> bool:
        """True once they have agreed for long enough."""
        ends: dict[TopicPartition, int] = {}
        looked = list(mirrored)
        heard = any(each.here is not None for each in looked)
        for each in looked:
            if each.here is None:
                if self.leaves_unheard and heard:
                    continue
                return self._disagree(f"{each.partition}: the cluster that is left does not answer")
            if each.here.pending:
                pending = plurals.format_count(each.here.pending, "offset", "stand")
                return self._disagree(
                    f"{each.partition}: {pending} behind a transaction that is open"
                )
            if each.lag_records:
                lag = plurals.format_count(each.lag_records, "record")
                return self._disagree(f"{each.partition}: {lag} to go")
            ends[each.partition] = each.here.end
        if self._since_s is None or ends != self.ends:
            self._note_moved(ends)
            self.why = f"they agree, but not for {self.settle_s:g} s yet{self.moved and ': '}"
            self.why += self.moved
            self.ends, self._since_s = ends, now_s
        return now_s - self._since_s >= self.settle_s

    def _note_moved(self, ends: Mapping[TopicPartition, int]) -> None:
        for partition, end in sorted(ends.items()):
            before = self.ends.get(partition, end)
            if end != before:
                self.moved = (
                    f"{partition} ended at {before} on both, and ends at {end} now: somebody "
                    "writes there still"
                )
                return

    def _disagree(self, why: str) -> bool:
        self.why, self._since_s = why, None
        return False


def wait_for_idle_groups(
    about: MoveContext, wanted: MoveRequest, names: Sequence[str]
) -> list[str]:
    """Waits until none of these groups has members on the cluster that is left; those that had
    none at last. Others are left to read on, as that is accepted. Raises `ConnectError`."""
    groups, timeout_s = about.both.source.groups, about.planner.timeout_s
    found: list[str] = []
    busy: list[str] = []

    def is_idle() -> bool:
        states = groups.states(names, timeout_s)
        for name, failure in sorted(states.failed.items()):
            known = (plan_findings.GROUP_UNREAD, plan_findings.GROUP_REFUSED)
            if not any(wanted.accepts(code, name) for code in known):
                raise failure
        active = [name for name, state in states.done.items() if state is GroupState.ACTIVE]
        found[:] = sorted(states.done.keys() - set(active))
        busy[:] = [
            name for name in active if not wanted.accepts(plan_findings.GROUP_STILL_HERE, name)
        ]
        return not busy

    def why() -> str:
        return (
            f"groups have members still: {', '.join(busy)}. Stop them; or leave one to read on: "
            f"--accept {plan_findings.GROUP_STILL_HERE}:{busy[0]}"
        )

    about.await_(is_idle, why)
    return found


def wait_for_equal_ends(about: MoveContext, wanted: MoveRequest) -> EndsAgreement:
    """Waits until both ends hold the same, for long enough. Raises `ConnectError`."""
    both, timeout_s = about.both, about.planner.timeout_s
    seen_before = EndsAgreement(
        settle_s=about.settle_s, leaves_unheard=wanted.accepts(plan_findings.LAG_UNKNOWN)
    )
    with contextlib.closing(both.target.map_reader(both.flow.source)) as reader:

        def agrees() -> bool:
            known = reader.read(timeout_s)
            found = mirror_state.collect_mirror_state(
                both, clock=about.clock, timeout_s=timeout_s, known=known
            )
            return seen_before.look(found.mirrored, about.clock.now_s())

        def why() -> str:
            said = f"both ends do not agree: {seen_before.why}"
            if seen_before.moved and not both.flow.policy.renames_topics:
                said += f". What is written on {wanted.destination} comes here, too: stop that"
            return said

        about.await_(agrees, why)
    return seen_before
