"""Tracks the progress of `mm2 run --until-caught-up`: how many of the records that existed on the
source at the start have been replicated.

The end offset of a partition is its last stable offset when its copy process starts; it never
changes afterwards. A flow is included in the totals from the first snapshot in which it is RUNNING
and this node knows its partitions.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from mm2.connectors.status_registry import FlowState, FlowStatus, PartitionStatus
from mm2.status import topic_rows


class CatchUpState(enum.Enum):
    """Catch-up progress of one flow or of all flows. A flow is IN_ERROR if records remain but
    cannot be replicated, for example because every partition that has not caught up is halted, or
    because the flow has failed or was stopped."""

    COPYING = "copying"
    CAUGHT_UP = "caught up"
    IN_ERROR = "in error"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProgress:
    """Catch-up progress of one flow, in partitions and in records. The number of records is
    computed from offsets, so it is an upper bound if the log has gaps."""

    verdict: CatchUpState
    total: int
    copied: int
    partitions: int
    done: int


@dataclass(slots=True)
class FlowCatchUp:
    """Accumulates the catch-up progress of a flow's partitions.

    Invariant: the end offset of a partition is the first one reported and never changes.
    """

    partitions: list[TopicPartition]
    _starts: dict[TopicPartition, int] = field(default_factory=dict)
    _ends: dict[TopicPartition, int] = field(default_factory=dict)
    _copied: dict[TopicPartition, int] = field(default_factory=dict)
    _failed: set[TopicPartition] = field(default_factory=set)

    def update_partition(
        self, partition: TopicPartition, *, copied_to: int, end: int, stopped: bool
    ) -> None:
        """Update a partition's progress.

        `copied_to` is the next source offset to replicate. `end` is the partition's last stable
        offset; the first known value becomes the end offset. Both are -1 while unknown. `stopped`
        is true if the partition is halted.
        """
        if copied_to >= 0:
            self._starts.setdefault(partition, copied_to)
            self._copied[partition] = copied_to
        if end >= 0:
            self._ends.setdefault(partition, end)
        if stopped:
            self._failed.add(partition)
        else:
            self._failed.discard(partition)

    def compute_progress(self) -> FlowProgress:
        """Compute the flow's progress from the progress of its partitions."""
        done = {each for each in self.partitions if self.is_partition_done(each)}
        failed = self._failed - done
        if len(done) == len(self.partitions):
            verdict = CatchUpState.CAUGHT_UP
        elif len(done) + len(failed) == len(self.partitions):
            verdict = CatchUpState.IN_ERROR
        else:
            verdict = CatchUpState.COPYING
        total = copied = 0
        for partition, end in self._ends.items():
            start = self._starts.get(partition, end)
            total += max(0, end - start)
            copied += max(0, min(self._copied.get(partition, start), end) - start)
        return FlowProgress(
            verdict=verdict,
            total=total,
            copied=copied,
            partitions=len(self.partitions),
            done=len(done),
        )

    def is_partition_done(self, partition: TopicPartition) -> bool:
        """Return True if all records that the partition had when first reported are replicated."""
        end = self._ends.get(partition)
        return end is not None and self._copied.get(partition, -1) >= end


ETA_WINDOW_S = 10.0
LISTED_PARTITIONS_MAX = 50
"""Maximum number of unfinished flows and partitions that are listed when the command ends. The
remaining ones are only counted."""

JOIN_GRACE_S = 10.0
"""How long, in seconds, a flow may have no tasks on this node before it counts as replicated by
other nodes. After joining the group, a new node receives its tasks only in a second rebalance."""

_ENDED_FLOW_STATES = (FlowState.FAILED, FlowState.STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpSnapshot:
    """Catch-up progress of all flows. `total` and `copied` are computed from offsets, so they are
    upper bounds if logs have gaps."""

    verdict: CatchUpState
    total: int
    copied: int
    partitions: int
    done: int
    eta_s: float | None
    """Estimated time left in seconds, or None if no progress is made or an end offset is
    unknown."""
    remote_flows: frozenset[str] = frozenset()
    """Flows whose tasks all run on other nodes, so that their progress is unknown on this node.
    Empty if any other flow has failed."""

    @property
    def fraction(self) -> float:
        """Progress from 0 to 1, computed from the number of partitions if there are no records."""
        if self.verdict is CatchUpState.CAUGHT_UP:
            return 1.0
        if self.total:
            return self.copied / self.total
        return self.done / self.partitions if self.partitions else 0.0


@dataclass(slots=True)
class CatchUpTracker:
    """Computes the catch-up progress of all flows from successive status snapshots."""

    _flows: dict[str, FlowCatchUp] = field(default_factory=dict)
    _states: dict[str, CatchUpState] = field(default_factory=dict)
    _results: dict[str, FlowProgress] = field(default_factory=dict)
    _speed: deque[tuple[float, int]] = field(default_factory=deque)
    _complete: bool = False
    _nothing_since_s: dict[str, float] = field(default_factory=dict)
    _elsewhere: set[str] = field(default_factory=set)

    @property
    def needs_periodic_observation(self) -> bool:
        """True if `observe` must be called even if no flow status changes, because the catch-up
        state may change when `JOIN_GRACE_S` expires."""
        return bool(self._nothing_since_s.keys() - self._elsewhere)

    def observe(self, statuses: Sequence[FlowStatus], now_s: float) -> CatchUpSnapshot:
        """Process a snapshot of all flows; return their catch-up progress."""
        self._complete = True
        for status in statuses:
            self._states[status.flow] = self._compute_flow_state(status, now_s)
        seen = self._summarize_progress(now_s)
        if not self._speed or now_s > self._speed[-1][0]:
            self._speed.append((now_s, seen.copied))
        while now_s - self._speed[0][0] > ETA_WINDOW_S:
            self._speed.popleft()
        return seen

    def _compute_flow_state(self, status: FlowStatus, now_s: float) -> CatchUpState:
        flow = self._flows.get(status.flow)
        if flow is None and self._runs_only_on_other_nodes(status, now_s):
            self._complete = False
            known = status.flow in self._elsewhere
            return CatchUpState.IN_ERROR if known else CatchUpState.COPYING
        if flow is None and status.state is FlowState.RUNNING:
            flow = FlowCatchUp([each.partition for each in status.partitions])
            self._flows[status.flow] = flow
        if flow is None:
            ended = status.state in _ENDED_FLOW_STATES
            self._complete = self._complete and ended
            return CatchUpState.IN_ERROR if ended else CatchUpState.COPYING
        for each in status.partitions:
            flow.update_partition(
                each.partition,
                copied_to=each.copied_to,
                end=each.source_end,
                stopped=each.is_halted,
            )
            self._complete = self._complete and each.source_end >= 0
        result = self._results[status.flow] = flow.compute_progress()
        if not flow.partitions:
            return CatchUpState.IN_ERROR
        if result.verdict is CatchUpState.COPYING and status.state in _ENDED_FLOW_STATES:
            return CatchUpState.IN_ERROR
        return result.verdict

    def _runs_only_on_other_nodes(self, status: FlowStatus, now_s: float) -> bool:
        """Return True if the flow is running and all of its tasks run on other nodes. If this lasts
        for `JOIN_GRACE_S`, add the flow to the remote flows."""
        runs = status.state is FlowState.RUNNING
        if not runs or status.has_local_partitions or not status.remote_partitions:
            self._nothing_since_s.pop(status.flow, None)
            self._elsewhere.discard(status.flow)
            return False
        since_s = self._nothing_since_s.setdefault(status.flow, now_s)
        if now_s - since_s >= JOIN_GRACE_S:
            self._elsewhere.add(status.flow)
        return True

    def _summarize_progress(self, now_s: float) -> CatchUpSnapshot:
        results = self._results.values()
        states = set(self._states.values())
        verdict = CatchUpState.CAUGHT_UP
        for worse in (CatchUpState.IN_ERROR, CatchUpState.COPYING):
            if worse in states:
                verdict = worse
        total = sum(each.total for each in results)
        copied = sum(each.copied for each in results)
        failed = {
            flow
            for flow, each in self._states.items()
            if each is CatchUpState.IN_ERROR and flow not in self._elsewhere
        }
        return CatchUpSnapshot(
            remote_flows=frozenset() if failed else frozenset(self._elsewhere),
            verdict=verdict,
            total=total,
            copied=copied,
            partitions=sum(each.partitions for each in results),
            done=sum(each.done for each in results),
            eta_s=self._estimate_remaining_s(total, copied, now_s=now_s),
        )

    def _estimate_remaining_s(self, total: int, copied: int, *, now_s: float) -> float | None:
        if not self._speed or not self._complete:
            return None
        first_s, first = self._speed[0]
        if now_s - first_s < 1.0 or copied <= first:
            return None
        return (total - copied) * (now_s - first_s) / (copied - first)

    def list_unfinished_items(
        self, statuses: Sequence[FlowStatus]
    ) -> list[tuple[str, TopicPartition | None, str]]:
        """Return (flow, partition, reason) for each flow or partition that has not caught up. The
        partition is None if the reason applies to the whole flow."""
        found: list[tuple[str, TopicPartition | None, str]] = []
        for status in statuses:
            if self._states.get(status.flow) is CatchUpState.CAUGHT_UP:
                continue
            if (
                status.state in _ENDED_FLOW_STATES
                or status.flow not in self._flows
                or not status.partitions
            ):
                found.append((status.flow, None, _explain_unfinished_flow(status)))
            flow = self._flows.get(status.flow)
            found.extend(
                (status.flow, each.partition, _explain_unfinished_partition(each))
                for each in sorted(status.partitions, key=_get_finding_partition)
                if flow is None or not flow.is_partition_done(each.partition)
            )
        return found

    def format_unfinished_lines(self, statuses: Sequence[FlowStatus]) -> list[str]:
        """Format each entry of `list_unfinished_items` as one line; at most `LISTED_PARTITIONS_MAX`
        entries are listed, and further ones are only counted."""
        found = self.list_unfinished_items(statuses)
        lines = [
            f"  {flow}: {reason}" if partition is None else f"  {flow} {partition}: {reason}"
            for flow, partition, reason in found[:LISTED_PARTITIONS_MAX]
        ]
        if len(found) > LISTED_PARTITIONS_MAX:
            hidden = plurals.format_count(len(found) - LISTED_PARTITIONS_MAX, "more partition")
            lines.append(f"  … and {hidden}")
        return lines


def _get_finding_partition(each: PartitionStatus) -> TopicPartition:
    return each.partition


def _explain_unfinished_flow(status: FlowStatus) -> str:
    if status.state is FlowState.RUNNING:
        return (
            topic_rows.NO_MATCHING_TOPIC
            if not status.remote_partitions
            else _describe_other_nodes(status)
        )
    return f"{status.state.value}: {status.reason}"


def _describe_other_nodes(status: FlowStatus) -> str:
    """Describe which other nodes replicate all partitions of the flow, for example `all 2
    partitions are assigned to node 10.0.0.1:8083; nothing to replicate here`."""
    nodes = sorted({each.node.partition("/")[0] for each in status.placements} - {""})
    where = f"node{'' if len(nodes) == 1 else 's'} {', '.join(nodes)}" if nodes else "other nodes"
    what = f"all {plurals.format_count(status.remote_partitions, 'partition', 'are')}"
    if status.remote_partitions == 1:
        what = "its only partition is"
    return f"{what} assigned to {where}; nothing to replicate here"


def _explain_unfinished_partition(each: PartitionStatus) -> str:
    reason = topic_rows.describe_state_reason(each.reason)
    if each.is_halted:
        return reason
    behind = each.lag_records
    missing = "" if behind is None else f", lag {plurals.format_count(behind, 'record')}"
    return f"{each.phase}{missing}{': ' + reason if reason else ''}"
