"""Finds which producer ids on the source belong to the reverse flow, so its batches are skipped.

The reverse flow stores each producer id in its offset map topic on this flow's source before
its first batch. So after a batch was seen, reading that topic to its end finds the id, or the
batch is not the reverse flow's. Reads run on their own thread; one read answers many queries.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.timing import Clock
from connect_runtime.kafka.client_errors import NotAuthorizedError, TopicMissingError
from connect_runtime.system.threads import OwnedThread, ThreadDied, ThreadGroup
from mm2.copier import control_messages
from mm2.formats.offset_map_records import MapKey, MapProducerKey
from mm2.kafka.client_interfaces import Admin, LogTruncatedError, TopicTail
from mm2.offsets.offset_map import OffsetMap

MISSING_TOPIC_GRACE_S = 30.0
"""A topic that was there is missing for so long before it counts as deleted: a broker that has just
started may not know of it."""


class ReverseOffsetMapReader:
    """One thread's. Ids are never forgotten, whatever becomes of the topic."""

    def __init__(
        self,
        topic: str,
        *,
        connect_admin: Callable[[], Admin],
        connect_tail: Callable[[], TopicTail],
        clock: Clock,
        flow: str,
    ) -> None:
        """Nothing is connected yet; both are to lead to this flow's source. `flow`: the opposite
        one's name."""
        self._topic = topic
        self._flow = flow
        self._connect_admin = connect_admin
        self._connect_tail = connect_tail
        self._clock = clock
        self._admin: Admin | None = None
        self._tail: TopicTail | None = None
        self._ids: set[int] = set()
        self._map = OffsetMap(keeps=self._note)
        self._seen = False
        self._missing_since_s: float | None = None

    def whose(self, producers: Sequence[int], timeout_s: float) -> frozenset[int]:
        """Those of the ids that are the opposite flow's.

        Raises `RetriableError` when the topic cannot be read to its end in time, and `FatalError`
        where that is refused, or something in it cannot be read.
        """
        if not self._ids.issuperset(producers) and self._exists(timeout_s):
            self._read(timeout_s)
        return frozenset(self._ids.intersection(producers))

    def _exists(self, timeout_s: float) -> bool:
        """While there is no such topic the flow has never run, or its topic was deleted."""
        if self._tail is not None:
            return True
        if self._admin is None:
            self._admin = self._connect_admin()
        failure = self._admin.describe_topics([self._topic], timeout_s).failed.get(self._topic)
        if failure is None:
            self._missing_since_s = None
            return True
        if not isinstance(failure, TopicMissingError):
            raise failure
        self._believe_missing(failure, self._admin.list_topics(timeout_s))
        return False

    def _believe_missing(self, failure: ConnectError, names: Collection[str]) -> None:
        """Raises `RetriableError` where the broker asked may just not know of it yet."""
        if not names or self._topic in names:
            raise RetriableError(f"{failure}; the broker asked has just started, it seems")
        now_s = self._clock.now_s()
        if self._missing_since_s is None:
            self._missing_since_s = now_s
        if self._seen and now_s - self._missing_since_s < MISSING_TOPIC_GRACE_S:
            raise RetriableError(f"{failure}; it was there before")

    def _read(self, timeout_s: float) -> None:
        if self._tail is None:
            self._tail = self._connect_tail()
        try:
            found = self._tail.read_to_end(timeout_s)
        except (LogTruncatedError, TopicMissingError) as error:
            self._disconnect()
            self._map = OffsetMap(keeps=self._note)
            raise RetriableError(str(error)) from error
        self._seen = True
        for record in found:
            self._map.fold(record.key or b"", record.value, offset=record.offset)
        for each in self._map.unreadable():
            raise FatalError(each.describe(topic=f"{self._topic} on the source", flow=self._flow))

    def _note(self, key: MapKey) -> bool:
        """Of the map nothing is kept but its producer ids, which never change owners."""
        if isinstance(key, MapProducerKey):
            self._ids.add(key.producer_id)
        return False

    def _disconnect(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def close(self) -> None:
        self._disconnect()
        used, self._admin = self._admin, None
        if used is not None:
            used.close()


MAP_READ_TIMEOUT_S = 10.0
MAX_WAITING_QUERIES = 10_000
"""Each partition asks one question at a time."""
QUERY_POLL_INTERVAL_S = 0.2
CLOSE_TIMEOUT_S = 1.0

_LOG = logging.getLogger(__name__)


class ProducerIdsCallback(Protocol):
    """Gets which of the ids are the reverse flow's, or None, why nobody can say, and whether that
    is a missing right (`denied`). On another thread."""

    def __call__(
        self, theirs: frozenset[int] | None, why: str, *, denied: bool = False
    ) -> None: ...


QueryProducerIds = Callable[[Sequence[int], ProducerIdsCallback], None]


class ResponseChannel(Protocol):
    """As `control_channel.TaskChannel` has it: from any thread."""

    def send(self, message: Mapping[str, object]) -> None: ...

    def close(self, reason: str) -> None: ...


class _PendingQuery(NamedTuple):
    producers: tuple[int, ...]
    answer: ProducerIdsCallback


def create_response_sender(channel: ResponseChannel, number: int) -> ProducerIdsCallback:
    """Tells a copy the answer to its question of this number."""

    def answer(theirs: frozenset[int] | None, why: str, *, denied: bool = False) -> None:
        try:
            channel.send(
                control_messages.encode_reverse_producers(
                    number, theirs, failure=why, denied=denied
                )
            )
        except ConnectError as error:
            channel.close(str(error))

    return answer


class ReverseProducerIds:
    """`ask` and `close` are one thread's; nothing is read, and no thread runs, before the first
    question."""

    def __init__(self, found: ReverseOffsetMapReader, *, name: str) -> None:
        self._map = found
        self._name = name
        self._asked: queue.Queue[_PendingQuery] = queue.Queue(MAX_WAITING_QUERIES)
        self._threads = ThreadGroup(on_unasked_end=_log_thread_end)
        self._thread: OwnedThread | None = None

    def ask(self, producers: Sequence[int], answer: ProducerIdsCallback) -> None:
        """Each question is answered once, unless it is closed meanwhile."""
        if self._thread is None or not self._thread.alive:
            self._thread = self._threads.start(f"opposite {self._name}", self._run)
        try:
            self._asked.put_nowait(_PendingQuery(tuple(producers), answer))
        except queue.Full:
            answer(None, f"{MAX_WAITING_QUERIES} such questions wait for the source already")

    def close(self) -> None:
        self._threads.stop_all(CLOSE_TIMEOUT_S)

    def _run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                waiting = self._waiting()
                if waiting:
                    self._answer(waiting)
        finally:
            self._map.close()

    def _waiting(self) -> list[_PendingQuery]:
        """All that are there, once there is one."""
        found: list[_PendingQuery] = []
        try:
            found.append(self._asked.get(timeout=QUERY_POLL_INTERVAL_S))
            while True:
                found.append(self._asked.get_nowait())
        except queue.Empty:
            return found

    def _answer(self, waiting: list[_PendingQuery]) -> None:
        producers = {each for one in waiting for each in one.producers}
        try:
            theirs = self._map.whose(sorted(producers), MAP_READ_TIMEOUT_S)
        except Exception as error:
            denied = isinstance(error, NotAuthorizedError)
            for one in waiting:
                one.answer(None, str(error) or repr(error), denied=denied)
            if not isinstance(error, ConnectError):
                raise
            return
        for one in waiting:
            one.answer(theirs.intersection(one.producers), "")


def _log_thread_end(end: ThreadDied) -> None:
    _LOG.error("%s ended: %r", end.name, end.error)
