"""Finds which producer ids on the source belong to the reverse flow. Batches with these producer
ids are skipped, because they were replicated from this flow's target.

The reverse flow writes to this flow's source. It stores each of its producer ids in its offset map
topic, also on this flow's source, before the producer writes its first batch. If the producer id of
a fetched batch is missing when that topic has been read to its end, the reverse flow did not write
the batch. Reads run on a separate thread; one read serves many queries.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka.client_errors import NotAuthorizedError, TopicMissingError
from connect_runtime.system.supervised_threads import (
    StoppableThread,
    ThreadGroup,
    UnexpectedThreadEnd,
)
from mm2.copier import control_channel_messages
from mm2.formats.offset_map_records import MapKey, MapProducerKey
from mm2.kafka.kafka_client_interfaces import Admin, LogTruncatedError, TopicRecord, TopicTail
from mm2.offsets.offset_map import OffsetMap

MISSING_TOPIC_GRACE_S = 30.0
"""How long a topic that existed must be missing before it counts as deleted. A recently started
broker may not know the topic yet."""


class ReverseOffsetMapReader:
    """Reads the producer ids of the reverse flow from its offset map. Not thread-safe.

    Known ids are never discarded, even if the topic is deleted.
    """

    def __init__(
        self,
        topic: str,
        *,
        connect_admin: Callable[[], Admin],
        connect_tail: Callable[[], TopicTail],
        clock: Clock,
        flow: str,
    ) -> None:
        """Create a reader that connects to this flow's source at the first query. `flow` is the
        name of the reverse flow."""
        self._topic = topic
        self._flow = flow
        self._connect_admin = connect_admin
        self._connect_tail = connect_tail
        self._clock = clock
        self._admin: Admin | None = None
        self._tail: TopicTail | None = None
        self._ids: set[int] = set()
        self._map = OffsetMap(key_filter=self._collect_producer_id)
        self._has_existed = False
        self._missing_since_s: float | None = None

    def find_reverse_flow_producers(
        self, producers: Sequence[int], timeout_s: float
    ) -> frozenset[int]:
        """Return which of the producer ids belong to the reverse flow.

        Raises `RetriableError` if the topic cannot be read to its end in time, and `FatalError` if
        access is denied or a record cannot be decoded.
        """
        if not self._ids.issuperset(producers) and self._topic_exists(timeout_s):
            self._read_offset_map(timeout_s)
        return frozenset(self._ids.intersection(producers))

    def _topic_exists(self, timeout_s: float) -> bool:
        """Return True if the reverse flow's offset map topic exists. False means that the flow has
        never run or that its topic was deleted."""
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
        self._confirm_topic_missing(failure, self._admin.list_topics(timeout_s))
        return False

    def _confirm_topic_missing(self, failure: ConnectError, names: Collection[str]) -> None:
        """Confirm that the reverse flow's offset map topic is missing. Raises `RetriableError` if
        the broker may not know the topic yet."""
        if not names or self._topic in names:
            raise RetriableError(f"{failure}; the broker may have just started")
        now_s = self._clock.now_s()
        if self._missing_since_s is None:
            self._missing_since_s = now_s
        if self._has_existed and now_s - self._missing_since_s < MISSING_TOPIC_GRACE_S:
            raise RetriableError(f"{failure}; the topic existed before")

    def _read_offset_map(self, timeout_s: float) -> None:
        if self._tail is None:
            self._tail = self._connect_tail()
        try:
            self._tail.read_to_end(timeout_s, self._apply_record)
        except (LogTruncatedError, TopicMissingError) as error:
            self._close_topic_reader()
            self._map = OffsetMap(key_filter=self._collect_producer_id)
            raise RetriableError(str(error)) from error
        self._has_existed = True
        for each in self._map.list_unreadable_records():
            raise FatalError(
                each.format_error(topic=f"{self._topic} on the source", flow=self._flow)
            )

    def _apply_record(self, record: TopicRecord) -> None:
        self._map.apply_record_or_keep_unreadable(
            record.key or b"", record.value, offset=record.offset
        )

    def _collect_producer_id(self, key: MapKey) -> bool:
        """Collect the producer id from a record's key, and return False so that the map does not
        keep the record. Producer ids never change owners."""
        if isinstance(key, MapProducerKey):
            self._ids.add(key.producer_id)
        return False

    def _close_topic_reader(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def close(self) -> None:
        self._close_topic_reader()
        used, self._admin = self._admin, None
        if used is not None:
            used.close()


MAP_READ_TIMEOUT_S = 10.0
MAX_WAITING_QUERIES = 10_000
"""Maximum number of pending queries. Each partition has at most one query at a time."""
QUERY_POLL_INTERVAL_S = 0.2
CLOSE_TIMEOUT_S = 1.0

_LOG = logging.getLogger(__name__)


class ProducerIdsCallback(Protocol):
    """Callback for a query of producer ids. Receives the ids that belong to the reverse flow, or
    None and the error.

    `denied` is True if a permission is missing. Called on another thread.
    """

    def __call__(
        self, theirs: frozenset[int] | None, why: str, *, denied: bool = False
    ) -> None: ...


QueryProducerIds = Callable[[Sequence[int], ProducerIdsCallback], None]


class ResponseChannel(Protocol):
    """Sends messages to a copy process; the sending half of `TaskChannel`. Thread-safe."""

    def send(self, message: Mapping[str, object]) -> None: ...

    def close(self, reason: str) -> None: ...


class _PendingQuery(NamedTuple):
    """A query that is waiting for the reverse flow's offset map to be read."""

    producers: tuple[int, ...]
    answer: ProducerIdsCallback


def create_response_sender(channel: ResponseChannel, number: int) -> ProducerIdsCallback:
    """Create a callback that sends the result to the copy process as the response to its request
    `number`."""

    def send_response(theirs: frozenset[int] | None, why: str, *, denied: bool = False) -> None:
        try:
            channel.send(
                control_channel_messages.encode_reverse_flow_producers(
                    number, theirs, failure=why, denied=denied
                )
            )
        except ConnectError as error:
            channel.close(str(error))

    return send_response


class ReverseFlowProducerLookup:
    """Finds out on a separate thread which producer ids belong to the reverse flow. The first query
    starts the thread.

    `query_reverse_flow_producers` and `close` are not thread-safe.
    """

    def __init__(self, reader: ReverseOffsetMapReader, *, name: str) -> None:
        self._map = reader
        self._name = name
        self._queries: queue.Queue[_PendingQuery] = queue.Queue(MAX_WAITING_QUERIES)
        self._threads = ThreadGroup(on_unexpected_end=_log_thread_end)
        self._thread: StoppableThread | None = None

    def query_reverse_flow_producers(
        self, producers: Sequence[int], answer: ProducerIdsCallback
    ) -> None:
        """Query which of the producer ids belong to the reverse flow. `answer` is called once,
        unless `close` is called first."""
        if self._thread is None or not self._thread.is_alive:
            self._thread = self._threads.start(f"reverse-flow {self._name}", self._run_queries)
        try:
            self._queries.put_nowait(_PendingQuery(tuple(producers), answer))
        except queue.Full:
            answer(None, f"{MAX_WAITING_QUERIES} producer id queries are already pending")

    def close(self) -> None:
        self._threads.stop_all(CLOSE_TIMEOUT_S)

    def _run_queries(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                waiting = self._take_queries()
                if waiting:
                    self._answer_queries(waiting)
        finally:
            self._map.close()

    def _take_queries(self) -> list[_PendingQuery]:
        """Remove and return all pending queries. Returns an empty list if no query arrives within
        `QUERY_POLL_INTERVAL_S`."""
        queries: list[_PendingQuery] = []
        try:
            queries.append(self._queries.get(timeout=QUERY_POLL_INTERVAL_S))
            while True:
                queries.append(self._queries.get_nowait())
        except queue.Empty:
            return queries

    def _answer_queries(self, queries: list[_PendingQuery]) -> None:
        producers = {each for query in queries for each in query.producers}
        try:
            theirs = self._map.find_reverse_flow_producers(sorted(producers), MAP_READ_TIMEOUT_S)
        except Exception as error:
            denied = isinstance(error, NotAuthorizedError)
            for query in queries:
                query.answer(None, str(error) or repr(error), denied=denied)
            if not isinstance(error, ConnectError):
                raise
            return
        for query in queries:
            query.answer(theirs.intersection(query.producers), "")


def _log_thread_end(end: UnexpectedThreadEnd) -> None:
    _LOG.error("thread %s ended: %r", end.name, end.error)
