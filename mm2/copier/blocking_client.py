"""Kafka client that sends one request at a time and waits for the answer, for tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.network.cluster_connections import (
    ClientResponse,
    ClusterConnections,
    ConnectionSettings,
    RawClientResponse,
)
from connect_runtime.network.transport import BufferPool, Poller
from connect_runtime.protocol import (
    api_versions,
    fetch,
    produce,
    request_builders,
    request_errors,
    varints,
)
from connect_runtime.protocol.fetch import FetchRequestPartition, FetchResponsePartition
from connect_runtime.protocol.produce import ProduceBatch, ProduceResponsePartition
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorTarget,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import UnsupportedVersion
from mm2.copier import fetcher

T = TypeVar("T")
_Fetched = FetchResponsePartition

REQUEST_TIMEOUT_S = 20.0
_POOL_BYTES = 4 << 20
_PARTITION_BYTES = 1 << 20
_POLL_INTERVAL_S = 0.05
_CONNECTION_NAME = "questions"


class BrokerResponseError(RetriableError):
    """A broker answers, with this Kafka error code; waiting may help."""

    def __init__(self, doing: str, error_code: int) -> None:
        super().__init__(f"{doing}: {request_errors.format_error_code(error_code)}")
        self.error_code = error_code


class BlockingClient:
    """Every call waits; raises `ConnectError` for no answer within `REQUEST_TIMEOUT_S`. Close it."""

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

    def until(
        self, found: Callable[[], T | None], what: str, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> T:
        """Move the connections until there is something."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        while (answer := found()) is None:
            if end.passed(self._clock.now_s()):
                raise next(
                    iter(self._cluster.troubles().values()),
                    RetriableError(f"{what}: nothing within {timeout_s:.0f} s"),
                )
            self._poller.poll(min(_POLL_INTERVAL_S, self._cluster.tick(self._clock.now_s())))
        return answer

    def ask(self, to: RequestTarget, message: RequestBuilder) -> Any:
        """The response, a kio entity."""
        replies: list[ClientResponse] = []
        self._cluster.call(to, message, done=replies.append, timeout_s=REQUEST_TIMEOUT_S)
        reply = self.until(
            lambda: replies[0] if replies else None, message.api, timeout_s=2 * REQUEST_TIMEOUT_S
        )
        if reply.failure is not None:
            raise reply.failure
        return reply.body

    def forget_coordinator(self, to: CoordinatorTarget) -> None:
        self._cluster.forget_coordinator(to.kind, to.key)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads the partition, once there is one."""
        self._cluster.want_topics([topic])
        doing = f"looking for the leader of {topic}-{partition}"

        def known() -> int | None:
            found = self._cluster.view.leader(topic, partition)
            return None if found is None else found.node_id

        try:
            return self.until(known, doing)
        except RetriableError as error:
            told = self._cluster.view.topic(topic)
            if told is None or not told.error_code:
                raise
            raise BrokerResponseError(doing, told.error_code) from error

    def topic_id(self, topic: str) -> bytes:
        """16 bytes, all zero where there are none; of a topic whose leader was asked for."""
        found = self._cluster.view.topic(topic)
        return varints.NO_TOPIC_ID if found is None else found.topic_id

    def any_node(self) -> int:
        """A broker of the cluster."""

        brokers = self.ask(AnyNodeTarget(), request_builders.request_metadata(())).brokers
        if not brokers:
            raise RetriableError("the cluster tells of no brokers")
        return min(int(each.node_id) for each in brokers)

    def spoken(self, node_id: int, api_key: int, asked: tuple[int, int]) -> int | None:
        """The version that both sides speak within a range; None: there is none."""

        def chosen() -> int | None:
            try:
                return self._cluster.version_for(node_id, api_key, *asked)
            except UnsupportedVersion:
                return -1

        found = self.until(chosen, f"asking node {node_id} for its API versions")
        return None if found < 0 else found

    def produce(self, topic: str, batch: memoryview) -> ProduceResponsePartition:
        """A batch to partition 0, outside transactions, for all replicas in sync."""
        node_id = self.leader(topic)
        version = self._needed(node_id, api_versions.PRODUCE_KEY, api_versions.PRODUCE_VERSIONS)
        wanted = ProduceBatch(topic, self.topic_id(topic), 0, batch)
        chunks = produce.encode_produce_request(
            version,
            transactional_id=None,
            acks=-1,
            timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
            batches=[wanted],
        )
        body = self._raw(node_id, api_versions.PRODUCE_KEY, version=version, chunks=chunks)
        (answer,) = produce.decode_produce_response(version, body).partitions
        return answer

    def fetch(
        self, topic: str, offset: int, *, partition: int = 0, committed: bool = False
    ) -> FetchResponsePartition:
        """What stands in the partition from an offset on, uncommitted too; with `committed` up to
        the last stable offset, and which transactions were aborted there."""

        return self.until(
            lambda: self._fetched(topic, offset, partition=partition, committed=committed),
            f"reading {topic}-{partition}",
        )

    def _fetched(
        self, topic: str, offset: int, *, partition: int, committed: bool
    ) -> _Fetched | None:
        """None: the broker holds us back, and answers without the partition."""
        node_id = self.leader(topic, partition)
        spoken = fetcher.choose_fetch_versions([self.topic_id(topic)])
        version = self._needed(node_id, api_versions.FETCH_KEY, spoken)
        chunk = fetch.encode_fetch_request(
            version,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=_PARTITION_BYTES,
            isolation_level=int(committed),
            session_id=0,
            session_epoch=-1,
            partitions=[
                FetchRequestPartition(
                    topic, self.topic_id(topic), partition, -1, offset, -1, _PARTITION_BYTES
                )
            ],
            forgotten=[],
            rack_id="",
        )
        body = self._raw(node_id, api_versions.FETCH_KEY, version=version, chunks=[chunk])
        response = fetch.decode_fetch_response(version, body)
        for found in response.partitions:
            if found.error_code == 0:
                return found
            self._cluster.refresh_metadata()
            raise BrokerResponseError(f"reading {topic}-{partition}", found.error_code)
        if response.error_code == 0:
            return None
        raise BrokerResponseError(f"reading {topic}", response.error_code)

    def _needed(self, node_id: int, api_key: int, asked: tuple[int, int]) -> int:
        version = self.spoken(node_id, api_key, asked)
        if version is None:
            raise FatalError(
                f"node {node_id} speaks {api_versions.API_NAMES[api_key]} in no version from "
                f"{asked[0]} to {asked[1]}"
            )
        return version

    def _raw(
        self, node_id: int, api_key: int, *, version: int, chunks: Sequence[Any]
    ) -> memoryview:
        replies: list[RawClientResponse] = []
        self._cluster.call_raw(
            node_id,
            lane=_CONNECTION_NAME,
            api_key=api_key,
            version=version,
            chunks=chunks,
            done=replies.append,
            timeout_s=REQUEST_TIMEOUT_S,
        )
        reply = self.until(
            lambda: replies[0] if replies else None,
            api_versions.API_NAMES[api_key],
            timeout_s=2 * REQUEST_TIMEOUT_S,
        )
        if reply.failure is not None:
            raise reply.failure
        assert reply.body is not None
        return reply.body
