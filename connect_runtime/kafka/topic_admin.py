"""Admin operations of a worker on its cluster: topics, offsets, cluster id, groups. Thread-safe."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.kafka import client_errors
from connect_runtime.kafka.admin_client import AdminClient
from connect_runtime.kafka.client_errors import TopicMissingError, UnreachableError
from connect_runtime.kafka.conflicting_connect_cluster import CONNECT_PROTOCOL_TYPE, DescribedGroup
from connect_runtime.kafka.librdkafka_connection_settings import (
    REQUEST_TIMEOUT_KEY,
    KafkaClusterAccess,
)
from connect_runtime.protocol.request_builders import OffsetQuery
from connect_runtime.protocol.topic_requests import NewTopic

_LOG = logging.getLogger(__name__)
_REQUEST_TIMEOUT_MS = 5_000
"""Timeout of one request. Requests are sent to an unresponsive broker until the first of these
requests times out."""
_RETRY_DELAY_S = 0.1
_METADATA_PROPAGATION_S = 10.0
_EARLIEST_TIMESTAMP, _LATEST_TIMESTAMP = -2, -1
_NO_LEADER = -1
_CLEANUP_POLICY = "cleanup.policy"


class TopicAdmin:
    """Admin client of a worker. Every call ends at its deadline.

    Failures are raised as `client_errors` types.
    """

    def __init__(self, access: KafkaClusterAccess, *, client_id: str, clock: Clock) -> None:
        self.where = access.name_and_addresses
        self._clock = clock
        self._closed = threading.Event()
        self._access = dataclasses.replace(
            access,
            properties={**access.properties, REQUEST_TIMEOUT_KEY: str(_REQUEST_TIMEOUT_MS)},
        )
        self._client_id = client_id
        self._idle: deque[AdminClient] = deque()
        """Idle clients, for reuse. Each call in progress uses a client of its own."""

    def get_cluster_id(self, end: Deadline) -> str:
        """Return the Kafka cluster id."""
        with self._borrow_client(end) as (client, left_s):
            return client.read_cluster_id(left_s)

    def list_connect_groups(self, timeout_s: float) -> list[DescribedGroup]:
        """Return all visible Connect groups with their members.

        Groups that the principal may not list or describe are omitted.
        """
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        found: list[DescribedGroup] = []
        try:
            with self._borrow_client(end) as (client, left_s):
                listed = client.list_groups(left_s)
        except ConnectError as error:
            _LOG.info("listing groups of %s: %s", self.where, error)
            return found
        for each in listed:
            if each.protocol_type == CONNECT_PROTOCOL_TYPE:
                group = str(each.group_id)
                try:
                    with self._borrow_client(end) as (client, left_s):
                        members = client.describe_classic_group(group, left_s).members
                except ConnectError as error:
                    _LOG.info("describing group %s of %s: %s", group, self.where, error)
                else:
                    found.append(
                        DescribedGroup(
                            group_id=group,
                            protocol_type=CONNECT_PROTOCOL_TYPE,
                            members=tuple(
                                (one.member_metadata, one.member_assignment) for one in members
                            ),
                        )
                    )
        return found

    def count_partitions(self, topic: str, end: Deadline) -> int:
        """Return the topic's number of partitions. Raises `TopicMissingError`."""
        return len(self._describe_topic(topic, end).partitions)

    def get_cleanup_policy(self, topic: str, end: Deadline) -> str | None:
        """Return the topic's effective cleanup policy."""
        found = self._request_topic_entry(
            lambda client, left_s: client.describe_topic_configs([topic], left_s)[topic],
            end,
            doing=f"reading settings of topic {topic}",
        )
        return next((each.value for each in found.configs if each.name == _CLEANUP_POLICY), None)

    def create_topic(self, topic: NewTopic, end: Deadline) -> None:
        """Create a topic. Raises `TopicExistsError`."""
        self._request_topic_entry(
            lambda client, left_s: client.create_topics([topic], left_s)[topic.name],
            end,
            doing=f"creating topic {topic.name}",
        )

    def list_start_offsets(self, topic: str, partitions: int, end: Deadline) -> Mapping[int, int]:
        """Return the first available offset of each partition."""
        return self._list_offsets(topic, partitions, end, timestamp=_EARLIEST_TIMESTAMP)

    def list_end_offsets(self, topic: str, partitions: int, end: Deadline) -> Mapping[int, int]:
        """Return the end offset (exclusive) of each partition, including records of open
        transactions."""
        return self._list_offsets(topic, partitions, end, timestamp=_LATEST_TIMESTAMP)

    def _describe_topic(self, topic: str, end: Deadline) -> Any:
        return self._request_topic_entry(
            lambda client, left_s: client.describe_topics([topic], left_s)[topic],
            end,
            doing=f"describing topic {topic}",
        )

    def _list_offsets(
        self, topic: str, partitions: int, end: Deadline, *, timestamp: int
    ) -> Mapping[int, int]:
        """Request partition offsets of an existing topic from the partition leaders.

        Retries while some brokers do not know the topic yet, or no longer lead a partition.
        """
        now_s = self._clock.now_s()
        spread = Deadline.after(min(_METADATA_PROPAGATION_S, end.remaining_s(now_s)), now_s=now_s)
        doing = f"requesting the offsets of {topic}"
        found: dict[int, int] = {}
        while True:
            try:
                self._request_offsets(topic, range(partitions), found, end, timestamp=timestamp)
            except (RetriableError, TopicMissingError) as error:
                limit = spread if isinstance(error, TopicMissingError) else end
                if limit.is_expired(self._clock.now_s()):
                    raise
                self._wait_before_retry(doing)
            else:
                return found

    def _request_offsets(
        self,
        topic: str,
        partitions: range,
        found: dict[int, int],
        end: Deadline,
        *,
        timestamp: int,
    ) -> None:
        """Request the offsets of the partitions that are not in `found` yet, and add them to
        `found`.

        Raises the error of the first partition whose entry in the response has an error code.
        """
        doing = f"requesting the offsets of {topic}"
        leaders = {
            int(each.partition_index): int(each.leader_id)
            for each in self._describe_topic(topic, end).partitions
        }
        by_leader: defaultdict[int, list[OffsetQuery]] = defaultdict(list)
        for number in partitions:
            if number not in found:
                query = OffsetQuery(partition=number, timestamp=timestamp)
                by_leader[leaders.get(number, _NO_LEADER)].append(query)
        if _NO_LEADER in by_leader:
            missing = ", ".join(str(each.partition) for each in by_leader[_NO_LEADER])
            raise RetriableError(f"{doing} on {self.where}: no leader for partitions {missing}")
        for leader, queries in by_leader.items():
            with self._borrow_client(end) as (client, left_s):
                timeout_s = min(left_s, _REQUEST_TIMEOUT_MS / 1000)
                response = client.list_offsets(
                    leader, {topic: queries}, timeout_s, read_committed=False
                )
            answers = {
                int(each.partition_index): each
                for entity in response
                if entity.name == topic
                for each in entity.partitions
            }
            for query in queries:
                answer = answers.get(query.partition)
                if answer is None:
                    raise RetriableError(f"{doing} on {self.where}: the response is incomplete")
                if answer.error_code:
                    raise client.translate_response_error(answer, doing)
                found[query.partition] = int(answer.offset)

    def close(self) -> None:
        """Abort running calls and close all idle connections. Each running call closes its own
        connection."""
        self._closed.set()
        self._close_idle_clients()

    def _close_idle_clients(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()

    @contextlib.contextmanager
    def _borrow_client(self, end: Deadline) -> Iterator[tuple[AdminClient, float]]:
        """Borrow an admin client for exclusive use. Yields the client and the number of seconds
        until the call's deadline."""
        try:
            client = self._idle.pop()
        except IndexError:
            client = AdminClient(
                self._access,
                client_id=self._client_id,
                clock=self._clock,
                is_cancelled=self._closed.is_set,
            )
        try:
            yield client, max(0.01, end.remaining_s(self._clock.now_s()))
        finally:
            self._idle.append(client)
            if self._closed.is_set():
                self._close_idle_clients()

    def _request_topic_entry(
        self, request: Callable[[AdminClient, float], Any], end: Deadline, *, doing: str
    ) -> Any:
        """Send a request about one topic, and return the entry of the topic in the response.
        Retries while the entry has a transient error code."""
        error: ConnectError | None = None
        while True:
            try:
                with self._borrow_client(end) as (client, left_s):
                    found = request(client, left_s)
            except UnreachableError:
                if error is None:
                    raise
                raise error from None  # it says more than a timeout of the last attempt
            if not found.error_code:
                return found
            error = client.translate_response_error(found, doing)
            may_retry = client_errors.is_retriable_code(int(found.error_code))
            if not may_retry or end.is_expired(self._clock.now_s()):
                raise error
            self._wait_before_retry(doing)

    def _wait_before_retry(self, doing: str) -> None:
        if self._closed.wait(_RETRY_DELAY_S):
            raise RetriableError(f"{doing} on {self.where} was canceled by shutdown")
