"""A log that is folded as it is read: what the three stores have in common."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from connect_runtime.core.state import skipped
from connect_runtime.ports import shared_log

_LOG = logging.getLogger(__name__)

Change = TypeVar("Change")
Change_co = TypeVar("Change_co", covariant=True)


class Fold(Protocol[Change_co]):
    """As `core.state` has them."""

    def apply(
        self, key: bytes | None, value: bytes | None, *, offset: int
    ) -> Change_co | skipped.Skipped | None: ...


AnyFold = TypeVar("AnyFold", bound=Fold[Any])


def _take(fold: Fold[Change], record: shared_log.LogRecord) -> Change | skipped.Skipped | None:
    """What is in a record, whoever wrote it."""
    return fold.apply(record.key, record.value, offset=record.offset)


class FoldedLog(Generic[AnyFold, Change]):
    """Implements `shared_log.Listener`. Hold `lock` to look at `fold`.

    Invariant: `fold` has all that was told so far; when the log starts over it stays as it was
    until the new one has caught up, so nobody sees a half.
    """

    def __init__(
        self,
        *,
        make: Callable[[], AnyFold],
        on_change: Callable[[Change], None],
        on_replayed: Callable[[AnyFold | None, AnyFold], None] = lambda _before, _now: None,
        take: Callable[[AnyFold, shared_log.LogRecord], Change | skipped.Skipped | None] = _take,
    ) -> None:
        """`on_change` hears what records changed, after `fold` did; `on_replayed` the fold that
        stood before the log was started over (None the first time), and the one that stands now,
        with the lock held. Both are called on the log's thread. `take` has a fold take a record."""
        self.lock = threading.RLock()
        self.fold = make()
        self._make = make
        self._on_change = on_change
        self._on_replayed = on_replayed
        self._take = take
        self._replayed_once = False
        self._anew: AnyFold | None = None

    def on_record(self, record: shared_log.LogRecord) -> None:
        """See `shared_log.Listener`; so for all below."""
        with self.lock:
            fold = self.fold if self._anew is None else self._anew
            change = self._take(fold, record)
        if isinstance(change, skipped.Skipped):
            _LOG.warning(
                "skipping the record of %s-%d at offset %d: %s",
                record.topic,
                record.partition,
                record.offset,
                change.reason,
            )
        elif change is not None:
            self._on_change(change)

    def on_replayed(self) -> None:
        with self.lock:
            before = self.fold if self._replayed_once else None
            if self._anew is not None:
                self.fold, self._anew = self._anew, None
            self._replayed_once = True
            self._on_replayed(before, self.fold)

    def on_start_over(self) -> None:
        with self.lock:
            self._anew = self._make()
