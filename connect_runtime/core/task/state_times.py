"""How a task or connector has divided its time among states: the `*-ratio` metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect_runtime.core.state import status_records


@dataclass(slots=True)
class StateTimes:
    """Invariant: `_spent_s` is of states left; the time in the present one is still running."""

    state: status_records.State | None = None
    _since_s: float = 0.0
    _spent_s: dict[status_records.State, float] = field(default_factory=dict)

    def enter(self, state: status_records.State, now_s: float) -> None:
        """From now on it is in this state; time begins with the first. Again is nothing new."""
        if state is self.state:
            return
        if self.state is not None:
            self._spent_s[self.state] = self._in(self.state, now_s)
        self.state, self._since_s = state, now_s

    def _in(self, state: status_records.State, now_s: float) -> float:
        running_s = now_s - self._since_s if state is self.state else 0.0
        return self._spent_s.get(state, 0.0) + running_s

    def ratio(self, state: status_records.State, now_s: float) -> float:
        """The share of all time so far that was spent in `state`, 0 before time began."""
        total_s = sum(self._spent_s.values()) + (now_s - self._since_s if self.state else 0.0)
        return 0.0 if total_s == 0 else self._in(state, now_s) / total_s
