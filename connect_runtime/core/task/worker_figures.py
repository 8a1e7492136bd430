"""What is measured of a worker: how starts ended, and what its tasks are doing.

Values of `metric_names`' groups WORKER and TASKS_OF_CONNECTOR. Java: WorkerMetricsGroup,
Worker.ConnectorStatusMetricsGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from connect_runtime.base import sampled
from connect_runtime.core.state import status_records

_State = status_records.State


class Startups:
    """Of connectors, or of tasks (`what`)."""

    def __init__(self, what: str, sampling: sampled.Sampling) -> None:
        self._what = what
        self._outcomes = sampled.Sampled(sampling)
        self._attempts = 0

    def ended(self, now_s: float, *, well: bool) -> None:
        """It runs, or it failed before it ever ran."""
        self._attempts += 1
        self._outcomes.observe(1.0 if well else 0.0, now_s)

    def numbers(self, now_s: float) -> dict[str, float]:
        outcomes = self._outcomes.figures(now_s)
        values = {
            "attempts-total": float(self._attempts),
            "success-total": outcomes.total,
            "success-percentage": outcomes.share,
            "failure-total": self._attempts - outcomes.total,
            "failure-percentage": outcomes.share_of_zeros,
        }
        return {f"{self._what}-startup-{name}": value for name, value in values.items()}


class FirstSaid:
    """Whether a start has ended, going by what a connector or task says of itself in order.

    It succeeded when RUNNING is said; it failed when FAILED is said first. PAUSED before either
    is no end. It ends once. Java: WorkerMetricsGroup's listeners.
    """

    def __init__(self) -> None:
        self._ended = False

    def well(self, state: _State) -> bool | None:
        """Whether it ended well with this; None: it did not end with this."""
        if self._ended or state not in (_State.RUNNING, _State.FAILED):
            return None
        self._ended = True
        return state is _State.RUNNING


def task_counts(states: Iterable[_State]) -> dict[str, float]:
    """Of one connector's tasks on this worker; STOPPED is no state of tasks."""
    counts = Counter(states)
    named = {
        f"connector-{state.value.lower()}-task-count": float(counts[state])
        for state in _State
        if state is not _State.STOPPED
    }
    return {"connector-total-task-count": float(counts.total()), **named}
