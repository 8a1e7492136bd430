"""Offset and transaction lookups for recovering partitions: ListOffsets, OffsetForLeaderEpoch,
DescribeProducers.

Lookups are combined into one request per leader and API; DescribeProducers requests to a leader are
sent one at a time. A `PendingRequest` is a request that has not been answered yet, and a
`PartitionRecoveryCluster` is the cluster to which it is sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.network.cluster_connections import ClientResponse, ClusterConnections
from connect_runtime.protocol import request_builders, request_errors
from connect_runtime.protocol.request_builders import EpochEndOffsetQuery, NodeTarget, OffsetQuery
from connect_runtime.protocol.request_errors import UnsupportedVersion
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.recovery_instructions import (
    EpochEnd,
    FindSourceOffset,
    FindTargetEnd,
    InstructionAnswer,
    InstructionRefused,
    NoResponse,
    OpenTransaction,
    OpenTransactions,
    SourceLogOffset,
    TargetEnd,
)

REQUEST_TIMEOUT_S = 30.0
UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE = 3, 5


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """An unanswered request of a partition. `token` identifies the recovery step that sent the
    request."""

    copy: PartitionReplicator
    token: int
    instruction: Any

    @property
    def is_awaited(self) -> bool:
        """True if the partition's recovery is still waiting for the answer."""
        return self.token == self.copy.script_runner.token


ReplyHandler = Callable[[PendingRequest, InstructionAnswer], None]


@dataclass(slots=True)
class PartitionRecoveryCluster:
    """One cluster of the flow (source or target). Looks up the names and ids that the topics of
    recovering partitions have on this cluster."""

    cluster: ClusterConnections
    is_target: bool

    def get_topic_name(self, copy: PartitionReplicator) -> str:
        return copy.setup.remote_topic if self.is_target else copy.setup.topic

    def get_topic_id(self, copy: PartitionReplicator) -> bytes:
        where = copy.setup
        return where.target_topic_id if self.is_target else where.source_topic_id

    def format_partition(self, copy: PartitionReplicator) -> str:
        return f"{self.get_topic_name(copy)}-{copy.setup.partition}"

    def has_topic_metadata(self, copy: PartitionReplicator) -> bool:
        """Return True if the metadata has an entry for the partition's topic, even if the entry is
        an error."""
        return self.cluster.view.get_topic(self.get_topic_name(copy)) is not None

    def group_requests_by_leader(
        self, requests: Sequence[PendingRequest], *, reply: ReplyHandler
    ) -> dict[int, list[PendingRequest]]:
        """Group requests by the node id of the partition's leader. Requests for partitions without
        a leader get an error reply."""
        groups: dict[int, list[PendingRequest]] = defaultdict(list)
        for each in requests:
            leader = self.cluster.view.get_leader(
                self.get_topic_name(each.copy), each.copy.setup.partition
            )
            if leader is None:
                reply(each, self._build_no_leader_error(each.copy))
            else:
                groups[leader.node_id].append(each)
        return groups

    def _build_no_leader_error(self, copy: PartitionReplicator) -> InstructionRefused:
        self.cluster.refresh_metadata()
        metadata = self.cluster.view.get_topic(self.get_topic_name(copy))
        if metadata is not None and metadata.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            text = f"{self.format_partition(copy)}: the topic does not exist (deleted?)"
            return InstructionRefused(code=UNKNOWN_TOPIC_OR_PARTITION, message=text)
        text = f"{self.format_partition(copy)} has no leader"
        return InstructionRefused(code=LEADER_NOT_AVAILABLE, message=text)

    def build_refusal(self, request: PendingRequest, code: int) -> InstructionRefused:
        """Build the answer to a request for which a leader returned an error code. Also refresh the
        metadata, because the leader may have moved."""
        self.cluster.refresh_metadata()
        message = f"{self.format_partition(request.copy)}: {request_errors.format_error_code(code)}"
        return InstructionRefused(code=code, message=message)


def build_no_response_answer(failure: Exception) -> NoResponse:
    """Build the answer to a request that could not be sent or got no response."""
    return NoResponse(reason=str(failure))


def build_missing_partition_answer() -> NoResponse:
    """Build the answer to a request whose response does not contain the partition."""
    return NoResponse(reason="the response does not contain the partition")


LOOKUP_CONNECTION_NAME = "questions"
MAX_DESCRIBE_PRODUCERS_PARTITIONS = 50
"""Maximum number of partitions per DescribeProducers request. For each partition, the response
lists all producers whose ids have not expired, which may be thousands."""
LATEST_TIMESTAMP, EARLIEST_TIMESTAMP = -1, -2
OUT_OF_RANGE = 1
UNSUPPORTED_VERSION = 35

_PartitionsByName = Mapping[tuple[str, int], Any]
"""Partitions of a response, by topic and partition number."""
_AnswerBuilder = Callable[[PendingRequest, Any], InstructionAnswer]


@dataclass(frozen=True, slots=True)
class LogStartLookup:
    """Lookup of the target's log start offset after an out-of-range read."""

    message: str


class OffsetLookups:
    """Combines lookups into one request per leader and API.

    `queue_offset_lookup`, `queue_epoch_end_lookup` and `queue_open_transactions_lookup` queue
    requests; `send_queued_lookups` sends them. Invariant: `_describing` contains the node ids of
    leaders with a DescribeProducers request in flight.
    """

    def __init__(
        self,
        *,
        source: PartitionRecoveryCluster,
        target: PartitionRecoveryCluster,
        reply: ReplyHandler,
    ) -> None:
        self._sides = (source, target)
        self._target = target
        self._reply = reply
        self._offsets: list[tuple[PartitionRecoveryCluster, PendingRequest]] = []
        self._epochs: list[PendingRequest] = []
        self._producers: list[PendingRequest] = []
        self._describing: set[int] = set()

    def queue_offset_lookup(self, side: PartitionRecoveryCluster, request: PendingRequest) -> None:
        """Queue a `FindTargetEnd`, `FindSourceOffset` or `LogStartLookup` request."""
        self._offsets.append((side, request))

    def queue_epoch_end_lookup(self, request: PendingRequest) -> None:
        """Queue a `FindEpochEnd` request to the target."""
        self._epochs.append(request)

    def queue_open_transactions_lookup(self, request: PendingRequest) -> None:
        """Queue a `FindOpenTransactions` request to the target."""
        self._producers.append(request)

    def send_queued_lookups(self) -> None:
        if self._offsets:
            self._send_offset_lookups()
        if self._epochs:
            self._send_epoch_lookups()
        if self._producers:
            self._send_producer_lookups()

    def _send_offset_lookups(self) -> None:
        """Send the queued offset lookups. Lookups for topics without metadata remain queued."""
        queued, self._offsets = self._offsets, []
        for side, question in queued:
            if question.is_awaited and not side.has_topic_metadata(question.copy):
                self._offsets.append((side, question))
        for side in self._sides:
            requests = [
                question
                for other, question in queued
                if other is side and side.has_topic_metadata(question.copy)
            ]
            for node_id, group in side.group_requests_by_leader(
                requests, reply=self._reply
            ).items():
                self._list_offsets(side, node_id, group)

    def _list_offsets(
        self, side: PartitionRecoveryCluster, node_id: int, group: list[PendingRequest]
    ) -> None:
        topics: dict[str, list[OffsetQuery]] = defaultdict(list)
        for each in group:
            query = OffsetQuery(
                partition=each.copy.setup.partition,
                timestamp=_choose_list_offsets_timestamp(each.instruction),
            )
            topics[side.get_topic_name(each.copy)].append(query)
        side.cluster.call(
            NodeTarget(node_id),
            request_builders.build_list_offsets_request(topics, read_committed=not side.is_target),
            done=lambda reply: self._reply_to_lookups(
                side,
                group,
                reply,
                partitions=_index_partitions_by_name(reply.body),
                make=_read_offset,
            ),
            timeout_s=REQUEST_TIMEOUT_S,
            lane=LOOKUP_CONNECTION_NAME,
        )

    def _send_epoch_lookups(self) -> None:
        waiting, self._epochs = self._epochs, []
        for node_id, group in self._target.group_requests_by_leader(
            waiting, reply=self._reply
        ).items():
            self._find_epoch_ends(node_id, group)

    def _find_epoch_ends(self, node_id: int, group: list[PendingRequest]) -> None:
        topics: dict[str, list[EpochEndOffsetQuery]] = defaultdict(list)
        for each in group:
            query = EpochEndOffsetQuery(
                partition=each.copy.setup.partition,
                current_epoch=each.instruction.current_leader_epoch,
                leader_epoch=each.instruction.leader_epoch,
            )
            topics[self._target.get_topic_name(each.copy)].append(query)
        self._target.cluster.call(
            NodeTarget(node_id),
            request_builders.build_offsets_for_leader_epochs_request(topics),
            done=lambda reply: self._reply_to_lookups(
                self._target,
                group,
                reply,
                partitions=_index_epoch_ends(reply.body),
                make=_read_epoch_end,
            ),
            timeout_s=REQUEST_TIMEOUT_S,
            lane=LOOKUP_CONNECTION_NAME,
        )

    def _send_producer_lookups(self) -> None:
        waiting, self._producers = self._producers, []
        for node_id, group in self._target.group_requests_by_leader(
            waiting, reply=self._reply
        ).items():
            room = 0 if node_id in self._describing else MAX_DESCRIBE_PRODUCERS_PARTITIONS
            self._producers.extend(group[room:])
            if room:
                self._describe_producers(node_id, group[:room])

    def _describe_producers(self, node_id: int, group: list[PendingRequest]) -> None:
        topics: dict[str, list[int]] = defaultdict(list)
        for each in group:
            topics[self._target.get_topic_name(each.copy)].append(each.copy.setup.partition)
        self._describing.add(node_id)
        self._target.cluster.call(
            NodeTarget(node_id),
            request_builders.build_describe_producers_request(topics),
            done=lambda reply: self._handle_describe_producers_response(node_id, group, reply),
            timeout_s=REQUEST_TIMEOUT_S,
            lane=LOOKUP_CONNECTION_NAME,
        )

    def _handle_describe_producers_response(
        self, node_id: int, group: list[PendingRequest], reply: ClientResponse
    ) -> None:
        self._describing.discard(node_id)
        found = _index_partitions_by_name(reply.body)
        self._reply_to_lookups(
            self._target, group, reply, partitions=found, make=_read_open_transactions
        )

    def _reply_to_lookups(
        self,
        side: PartitionRecoveryCluster,
        group: list[PendingRequest],
        reply: ClientResponse,
        *,
        partitions: _PartitionsByName,
        make: _AnswerBuilder,
    ) -> None:
        for question in group:
            if isinstance(reply.failure, UnsupportedVersion):
                refused = InstructionRefused(code=UNSUPPORTED_VERSION, message=str(reply.failure))
                self._reply(question, refused)
                continue
            if reply.failure is not None:
                self._reply(question, build_no_response_answer(reply.failure))
                continue
            each = partitions.get(
                (side.get_topic_name(question.copy), question.copy.setup.partition)
            )
            if each is None:
                self._reply(question, build_missing_partition_answer())
            elif int(each.error_code):
                self._reply(question, side.build_refusal(question, int(each.error_code)))
            else:
                self._reply(question, make(question, each))


def _index_partitions_by_name(body: Any) -> _PartitionsByName:
    if body is None:
        return {}
    return {
        (str(topic.name), int(each.partition_index)): each
        for topic in body.topics
        for each in topic.partitions
    }


def _index_epoch_ends(body: Any) -> _PartitionsByName:
    if body is None:
        return {}
    return {
        (str(topic.topic), int(each.partition)): each
        for topic in body.topics
        for each in topic.partitions
    }


def _choose_list_offsets_timestamp(
    instruction: FindTargetEnd | FindSourceOffset | LogStartLookup,
) -> int:
    match instruction:
        case FindSourceOffset(position="earliest") | LogStartLookup():
            return EARLIEST_TIMESTAMP
        case FindSourceOffset(position="latest") | FindTargetEnd():
            return LATEST_TIMESTAMP
        case FindSourceOffset(position=position):
            return int(position)


def _read_offset(question: PendingRequest, found: Any) -> InstructionAnswer:
    match question.instruction:
        case FindTargetEnd():
            epoch = int(found.leader_epoch)
            return TargetEnd(offset=int(found.offset), leader_epoch=epoch)
        case LogStartLookup(message):
            return InstructionRefused(
                code=OUT_OF_RANGE, message=message, log_start=int(found.offset)
            )
    return SourceLogOffset(offset=int(found.offset))


def _read_epoch_end(_question: PendingRequest, found: Any) -> InstructionAnswer:
    return EpochEnd(offset=int(found.end_offset))


def _read_open_transactions(_question: PendingRequest, found: Any) -> InstructionAnswer:
    return OpenTransactions(
        transactions=tuple(
            OpenTransaction(
                producer_id=int(each.producer_id), start=int(each.current_txn_start_offset)
            )
            for each in found.active_producers
            if int(each.current_txn_start_offset) >= 0
        )
    )
