"""Evaluates the liveness and readiness of a process, and tracks when each flow last replicated
records. No I/O.

A process is live if its main loop runs. It is ready if each flow's worker has joined its group, the
connectors are configured as in the configuration file, and the tasks assigned to this node have
started. A node remains ready while a task restarts. A task that is waiting for a Spark slot while
others replicate is ignored. A node whose tasks have all failed is not ready. A flow that an
operator has paused or stopped is ready. Whether a flow replicates is decided in
`mm2.status.replication_health`.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from mm2.replication import replication_latency
from mm2.replication.replication_latency import LatencySnapshot

MAIN_LOOP_TIMEOUT_S = 60.0
"""Maximum duration of one main loop iteration in seconds."""


class ReplicationEvidenceKind(enum.Enum):
    """Kind of evidence that a flow is replicating."""

    BATCH = "the target acknowledged a batch"
    NOTHING_LEFT = "all records of the source were replicated, and its brokers responded"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReplication:
    """Latest evidence that a flow is replicating, in wall-clock time."""

    at_ms: int
    evidence: ReplicationEvidenceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class MonotonicLastReplication:
    """Latest evidence that a flow is replicating, on this process's monotonic clock."""

    at_s: float
    evidence: ReplicationEvidenceKind


def find_last_replication(
    pulses: Iterable[LatencySnapshot], *, all_move: bool
) -> MonotonicLastReplication | None:
    """Find the latest evidence of replication in the reports of one flow's copy processes
    (`pulses`); return None if there is none.

    A batch that any process has replicated is evidence. NOTHING_LEFT (all records are replicated)
    is evidence only if all processes report it and every partition of the flow is being replicated
    (`all_move`).
    """
    found = list(pulses)
    never_s = replication_latency.NEVER_S
    crossed_s = max((each.replicated_at_s for each in found), default=never_s)
    idle_s = min((each.caught_up_at_s for each in found), default=never_s) if all_move else never_s
    if max(crossed_s, idle_s) == never_s:
        return None
    if crossed_s >= idle_s:
        return MonotonicLastReplication(at_s=crossed_s, evidence=ReplicationEvidenceKind.BATCH)
    return MonotonicLastReplication(at_s=idle_s, evidence=ReplicationEvidenceKind.NOTHING_LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationActivity:
    """Replication activity of a flow, or of the part of the flow that this node replicates.

    Wall-clock times are recomputed from the monotonic clock in each snapshot, so that they stay
    correct when the wall clock is set.
    """

    begun_ms: int
    """Time when this node started to replicate the flow."""
    last: LastReplication | None
    """Latest evidence of replication at or after `begun_ms`, or None if there is none."""

    @property
    def at_ms(self) -> int:
        """Time of the latest evidence of replication; without evidence, the time when this node
        started to replicate the flow."""
        return self.begun_ms if self.last is None else self.last.at_ms


@dataclass(slots=True)
class ReplicationActivityTracker:
    """Tracks the latest evidence of each flow across snapshots. The evidence is kept while a copy
    process is restarting or does not report. Uses the monotonic clock, so that setting the wall
    clock does not make the evidence appear newer."""

    _known: dict[str, tuple[float, MonotonicLastReplication | None, list[int]]] = field(
        default_factory=dict
    )
    """For each flow: the monotonic time when tracking started, the latest evidence of replication,
    and the incarnations of the copy processes that reported it."""

    def observe(
        self,
        flow: str,
        pulses: Iterable[LatencySnapshot],
        *,
        copies: bool,
        all_move: bool,
        now_s: float,
        wall_ms: int,
    ) -> ReplicationActivity | None:
        """Process the reports of a flow's copy processes (`pulses`). Return the flow's replication
        activity, or None if this node does not replicate the flow.

        `copies` is true if this node replicates partitions of the flow; if it is false, the flow is
        forgotten. `all_move` is true if every partition of the flow is being replicated. `now_s`
        and `wall_ms` are the current monotonic and wall-clock times.

        Evidence from the same processes replaces older evidence even if it has an earlier time,
        because the estimated clock offset of the processes becomes more accurate.
        """
        if not copies:
            self._known.pop(flow, None)
            return None
        found = list(pulses)
        begun_s, last, told_by = self._known.get(flow, (now_s, None, []))
        now = find_last_replication(found, all_move=all_move)
        lives = sorted(each.incarnation for each in found)
        if now is not None:
            same = last is not None and lives == told_by and now.evidence is last.evidence
            if last is None or same or now.at_s >= last.at_s:
                last, told_by = now, lives
        self._known[flow] = begun_s, last, told_by

        def convert_to_wall_clock_ms(at_s: float) -> int:
            return wall_ms - round((now_s - at_s) * 1000)

        return ReplicationActivity(
            begun_ms=convert_to_wall_clock_ms(begun_s),
            last=None
            if last is None
            else LastReplication(at_ms=convert_to_wall_clock_ms(last.at_s), evidence=last.evidence),
        )

    def retain_flows(self, flows: Collection[str]) -> None:
        """Forget all flows except the given ones."""
        for flow in self._known.keys() - set(flows):
            self._known.pop(flow, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReadiness:
    """Readiness of a flow's worker in this process."""

    flow: str
    joined: bool
    configured: bool
    is_serving: bool
    """True if the assigned tasks have started and not all of them have failed. Also true if the
    flow is stopped."""
    reason: str = ""
    """Reason why the flow is not ready, or "" if it is ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFinding:
    """Result of one check, for example whether the worker has joined its group. The check applies
    to one flow, or to the whole process if `flow` is "". `reason` describes the state that was
    found."""

    is_healthy: bool
    reason: str
    flow: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthResult:
    """Result of a health check. The process is healthy if none of the findings is a problem."""

    findings: tuple[HealthFinding, ...]

    @property
    def is_healthy(self) -> bool:
        """True if none of the findings is a problem."""
        return all(each.is_healthy for each in self.findings)


def check_liveness(*, silent_s: float, crashed: str) -> HealthResult:
    """Check that the main loop runs. `silent_s` is the time since its last iteration; `crashed` is
    the error that ended the loop, or "" while it runs."""
    if crashed:
        finding = HealthFinding(is_healthy=False, reason=f"internal error in mm2: {crashed}")
    elif silent_s > MAIN_LOOP_TIMEOUT_S:
        late = f"no iteration of the main loop for {silent_s:.0f} s"
        finding = HealthFinding(
            is_healthy=False, reason=f"{late} (maximum {MAIN_LOOP_TIMEOUT_S:.0f} s)"
        )
    else:
        finding = HealthFinding(
            is_healthy=True, reason=f"last main loop iteration {silent_s:.1f} s ago"
        )
    return HealthResult(findings=(finding,))


def check_readiness(flows: Sequence[FlowReadiness], *, engine_ready: bool) -> HealthResult:
    """Check that the Spark engine can start copy processes (`engine_ready`) and that all flows are
    ready."""
    engine = "the copy engine is ready" if engine_ready else "the copy engine is starting"
    return HealthResult(
        findings=(
            HealthFinding(is_healthy=engine_ready, reason=engine),
            *(_check_flow_readiness(each) for each in flows),
        )
    )


def _check_flow_readiness(of: FlowReadiness) -> HealthFinding:
    stages = (
        (of.joined, "has not joined its group"),
        (of.configured, "the connectors do not have the configuration in the file"),
        (of.is_serving, "its tasks are not running"),
    )
    missing = next((text for reached, text in stages if not reached), None)
    if missing is None:
        reason = of.reason or "joined, configured, tasks running"
        return HealthFinding(flow=of.flow, is_healthy=True, reason=reason)
    told = f"{missing}: {of.reason}" if of.reason else missing
    return HealthFinding(flow=of.flow, is_healthy=False, reason=told)
