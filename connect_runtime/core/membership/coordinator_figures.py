"""What is measured of a group member: requests to the coordinator, and how rounds went.

Observed as requests go out and are answered; read as attributes of `connect-coordinator-metrics`.
Java: AbstractCoordinator.GroupCoordinatorMetrics.
"""

from __future__ import annotations

from connect_runtime.base import sampled

_MS = 1000.0
_HOUR_S = 3600.0
_NEVER = -1.0
_HEARTBEAT, _JOIN, _SYNC = "heartbeat", "join_group", "sync_group"


class CoordinatorFigures:
    """`now_s` never falls. A round begins with the first join after the last one ended well."""

    def __init__(self, sampling: sampled.Sampling) -> None:
        self._heartbeats_ms = sampled.Sampled(sampling)
        self._heartbeats = 0
        self._beat_s: float | None = None
        self._joins_ms = sampled.Sampled(sampling)
        self._joins = 0
        self._syncs_ms = sampled.Sampled(sampling)
        self._syncs = 0
        self._rounds_ms = sampled.Sampled(sampling)
        self._begun_s: float | None = None
        self._ended_s: float | None = None
        self._failures = sampled.Sampled(sampling)

    def sent(self, api: str, now_s: float) -> None:
        """A request of this kind (`messages.Message.api`); others than are measured, too."""
        if api == _HEARTBEAT:
            self._beat_s = now_s
        elif api == _JOIN and self._begun_s is None:
            self._begun_s = now_s

    def answered(self, api: str, *, code: int | None, took_s: float, now_s: float) -> None:
        """With this error code, 0 for none; None: there was no answer.

        A heartbeat counts whatever the code. That a join is refused because a new member has to
        come again with its id counts as a failure, as in Java.
        """
        if api == _HEARTBEAT and code is not None:
            self._heartbeats += 1
            self._heartbeats_ms.observe(took_s * _MS, now_s)
        elif api in (_JOIN, _SYNC) and code != 0:
            self._failures.observe(1.0, now_s)
        elif api == _JOIN:
            self._joins += 1
            self._joins_ms.observe(took_s * _MS, now_s)
        elif api == _SYNC:
            self._synced(took_s, now_s)

    def _synced(self, took_s: float, now_s: float) -> None:
        """The round is complete."""
        self._syncs += 1
        self._syncs_ms.observe(took_s * _MS, now_s)
        begun_s = now_s if self._begun_s is None else self._begun_s
        self._rounds_ms.observe((now_s - begun_s) * _MS, now_s)
        self._begun_s, self._ended_s = None, now_s

    def numbers(self, now_s: float) -> dict[str, float]:
        """All but what is assigned."""
        rounds, failures = self._rounds_ms.figures(now_s), self._failures.figures(now_s)
        beats = self._heartbeats_ms.figures(now_s)
        return {
            "heartbeat-rate": beats.count_rate,
            "heartbeat-total": float(self._heartbeats),
            "heartbeat-response-time-max": beats.max,
            "last-heartbeat-seconds-ago": _ago(self._beat_s, now_s),
            **_requests("join", self._joins, self._joins_ms.figures(now_s)),
            **_requests("sync", self._syncs, self._syncs_ms.figures(now_s)),
            "rebalance-latency-avg": rounds.avg,
            "rebalance-latency-max": rounds.max,
            "rebalance-latency-total": rounds.total,
            "rebalance-total": float(self._syncs),
            "rebalance-rate-per-hour": rounds.count_rate * _HOUR_S,
            "failed-rebalance-total": failures.total,
            "failed-rebalance-rate-per-hour": failures.count_rate * _HOUR_S,
            "last-rebalance-seconds-ago": _ago(self._ended_s, now_s),
        }


def _requests(what: str, number: int, figures: sampled.Figures) -> dict[str, float]:
    return {
        f"{what}-rate": figures.count_rate,
        f"{what}-total": float(number),
        f"{what}-time-avg": figures.avg,
        f"{what}-time-max": figures.max,
    }


def _ago(at_s: float | None, now_s: float) -> float:
    """Whole seconds, as Java's."""
    return _NEVER if at_s is None else float(int(now_s - at_s))
