"""The transaction coordinator of the one transactional id (`TransactionCoordinator`, version 1).

InitProducerId aborts what is open and answers 51 until its marker is written; EndTxn answers before
the marker is written; a transaction that is open for too long is aborted under a newer epoch; an id
that nobody uses is forgotten, and comes back with another producer id.
"""

from __future__ import annotations

import enum

from tests.model.delivery import target_log
from tests.model.delivery.events import Events
from tests.model.delivery.target_log import TargetLog
from tests.model.delivery.weather import Weather

INVALID_EPOCH = 47
INVALID_STATE = 48
UNKNOWN_ID = 49
BUSY = 51
NO_RIGHT = 53
FENCED = 90

TIMEOUT_S = 60.0
LAST_EPOCH = 32_766


class State(enum.Enum):
    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare commit"
    PREPARE_ABORT = "prepare abort"
    COMMITTED = "complete commit"
    ABORTED = "complete abort"


_PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)


class Coordinator:
    """Invariant: a marker is on its way exactly while the state is one of the prepared ones."""

    def __init__(self, world: Events, conditions: Weather, target: TargetLog) -> None:
        self._world = world
        self._random = world.random
        self._weather = conditions
        self._target = target
        self.calm = False
        self.denied = conditions.unfenced
        self.ids_given: list[int] = []
        self.asked = 0
        self._id = -1
        self._epoch = -1
        self._state = State.EMPTY
        self._used_s = 0.0
        self._transactions = 0
        self._plain_ids = 0
        target.verify = self.is_ongoing

    def is_ongoing(self, producer: int, epoch: int) -> bool:
        """Does the partition belong to an open transaction of this producer?"""
        return self._state is State.ONGOING and (producer, epoch) == (self._id, self._epoch)

    def another_id(self) -> int:
        """For who has no transactional id."""
        self._plain_ids += 1
        return 90_000 + self._plain_ids

    def init_producer(self) -> tuple[int, int, int]:
        """(error code, producer id, epoch)"""
        self.asked += 1
        if self.denied:
            return NO_RIGHT, -1, -1
        self._forget_if_unused()
        if self._state in _PREPARED:
            return BUSY, -1, -1
        if self._state is State.ONGOING:
            self._epoch += 1
            self._prepare(commit=False)
            return BUSY, -1, -1
        if self._id < 0 or self._epoch >= LAST_EPOCH:
            self._id = 5000 + len(self.ids_given)
            self.ids_given.append(self._id)
            self._epoch = LAST_EPOCH - 4 if self._weather.few_epochs else -1
        self._epoch += 1
        self._state = State.EMPTY
        self._use()
        return 0, self._id, self._epoch

    def change_rights(self) -> None:
        self.denied = not self.denied
        self._world.note("txn", f"denied: {self.denied}")

    def add_partition(self, producer: int, epoch: int) -> int:
        code = self._refusal(producer, epoch)
        if code:
            return code
        if self._state in _PREPARED:
            return BUSY
        if self._state is not State.ONGOING:
            self._state = State.ONGOING
            self._transactions += 1
            number = self._transactions
            self._world.after(TIMEOUT_S, lambda: self._time_out(number))
        self._use()
        return 0

    def end(self, producer: int, epoch: int, *, commit: bool) -> int:
        code = self._refusal(producer, epoch)
        if code:
            return code
        match self._state:
            case State.ONGOING:
                self._prepare(commit=commit)
                return 0
            case State.COMMITTED if commit:
                return 0
            case State.ABORTED if not commit:
                return 0
            case State.PREPARE_COMMIT if commit:
                return BUSY
            case State.PREPARE_ABORT if not commit:
                return BUSY
        return INVALID_STATE

    def _refusal(self, producer: int, epoch: int) -> int:
        self._forget_if_unused()
        if producer != self._id:
            return UNKNOWN_ID
        if epoch != self._epoch:
            return self._random.choice((INVALID_EPOCH, FENCED))
        return 0

    def _prepare(self, *, commit: bool) -> None:
        self._state = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
        self._use()
        slow = not self.calm and self._random.random() < 0.1
        delay_s = self._random.choice((0.05, 1.0, 5.0)) if slow else 0.001
        self._world.after(delay_s, self._write_marker)

    def _write_marker(self) -> None:
        if self._state not in _PREPARED:
            return
        commit = self._state is State.PREPARE_COMMIT

        def written(code: int, base: int) -> None:
            del base
            if self._state not in _PREPARED:
                return
            again = code not in (0, target_log.OLD_EPOCH)
            if again or (not self.calm and self._random.random() < 0.03):
                self._world.after(0.02, self._write_marker)  # or its answer was lost
                return
            self._state = State.COMMITTED if commit else State.ABORTED

        self._target.append_marker(self._id, self._epoch, commit=commit, reply=written)

    def _time_out(self, number: int) -> None:
        if self._state is State.ONGOING and self._transactions == number:
            self._world.note("txn", "timed out")
            self._epoch += 1
            self._prepare(commit=False)

    def _use(self) -> None:
        self._used_s = self._world.now_s

    def _forget_if_unused(self) -> None:
        idle = self._state is not State.ONGOING and self._state not in _PREPARED
        if idle and self._world.now_s - self._used_s > self._weather.id_expiry_s:
            if self._id >= 0:
                self._world.note("txn", f"forgot producer id {self._id}")
            self._id = self._epoch = -1
            self._state = State.EMPTY
