"""Reads record batches for partition recovery, with at most one sessionless fetch per leader in
flight."""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.network.cluster_connections import RawClientResponse
from connect_runtime.protocol import api_versions, fetch_requests
from connect_runtime.protocol.fetch_requests import (
    FetchRequestPartition,
    FetchResponse,
    FetchResponsePartition,
)
from connect_runtime.protocol.request_errors import MalformedResponseError
from mm2.copier import offset_lookups
from mm2.copier.offset_lookups import (
    LogStartLookup,
    PartitionRecoveryCluster,
    PendingRequest,
    ReplyHandler,
)
from mm2.replication.recovery_instructions import (
    FetchedRecords,
    InstructionAnswer,
    InstructionRefused,
    NoResponse,
)

READ_MAX_WAIT_MS = 100
MAX_READ_BYTES = 1024 * 1024
MAX_READ_PARTITIONS = 100
READ_TIMEOUT_S = 20.0
READ_CONNECTION_NAME = "questions-read"
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class BatchReadQueue:
    """Combines read requests into one fetch per leader.

    `queue_read` queues a request and `send_queued_reads` sends the queued requests.
    `queue_offset_lookup` queues the ListOffsets lookup that follows an out-of-range read.
    Invariant: `_reading` contains an (is target broker, node id) tuple for each leader with a fetch
    in flight.
    """

    def __init__(
        self,
        *,
        source: PartitionRecoveryCluster,
        target: PartitionRecoveryCluster,
        reply: ReplyHandler,
        queue_offset_lookup: Callable[[PartitionRecoveryCluster, PendingRequest], None],
    ) -> None:
        self._sides = (source, target)
        self._reply = reply
        self._queue_offset_lookup = queue_offset_lookup
        self._queued: list[tuple[PartitionRecoveryCluster, PendingRequest]] = []
        self._reading: set[tuple[bool, int]] = set()

    def queue_read(self, side: PartitionRecoveryCluster, request: PendingRequest) -> None:
        """Queue a `ReadTarget` or `ReadSource` request for the next `send_queued_reads`."""
        self._queued.append((side, request))

    def send_queued_reads(self) -> None:
        """Send the queued read requests, one fetch per leader."""
        if not self._queued:
            return
        waiting, self._queued = self._queued, []
        for side in self._sides:
            mine = [question for other, question in waiting if other is side]
            for node_id, group in side.group_requests_by_leader(mine, reply=self._reply).items():
                self._send_fetch(side, node_id, group)

    def _send_fetch(
        self, side: PartitionRecoveryCluster, node_id: int, group: list[PendingRequest]
    ) -> None:
        """Send one fetch to a leader, unless a fetch to that leader is already in flight. Requests
        that do not fit into the fetch are queued again."""
        version_range = fetch_requests.choose_fetch_versions(
            side.get_topic_id(question.copy) for question in group
        )
        version = side.cluster.choose_version(node_id, api_versions.FETCH_KEY, *version_range)
        connection_error = side.cluster.get_connection_error(node_id) if version is None else None
        if connection_error is not None:
            for question in group:
                self._reply(question, offset_lookups.build_no_response_answer(connection_error))
            return
        leader_key = (side.is_target, node_id)
        if leader_key in self._reading or version is None:
            self._queued.extend((side, question) for question in group)
            return
        now, later = group[:MAX_READ_PARTITIONS], group[MAX_READ_PARTITIONS:]
        self._queued.extend((side, question) for question in later)
        self._reading.add(leader_key)
        self._fetch_records(side, node_id, now, version=version)

    def _fetch_records(
        self,
        side: PartitionRecoveryCluster,
        node_id: int,
        group: list[PendingRequest],
        *,
        version: int,
    ) -> None:
        partitions = [
            FetchRequestPartition(
                side.get_topic_name(question.copy),
                side.get_topic_id(question.copy),
                question.copy.setup.partition,
                -1,
                question.instruction.offset,
                -1,
                MAX_READ_BYTES,
            )
            for question in group
        ]
        body = fetch_requests.encode_fetch_request(
            version,
            max_wait_ms=READ_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=16 * MAX_READ_BYTES,
            isolation_level=READ_UNCOMMITTED if side.is_target else READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            partitions=partitions,
            forgotten=(),
            rack_id="",
        )
        side.cluster.call_with_encoded_body(
            node_id,
            lane=READ_CONNECTION_NAME,
            api_key=api_versions.FETCH_KEY,
            version=version,
            chunks=[body],
            done=lambda reply: self._handle_response(side, node_id, group, reply=reply),
            timeout_s=READ_TIMEOUT_S,
        )

    def _handle_response(
        self,
        side: PartitionRecoveryCluster,
        node_id: int,
        group: list[PendingRequest],
        *,
        reply: RawClientResponse,
    ) -> None:
        self._reading.discard((side.is_target, node_id))
        decoded = _decode_fetch(reply, max_partitions=len(group))
        if isinstance(decoded, NoResponse):
            for question in group:
                self._reply(question, decoded)
            return
        results = [
            (_find_fetched_partition(decoded, side, question), question) for question in group
        ]
        # Brokers fill a response in request order. Partitions without records are answered first,
        # so their next requests are at the front of the next fetch.
        results.sort(key=_has_records)
        for each, question in results:
            if each is not None and each.error_code:
                self._reply_with_error(side, question, each)
            else:
                self._reply(question, _build_read_answer(side, each))

    def _reply_with_error(
        self,
        side: PartitionRecoveryCluster,
        question: PendingRequest,
        partition: FetchResponsePartition,
    ) -> None:
        """Reply to a read request with the error that the broker returned for the partition. If the
        target returned OFFSET_OUT_OF_RANGE without the log start offset, look up the log start
        offset before replying."""
        refused = side.build_refusal(question, partition.error_code)
        out_of_range = partition.error_code == offset_lookups.OUT_OF_RANGE
        if side.is_target and out_of_range and partition.log_start_offset < 0:
            log_start = LogStartLookup(refused.message)
            lookup = PendingRequest(question.copy, question.token, log_start)
            self._queue_offset_lookup(side, lookup)
            return
        self._reply(
            question,
            InstructionRefused(
                code=refused.code, message=refused.message, log_start=partition.log_start_offset
            ),
        )


_FetchedByTopic = dict[tuple[str | bytes, int], FetchResponsePartition]
"""Fetched partitions by topic and partition number. The topic is identified by its name, or by its
id if the response contains no topic names."""


def _decode_fetch(reply: RawClientResponse, *, max_partitions: int) -> _FetchedByTopic | NoResponse:
    response: FetchResponse | None = None
    reason = str(reply.failure) if reply.failure is not None else "no response"
    if reply.body is not None:
        try:
            response = fetch_requests.decode_fetch_response(
                reply.version, reply.body, max_partitions=max_partitions
            )
        except MalformedResponseError as error:
            reason = str(error)
    if response is None or response.error_code:
        return NoResponse(reason=f"fetch failed: {reason}")
    return {(each.topic or each.topic_id, each.partition): each for each in response.partitions}


def _has_records(answer: tuple[FetchResponsePartition | None, PendingRequest]) -> bool:
    return answer[0] is not None and len(answer[0].records) > 0


def _find_fetched_partition(
    fetched: _FetchedByTopic, side: PartitionRecoveryCluster, question: PendingRequest
) -> FetchResponsePartition | None:
    number = question.copy.setup.partition
    by_name = fetched.get((side.get_topic_name(question.copy), number))
    return by_name or fetched.get((side.get_topic_id(question.copy), number))


def _build_read_answer(
    side: PartitionRecoveryCluster, fetched: FetchResponsePartition | None
) -> InstructionAnswer:
    if fetched is None:
        return offset_lookups.build_missing_partition_answer()
    return FetchedRecords(
        records=fetched.records,
        log_start=fetched.log_start_offset,
        end=fetched.high_watermark if side.is_target else fetched.last_stable_offset,
        aborted=tuple(fetched.aborted),
        last_stable_offset=_read_last_stable_offset(fetched) if side.is_target else None,
    )


def _read_last_stable_offset(fetched: FetchResponsePartition) -> int | None:
    """Return the partition's last stable offset; None if the broker reported -1 (unknown)."""
    return fetched.last_stable_offset if fetched.last_stable_offset >= 0 else None
