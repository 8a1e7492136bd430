"""Kafka client for tools, which sends one request at a time and waits for the response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.network.cluster_connections import (
    ClientResponse,
    ClusterConnections,
    ConnectionSettings,
    RawClientResponse,
)
from connect_runtime.network.tcp_and_tls_transport import BufferPool, Poller
from connect_runtime.protocol import (
    api_versions,
    fetch_requests,
    produce_requests,
    request_builders,
    request_errors,
    varints,
)
from connect_runtime.protocol.fetch_requests import FetchRequestPartition, FetchResponsePartition
from connect_runtime.protocol.produce_requests import ProduceBatch, ProduceResponsePartition
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorKey,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import UnsupportedVersion

T = TypeVar("T")
_Fetched = FetchResponsePartition

REQUEST_TIMEOUT_S = 20.0
_POOL_BYTES = 4 << 20
_PARTITION_BYTES = 1 << 20
_POLL_INTERVAL_S = 0.05
_CONNECTION_NAME = "questions"


class BrokerResponseError(RetriableError):
    """A broker responded with a Kafka error code. A retry may succeed."""

    def __init__(self, operation: str, error_code: int) -> None:
        super().__init__(f"{operation}: {request_errors.format_error_code(error_code)}")
        self.error_code = error_code


class BlockingClient:
    """Kafka client whose calls block. Use it as a context manager.

    Calls raise `ConnectError` if no response arrives within `REQUEST_TIMEOUT_S`.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._clock = clock
        self._poller = Poller()
        self._cluster = ClusterConnections(
            settings,
            poller=self._poller,
            clock=clock,
            random=random,
            pool=BufferPool(_POOL_BYTES),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._cluster.close()
        self._poller.close()

    def wait_for_result(
        self,
        get_result: Callable[[], T | None],
        operation: str,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> T:
        """Poll the connections until `get_result` returns a value other than None, and return that
        value.

        After `timeout_s`, raises the first connection error, or `RetriableError` if there is none.
        `operation` names the operation in the error message.
        """
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        while (answer := get_result()) is None:
            if end.is_expired(self._clock.now_s()):
                raise next(
                    iter(self._cluster.get_connection_errors().values()),
                    RetriableError(f"{operation}: timed out after {timeout_s:.0f} s"),
                )
            self._poller.poll(min(_POLL_INTERVAL_S, self._cluster.tick(self._clock.now_s())))
        return answer

    def send_request(self, target: RequestTarget, message: RequestBuilder) -> Any:
        """Send one request and return the decoded response body (an entity of the `kio`
        library)."""
        replies: list[ClientResponse] = []
        self._cluster.call(target, message, done=replies.append, timeout_s=REQUEST_TIMEOUT_S)
        reply = self.wait_for_result(
            lambda: replies[0] if replies else None, message.api, timeout_s=2 * REQUEST_TIMEOUT_S
        )
        if reply.failure is not None:
            raise reply.failure
        return reply.body

    def forget_coordinator(self, coordinator: CoordinatorKey) -> None:
        """Remove a coordinator from the metadata cache, so that the next request to it looks up its
        broker again."""
        self._cluster.forget_coordinator(coordinator.kind, coordinator.key)

    def find_leader(self, topic: str, partition: int = 0) -> int:
        """Return the node id of the partition leader. Wait until a leader is elected.

        Raises `BrokerResponseError` if the metadata reports an error for the topic.
        """
        self._cluster.set_metadata_topics([topic])
        doing = f"finding the leader of {topic}-{partition}"

        def try_find_leader() -> int | None:
            leader = self._cluster.view.get_leader(topic, partition)
            return None if leader is None else leader.node_id

        try:
            return self.wait_for_result(try_find_leader, doing)
        except RetriableError as error:
            metadata = self._cluster.view.get_topic(topic)
            if metadata is None or not metadata.error_code:
                raise
            raise BrokerResponseError(doing, metadata.error_code) from error

    def get_topic_id(self, topic: str) -> bytes:
        """Return the topic id (16 bytes, all zero if the cluster does not support topic ids).

        Call `find_leader` for the topic first.
        """
        metadata = self._cluster.view.get_topic(topic)
        return varints.NO_TOPIC_ID if metadata is None else metadata.topic_id

    def find_lowest_node(self) -> int:
        """Return the lowest broker id in the cluster metadata."""

        brokers = self.send_request(
            AnyNodeTarget(), request_builders.build_metadata_request(())
        ).brokers
        if not brokers:
            raise RetriableError("the cluster metadata lists no brokers")
        return min(int(each.node_id) for each in brokers)

    def negotiate_version(
        self, node_id: int, api_key: int, version_range: tuple[int, int]
    ) -> int | None:
        """Return the newest API version in the range `version_range` that the broker supports, or
        None."""

        def try_negotiate_version() -> int | None:
            try:
                return self._cluster.choose_version(node_id, api_key, *version_range)
            except UnsupportedVersion:
                return -1

        version = self.wait_for_result(
            try_negotiate_version, f"requesting the API versions of node {node_id}"
        )
        return None if version < 0 else version

    def produce(self, topic: str, batch: memoryview) -> ProduceResponsePartition:
        """Produce one batch to partition 0 with acks=all, outside a transaction."""
        node_id = self.find_leader(topic)
        version = self._require_version(
            node_id, api_versions.PRODUCE_KEY, api_versions.PRODUCE_VERSIONS
        )
        request = ProduceBatch(topic, self.get_topic_id(topic), 0, batch)
        chunks = produce_requests.encode_produce_request(
            version,
            transactional_id=None,
            acks=-1,
            timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
            batches=[request],
        )
        body = self._send_raw_request(
            node_id, api_versions.PRODUCE_KEY, version=version, chunks=chunks
        )
        (answer,) = produce_requests.decode_produce_response(version, body).partitions
        return answer

    def fetch(
        self, topic: str, offset: int, *, partition: int = 0, committed: bool = False
    ) -> FetchResponsePartition:
        """Fetch record batches starting at `offset`.

        If `committed` is False, the result includes uncommitted batches. If it is True, the result
        ends at the last stable offset and contains the list of aborted transactions
        (read_committed).
        """

        return self.wait_for_result(
            lambda: self._try_fetch(topic, offset, partition=partition, committed=committed),
            f"reading {topic}-{partition}",
        )

    def _try_fetch(
        self, topic: str, offset: int, *, partition: int, committed: bool
    ) -> _Fetched | None:
        """Send one fetch request. Return None if the response omits the partition because of
        throttling."""
        node_id = self.find_leader(topic, partition)
        version_range = fetch_requests.choose_fetch_versions([self.get_topic_id(topic)])
        version = self._require_version(node_id, api_versions.FETCH_KEY, version_range)
        chunk = fetch_requests.encode_fetch_request(
            version,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=_PARTITION_BYTES,
            isolation_level=int(committed),
            session_id=0,
            session_epoch=-1,
            partitions=[
                FetchRequestPartition(
                    topic, self.get_topic_id(topic), partition, -1, offset, -1, _PARTITION_BYTES
                )
            ],
            forgotten=[],
            rack_id="",
        )
        body = self._send_raw_request(
            node_id, api_versions.FETCH_KEY, version=version, chunks=[chunk]
        )
        response = fetch_requests.decode_fetch_response(version, body, max_partitions=1)
        for result in response.partitions:
            if result.error_code == 0:
                return result
            self._cluster.refresh_metadata()
            raise BrokerResponseError(f"reading {topic}-{partition}", result.error_code)
        if response.error_code == 0:
            return None
        raise BrokerResponseError(f"reading {topic}", response.error_code)

    def _require_version(self, node_id: int, api_key: int, version_range: tuple[int, int]) -> int:
        """Return the newest version of an API that the broker supports within `version_range`
        (inclusive). Raises `FatalError` if there is none."""
        version = self.negotiate_version(node_id, api_key, version_range)
        if version is None:
            raise FatalError(
                f"node {node_id} does not support any {api_versions.API_NAMES[api_key]} version "
                f"from {version_range[0]} to {version_range[1]}"
            )
        return version

    def _send_raw_request(
        self, node_id: int, api_key: int, *, version: int, chunks: Sequence[Any]
    ) -> memoryview:
        replies: list[RawClientResponse] = []
        self._cluster.call_with_encoded_body(
            node_id,
            lane=_CONNECTION_NAME,
            api_key=api_key,
            version=version,
            chunks=chunks,
            done=replies.append,
            timeout_s=REQUEST_TIMEOUT_S,
        )
        reply = self.wait_for_result(
            lambda: replies[0] if replies else None,
            api_versions.API_NAMES[api_key],
            timeout_s=2 * REQUEST_TIMEOUT_S,
        )
        if reply.failure is not None:
            raise reply.failure
        assert reply.body is not None
        return reply.body
