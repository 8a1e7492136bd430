"""Coordinator metrics of a group member: requests to the coordinator, and rebalances.

Updated when requests are sent and when responses arrive. Published as attributes of
`connect-coordinator-metrics`. Java: AbstractCoordinator.GroupCoordinatorMetrics.
"""

from __future__ import annotations

from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat, WindowedValues

_MS_PER_S = 1000.0
_SECONDS_PER_HOUR = 3600.0
_NEVER_HAPPENED = -1.0
_HEARTBEAT_API, _JOIN_GROUP_API, _SYNC_GROUP_API = "heartbeat", "join_group", "sync_group"


class CoordinatorMetrics:
    """Coordinator metrics of one member. `now_s` must not decrease.

    A rebalance begins with the first JoinGroup after the last successful rebalance.
    """

    def __init__(self, sampling: SampleWindows) -> None:
        self._heartbeats_ms = WindowedStat(sampling)
        self._heartbeats = 0
        self._heartbeat_sent_s: float | None = None
        self._joins_ms = WindowedStat(sampling)
        self._joins = 0
        self._syncs_ms = WindowedStat(sampling)
        self._syncs = 0
        self._rounds_ms = WindowedStat(sampling)
        self._rebalance_started_s: float | None = None
        self._rebalance_ended_s: float | None = None
        self._failures = WindowedStat(sampling)

    def record_request(self, api: str, now_s: float) -> None:
        """Record that a request to the coordinator was sent. `api` is the request type, as in
        `RequestBuilder.api`.

        Requests other than Heartbeat and JoinGroup are ignored.
        """
        if api == _HEARTBEAT_API:
            self._heartbeat_sent_s = now_s
        elif api == _JOIN_GROUP_API and self._rebalance_started_s is None:
            self._rebalance_started_s = now_s

    def record_response(self, api: str, *, code: int | None, took_s: float, now_s: float) -> None:
        """Record the error code of a response: 0 for success, None if no response was received.

        Heartbeat responses are counted regardless of their error code. As in Java, a JoinGroup
        response with MEMBER_ID_REQUIRED counts as a failed rebalance, although every new member
        receives this error and retries with the returned id.
        """
        if api == _HEARTBEAT_API and code is not None:
            self._heartbeats += 1
            self._heartbeats_ms.observe(took_s * _MS_PER_S, now_s)
        elif api in (_JOIN_GROUP_API, _SYNC_GROUP_API) and code != 0:
            self._failures.observe(1.0, now_s)
        elif api == _JOIN_GROUP_API:
            self._joins += 1
            self._joins_ms.observe(took_s * _MS_PER_S, now_s)
        elif api == _SYNC_GROUP_API:
            self._record_rebalance(took_s, now_s)

    def _record_rebalance(self, took_s: float, now_s: float) -> None:
        """Record a completed rebalance."""
        self._syncs += 1
        self._syncs_ms.observe(took_s * _MS_PER_S, now_s)
        begun_s = now_s if self._rebalance_started_s is None else self._rebalance_started_s
        self._rounds_ms.observe((now_s - begun_s) * _MS_PER_S, now_s)
        self._rebalance_started_s, self._rebalance_ended_s = None, now_s

    def collect_metrics(self, now_s: float) -> dict[str, float]:
        """Return all coordinator metrics except the numbers of assigned connectors and tasks."""
        rounds, failures = (
            self._rounds_ms.compute_statistics(now_s),
            self._failures.compute_statistics(now_s),
        )
        beats = self._heartbeats_ms.compute_statistics(now_s)
        return {
            "heartbeat-rate": beats.count_rate,
            "heartbeat-total": float(self._heartbeats),
            "heartbeat-response-time-max": beats.max,
            "last-heartbeat-seconds-ago": _count_seconds_since(self._heartbeat_sent_s, now_s),
            **_collect_request_metrics(
                "join", self._joins, self._joins_ms.compute_statistics(now_s)
            ),
            **_collect_request_metrics(
                "sync", self._syncs, self._syncs_ms.compute_statistics(now_s)
            ),
            "rebalance-latency-avg": rounds.avg,
            "rebalance-latency-max": rounds.max,
            "rebalance-latency-total": rounds.total,
            "rebalance-total": float(self._syncs),
            "rebalance-rate-per-hour": rounds.count_rate * _SECONDS_PER_HOUR,
            "failed-rebalance-total": failures.total,
            "failed-rebalance-rate-per-hour": failures.count_rate * _SECONDS_PER_HOUR,
            "last-rebalance-seconds-ago": _count_seconds_since(self._rebalance_ended_s, now_s),
        }


def _collect_request_metrics(what: str, number: int, figures: WindowedValues) -> dict[str, float]:
    return {
        f"{what}-rate": figures.count_rate,
        f"{what}-total": float(number),
        f"{what}-time-avg": figures.avg,
        f"{what}-time-max": figures.max,
    }


def _count_seconds_since(at_s: float | None, now_s: float) -> float:
    """Return the whole seconds between two times, as in Java; -1 if `at_s` is None."""
    return _NEVER_HAPPENED if at_s is None else float(int(now_s - at_s))
