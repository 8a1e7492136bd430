"""Liveness and readiness of a process, and when each flow was last replicated. Pure.

Live: the main loop runs. Ready: each flow's worker has joined its group, the connectors are
configured as the file says, and the tasks assigned to this node have started. A task that
restarts stays ready; a task that waits for a Spark slot while others copy does not count; a
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
"""So long the main loop may take to come round."""


class ReplicationEvidence(enum.Enum):
    """What shows that a flow replicates."""

    BATCH = "the target acknowledged a batch"
    NOTHING_LEFT = "all of the source was copied, and its brokers answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReplication:
    """`at_ms` is wall-clock time."""

    at_ms: int
    by: ReplicationEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationInstant:
    """`at_s` is on this process's monotonic clock."""

    at_s: float
    by: ReplicationEvidence


def find_last_replication(
    pulses: Iterable[LatencySnapshot], *, all_move: bool
) -> ReplicationInstant | None:
    """Of the copies of one flow; None while nothing crossed and nothing else is known.

    For one batch that crosses any copy will do, but all must have nothing left; of partitions that
    no copy has just now nobody knows that, unless `all_move`.
    """
    found = list(pulses)
    never_s = latency.NEVER_S
    crossed_s = max((each.crossed_s for each in found), default=never_s)
    idle_s = min((each.idle_s for each in found), default=never_s) if all_move else never_s
    if max(crossed_s, idle_s) == never_s:
        return None
    if crossed_s >= idle_s:
        return ReplicationInstant(at_s=crossed_s, by=ReplicationEvidence.BATCH)
    return ReplicationInstant(at_s=idle_s, by=ReplicationEvidence.NOTHING_LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationActivity:
    """Of a flow that this node copies, or part of it. `last`: None while nothing has crossed since
    it began here, at `begun_ms`. Wall-clock times as of the clock at that look: what it shows then,
    less what has passed by the monotonic clock."""

    begun_ms: int
    last: LastReplication | None

    @property
    def at_ms(self) -> int:
        """Since when nothing has."""
        return self.begun_ms if self.last is None else self.last.at_ms


@dataclass(slots=True)
class ReplicationActivityTracker:
    """When something of each flow crossed last, look by look: what was known goes on counting while
    a copy begins anew, or has failed and tells nothing. By the monotonic clock: however the wall
    clock is set, what has not crossed grows older."""

    _known: dict[str, tuple[float, ReplicationInstant | None, list[int]]] = field(
        default_factory=dict
    )
    """By flow since when it is looked at, the newest moment, and the lives that told it."""

    def look(
        self,
        flow: str,
        pulses: Iterable[LatencySnapshot],
        *,
        copies: bool,
        all_move: bool,
        now_s: float,
        wall_ms: int,
    ) -> ReplicationActivity | None:
        """As of now on both clocks; None where this node `copies` nothing of it, which also forgets
        it. `pulses` and `all_move` as in `find_last_replication`. Of the same lives the newest
        pulses count as they are: where a moment lies on this process's clock is known better by and
        by."""
        if not copies:
            self._known.pop(flow, None)
            return None
        found = list(pulses)
        begun_s, last, told_by = self._known.get(flow, (now_s, None, []))
        now = find_last_replication(found, all_move=all_move)
        lives = sorted(each.life for each in found)
        if now is not None:
            same = last is not None and lives == told_by and now.by is last.by
            if last is None or same or now.at_s >= last.at_s:
                last, told_by = now, lives
        self._known[flow] = begun_s, last, told_by

        def shown_ms(at_s: float) -> int:
            return wall_ms - round((now_s - at_s) * 1000)

        return ReplicationActivity(
            begun_ms=shown_ms(begun_s),
            last=None if last is None else LastReplication(at_ms=shown_ms(last.at_s), by=last.by),
        )

    def keep(self, flows: Collection[str]) -> None:
        """The others are no more."""
        for flow in self._known.keys() - set(flows):
            self._known.pop(flow, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReadiness:
    """How far a flow's worker is in this process. `serves`: the tasks that it was given have
    started and not all have failed, or an operator has stopped it. `reason`: why one of these is
    not so, "" for none."""

    flow: str
    joined: bool
    configured: bool
    serves: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFinding:
    """About one flow, or the process (`flow` "")."""

    well: bool
    reason: str
    flow: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthResult:
    """Well where all findings are."""

    findings: tuple[HealthFinding, ...]

    @property
    def well(self) -> bool:
        return all(each.well for each in self.findings)


def check_liveness(*, silent_s: float, crashed: str) -> HealthResult:
    """`silent_s`: since the main loop came round last; `crashed`: what ended it, "" for nothing."""
    if crashed:
        finding = HealthFinding(well=False, reason=f"an error in mm2 itself: {crashed}")
    elif silent_s > MAIN_LOOP_TIMEOUT_S:
        late = f"the main loop has not come round for {silent_s:.0f} s"
        finding = HealthFinding(
            well=False, reason=f"{late}; allowed are {MAIN_LOOP_TIMEOUT_S:.0f} s"
        )
    else:
        finding = HealthFinding(well=True, reason=f"the main loop came round {silent_s:.1f} s ago")
    return HealthResult(findings=(finding,))


def check_readiness(flows: Sequence[FlowReadiness], *, engine_ready: bool) -> HealthResult:
    """`engine_ready`: copies can be started."""
    engine = "the engine that runs the copies is up" if engine_ready else "the engine starts"
    return HealthResult(
        findings=(
            HealthFinding(well=engine_ready, reason=engine),
            *(_check_flow_readiness(each) for each in flows),
        )
    )


def _check_flow_readiness(of: FlowReadiness) -> HealthFinding:
    stages = (
        (of.joined, "has not joined its group"),
        (of.configured, "its connectors are not configured as the file says"),
        (of.serves, "its tasks do not copy"),
    )
    missing = next((text for reached, text in stages if not reached), None)
    if missing is None:
        reason = of.reason or "joined, configured, copies running"
        return HealthFinding(flow=of.flow, well=True, reason=reason)
    told = f"{missing}: {of.reason}" if of.reason else missing
    return HealthFinding(flow=of.flow, well=False, reason=told)
