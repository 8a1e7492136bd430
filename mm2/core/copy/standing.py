"""Where a partition's copy stands, why, and until when."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from random import Random

from connect_runtime.base import backoff
from mm2.core.copy import stops

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 10.0


class Phase(enum.Enum):
    """Where a partition stands; `WAITING` ends by itself, `STOPPED` when it says so, else never."""

    WAITING = "waiting"
    TAKING = "taking"
    COPYING = "copying"
    BOUNDARY = "boundary"
    STOPPED = "stopped"
    FENCED = "fenced"
    CLOSED = "closed"


def _backoff() -> backoff.Backoff:
    return backoff.Backoff(initial_s=BACKOFF_FIRST_S, max_s=BACKOFF_MAX_S)


@dataclass(slots=True, kw_only=True)
class Standing:
    """`reason` says why nothing is copied, "" for no reason; `stop` what a person can do about it.

    `wake_at_s`: when what waits or stands still is taken again (monotonic seconds, infinity for
    never). `closing`: it was asked to end. `recreated`: another topic has this name now, and
    nothing is taken any more. `backoff` grows with every wait until a batch is stored.
    """

    phase: Phase = Phase.WAITING
    reason: str = "not started"
    stop: stops.Stop | None = None
    recreated: stops.Stop | None = None
    closing: bool = False
    wake_at_s: float = 0.0
    backoff: backoff.Backoff = field(default_factory=_backoff)
    _trouble: str = ""

    @property
    def idle(self) -> bool:
        """Does it wait, or stand still, so that nothing is going on?"""
        return self.phase in (Phase.WAITING, Phase.STOPPED)

    @property
    def restless(self) -> bool:
        """While nothing is copied: is something due soon?"""
        match self.phase:
            case Phase.WAITING:
                return True
            case Phase.STOPPED:
                return self.closing or self.wake_at_s < float("inf")
            case _:
                return False

    def take(self) -> None:
        again = f" again; it began with: {self._trouble}" if self._trouble else ""
        self._begin_script(f"fencing and pairing{again}")
        self.stop = None

    def ask_by_whom(self) -> None:
        self._begin_script("fenced; asking the map by whom")

    def _begin_script(self, reason: str) -> None:
        self.phase = Phase.TAKING
        self.reason = reason

    def copy(self) -> None:
        self.phase = Phase.COPYING
        self.reason = self._trouble = ""

    def cross(self) -> None:
        """Nothing is in flight: a transaction is opened or committed, or the fence renewed."""
        self.phase = Phase.BOUNDARY

    def wait(self, reason: str, now_s: float, *, random: Random) -> None:
        """Until the backoff has passed; the first reason since the last copying stays named."""
        self.phase = Phase.WAITING
        self._trouble = self._trouble or reason
        first = self._trouble == reason
        self.reason = reason if first else f"{reason}; it began with: {self._trouble}"
        self.wake_at_s = now_s + self.backoff.next_delay_s(random)

    def stand_still(self, stop: stops.Stop, now_s: float) -> None:
        self.phase = Phase.STOPPED
        self.stop = stop
        self.reason = stop.message
        self.wake_at_s = now_s + stop.retry_after_s if stop.retry_after_s else float("inf")

    def fence_off(self, reason: str) -> None:
        """Another owner has the partition; nothing leads out of this."""
        self.phase = Phase.FENCED
        self.reason = reason
        self.stop = stops.Stop(cause=stops.Cause.FENCED, message=reason)

    def close(self) -> None:
        self.phase = Phase.CLOSED
