"""Consumer group client: lists and describes groups, and reads and writes their offsets.

Requests for many groups are batched per coordinator. A group without a result in a batch is
requested individually, because old brokers do not support batched requests and groups can move to
another coordinator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.admin_requests import AdminRequest, AdminRequestClient, AdminResponse
from connect_runtime.kafka.client_errors import ErrorAdvice
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol import consumer_group_requests, request_builders
from connect_runtime.protocol.consumer_group_requests import CommittedOffset
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorKey,
    NodeTarget,
    RequestBuilder,
)
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    CallQueueFull,
    ConnectionFailed,
    RequestTimedOut,
    UnknownBroker,
    UnsupportedVersion,
)
from mm2.kafka.kafka_client_interfaces import (
    GroupInUseError,
    OffsetsToWrite,
    PerGroupResult,
    RefusedOffsets,
    ReportedPositions,
)
from mm2.offsets import group_selection
from mm2.offsets.checkpoint_rules import CommittedPositions, OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.group_selection import ListedGroup

T = TypeVar("T")
MAX_GROUPS_PER_REQUEST = 100
"""Maximum number of groups in one batched request."""
_COORDINATOR_NOT_AVAILABLE = 15
_MAX_COORDINATORS_PER_REQUEST = 500
_BATCH_TIMEOUT_S = 10.0
"""Timeout for batched requests. When it expires, groups are requested one by one, because a broker
may be down."""

BatchRequestBuilder = Callable[[Sequence[str]], RequestBuilder]


class BatchedGroupRequests:
    """Sends requests for many groups in batches per coordinator, and caches the coordinators. Not
    thread-safe."""

    def __init__(self, calls: AdminRequestClient, *, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._nodes: dict[str, int] = {}
        self._unknown_apis: set[str] = set()

    def send_batches(
        self,
        groups: Collection[str],
        message: BatchRequestBuilder,
        timeout_s: float,
        *,
        operation: str,
    ) -> list[Any]:
        """Send batched requests and return the response bodies.

        Raises `RetriableError` if the client is shutting down, or `AuthenticationFailed`.
        """
        end = Deadline.after(min(timeout_s / 2, _BATCH_TIMEOUT_S), now_s=self._clock.now_s())
        self._find_coordinators(groups, end)
        chunks = [
            (node, chunk)
            for node, names in self._group_by_coordinator(groups).items()
            for chunk in split_into_chunks(names, MAX_GROUPS_PER_REQUEST)
        ]
        questions = [
            AdminRequest(
                to=NodeTarget(node),
                message=message(chunk),
                doing=f"{operation}s {chunk[0]} to {chunk[-1]}",
                get_error_code=_ignore_request_error,
            )
            for node, chunk in chunks
        ]
        bodies: list[Any] = []
        for (_, chunk), answer in zip(
            chunks, self._send_supported_requests(questions, end), strict=True
        ):
            if isinstance(answer, ConnectError):
                self.forget_coordinators(chunk)
            else:
                bodies.append(answer)
        return bodies

    def forget_coordinators(self, groups: Iterable[str]) -> None:
        """Remove these groups from the coordinator cache, so that their coordinators are looked up
        again."""
        for each in groups:
            self._nodes.pop(each, None)

    def _group_by_coordinator(self, groups: Collection[str]) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for group in sorted(set(groups)):
            node = self._nodes.get(group)
            if node is not None:
                found.setdefault(node, []).append(group)
        return found

    def _find_coordinators(self, groups: Collection[str], end: Deadline) -> None:
        names = sorted(each for each in set(groups) if each not in self._nodes)
        questions = [
            AdminRequest(
                to=AnyNodeTarget(),
                message=request_builders.build_find_coordinators_request(
                    request_builders.GROUP_COORDINATOR, chunk
                ),
                doing="finding the coordinators of groups",
                get_error_code=_ignore_request_error,
            )
            for chunk in split_into_chunks(names, _MAX_COORDINATORS_PER_REQUEST)
        ]
        for answer in self._send_supported_requests(questions, end):
            if not isinstance(answer, ConnectError):
                for each in answer.coordinators:
                    if not int(each.error_code):
                        self._nodes[str(each.key)] = int(each.node_id)

    def _send_supported_requests(
        self, questions: Sequence[AdminRequest], end: Deadline
    ) -> list[AdminResponse]:
        """Send the requests and return their responses. Nothing is sent if a broker has already
        rejected an API of these requests as unsupported."""
        known = [each for each in questions if each.message.api not in self._unknown_apis]
        if len(known) < len(questions):
            return [RetriableError("the brokers do not support this request")] * len(questions)
        answers = self._calls.send_requests(known, end.remaining_s(self._clock.now_s()))
        for question, answer in zip(known, answers, strict=True):
            if isinstance(answer, UnsupportedVersion):
                self._unknown_apis.add(question.message.api)
            elif isinstance(answer, AuthenticationFailed):
                raise answer
        return answers


def split_into_chunks(names: Sequence[T], size: int) -> list[Sequence[T]]:
    return [names[at : at + size] for at in range(0, len(names), size)]


def _ignore_request_error(_: Any) -> int:
    """Return 0 as the error code of the whole request, because each group has its own error
    code."""
    return 0


_STATES_BY_NAME = {
    **dict.fromkeys(("Assigning", "CompletingRebalance", "PreparingRebalance"), GroupState.ACTIVE),
    **dict.fromkeys(("Reconciling", "Stable"), GroupState.ACTIVE),
    "Dead": GroupState.ABSENT,
    "Empty": GroupState.EMPTY,
}
_WRONG_GROUP_TYPE_CODES = frozenset(
    {consumer_group_requests.GROUP_ID_NOT_FOUND, consumer_group_requests.UNSUPPORTED_VERSION}
)

_NO_RESPONSE_FAILURES = (
    ConnectionFailed,
    UnknownBroker,
    RequestTimedOut,
    CallQueueFull,
)
_UNSTABLE_OFFSET_COMMIT = 88
_ADVICE: Mapping[int, ErrorAdvice] = {
    **dict.fromkeys(
        (25, 27, 68, 113),  # UNKNOWN_MEMBER_ID, …: not a member
        (GroupInUseError, "the group has members, so its offsets were not changed"),
    ),
    _UNSTABLE_OFFSET_COMMIT: (
        RetriableError,
        "an open transaction contains offsets of the group",
    ),
}


class KafkaGroups:
    """Implements `ConsumerGroups`, where the methods are documented. Connects on first use."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
        is_shutting_down: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the client without connecting. Once `is_shutting_down` returns True, every call
        returns promptly. Raises `FatalError` for unsupported settings."""
        self._where = access.name_and_addresses
        self._clock = clock
        self._calls = AdminRequestClient(
            access.to_connection_settings(client_id),
            clock=clock,
            rng=random.Random(),  # noqa: S311  # spreads waits, no secret
            where=access.name_and_addresses,
            advice=_ADVICE,
            is_cancelled=is_shutting_down,
        )
        self._batches = BatchedGroupRequests(self._calls, clock=clock)

    def list_groups(self, timeout_s: float) -> list[ListedGroup]:
        """List all groups of the cluster for which DESCRIBE is authorized."""
        doing = f"listing groups on {self._where}"
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        cluster = AdminRequest(
            to=AnyNodeTarget(), message=request_builders.build_metadata_request(()), doing=doing
        )
        brokers = self._calls.send_request(cluster, timeout_s).brokers
        answers = self._calls.send_requests(
            [
                AdminRequest(
                    to=NodeTarget(int(each.node_id)),
                    message=consumer_group_requests.build_list_groups_request(),
                    doing=f"{doing}, broker {each.node_id}",
                )
                for each in brokers
            ],
            end.remaining_s(self._clock.now_s()),
        )
        listed: list[ListedGroup] = []
        for answer in answers:
            if isinstance(answer, ConnectError):
                raise answer
            listed += map(_convert_to_listed_group, answer.groups)
        return listed

    def describe_group_states(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[GroupState]:
        """Describe groups as KIP-848 groups first, because brokers report such groups as dead when
        they are described as classic groups."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        consumers = self._describe_groups(
            groups,
            consumer_group_requests.build_describe_consumer_groups_request,
            timeout_s,
            fine=_WRONG_GROUP_TYPE_CODES,
            read=_convert_consumer_group_state,
        )
        older = [
            group
            for group, error in consumers.failed.items()
            if isinstance(error, UnsupportedVersion)
        ]
        others = [group for group, state in consumers.succeeded.items() if state is None]
        classic = self._describe_groups(
            [*older, *others],
            consumer_group_requests.build_describe_classic_groups_request,
            end.remaining_s(self._clock.now_s()),
            fine=frozenset({consumer_group_requests.GROUP_ID_NOT_FOUND}),
            read=_convert_classic_group_state,
        )
        known = {group: state for group, state in consumers.succeeded.items() if state is not None}
        failed = {
            group: consumers.failed[group] for group in consumers.failed if group not in older
        }
        return PerGroupResult(
            succeeded={**known, **classic.succeeded}, failed={**failed, **classic.failed}
        )

    def list_member_hosts(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[tuple[str, ...]]:
        return self._describe_groups(
            groups,
            consumer_group_requests.build_describe_classic_groups_request,
            timeout_s,
            fine=frozenset({consumer_group_requests.GROUP_ID_NOT_FOUND}),
            read=_get_member_hosts,
        )

    def list_assignors(self, groups: Collection[str], timeout_s: float) -> PerGroupResult[str]:
        return self._describe_groups(
            groups,
            consumer_group_requests.build_describe_classic_groups_request,
            timeout_s,
            fine=frozenset({consumer_group_requests.GROUP_ID_NOT_FOUND}),
            read=lambda group: str(group.protocol_data),
        )

    def fetch_committed_offsets(
        self, groups: Collection[str], timeout_s: float, *, stable: bool = False
    ) -> PerGroupResult[CommittedPositions]:
        return self._fetch_committed_offsets(groups, timeout_s, stable=stable, seen={})

    def list_share_partitions(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[frozenset[TopicPartition]]:
        return self._send_request_per_group(
            groups,
            lambda name: _build_group_request(
                name,
                consumer_group_requests.build_describe_share_group_offsets_request(name),
                doing="reading the offsets of share group",
                get_error_code=_find_share_group_error,
            ),
            timeout_s,
            read=_convert_to_share_partitions,
        )

    def fetch_changed_committed_offsets(
        self, groups: Collection[str], timeout_s: float, *, seen: ReportedPositions
    ) -> PerGroupResult[CommittedPositions]:
        return self._fetch_committed_offsets(groups, timeout_s, stable=False, seen=seen)

    def commit_offsets(
        self, offsets: Mapping[str, OffsetsToWrite], timeout_s: float
    ) -> PerGroupResult[RefusedOffsets]:
        def build_commit_request(group: str) -> AdminRequest:
            given = {
                partition: CommittedOffset(each.offset, each.metadata)
                for partition, each in offsets[group].items()
            }
            return _build_group_request(
                group,
                consumer_group_requests.build_commit_offsets_request(group, given),
                doing="changing the offsets of group",
                get_error_code=_find_common_partition_error,
                retry=False,
            )

        found = self._send_request_per_group(
            [group for group in offsets if offsets[group]],
            build_commit_request,
            timeout_s,
            read=consumer_group_requests.get_partition_errors,
        )
        refused = {
            group: {
                partition: self._calls.translate_error_code(
                    code, f"changing the offset of group {group} in {partition}"
                )
                for partition, code in codes.items()
            }
            for group, codes in found.succeeded.items()
        }
        nothing: dict[str, RefusedOffsets] = {group: {} for group in offsets if not offsets[group]}
        return PerGroupResult(succeeded={**nothing, **refused}, failed=found.failed)

    def close(self) -> None:
        self._calls.close()

    def _fetch_committed_offsets(
        self, groups: Collection[str], timeout_s: float, *, stable: bool, seen: ReportedPositions
    ) -> PerGroupResult[CommittedPositions]:
        doing = "reading the offsets of group"
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        requested = frozenset(groups)  # a response may contain others
        done: dict[str, CommittedPositions] = {}
        same: set[str] = set()
        data: dict[str, bytes] = {}
        for body in self._batches.send_batches(
            groups,
            lambda chunk: consumer_group_requests.build_multi_group_offset_fetch_request(
                chunk, stable=stable, seen=seen
            ),
            timeout_s,
            operation=doing,
        ):
            same.update(requested.intersection(body.unchanged))
            for each in body.changed:
                if each.group not in requested:
                    continue
                if each.error_code:
                    self._batches.forget_coordinators([each.group])
                else:
                    done[each.group] = _convert_to_committed_positions(each.offsets)
                    data[each.group] = each.data
        alone = self._send_request_per_group(
            set(groups) - done.keys() - same,
            lambda name: _build_group_request(
                name,
                consumer_group_requests.build_fetch_offsets_request(name, stable=stable),
                doing=doing,
            ),
            end.remaining_s(self._clock.now_s()),
            read=lambda body: _convert_to_committed_positions(
                consumer_group_requests.decode_committed_offsets(body)
            ),
            others=len(done) + len(same),
        )
        seen |= data  # only now: after an error nothing counts as seen
        return PerGroupResult(succeeded={**done, **alone.succeeded}, failed=alone.failed)

    def _describe_groups(
        self,
        groups: Collection[str],
        message: Callable[..., RequestBuilder],
        timeout_s: float,
        *,
        fine: frozenset[int],
        read: Callable[[Any], T],
    ) -> PerGroupResult[T]:
        doing = "describing group"
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        requested = frozenset(groups)  # a response may contain others
        done: dict[str, T] = {}
        for body in self._batches.send_batches(
            groups, lambda chunk: message(*chunk), timeout_s, operation=doing
        ):
            for each in body.groups:
                code = int(each.error_code)
                if str(each.group_id) not in requested:
                    continue
                if code == 0 or code in fine:
                    done[str(each.group_id)] = read(each)
                else:
                    self._batches.forget_coordinators([str(each.group_id)])
        alone = self._send_request_per_group(
            set(groups) - done.keys(),
            lambda name: _build_group_request(
                name, message(name), doing=doing, accepted_errors=fine
            ),
            end.remaining_s(self._clock.now_s()),
            read=lambda body: read(_get_only_group(body)),
            others=len(done),
        )
        return PerGroupResult(succeeded={**done, **alone.succeeded}, failed=alone.failed)

    def _send_request_per_group(
        self,
        groups: Iterable[str],
        question: Callable[[str], AdminRequest],
        timeout_s: float,
        *,
        read: Callable[[Any], T],
        others: int = 0,
    ) -> PerGroupResult[T]:
        """Send one request per group. `others` is the number of groups for which a batched response
        has already been received."""
        names = sorted(set(groups))
        answers = self._calls.send_requests([question(group) for group in names], timeout_s)
        failed = {
            group: answer
            for group, answer in zip(names, answers, strict=True)
            if isinstance(answer, ConnectError)
        }
        _raise_cluster_failure(failed, asked=len(names) + others)
        done: dict[str, T] = {}
        for group, answer in zip(names, answers, strict=True):
            if group not in failed:
                try:
                    done[group] = read(answer)
                except RetriableError as error:
                    failed[group] = error
        return PerGroupResult(succeeded=done, failed=failed)


def _build_group_request(
    group: str, message: RequestBuilder, *, doing: str, **more: Any
) -> AdminRequest:
    return AdminRequest(
        to=CoordinatorKey(request_builders.GROUP_COORDINATOR, group),
        message=message,
        doing=f"{doing} {group}",
        **more,
    )


def _raise_cluster_failure(failed: Mapping[str, ConnectError], *, asked: int) -> None:
    """Raise the error if it affects the whole cluster: no request received a response, or
    authentication failed."""
    for error in failed.values():
        if isinstance(error, AuthenticationFailed):
            raise error
    silent = [error for error in failed.values() if isinstance(error, _NO_RESPONSE_FAILURES)]
    if silent and len(silent) == asked:
        raise silent[0]


def _convert_to_listed_group(group: Any) -> ListedGroup:
    return ListedGroup(
        group=str(group.group_id),
        type=getattr(group, "group_type", ""),
        protocol=group.protocol_type,
    )


def _convert_consumer_group_state(group: Any) -> GroupState | None:
    """Return the state of a KIP-848 group, or None if the group is of another type."""
    if int(group.error_code) in _WRONG_GROUP_TYPE_CODES:
        return None
    return _STATES_BY_NAME.get(group.group_state, GroupState.UNKNOWN)


def _convert_classic_group_state(group: Any) -> GroupState:
    state = (
        GroupState.ABSENT
        if int(group.error_code)
        else _STATES_BY_NAME.get(group.group_state, GroupState.UNKNOWN)
    )
    if state is GroupState.ABSENT or group.protocol_type in group_selection.CONSUMER_PROTOCOLS:
        return state
    return GroupState.FOREIGN


def _get_member_hosts(group: Any) -> tuple[str, ...]:
    return tuple(str(each.client_host).lstrip("/") for each in group.members)


def _convert_to_committed_positions(
    found: Mapping[TopicPartition, CommittedOffset],
) -> CommittedPositions:
    return {
        partition: None
        if each.offset < 0
        else OffsetAndMetadata(offset=each.offset, metadata=each.metadata)
        for partition, each in found.items()
    }


def _get_only_group(body: Any) -> Any:
    """Return the group in the response to a request for one group. Raises `RetriableError` if there
    is none."""
    if len(body.groups) != 1:
        raise RetriableError("the group coordinator's response does not contain exactly one group")
    return body.groups[0]


def _find_share_group_error(body: Any) -> int:
    """Return the error code of the group or of one of its partitions, because any error makes the
    result incomplete. Fatal codes take precedence."""
    if len(body.groups) != 1:
        return _COORDINATOR_NOT_AVAILABLE  # the request is repeated
    group = body.groups[0]
    code = int(group.error_code)
    if code:
        return 0 if code == consumer_group_requests.GROUP_ID_NOT_FOUND else code
    codes = {int(each.error_code) for topic in group.topics for each in topic.partitions} - {0}
    return min(codes - consumer_group_requests.RETRIABLE_GROUP_ERRORS or codes, default=0)


def _convert_to_share_partitions(body: Any) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(str(topic.topic_name), int(each.partition_index))
        for topic in _get_only_group(body).topics
        for each in topic.partitions
    )


def _find_common_partition_error(body: Any) -> int:
    """Return the error code that all partitions of a response share, or a retriable code among
    them. Returns 0 if some partitions succeeded."""
    codes = consumer_group_requests.get_partition_errors(body)
    passing = consumer_group_requests.RETRIABLE_GROUP_ERRORS.intersection(codes.values())
    if passing:
        return min(passing)
    partitions = sum(len(topic.partitions) for topic in body.topics)
    same = len(codes) == partitions and len(set(codes.values())) == 1
    return next(iter(codes.values())) if same else 0
