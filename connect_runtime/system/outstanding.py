"""Work that was begun and has not ended, and waiting for all that was begun by now."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Outstanding:
    """Any thread may begin, end and wait.

    Invariant: `_numbers` are in the order of their beginnings.
    """

    _begun: int = 0
    _numbers: dict[int, None] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __len__(self) -> int:
        return len(self._numbers)

    def begin(self) -> int:
        """A number to end it with."""
        with self._changed:
            self._begun += 1
            self._numbers[self._begun] = None
            self._changed.notify_all()
            return self._begun

    def end(self, number: int) -> None:
        with self._changed:
            self._numbers.pop(number, None)
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Until all has ended that had begun before this call; False when time is up."""
        with self._changed:
            last = self._begun
            return self._changed.wait_for(lambda: self._oldest() > last, timeout=timeout_s)

    def wait_for_some(self, timeout_s: float) -> bool:
        """Until anything is under way; False when time is up."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._numbers), timeout=timeout_s)

    def _oldest(self) -> int:
        return next(iter(self._numbers), self._begun + 1)
