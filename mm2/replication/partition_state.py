"""The state of a partition's copy, its reason, and when it is tried again."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from random import Random

from connect_runtime.base.backoff import Backoff
from mm2 import operator_commands
from mm2.replication.halts import HaltCause, PartitionHalt
from mm2.replication.retries import RetryCounter

BACKOFF_INITIAL_S = 0.1
BACKOFF_MAX_S = 10.0
HALT_RETRY_MAX_S = 600.0
"""Every retry is a take: a producer epoch, and a marker on the mirror."""
TRANSIENT_RETRIES = 5
"""What may pass by itself is waited for so often before it counts as lasting (some seconds)."""


class PartitionPhase(enum.Enum):
    """Where a partition stands; `WAITING` ends by itself, `STOPPED` when it says so, else never."""

    WAITING = "waiting"
    TAKING = "taking"
    COPYING = "copying"
    BOUNDARY = "boundary"
    STOPPED = "stopped"
    FENCED = "fenced"
    CLOSED = "closed"


def _create_backoff() -> Backoff:
    return Backoff(initial_s=BACKOFF_INITIAL_S, max_s=BACKOFF_MAX_S)


@dataclass(slots=True, kw_only=True)
class PartitionState:
    """`reason` says why nothing is copied, "" for no reason; `stop` what a person can do about it.

    `wake_at_s`: when what waits or stands still is taken again (monotonic seconds, infinity for
    never). `closing`: it was asked to end. `others`: by side (is it the target's?) that another
    topic has this name now; nothing is taken meanwhile. `backoff` grows with every wait until a
    batch is stored, and so does what the same stop waits in a row; `troubled` while there is such a
    wait to forget.
    """

    phase: PartitionPhase = PartitionPhase.WAITING
    reason: str = "not started"
    stop: PartitionHalt | None = None
    others: dict[bool, PartitionHalt] = field(default_factory=dict)
    closing: bool = False
    wake_at_s: float = 0.0
    backoff: Backoff = field(default_factory=_create_backoff)
    troubled: bool = False
    _trouble: str = ""
    _passing: RetryCounter = field(default_factory=RetryCounter)
    _stops: RetryCounter = field(default_factory=RetryCounter)

    @property
    def recreated(self) -> PartitionHalt | None:
        """Why nothing may be taken: another topic has this name now."""
        return next(iter(self.others.values()), None)

    @property
    def idle(self) -> bool:
        """Does it wait, or stand still, so that nothing is going on?"""
        return self.phase in (PartitionPhase.WAITING, PartitionPhase.STOPPED)

    @property
    def restless(self) -> bool:
        """While nothing is copied: is something due soon?"""
        match self.phase:
            case PartitionPhase.WAITING:
                return True
            case PartitionPhase.STOPPED:
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
        self.phase = PartitionPhase.TAKING
        self.reason = reason

    def copy(self) -> None:
        self.phase = PartitionPhase.COPYING
        self.reason = self._trouble = ""

    def cross(self) -> None:
        """Nothing is in flight: a transaction is opened or committed, the fence renewed, or asked
        who wrote what comes next."""
        self.phase = PartitionPhase.BOUNDARY

    def wait(self, reason: str, now_s: float, *, random: Random) -> None:
        """Until the backoff has passed; the first reason since the last copying stays named."""
        self.phase = PartitionPhase.WAITING
        self._trouble = self._trouble or reason
        first = self._trouble == reason
        self.reason = reason if first else f"{reason}; it began with: {self._trouble}"
        self.wake_at_s = now_s + self.backoff.next_delay_s(random)
        self.troubled = True

    def lasts(self, stop: PartitionHalt, now_s: float) -> bool:
        """Has this, which may pass by itself, come so often in a row that it is a stop?"""
        self.troubled = True
        if self._stops.goes_on(stop.cause, now_s):
            return True
        return self._passing.came(stop.cause, now_s) >= TRANSIENT_RETRIES

    def stand_still(self, stop: PartitionHalt, now_s: float) -> None:
        """For good, or for `stop.retry_after_s`, twice as long each time that it comes back."""
        self.phase = PartitionPhase.STOPPED
        self.stop = stop
        self.reason = stop.text
        self.wake_at_s = float("inf")
        if stop.retry_after_s is not None:
            self.troubled = True
            doublings = min(self._stops.came(stop.cause, now_s), 16)
            wait_s = min(stop.retry_after_s * 2.0**doublings, HALT_RETRY_MAX_S)
            self.wake_at_s = now_s + wait_s
            self._stops.rest_until(self.wake_at_s)
            note = f"The next attempt is in {wait_s:.0f} s."
            self.reason = operator_commands.insert_note(self.reason, note)

    def stored(self) -> None:
        """A batch is stored: what comes from now on begins with short waits again. But two owners
        that fence each other both store batches in between."""
        self.backoff.reset()
        for each in (self._passing, self._stops):
            if each.cause is not HaltCause.FENCED:
                each.end()
        self.troubled = False

    def fence_off(self, stop: PartitionHalt) -> None:
        """Another owner has the partition; nothing leads out of this."""
        self.phase = PartitionPhase.FENCED
        self.reason = stop.text
        self.stop = stop

    def close(self) -> None:
        self.phase = PartitionPhase.CLOSED
