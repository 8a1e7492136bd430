"""`--until-caught-up`: how far everything is that the source held at the start, and the verdict.

A flow is judged from its first snapshot with a plan on. The end of a partition is the last stable
offset that its copy saw first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from connect_runtime.base import amounts, ids
from mm2.app import overview
from mm2.connectors import flow_status
from mm2.core import catch_up

SPEED_WINDOW_S = 10.0
LISTED_MAX = 50
"""So many partitions are named one by one at the end; the others are counted."""

SETTLE_S = 10.0
"""A node that has just joined is given its tasks in a second round of the group."""

_ENDED = (flow_status.FlowState.FAILED, flow_status.FlowState.STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Over all flows. `total` and `copied` are records by offset: an upper bound with gaps.

    `eta_s` is None while nothing moves or not every end is known. `elsewhere`: flows whose tasks
    are all on other nodes, so that this one cannot tell how far they are; none where another flow
    failed.
    """

    verdict: catch_up.Verdict
    total: int
    copied: int
    partitions: int
    done: int
    eta_s: float | None
    elsewhere: frozenset[str] = frozenset()

    @property
    def fraction(self) -> float:
        """0 to 1; by partitions where there is nothing to copy."""
        if self.verdict is catch_up.Verdict.CAUGHT_UP:
            return 1.0
        if self.total:
            return self.copied / self.total
        return self.done / self.partitions if self.partitions else 0.0


@dataclass(slots=True)
class Progress:
    """A fold over the flows' snapshots."""

    _flows: dict[str, catch_up.CatchUp] = field(default_factory=dict)
    _states: dict[str, catch_up.Verdict] = field(default_factory=dict)
    _results: dict[str, catch_up.Progress] = field(default_factory=dict)
    _speed: deque[tuple[float, int]] = field(default_factory=deque)
    _complete: bool = False
    _nothing_since_s: dict[str, float] = field(default_factory=dict)
    _elsewhere: set[str] = field(default_factory=set)

    @property
    def waits(self) -> bool:
        """Does the verdict depend on time alone? Then `observe` is called without news, too."""
        return bool(self._nothing_since_s.keys() - self._elsewhere)

    def observe(self, statuses: Sequence[flow_status.FlowStatus], now_s: float) -> Snapshot:
        self._complete = True
        for status in statuses:
            self._states[status.flow] = self._judge(status, now_s)
        seen = self._sum_up(now_s)
        if not self._speed or now_s > self._speed[-1][0]:
            self._speed.append((now_s, seen.copied))
        while now_s - self._speed[0][0] > SPEED_WINDOW_S:
            self._speed.popleft()
        return seen

    def _judge(self, status: flow_status.FlowStatus, now_s: float) -> catch_up.Verdict:
        flow = self._flows.get(status.flow)
        if flow is None and self._has_nothing_here(status, now_s):
            self._complete = False
            known = status.flow in self._elsewhere
            return catch_up.Verdict.IN_ERROR if known else catch_up.Verdict.COPYING
        if flow is None and status.state is flow_status.FlowState.RUNNING:
            flow = catch_up.CatchUp([each.partition for each in status.partitions])
            self._flows[status.flow] = flow
        if flow is None:
            ended = status.state in _ENDED
            self._complete = self._complete and ended
            return catch_up.Verdict.IN_ERROR if ended else catch_up.Verdict.COPYING
        for each in status.partitions:
            flow.report(
                each.partition,
                copied_to=each.copied_to,
                end=each.source_end,
                stopped=each.stopped,
            )
            self._complete = self._complete and each.source_end >= 0
        result = self._results[status.flow] = flow.progress()
        if not flow.partitions:
            return catch_up.Verdict.IN_ERROR
        if result.verdict is catch_up.Verdict.COPYING and status.state in _ENDED:
            return catch_up.Verdict.IN_ERROR
        return result.verdict

    def _has_nothing_here(self, status: flow_status.FlowStatus, now_s: float) -> bool:
        """Do other nodes have all of its tasks? For good once that has lasted."""
        runs = status.state is flow_status.FlowState.RUNNING
        if not runs or status.copies_here or not status.elsewhere:
            self._nothing_since_s.pop(status.flow, None)
            self._elsewhere.discard(status.flow)
            return False
        since_s = self._nothing_since_s.setdefault(status.flow, now_s)
        if now_s - since_s >= SETTLE_S:
            self._elsewhere.add(status.flow)
        return True

    def _sum_up(self, now_s: float) -> Snapshot:
        results = self._results.values()
        states = set(self._states.values())
        verdict = catch_up.Verdict.CAUGHT_UP
        for worse in (catch_up.Verdict.IN_ERROR, catch_up.Verdict.COPYING):
            if worse in states:
                verdict = worse
        total = sum(each.total for each in results)
        copied = sum(each.copied for each in results)
        failed = {
            flow
            for flow, each in self._states.items()
            if each is catch_up.Verdict.IN_ERROR and flow not in self._elsewhere
        }
        return Snapshot(
            elsewhere=frozenset() if failed else frozenset(self._elsewhere),
            verdict=verdict,
            total=total,
            copied=copied,
            partitions=sum(each.partitions for each in results),
            done=sum(each.done for each in results),
            eta_s=self._eta_s(total, copied, now_s=now_s),
        )

    def _eta_s(self, total: int, copied: int, *, now_s: float) -> float | None:
        if not self._speed or not self._complete:
            return None
        first_s, first = self._speed[0]
        if now_s - first_s < 1.0 or copied <= first:
            return None
        return (total - copied) * (now_s - first_s) / (copied - first)

    def unfinished(
        self, statuses: Sequence[flow_status.FlowStatus]
    ) -> list[tuple[str, ids.TopicPartition | None, str]]:
        """(flow, partition, reason) of all that is not done; partition None: the whole flow."""
        found: list[tuple[str, ids.TopicPartition | None, str]] = []
        for status in statuses:
            if self._states.get(status.flow) is catch_up.Verdict.CAUGHT_UP:
                continue
            if status.state in _ENDED or status.flow not in self._flows or not status.partitions:
                found.append((status.flow, None, _flow_reason(status)))
            flow = self._flows.get(status.flow)
            found.extend(
                (status.flow, each.partition, _partition_reason(each))
                for each in sorted(status.partitions, key=_name)
                if flow is None or not flow.is_done(each.partition)
            )
        return found

    def unfinished_lines(self, statuses: Sequence[flow_status.FlowStatus]) -> list[str]:
        """`unfinished` for people, one line each."""
        found = self.unfinished(statuses)
        lines = [
            f"  {flow}: {reason}" if partition is None else f"  {flow} {partition}: {reason}"
            for flow, partition, reason in found[:LISTED_MAX]
        ]
        if len(found) > LISTED_MAX:
            lines.append(f"  … and {amounts.counted(len(found) - LISTED_MAX, 'more partition')}")
        return lines


def _name(each: flow_status.PartitionStatus) -> ids.TopicPartition:
    return each.partition


def _flow_reason(status: flow_status.FlowStatus) -> str:
    if status.state is flow_status.FlowState.RUNNING:
        return overview.NO_TOPIC if not status.elsewhere else _elsewhere(status)
    return f"{status.state.value}: {status.reason}"


def _elsewhere(status: flow_status.FlowStatus) -> str:
    """`all 2 partitions are assigned to node 10.0.0.1:8083; nothing to replicate here`."""
    nodes = sorted({each.node.partition("/")[0] for each in status.places} - {""})
    where = f"node{'' if len(nodes) == 1 else 's'} {', '.join(nodes)}" if nodes else "other nodes"
    what = f"all {amounts.counted(status.elsewhere, 'partition', 'are')}"
    if status.elsewhere == 1:
        what = "its only partition is"
    return f"{what} assigned to {where}; nothing to replicate here"


def _partition_reason(each: flow_status.PartitionStatus) -> str:
    reason = overview.reason_in_words(each.reason)
    if each.stopped:
        return reason
    behind = each.lag_records
    missing = "" if behind is None else f", {amounts.counted(behind, 'record')} behind"
    return f"{each.phase}{missing}{': ' + reason if reason else ''}"
