"""How the demo waits: for the mirror to get on, and for a signal."""

from __future__ import annotations

import collections
from collections.abc import Callable

from connect_runtime.base import clock, errors
from connect_runtime.system import polling
from mm2.connectors import flow_status

STALLED_S = 90.0
LOOK_S = 0.1


class DemoFailedError(errors.FatalError):
    """The demo came to a point from which it could not go on."""


class StoppedError(Exception):
    """A signal asked to stop; not a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.number = number


class Waits:
    """`flow` and `crashed` tell how the mirror is; `stop_signal` which signal came, if any."""

    def __init__(
        self,
        now: clock.Clock,
        stop_signal: Callable[[], int | None],
        *,
        flow: Callable[[], flow_status.FlowStatus],
        crashed: Callable[[], str],
    ) -> None:
        self._clock = now
        self._stop_signal = stop_signal
        self._flow = flow
        self._crashed = crashed

    def raise_if_stopped(self) -> None:
        """Raises `StoppedError`."""
        number = self._stop_signal()
        if number is not None:
            raise StoppedError(number)

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Until it is done; fails when the mirror does, or stands still for too long."""
        # News is what was never seen in this wait: copies that come and go are none.
        seen: set[object] = set()
        news_s = self._clock.now_s()
        while not done():
            self._check()
            standing = self._standing()
            if standing not in seen:
                seen.add(standing)
                news_s = self._clock.now_s()
            elif self._clock.now_s() - news_s > STALLED_S:
                raise DemoFailedError(
                    f"{what}: nothing new for {STALLED_S:.0f} s: {self._in_words()}"
                )
            self._pause()
        self._check()

    def in_time(self, done: Callable[[], bool], what: str) -> None:
        """Until it is done, whatever the mirror does; fails when that takes too long."""
        end_s = self._clock.now_s() + STALLED_S
        while not done():
            self.raise_if_stopped()
            if self._clock.now_s() > end_s:
                raise DemoFailedError(f"{what}: not within {STALLED_S:.0f} s: {self._in_words()}")
            self._pause()

    def _pause(self) -> None:
        polling.until(lambda: self._stop_signal() is not None, timeout_s=LOOK_S)

    def _check(self) -> None:
        self.raise_if_stopped()
        flow = self._flow()
        if self._crashed() or flow.state is flow_status.FlowState.FAILED:
            raise DemoFailedError(f"the mirror has ended: {self._crashed() or flow.reason}")

    def _standing(self) -> object:
        flow = self._flow()
        return (
            flow.state,
            tuple(each.state for each in flow.tasks),
            frozenset(each.phase for each in flow.partitions),
            sum(each.copied_to for each in flow.partitions),
        )

    def _in_words(self) -> str:
        flow = self._flow()
        tasks = ", ".join(f"{each.state.value} {each.reason}".rstrip() for each in flow.tasks)
        phases = collections.Counter(
            f"{each.phase} {each.reason}".rstrip() for each in flow.partitions
        )
        behind = [str(each.partition) for each in flow.partitions if each.lag_records != 0]
        return (
            f"the flow is {flow.state.value}, its tasks {tasks or 'unknown'}; partitions: "
            + (", ".join(f"{count} {phase}" for phase, count in sorted(phases.items())) or "none")
            + f"; copied up to {sum(each.copied_to for each in flow.partitions):,} in all; "
            f"behind: {', '.join(behind[:5]) or 'none'}"
        )
