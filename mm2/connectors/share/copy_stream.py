"""What a copy streams: appended to the ledger in order; the copy is told how far it is stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from connect_runtime.base import errors
from mm2.cluster import errors as cluster_errors
from mm2.cluster import flow_log
from mm2.connectors.share import flow_ledger
from mm2.core.copy import instructions, messages, stream


class CopyStream:
    """One task's; `begin` for each copy of it. `on_receipt` hears of receipts that are stored.

    Invariants: what the copy streams is appended in order, and what waits for room in the log is no
    more than a copy may have unstored (`worker_link.STREAM_LIMIT`, and a few items of each
    partition that is being taken).
    """

    def __init__(
        self,
        ledger: flow_ledger.FlowLedger,
        *,
        log_broken: Callable[[errors.ConnectError], None],
        on_receipt: Callable[[bytes, bytes], None],
    ) -> None:
        self._ledger = ledger
        self._log_broken = log_broken
        self._on_receipt = on_receipt
        self._stored = stream.StoredStream()
        self._unappended: deque[tuple[int, instructions.LogItem]] = deque()

    @property
    def waits(self) -> bool:
        """Is there something that the log had no room for?"""
        return bool(self._unappended)

    def begin(self) -> None:
        """Another copy: it numbers from the start."""
        self.drop()
        self._stored = stream.StoredStream()

    def drop(self) -> None:
        """The copy has ended: what was not appended is its follower's to find out."""
        self._unappended.clear()

    def receive(self, message: Mapping[str, Any]) -> list[instructions.LogItem]:
        """Returns the items of a `record` message, which are on their way now."""
        items = messages.read_record(dict(message))
        self._unappended.extend(enumerate(items, message["first"]))
        self.append()
        return items

    def append(self) -> None:
        """What the log has no room for waits for the next turn."""
        while self._unappended:
            number, item = self._unappended[0]
            try:
                self._ledger.append(item, on_recorded=self._recorder(number, item))
            except cluster_errors.FlowLogFullError:
                return
            except errors.ConnectError as error:
                self._log_broken(error)
                return
            self._unappended.popleft()

    def news(self) -> int | None:
        """How far the stream is stored, if that is news to its copy."""
        return self._stored.news()

    def _recorder(self, number: int, item: instructions.LogItem) -> flow_log.OnRecorded:
        mine = self._stored

        def recorded(error: errors.ConnectError | None) -> None:
            if error is not None:
                self._log_broken(error)
                return
            mine.stored(number)
            if item.receipt and item.value is not None:
                self._on_receipt(item.key, item.value)

        return recorded
