"""Admin operations of a worker on its cluster: topics, offsets, cluster id, groups. Thread-safe.

librdkafka resolves futures on its own thread and reports why a connection fails only when the
client is polled. Waits are therefore split into slices with polls between them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.client_errors import ConnectionReports
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.kafka.conflicting_cluster import DescribedGroup
from connect_runtime.kafka.metadata_client import MetadataClient

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_WAIT_SLICE_S = 0.25
_REQUEST_TIMEOUT_S = 5.0
_ADMIN_SETTINGS: Mapping[str, object] = {
    # A silent broker receives all requests, also those for new leaders, until they time out.
    "socket.timeout.ms": round(_REQUEST_TIMEOUT_S * 1000),
}
_BROKER_SEARCH_S = 1.0
_BROKER_CHECK_S = 5.0
"""Time in which the own client must connect and list the brokers, before librdkafka does."""
_BROKER_SEARCH_POLL_S = 0.1
_METADATA_PROPAGATION_S = 10.0
_EARLIEST_OFFSET = library.OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST_OFFSET = library.OffsetSpec.latest()  # type: ignore[no-untyped-call]
_CLEANUP_POLICY = "cleanup.policy"


class TopicAdmin:
    """Admin client of a worker. Every wait ends at its deadline.

    Failures are raised as `client_errors` types.
    """

    def __init__(self, access: KafkaClusterAccess, *, client_id: str, clock: Clock) -> None:
        self.where = access.where
        self._clock = clock
        self._reports = ConnectionReports()
        self._closed = threading.Event()
        self._metadata = MetadataClient(
            access, client_id=client_id, clock=clock, is_cancelled=self._closed.is_set
        )
        self._metadata_lock = threading.Lock()
        self._client = librdkafka_clients.create_admin_client(
            access, client_id=client_id, settings=_ADMIN_SETTINGS, reports=self._reports
        )

    def get_cluster_id(self, end: Deadline) -> str:
        """Return the cluster id."""
        with self._lock_metadata(end, doing="reading the cluster id") as left_s:
            return self._metadata.read_cluster_id(left_s)

    def list_groups(self, timeout_s: float) -> list[DescribedGroup]:
        """Return all visible groups with their members; empty without permission to list groups."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        try:
            # Malformed metadata would end the process inside the library.
            with self._lock_metadata(end, doing="listing groups") as left_s:
                self._metadata.list_brokers(left_s)
            left_s = max(0.01, end.remaining_s(self._clock.now_s()))
            found: Iterable[Any] = self._client.list_groups(timeout=left_s)
        except confluent_kafka.KafkaException as error:
            _LOG.info("listing groups of %s: %s", self.where, client_errors.get_text(error.args[0]))
            return []
        except ConnectError as error:
            _LOG.info("listing groups of %s: %s", self.where, error)
            return []
        return [
            DescribedGroup(
                group_id=each.id,
                protocol_type=each.protocol_type,
                members=tuple((one.metadata, one.assignment) for one in each.members),
            )
            for each in found
            if each.error is None
        ]

    def count_partitions(self, topic: str, end: Deadline) -> int:
        """Return the topic's number of partitions. Raises `TopicMissingError`."""
        found = self._read_entity(
            topic, self._metadata.describe_topics, end, doing=f"describing topic {topic}"
        )
        return len(found.partitions)

    def get_cleanup_policy(self, topic: str, end: Deadline) -> str | None:
        """Return the topic's effective cleanup policy."""
        found = self._read_entity(
            topic,
            self._metadata.describe_topic_configs,
            end,
            doing=f"reading settings of topic {topic}",
        )
        return next((each.value for each in found.configs if each.name == _CLEANUP_POLICY), None)

    def _read_entity(
        self,
        topic: str,
        read: Callable[[Sequence[str], float], Mapping[str, Any]],
        end: Deadline,
        *,
        doing: str,
    ) -> Any:
        """Read a response entity of a topic, and retry while it has a transient error code."""
        while True:
            with self._lock_metadata(end, doing=doing) as left_s:
                found = read([topic], left_s)[topic]
            if not found.error_code:
                return found
            error = self._metadata.translate_error(int(found.error_code), doing)
            if not isinstance(error, RetriableError) or end.is_expired(self._clock.now_s()):
                raise error
            self._client.poll(_BROKER_SEARCH_POLL_S)

    def create_topic(self, topic: library.NewTopic, end: Deadline) -> None:
        """Create a topic. Raises `TopicExistsError`."""

        def request(left_s: float) -> futures.Future[Any]:
            return self._client.create_topics(
                [topic], request_timeout=left_s, operation_timeout=left_s
            )[topic.topic]

        self._request(request, end, doing=f"creating topic {topic.topic}")

    def list_start_offsets(self, topic: str, partitions: int, end: Deadline) -> Mapping[int, int]:
        """Return the first available offset by partition."""
        return self._list_offsets(topic, partitions, end, spec=_EARLIEST_OFFSET)

    def list_end_offsets(self, topic: str, partitions: int, end: Deadline) -> Mapping[int, int]:
        """Return the end offset (exclusive) by partition, including records of open
        transactions."""
        return self._list_offsets(topic, partitions, end, spec=_LATEST_OFFSET)

    def _list_offsets(
        self,
        topic: str,
        partitions: int,
        end: Deadline,
        *,
        spec: library.OffsetSpec,
    ) -> Mapping[int, int]:
        """Request partition offsets of an existing topic.

        Retries while some brokers do not know the topic yet.
        """
        asked = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]
        now_s = self._clock.now_s()
        spread = Deadline.after(min(_METADATA_PROPAGATION_S, end.remaining_s(now_s)), now_s=now_s)

        def request(left_s: float) -> futures.Future[Any]:
            return _combine_offset_futures(
                self._client.list_offsets(
                    dict.fromkeys(asked, spec),
                    isolation_level=confluent_kafka.IsolationLevel.READ_UNCOMMITTED,
                    request_timeout=left_s,
                )
            )

        doing = f"requesting the offsets of {topic}"
        return self._request(request, end, doing=doing, spread=spread)

    def close(self) -> None:
        """Process pending events, abort running metadata requests and close their connections.
        librdkafka frees its client when no reference to it is left."""
        self._client.poll(0)
        self._closed.set()
        with self._metadata_lock:
            self._metadata.close()

    @contextlib.contextmanager
    def _lock_metadata(self, end: Deadline, *, doing: str) -> Iterator[float]:
        """Use the metadata client alone. Yields the remaining time in seconds.

        Raises `UnreachableError` if another thread uses the client until the deadline.
        """
        left_s = max(0.01, end.remaining_s(self._clock.now_s()))
        if not self._metadata_lock.acquire(timeout=left_s):
            error = client_errors.create_timeout_error()
            raise self._translate_error(error, doing)
        try:
            yield max(0.01, end.remaining_s(self._clock.now_s()))
        finally:
            self._metadata_lock.release()

    def _request(
        self,
        request: Callable[[float], futures.Future[T]],
        end: Deadline,
        *,
        doing: str,
        spread: Deadline | None = None,
    ) -> T:
        """Repeat a request until a broker responds, because it may have been sent to a dead broker.

        Until the deadline `spread`, an unknown-topic error is retried, because not every broker may
        know the topic yet.
        """
        while True:
            left_s = max(0.01, end.remaining_s(self._clock.now_s()))
            try:
                answer = self._wait(request(min(left_s, _REQUEST_TIMEOUT_S)), end, doing=doing)
            except confluent_kafka.KafkaException as error:
                self._check_refusal(doing)
                now_s = self._clock.now_s()
                is_transient = client_errors.is_retriable(error.args[0]) or (
                    spread is not None
                    and not spread.is_expired(now_s)
                    and client_errors.is_missing_topic(error.args[0])
                )
                if not is_transient or end.is_expired(now_s):
                    raise self._translate_error(error.args[0], doing) from error
                self._find_another_broker(end)
            else:
                self._client.poll(0)
                self._reports.clear()
                return answer

    def _wait(self, future: futures.Future[T], end: Deadline, *, doing: str) -> T:
        """Wait for a future until the deadline, in case librdkafka does not complete it in time."""
        while True:
            try:
                return future.result(timeout=_WAIT_SLICE_S)
            except UnicodeDecodeError as error:
                raise confluent_kafka.KafkaException(
                    client_errors.create_malformed_response_error(error)
                ) from error
            except TimeoutError:
                self._check_refusal(doing)
                if end.is_expired(self._clock.now_s() - _BROKER_SEARCH_S):
                    raise confluent_kafka.KafkaException(
                        client_errors.create_timeout_error()
                    ) from None

    def _find_another_broker(self, end: Deadline) -> None:
        """Refresh the metadata, without which librdkafka keeps waiting for a dead broker.

        A malformed list of brokers would end the process inside the library, so the own client
        checks the list first.
        """
        now_s = self._clock.now_s()
        check_s = min(_BROKER_CHECK_S, end.remaining_s(now_s))
        with contextlib.suppress(confluent_kafka.KafkaException, ConnectError):  # reported later
            checked = Deadline.after(check_s, now_s=now_s)
            with self._lock_metadata(checked, doing="listing brokers") as left_s:
                self._metadata.list_brokers(left_s)
            self._client.list_topics(timeout=_BROKER_SEARCH_S)
        self._client.poll(_BROKER_SEARCH_POLL_S)

    def _check_refusal(self, doing: str) -> None:
        """Poll for connection errors, and raise an authentication or TLS error."""
        self._client.poll(0)
        refused = self._reports.get_refusal()
        if refused is not None:
            raise self._translate_error(refused, doing)

    def _translate_error(self, error: confluent_kafka.KafkaError, doing: str) -> Exception:
        return client_errors.translate_error(error, doing, where=self.where, reports=self._reports)


def _combine_offset_futures(
    waiting: Mapping[confluent_kafka.TopicPartition, futures.Future[Any]],
) -> futures.Future[Mapping[int, int]]:
    """Combine the futures of one request, which complete together or per partition leader.

    If a leader does not respond, librdkafka returns neither offset nor error for its partitions.
    """
    whole: futures.Future[Mapping[int, int]] = futures.Future()
    found: dict[int, int] = {}
    lock = threading.Lock()

    def on_done(partition: int, future: futures.Future[Any]) -> None:
        error = future.exception()
        with lock:
            if whole.done():
                return
            if error is not None:
                whole.set_exception(error)
                return
            offset = future.result().offset
            if offset < 0:
                whole.set_exception(
                    confluent_kafka.KafkaException(client_errors.create_timeout_error())
                )
                return
            found[partition] = offset
            if len(found) == len(waiting):
                whole.set_result(found)

    for partition, future in waiting.items():
        future.add_done_callback(functools.partial(on_done, partition.partition))
    return whole
