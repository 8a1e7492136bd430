"""Waits until no group reads and no producer writes, before a planned failover stops the flow.

Two checks, some time apart, must find no lag, no open transaction and the same end offsets on both
clusters. A producer that was not stopped is detected because an end offset changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from mm2.clusters import replication_progress
from mm2.clusters.cluster_pair_snapshot import MirroredPartition
from mm2.failover import plan_findings
from mm2.failover.failover_context import FailoverContext
from mm2.failover.failover_request import FailoverRequest
from mm2.offsets.group_offset_sync import GroupState


@dataclass(slots=True)
class EqualLogEndsDetector:
    """Detects when both clusters have equal end offsets that no longer change."""

    quiescence_s: float
    """Minimum time in seconds for which the end offsets must remain equal and unchanged."""
    ignores_unanswered: bool = False
    """True to ignore the partitions for which the origin does not respond, as long as it responds
    for other partitions."""
    reason: str = "not checked yet"
    """Reason why the clusters do not have equal, unchanging end offsets yet."""
    last_change: str = ""
    """Last change of an end offset between two checks that found equal ends, or "" if none
    changed."""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """End offsets in the latest check in which they were equal on both clusters."""
    _since_s: float | None = None

    def check_snapshot(self, mirrored: Iterable[MirroredPartition], now_s: float) -> bool:
        """Check one snapshot of the mirrored partitions. Return True once the end offsets of both
        clusters have been equal and unchanged for `quiescence_s` seconds."""
        ends: dict[TopicPartition, int] = {}
        looked = list(mirrored)
        heard = any(each.source_bounds is not None for each in looked)
        for each in looked:
            if each.source_bounds is None:
                if self.ignores_unanswered and heard:
                    continue
                return self._restart_quiescence_period(
                    f"{each.partition}: the origin does not respond"
                )
            if each.source_bounds.pending:
                pending = plurals.format_count(each.source_bounds.pending, "offset", "are")
                return self._restart_quiescence_period(
                    f"{each.partition}: {pending} after the start of an open transaction"
                )
            if each.lag_records:
                lag = plurals.format_count(each.lag_records, "record")
                return self._restart_quiescence_period(f"{each.partition}: {lag} not replicated")
            ends[each.partition] = each.source_bounds.end
        if self._since_s is None or ends != self.ends:
            self._record_end_offset_change(ends)
            self.reason = (
                f"equal, but for less than {self.quiescence_s:g} s{self.last_change and ': '}"
            )
            self.reason += self.last_change
            self.ends, self._since_s = ends, now_s
        return now_s - self._since_s >= self.quiescence_s

    def _record_end_offset_change(self, ends: Mapping[TopicPartition, int]) -> None:
        for partition, end in sorted(ends.items()):
            before = self.ends.get(partition, end)
            if end != before:
                self.last_change = (
                    f"{partition} ended at {before} on both, and ends at {end} now: a producer "
                    "is still writing"
                )
                return

    def _restart_quiescence_period(self, why: str) -> bool:
        self.reason, self._since_s = why, None
        return False


def wait_for_idle_groups(
    context: FailoverContext, request: FailoverRequest, names: Sequence[str]
) -> list[str]:
    """Wait until the given groups have no members on the origin, except for groups that the
    operator allows to keep reading. Return the groups without members.

    Raises `RetriableError` if the groups still have members when the failover's wait time expires,
    and `ConnectError` if the state of a group cannot be read.
    """
    groups, timeout_s = context.clusters.source.groups, context.planner.timeout_s
    found: list[str] = []
    busy: list[str] = []

    def is_idle() -> bool:
        states = groups.describe_group_states(names, timeout_s)
        for name, failure in sorted(states.failed.items()):
            known = (plan_findings.GROUP_UNREADABLE, plan_findings.GROUP_READ_DENIED)
            if not any(request.is_finding_accepted(code, name) for code in known):
                raise failure
        active = [name for name, state in states.succeeded.items() if state is GroupState.ACTIVE]
        found[:] = sorted(states.succeeded.keys() - set(active))
        busy[:] = [
            name
            for name in active
            if not request.is_finding_accepted(plan_findings.GROUP_ACTIVE_ON_ORIGIN, name)
        ]
        return not busy

    def explain_wait() -> str:
        option = plan_findings.format_accept_option(plan_findings.GROUP_ACTIVE_ON_ORIGIN, busy[0])
        return (
            f"groups still have members: {', '.join(busy)}. Stop them; to let one keep reading: "
            f"{option}"
        )

    context.wait_for_condition(is_idle, explain_wait)
    return found


def wait_for_equal_log_ends(
    context: FailoverContext, request: FailoverRequest
) -> EqualLogEndsDetector:
    """Wait until both clusters have had equal, unchanged end offsets for `quiescence_s` seconds.
    Raises `RetriableError` if this does not happen within the failover's wait time, and
    `FatalError` if a cluster denies access."""
    both, timeout_s = context.clusters, context.planner.timeout_s
    seen_before = EqualLogEndsDetector(
        quiescence_s=context.quiescence_s,
        ignores_unanswered=request.is_finding_accepted(plan_findings.LAG_UNKNOWN),
    )
    with contextlib.closing(both.target.open_offset_map_reader(both.flow.source)) as reader:

        def are_ends_equal() -> bool:
            known = reader.read_map(timeout_s)
            found = replication_progress.collect_mirror_state(
                both, clock=context.clock, timeout_s=timeout_s, offset_map=known
            )
            return seen_before.check_snapshot(found.mirrored, context.clock.now_s())

        def explain_wait() -> str:
            said = f"the end offsets are not equal on both clusters: {seen_before.reason}"
            if seen_before.last_change and not both.flow.policy.renames_topics:
                said += (
                    f". Stop producers on {request.destination}, too: their records are "
                    "replicated to the origin"
                )
            return said

        context.wait_for_condition(are_ends_equal, explain_wait)
    return seen_before
