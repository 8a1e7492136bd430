"""Liveness and readiness of a process, and when each flow was last replicated. Pure.

Live: the main loop runs. Ready: each flow's worker has joined its group, the connectors are
configured as in the file, and the tasks assigned to this node have started. A task that
restarts stays ready; a task that waits for a Spark slot while others replicate does not count; a
node whose tasks have all failed is not ready. A flow that an operator has paused or stopped is
ready. Whether a flow replicates is decided in `mm2.status.replication_health`.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from mm2.replication import latency
from mm2.replication.latency import LatencySnapshot

MAIN_LOOP_TIMEOUT_S = 60.0
"""Maximum duration of one iteration of the main loop."""


class ReplicationEvidence(enum.Enum):
    """Evidence that a flow replicates."""

    BATCH = "the target acknowledged a batch"
    NOTHING_LEFT = "all of the source was copied, and its brokers answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReplication:
    """When there was last evidence, in wall-clock time."""

    at_ms: int
    evidence: ReplicationEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationInstant:
    """When there was last evidence, on this process's monotonic clock."""

    at_s: float
    evidence: ReplicationEvidence


def find_last_replication(
    pulses: Iterable[LatencySnapshot], *, all_move: bool
) -> ReplicationInstant | None:
    """Find the last evidence in one flow's copy processes; None if there is none.

    A batch replicated by any of them counts, but NOTHING_LEFT needs all of them. `all_move`: every
    partition of the flow is being replicated; otherwise NOTHING_LEFT cannot be known.
    """
    found = list(pulses)
    never_s = latency.NEVER_S
    crossed_s = max((each.replicated_at_s for each in found), default=never_s)
    idle_s = min((each.caught_up_at_s for each in found), default=never_s) if all_move else never_s
    if max(crossed_s, idle_s) == never_s:
        return None
    if crossed_s >= idle_s:
        return ReplicationInstant(at_s=crossed_s, evidence=ReplicationEvidence.BATCH)
    return ReplicationInstant(at_s=idle_s, evidence=ReplicationEvidence.NOTHING_LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationActivity:
    """Replication activity of a flow, or the part of it that this node replicates.

    Wall-clock times are computed from the monotonic clock, so that they move with the wall clock.
    """

    begun_ms: int
    """When this node started to replicate the flow."""
    last: LastReplication | None
    """Last evidence since then, None if there is none."""

    @property
    def at_ms(self) -> int:
        """When there was last evidence, or when the node started."""
        return self.begun_ms if self.last is None else self.last.at_ms


@dataclass(slots=True)
class ReplicationActivityTracker:
    """Tracks the last evidence of each flow across snapshots: it is kept while a copy process
    restarts or does not report. Uses the monotonic clock, so that setting the wall clock does not
    make evidence younger."""

    _known: dict[str, tuple[float, ReplicationInstant | None, list[int]]] = field(
        default_factory=dict
    )
    """By flow: start of tracking, last evidence, and the processes that reported it."""

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
        """Process a snapshot; returns the activity as of now on both clocks.

        Returns None, and forgets the flow, if this node does not replicate it (`copies`). See
        `find_last_replication` for `pulses` and `all_move`. The same processes' newer reports
        replace older ones: their offset to this process's clock becomes more accurate.
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

        def shown_ms(at_s: float) -> int:
            return wall_ms - round((now_s - at_s) * 1000)

        return ReplicationActivity(
            begun_ms=shown_ms(begun_s),
            last=None
            if last is None
            else LastReplication(at_ms=shown_ms(last.at_s), evidence=last.evidence),
        )

    def retain_flows(self, flows: Collection[str]) -> None:
        """Forget all other flows."""
        for flow in self._known.keys() - set(flows):
            self._known.pop(flow, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReadiness:
    """Readiness of a flow's worker in this process."""

    flow: str
    joined: bool
    configured: bool
    is_serving: bool
    """True if its assigned tasks have started and not all have failed, or if it is stopped."""
    reason: str = ""
    """Why one of these is false, "" if none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFinding:
    """A finding about one flow, or about the process (`flow` is "")."""

    is_healthy: bool
    reason: str
    flow: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthResult:
    """Healthy if all findings are."""

    findings: tuple[HealthFinding, ...]

    @property
    def is_healthy(self) -> bool:
        """True if all findings are healthy."""
        return all(each.is_healthy for each in self.findings)


def check_liveness(*, silent_s: float, crashed: str) -> HealthResult:
    """Check the main loop. `silent_s`: seconds since its last iteration; `crashed`: error that
    ended it, "" if it runs."""
    if crashed:
        finding = HealthFinding(is_healthy=False, reason=f"an error in mm2 itself: {crashed}")
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
    """Check the engine and all flows. `engine_ready`: copy processes can be started."""
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
        (of.configured, "its connectors are not configured as in the file"),
        (of.is_serving, "its tasks are not running"),
    )
    missing = next((text for reached, text in stages if not reached), None)
    if missing is None:
        reason = of.reason or "joined, configured, tasks running"
        return HealthFinding(flow=of.flow, is_healthy=True, reason=reason)
    told = f"{missing}: {of.reason}" if of.reason else missing
    return HealthFinding(flow=of.flow, is_healthy=False, reason=told)
