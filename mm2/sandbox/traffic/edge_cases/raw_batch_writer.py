"""Writes record batches to partitions, and reads them, as raw bytes. Ordinary clients cannot do
this.

Sends one request at a time over mm2's own broker connections. Batches are neither checked nor
changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.ids import TopicPartition
from connect_runtime.network import keystore_files
from connect_runtime.network.cluster_connections import (
    ClusterConnections,
    ConnectionSettings,
    RawClientResponse,
)
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import (
    api_versions,
    fetch_requests,
    produce_requests,
    security_settings,
)
from connect_runtime.protocol.fetch_requests import FetchRequestPartition, FetchResponsePartition
from connect_runtime.protocol.produce_requests import ProduceBatch
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_clients import ClientProperties
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.sandbox.traffic.edge_cases import record_features

_REQUEST_TIMEOUT_S = 30.0
_POLL_INTERVAL_S = 0.1
_FETCH_MAX_BYTES = 16 << 20
_CONNECTION_PURPOSE = "raw"


class RawLog:
    """Byte-level access to a cluster's logs. Use it in a `with` block. Not thread-safe. All methods
    raise `SandboxError` on failure."""

    def __init__(self, properties: ClientProperties, *, alias: str = "source") -> None:
        parsed = security_settings.parse_security_settings(
            properties, files=keystore_files.create_store_files(Path())
        )
        assert parsed.security is not None, parsed.errors
        self._alias = alias
        self._clock = SystemClock()
        self._poller = Poller()
        self._connections = ClusterConnections(
            ConnectionSettings(
                bootstrap=tuple(properties["bootstrap.servers"].split(",")),
                security=parsed.security,
                client_id="raw-log",
            ),
            poller=self._poller,
            clock=self._clock,
            random=random.Random(1),  # noqa: S311 - jitter of retries
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connections.close()
        self._poller.close()

    def preload_topic_metadata(self, topics: Iterable[str]) -> None:
        """Request the metadata of several topics at once, because each separate request would wait
        for a metadata refresh."""
        view = self._connections.view
        self._connections.set_metadata_topics([*view.list_requested_topics(), *topics])

    def iterate_record_sets(
        self, partition: TopicPartition, start: int = 0
    ) -> Iterator[memoryview]:
        """Yield the record sets from offset `start`, or from the log start offset if `start` is
        below it, to the high watermark."""
        at = start
        while True:
            found = self._fetch_records(partition, at)
            if found.error_code == 1 and at < found.log_start_offset:
                at = found.log_start_offset
                continue
            if found.error_code:
                raise self._create_error(f"reading {partition} from offset {at}", found.error_code)
            if found.log_start_offset > at:
                at = found.log_start_offset
            behind = record_features.find_next_offset(found.records)
            if behind is None or at >= found.high_watermark:
                return
            yield found.records
            at = behind

    def append_batch(self, partition: TopicPartition, batch: bytes) -> int:
        """Produce a batch with acks=all. Return its base offset."""
        doing = f"writing a batch to {partition}"
        node_id = self._find_leader(partition)
        version = self._choose_api_version(
            node_id, api_versions.PRODUCE_KEY, api_versions.PRODUCE_VERSIONS
        )
        chunks = produce_requests.encode_produce_request(
            version,
            transactional_id=None,
            acks=-1,
            timeout_ms=10_000,
            batches=[
                ProduceBatch(
                    partition.topic,
                    self._find_topic_id(partition.topic),
                    partition.partition,
                    memoryview(batch),
                )
            ],
        )
        body = self._send_request(
            node_id, api_versions.PRODUCE_KEY, version=version, chunks=chunks, doing=doing
        )
        (written,) = produce_requests.decode_produce_response(version, body).partitions
        if written.error_code:
            said = written.error_message or written.record_errors
            raise self._create_error(doing, written.error_code, str(said))
        return written.base_offset

    def _fetch_records(self, partition: TopicPartition, start: int) -> FetchResponsePartition:
        node_id = self._find_leader(partition)
        version = self._choose_api_version(
            node_id, api_versions.FETCH_KEY, api_versions.FETCH_VERSIONS
        )
        asked = FetchRequestPartition(
            partition.topic,
            self._find_topic_id(partition.topic),
            partition.partition,
            -1,
            start,
            -1,
            _FETCH_MAX_BYTES,
        )
        body = fetch_requests.encode_fetch_request(
            version,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=2 * _FETCH_MAX_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            partitions=[asked],
            forgotten=[],
            rack_id="",
        )
        doing = f"reading {partition}"
        answer = self._send_request(
            node_id, api_versions.FETCH_KEY, version=version, chunks=[body], doing=doing
        )
        response = fetch_requests.decode_fetch_response(version, answer, max_partitions=1)
        if response.error_code:
            raise self._create_error(doing, response.error_code)
        (found,) = response.partitions
        return found

    def _find_leader(self, partition: TopicPartition) -> int:
        view = self._connections.view
        if partition.topic not in view.list_requested_topics():
            self.preload_topic_metadata([partition.topic])
        doing = f"waiting for the leader of {partition}"
        self._wait_until(
            lambda: view.get_leader(partition.topic, partition.partition) is not None, doing=doing
        )
        found = view.get_leader(partition.topic, partition.partition)
        assert found is not None
        return found.node_id

    def _find_topic_id(self, topic: str) -> bytes:
        found = self._connections.view.get_topic(topic)
        assert found is not None, topic
        return found.topic_id

    def _choose_api_version(self, node_id: int, api_key: int, asked: tuple[int, int]) -> int:
        self._wait_until(
            lambda: self._connections.choose_version(node_id, api_key, *asked) is not None,
            doing=f"connecting to broker {node_id} of {self._alias}",
        )
        found = self._connections.choose_version(node_id, api_key, *asked)
        assert found is not None
        return found

    def _send_request(
        self,
        node_id: int,
        api_key: int,
        *,
        version: int,
        chunks: list[bytes | memoryview] | list[bytes],
        doing: str,
    ) -> memoryview:
        replies: list[RawClientResponse] = []
        self._connections.call_with_encoded_body(
            node_id,
            lane=_CONNECTION_PURPOSE,
            api_key=api_key,
            version=version,
            chunks=chunks,
            done=replies.append,
        )
        self._wait_until(lambda: bool(replies), doing=doing)
        (reply,) = replies
        if reply.body is None:
            raise SandboxError(f"{doing}: {reply.failure}")
        return reply.body

    def _wait_until(self, condition: Callable[[], bool], *, doing: str) -> None:
        until = Deadline.after(_REQUEST_TIMEOUT_S, now_s=self._clock.now_s())
        while not condition():
            if until.is_expired(self._clock.now_s()):
                troubles = self._connections.get_connection_errors()
                raise SandboxError(
                    f"{doing}: no response in {_REQUEST_TIMEOUT_S:.0f} s; {troubles}"
                )
            self._poller.poll(min(_POLL_INTERVAL_S, self._connections.tick(self._clock.now_s())))

    def _create_error(self, doing: str, code: int, said: str = "") -> SandboxError:
        return SandboxError(f"{doing} of {self._alias}: error {code} {said}".rstrip())
