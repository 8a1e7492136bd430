"""Sends requests for many partitions to their leaders, until each partition is done or has failed.

Partitions are grouped by leader. A leader has one group of partitions in flight at a time. Requests
to different leaders are concurrent, so a slow leader does not delay the partitions of the others.
Errors that may be transient are retried until the caller's deadline, with fresh metadata.
"""

from __future__ import annotations

import abc
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka import client_errors
from connect_runtime.kafka.client_errors import AuthenticationError
from connect_runtime.network.cluster_connections import ClusterConnections
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import varints
from connect_runtime.protocol.request_errors import MalformedResponseError, UnsupportedVersion
from mm2.kafka.kafka_client_interfaces import LogTruncatedError

_MAX_PARTITIONS_PER_REQUEST = 1000
_REQUEST_TIMEOUT_S = 15.0
_MIN_TIMEOUT_S = 0.01
_RETRY_DELAY_S = 0.05
_POLL_INTERVAL_S = 0.05
_METADATA_REFRESH_S = 1.0
"""Interval of metadata refreshes during a call. If a leader does not respond, requests for its
partitions are sent to the new leaders soon after their election."""
NO_CONTENT = "the response does not contain the partition"
_OUT_OF_RANGE = "the log does not contain the next offset to read"


def create_log_truncated_error(doing: str, problem: str) -> LogTruncatedError:
    """Create the error for records that no longer exist in the log. `doing` starts the message and
    names the cluster."""
    return LogTruncatedError(
        f"{doing}: {problem}; the topic was truncated (unclean leader election) or recreated, and "
        "will be read again from the beginning"
    )


@dataclass(slots=True, kw_only=True, eq=False)
class RequestGroup:
    """Requests in flight to one leader, all for the same partitions. The leader responds in the
    order of the requests."""

    node_id: int
    partitions: Sequence[TopicPartition]
    size: int
    """Number of requests."""
    replies: dict[int, Any] = field(default_factory=dict)
    """Replies of the leader, by the position of the request in the group."""


@dataclass(slots=True, kw_only=True, eq=False)
class LeaderCall(abc.ABC):
    """One call of `LogClient`: sends requests until each partition is done or has failed.

    Invariants: a partition is in `_waiting` until it is done or has failed. `_in_flight` contains
    the group whose reply a partition accepts; replies of other groups are ignored.
    """

    where: str
    clock: Clock
    end: Deadline
    doing: str
    all_required: bool
    _cluster: ClusterConnections = field(init=False)
    _poller: Poller = field(init=False)
    _waiting: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions that are not done, in the order in which the next requests list them."""
    _in_flight: dict[TopicPartition, RequestGroup] = field(default_factory=dict)
    _busy: dict[int, RequestGroup] = field(default_factory=dict)
    """The request group in flight to each leader, by node id."""
    _answered: deque[RequestGroup] = field(default_factory=deque)
    _resume_at_s: dict[TopicPartition, float] = field(default_factory=dict)
    _errors: dict[TopicPartition, ConnectError] = field(default_factory=dict)
    """The last error of each partition in `_waiting` whose last request failed."""
    _failed: dict[TopicPartition, ConnectError] = field(default_factory=dict)

    @abc.abstractmethod
    def _send_group_requests(self, group: RequestGroup) -> bool:
        """Send the requests of a group. The callback of each request is `_create_callback(group,
        position)`.

        Returns False if the connection is not ready yet. Raises UnsupportedVersion.
        """

    @abc.abstractmethod
    def _decode_group_replies(
        self, group: RequestGroup
    ) -> Mapping[TopicPartition, tuple[int, Any]]:
        """Decode the replies to a request group. Returns the error code and the content for each
        partition.

        Raises MalformedResponseError.
        """

    @abc.abstractmethod
    def _handle_partition_data(self, partition: TopicPartition, content: Any) -> None:
        """Process a partition's content in a response without an error code. Must end with a call
        of `_mark_partition_done`, `_mark_partition_failed`, `_retry_partition` or
        `_request_more_data`."""

    def request_all_partitions(
        self, partitions: Collection[TopicPartition], cluster: ClusterConnections, poller: Poller
    ) -> dict[TopicPartition, ConnectError]:
        """Send requests until each partition is done or has failed, and return the errors of the
        failed partitions."""
        self._cluster, self._poller = cluster, poller
        self._waiting = dict.fromkeys(partitions)
        try:
            self._send_requests_until_answered(cluster, poller)
            return dict(self._failed)
        finally:  # requests in flight refer to this call, which must not keep errors alive
            self._failed.clear()
            self._errors.clear()

    def _send_requests_until_answered(self, cluster: ClusterConnections, poller: Poller) -> None:
        self._request_topic_metadata({each.topic for each in self._waiting})
        poller.poll(0.0)  # notices connections that brokers closed since the last call
        refresh_at_s = self.clock.now_s() + _METADATA_REFRESH_S
        while self._waiting:
            now_s = self.clock.now_s()
            if self.end.is_expired(now_s):
                self._fail_waiting_partitions()
                break
            if now_s >= refresh_at_s:
                refresh_at_s = now_s + _METADATA_REFRESH_S
                cluster.refresh_metadata()
            self._raise_authentication_error()
            self._send_requests_to_leaders(now_s)
            wait_s = cluster.tick(now_s)
            if not self._answered:
                poller.poll(min(wait_s, _POLL_INTERVAL_S, self.end.remaining_s(now_s)))
            while self._answered:
                self._handle_replies(self._answered.popleft())

    # Requests

    def _request_topic_metadata(self, names: set[str]) -> None:
        """Request the metadata of these topics. Topics in which a partition had no leader are
        requested again."""
        view = self._cluster.view
        known = set(view.list_requested_topics())
        outdated = {
            each.topic
            for each in self._waiting
            if view.get_leader(each.topic, each.partition) is None
        }
        if outdated & known:
            self._cluster.set_metadata_topics(known - outdated)
        if not names <= known - outdated:
            self._cluster.set_metadata_topics(names)

    def _send_requests_to_leaders(self, now_s: float) -> None:
        """Send a group of requests to each leader that has partitions and no group in flight."""
        groups: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition in list(self._waiting):
            leader = self._cluster.view.get_leader(partition.topic, partition.partition)
            group = self._in_flight.get(partition)
            if group is not None:
                if leader is None or leader.node_id == group.node_id:
                    continue
                del self._in_flight[partition]  # the leader has moved
            if now_s < self._resume_at_s.get(partition, now_s):
                continue
            if leader is None:
                self._handle_missing_leader(partition)
            else:
                groups[leader.node_id].append(partition)
        for node_id, partitions in groups.items():
            if node_id not in self._busy:
                self._send_requests_to_leader(node_id, partitions[:_MAX_PARTITIONS_PER_REQUEST])

    def _send_requests_to_leader(self, node_id: int, partitions: Sequence[TopicPartition]) -> None:
        group = RequestGroup(node_id=node_id, partitions=partitions, size=1)
        try:
            is_sent = self._send_group_requests(group)
        except UnsupportedVersion as failure:
            self._handle_failure(partitions, failure)
            return
        if is_sent:
            self._busy[node_id] = group
            self._in_flight |= dict.fromkeys(partitions, group)

    def _get_topic_id(self, topic: str) -> bytes:
        found = self._cluster.view.get_topic(topic)
        return varints.NO_TOPIC_ID if found is None else found.topic_id

    def _create_callback(self, group: RequestGroup, position: int = 0) -> Callable[[Any], None]:
        def on_reply(reply: Any) -> None:
            group.replies[position] = reply
            if len(group.replies) == group.size:
                self._answered.append(group)

        return on_reply

    def _get_timeout_s(self) -> float:
        left_s = self.end.remaining_s(self.clock.now_s())
        return max(_MIN_TIMEOUT_S, min(_REQUEST_TIMEOUT_S, left_s))

    # Replies

    def _handle_replies(self, group: RequestGroup) -> None:
        if self._busy.get(group.node_id) is group:
            del self._busy[group.node_id]
        partitions = [each for each in group.partitions if self._in_flight.get(each) is group]
        for partition in partitions:
            del self._in_flight[partition]
        failures = [each.failure for each in group.replies.values() if each.failure is not None]
        try:
            found = {} if failures else self._decode_group_replies(group)
        except MalformedResponseError as malformed:
            failures = [malformed]
        if failures:
            self._handle_failure(partitions, failures[0])
            return
        for partition in partitions:
            if partition not in found:
                self._retry_partition(
                    partition, RetriableError(self._format_partition_problem(partition, NO_CONTENT))
                )
            elif found[partition][0]:
                self._handle_error_code(partition, found[partition][0])
            else:
                self._errors.pop(partition, None)
                self._handle_partition_data(partition, found[partition][1])

    def _handle_failure(self, partitions: Sequence[TopicPartition], failure: ConnectError) -> None:
        """Handle a group of requests that got no valid response: fail or retry its partitions."""
        self._cluster.refresh_metadata()
        for partition in partitions:
            error = self._translate_failure(partition, failure)
            if isinstance(error, AuthenticationError):
                raise error
            if isinstance(error, FatalError):
                self._mark_partition_failed(partition, error)
            else:
                self._retry_partition(partition, error)

    def _handle_error_code(self, partition: TopicPartition, code: int) -> None:
        if code == client_errors.OFFSET_OUT_OF_RANGE:
            self._mark_partition_failed(
                partition, self._create_log_truncated_error(partition, _OUT_OF_RANGE)
            )
            return
        self._cluster.refresh_metadata()
        error = client_errors.translate_error_code(
            code, f"{self.doing} {partition}", where=self.where
        )
        is_missing = client_errors.is_missing_topic_code(code)
        if client_errors.is_retriable_code(code) or (is_missing and self.all_required):
            self._retry_partition(partition, error)
        else:
            self._mark_partition_failed(partition, error)

    def _handle_missing_leader(self, partition: TopicPartition) -> None:
        topic = self._cluster.view.get_topic(partition.topic)
        if topic is None:
            return  # the metadata has not been received yet
        if topic.error_code:
            self._handle_error_code(partition, topic.error_code)
        elif partition.partition not in topic.leaders:
            self._handle_error_code(partition, client_errors.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            self._handle_error_code(partition, client_errors.LEADER_NOT_AVAILABLE)

    # Results

    def _mark_partition_done(self, partition: TopicPartition) -> None:
        del self._waiting[partition]

    def _mark_partition_failed(self, partition: TopicPartition, error: ConnectError) -> None:
        if self.all_required:
            raise error
        del self._waiting[partition]
        self._failed[partition] = error

    def _retry_partition(self, partition: TopicPartition, error: ConnectError) -> None:
        """Record a partition's error, and send its next request after a pause."""
        self._errors[partition] = error
        self._resume_at_s[partition] = self.clock.now_s() + _RETRY_DELAY_S

    def _request_more_data(self, partition: TopicPartition) -> None:
        """Request more data of a partition. In the next request, the partition is listed after the
        leader's other partitions."""
        del self._waiting[partition]
        self._waiting[partition] = None

    def _raise_authentication_error(self) -> None:
        """Raise the error if a broker rejected the credentials or certificates, even if another
        broker accepts them."""
        for failure in self._cluster.get_connection_errors().values():
            error = self._translate_failure(next(iter(self._waiting)), failure)
            if isinstance(error, AuthenticationError):
                raise error

    def _fail_waiting_partitions(self) -> None:
        for partition in list(self._waiting):
            error = self._errors.get(partition)
            if error is None or partition in self._in_flight:
                failure = self._find_connection_error(partition)
                if failure is not None or error is None:
                    failure = failure or RetriableError("no response")
                    error = self._translate_failure(partition, failure)
            self._mark_partition_failed(partition, error)

    def _find_connection_error(self, partition: TopicPartition) -> ConnectError | None:
        """Return why a partition got no response, or None if there is no connection error."""
        leader = self._cluster.view.get_leader(partition.topic, partition.partition)
        if leader is not None:
            return self._cluster.get_connection_error(leader.node_id)
        errors = self._cluster.get_connection_errors().values()
        return self._cluster.metadata_error() or next(iter(errors), None)

    def _translate_failure(self, partition: TopicPartition, failure: ConnectError) -> ConnectError:
        doing = f"{self.doing} {partition} on {self.where}"
        return client_errors.translate_request_failure(failure, doing)

    def _create_log_truncated_error(
        self, partition: TopicPartition, problem: str
    ) -> LogTruncatedError:
        return create_log_truncated_error(f"{self.doing} {partition} on {self.where}", problem)

    def _format_partition_problem(self, partition: TopicPartition, problem: str) -> str:
        return f"{self.doing} {partition} on {self.where}: {problem}"
