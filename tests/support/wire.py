"""Driving cluster connections in a loop, as the copy loop does, and asking one thing at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from connect_runtime.network import keystore_files
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
    security_settings,
)
from connect_runtime.protocol.fetch_requests import FetchRequestPartition, FetchResponsePartition
from connect_runtime.protocol.produce_requests import ProduceBatch, ProduceResponsePartition
from connect_runtime.protocol.request_builders import RequestBuilder, RequestTarget
from connect_runtime.protocol.security_settings import SecuritySettings
from connect_runtime.system.system_clock import SystemClock

_BROKER_RESOURCE = 4


def broker_settings(node_id: int) -> RequestBuilder:
    """Something to ask that each broker answers for itself."""

    def build(version: int, m: Any) -> Any:
        asked = m.DescribeConfigsResource(
            resource_type=_BROKER_RESOURCE,
            resource_name=str(node_id),
            configuration_keys=("broker.id",),
        )
        return m.DescribeConfigsRequest(resources=(asked,))

    return RequestBuilder(api="describe_configs", low=1, high=4, build=build)


def security_of(properties: Mapping[str, str]) -> SecuritySettings:
    parsed = security_settings.parse_security_settings(
        properties, files=keystore_files.create_store_files(Path())
    )
    assert parsed.security is not None, parsed.errors
    return parsed.security


class Driver:
    """One cluster's connections and the loop that moves them."""

    def __init__(self, properties: Mapping[str, str], **options: Any) -> None:
        settings = {
            "bootstrap": tuple(properties["bootstrap.servers"].split(",")),
            "security": security_of(properties),
            "client_id": "wire-test",
            **options,
        }
        self.clock = SystemClock()
        self.poller = Poller()
        self.pool = BufferPool(64 << 20)
        self.connections = ClusterConnections(
            ConnectionSettings(**settings),
            poller=self.poller,
            clock=self.clock,
            random=random.Random(5),
            pool=self.pool,
        )
        self.rounds = 0

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.connections.close()
        self.poller.close()

    def turn(self, wait_s: float = 0.05) -> None:
        """One round of the loop."""
        self.rounds += 1
        self.poller.poll(min(wait_s, self.connections.tick(self.clock.now_s())))

    def until(self, condition: Callable[[], object], deadline_s: float = 20.0) -> None:
        end_s = self.clock.now_s() + deadline_s
        while not condition():
            assert self.clock.now_s() < end_s, (
                self.connections.get_connection_errors() or "deadline passed"
            )
            self.turn()

    def call(self, to: RequestTarget, message: RequestBuilder, **options: Any) -> ClientResponse:
        """Ask and wait for the reply, which may be a failure."""
        replies: list[ClientResponse] = []
        self.connections.call(to, message, done=replies.append, **options)
        assert not replies, "done was called inside call"
        self.until(lambda: replies, options.get("timeout_s", 30.0) + 10.0)
        return replies[0]

    def ask(self, to: RequestTarget, message: RequestBuilder, **options: Any) -> Any:
        """Ask, wait, and insist on an answer; returns the kio entity."""
        reply = self.call(to, message, **options)
        assert reply.failure is None, reply.failure
        return reply.body

    def raw(self, node_id: int, api_key: int, version: int, **options: Any) -> RawClientResponse:
        replies: list[RawClientResponse] = []
        options = {"lane": "raw", **options}
        self.connections.call_with_encoded_body(
            node_id, api_key=api_key, version=version, done=replies.append, **options
        )
        assert not replies, "done was called inside call_raw"
        self.until(lambda: replies, 40.0)
        return replies[0]

    def version(self, node_id: int, api_key: int, asked: tuple[int, int]) -> int:
        found: list[int | None] = [None]

        def known() -> bool:
            found[0] = self.connections.choose_version(node_id, api_key, *asked)
            return found[0] is not None

        self.until(known)
        assert found[0] is not None
        return found[0]

    def leader(self, topic: str, partition: int = 0) -> int:
        """Wait until the partition has a leader that is known; returns its node id."""
        view = self.connections.view
        if topic not in view.list_requested_topics():
            self.connections.set_metadata_topics([*view.list_requested_topics(), topic])
        self.until(lambda: view.get_leader(topic, partition) is not None)
        found = view.get_leader(topic, partition)
        assert found is not None
        return found.node_id

    def topic_id(self, topic: str) -> bytes:
        found = self.connections.view.get_topic(topic)
        assert found is not None
        return found.topic_id

    def fetch(
        self,
        topic: str,
        offset: int = 0,
        *,
        partition: int = 0,
        isolation_level: int = 1,
        asked: tuple[int, int] = api_versions.FETCH_VERSIONS,
    ) -> FetchResponsePartition:
        """One fetch without a session."""
        node_id = self.leader(topic, partition)
        version = self.version(node_id, api_versions.FETCH_KEY, asked)
        body = fetch_requests.encode_fetch_request(
            version,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=64 << 20,
            isolation_level=isolation_level,
            session_id=0,
            session_epoch=-1,
            partitions=[
                FetchRequestPartition(
                    topic, self.topic_id(topic), partition, -1, offset, -1, 8 << 20
                )
            ],
            forgotten=[],
            rack_id="",
        )
        reply = self.raw(node_id, api_versions.FETCH_KEY, version, chunks=[body])
        assert reply.failure is None, reply.failure
        assert reply.body is not None
        response = fetch_requests.decode_fetch_response(version, reply.body, max_partitions=1)
        assert response.error_code == 0
        (found,) = response.partitions
        return found

    def produce(
        self,
        batches: Sequence[ProduceBatch],
        *,
        asked: tuple[int, int] = api_versions.PRODUCE_VERSIONS,
        transactional_id: str | None = None,
    ) -> list[ProduceResponsePartition]:
        """One request to the leader of the first batch, acknowledged by all replicas."""
        node_id = self.leader(batches[0].topic, batches[0].partition)
        version = self.version(node_id, api_versions.PRODUCE_KEY, asked)
        chunks = produce_requests.encode_produce_request(
            version,
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            batches=batches,
        )
        reply = self.raw(node_id, api_versions.PRODUCE_KEY, version, chunks=chunks)
        assert reply.failure is None, reply.failure
        assert reply.body is not None
        return produce_requests.decode_produce_response(version, reply.body).partitions
