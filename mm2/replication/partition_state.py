"""State of a partition, the reason for that state, and the time of the next attempt to replicate
it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from random import Random

from connect_runtime.base.backoff import Backoff
from mm2 import suggested_commands
from mm2.replication import partition_retry_delays
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_retry_delays import RetryCounter


class PartitionPhase(enum.Enum):
    """Phase of a partition. `WAITING` ends automatically, `HALTED` only if the halt has a retry
    time."""

    WAITING = "waiting"
    ACQUIRING = "acquiring"
    COPYING = "copying"
    BOUNDARY = "boundary"
    HALTED = "halted"
    FENCED = "fenced"
    CLOSED = "closed"


@dataclass(slots=True, kw_only=True)
class PartitionState:
    """Phase of a partition, the reason for it, and the time of the next attempt."""

    phase: PartitionPhase = PartitionPhase.WAITING
    reason: str = "not started"
    """Reason why nothing is being replicated; "" while replicating."""
    halt: PartitionHalt | None = None
    """The halt with its remedy, if the partition is halted."""
    replaced_topics: dict[bool, PartitionHalt] = field(default_factory=dict)
    """Halts for topics that were recreated under the same name, keyed by cluster: True for the
    target, False for the source. The partition is not acquired while any halt is present."""
    closing: bool = False
    """True after a shutdown was requested."""
    wake_at_s: float = 0.0
    """Time at which a waiting or halted partition is retried (monotonic seconds; infinity for
    never)."""
    backoff: Backoff = field(default_factory=partition_retry_delays.create_backoff)
    """Delay between retries, which increases until a batch is stored."""
    has_errors: bool = False
    """True if retry delays must be reset once a batch is stored."""
    _first_error: str = ""
    _transient_errors: RetryCounter = field(default_factory=RetryCounter)
    _halts: RetryCounter = field(default_factory=RetryCounter)

    @property
    def recreated_topic_halt(self) -> PartitionHalt | None:
        """The halt for a topic that was recreated under the same name; None if neither topic was
        recreated."""
        return next(iter(self.replaced_topics.values()), None)

    @property
    def is_idle(self) -> bool:
        """Return True if the partition is waiting or halted, so that no script (generator of
        instructions) is running."""
        return self.phase in (PartitionPhase.WAITING, PartitionPhase.HALTED)

    @property
    def needs_tick_soon(self) -> bool:
        """Return True if a tick is due soon although nothing is being replicated."""
        match self.phase:
            case PartitionPhase.WAITING:
                return True
            case PartitionPhase.HALTED:
                return self.closing or self.wake_at_s < float("inf")
            case _:
                return False

    def begin_acquiring(self) -> None:
        """Begin acquiring the partition."""
        again = f" again; first error: {self._first_error}" if self._first_error else ""
        self._begin_script(f"fencing the partition and matching the target's tail{again}")
        self.halt = None

    def begin_owner_check(self) -> None:
        self._begin_script("fenced; looking for the new owner in the offset map")

    def _begin_script(self, reason: str) -> None:
        self.phase = PartitionPhase.ACQUIRING
        self.reason = reason

    def begin_copying(self) -> None:
        self.phase = PartitionPhase.COPYING
        self.reason = self._first_error = ""

    def begin_pause_between_batches(self) -> None:
        """Enter a boundary: a pause without batches in flight. In the pause, a transaction is
        opened or committed, the fence is renewed, or it is determined which producer ids belong to
        the reverse flow."""
        self.phase = PartitionPhase.BOUNDARY

    def begin_backoff(self, reason: str, now_s: float, *, random: Random) -> None:
        """Wait for the backoff. The stored reason is the first error since replication stopped."""
        self.phase = PartitionPhase.WAITING
        self._first_error = self._first_error or reason
        first = self._first_error == reason
        self.reason = reason if first else f"{reason}; first error: {self._first_error}"
        self.wake_at_s = now_s + self.backoff.next_delay_s(random)
        self.has_errors = True

    def record_error_and_check_persistence(self, stop: PartitionHalt, now_s: float) -> bool:
        """Return True if a transient error has recurred so often that the partition must be
        halted."""
        self.has_errors = True
        if self._halts.is_problem_repeated(stop.cause, now_s):
            return True
        return (
            self._transient_errors.count_problem_occurrence(stop.cause, now_s)
            >= partition_retry_delays.TRANSIENT_RETRIES
        )

    def halt_partition(self, stop: PartitionHalt, now_s: float) -> None:
        """Halt the partition for `stop.retry_after_s` seconds. The time is doubled each time the
        same cause recurs. If `retry_after_s` is None, the partition is halted until an operator
        acts."""
        self.phase = PartitionPhase.HALTED
        self.halt = stop
        self.reason = stop.coded_message
        self.wake_at_s = float("inf")
        if stop.retry_after_s is not None:
            self.has_errors = True
            doublings = min(self._halts.count_problem_occurrence(stop.cause, now_s), 16)
            wait_s = min(
                stop.retry_after_s * 2.0**doublings, partition_retry_delays.HALT_RETRY_MAX_S
            )
            self.wake_at_s = now_s + wait_s
            self._halts.keep_count_past_next_attempt(self.wake_at_s)
            note = f"The next attempt is in {wait_s:.0f} s."
            self.reason = suggested_commands.insert_sentence_before_remedy(self.reason, note)

    def reset_retries(self) -> None:
        """Reset the retry delays after a batch was stored.

        Repetitions of the cause FENCED remain counted, because two owners that alternately fence
        each other both store batches.
        """
        self.backoff.reset()
        for each in (self._transient_errors, self._halts):
            if each.cause is not HaltCause.FENCED:
                each.reset_problem_count()
        self.has_errors = False

    def mark_fenced(self, stop: PartitionHalt) -> None:
        """Enter the phase FENCED because another owner acquired the partition. The partition does
        not leave this phase."""
        self.phase = PartitionPhase.FENCED
        self.reason = stop.coded_message
        self.halt = stop

    def close(self) -> None:
        self.phase = PartitionPhase.CLOSED
