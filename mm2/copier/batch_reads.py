"""Reads record batches for recovering partitions: one sessionless fetch per leader at a time."""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.network.cluster_connections import RawClientResponse
from connect_runtime.protocol import api_versions, fetch
from connect_runtime.protocol.fetch import (
    FetchRequestPartition,
    FetchResponse,
    FetchResponsePartition,
)
from connect_runtime.protocol.request_errors import TruncatedResponse
from mm2.copier import fetcher, offset_lookups
from mm2.copier.offset_lookups import LogStartLookup, PendingRequest, RecoveryCluster, ReplyHandler
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


class BatchReads:
    """`ask` collects, `flush` sends. `ask_offset` gets what must be asked of ListOffsets first.

    Invariant: `_reading` are the leaders that have one of our fetches, by side and node id.
    """

    def __init__(
        self,
        *,
        source: RecoveryCluster,
        target: RecoveryCluster,
        reply: ReplyHandler,
        ask_offset: Callable[[RecoveryCluster, PendingRequest], None],
    ) -> None:
        self._sides = (source, target)
        self._reply = reply
        self._ask_offset = ask_offset
        self._waiting: list[tuple[RecoveryCluster, PendingRequest]] = []
        self._reading: set[tuple[bool, int]] = set()

    def ask(self, side: RecoveryCluster, question: PendingRequest) -> None:
        """ReadTarget or ReadSource."""
        self._waiting.append((side, question))

    def flush(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for side in self._sides:
            mine = [question for other, question in waiting if other is side]
            for node_id, group in side.by_leader(mine, reply=self._reply).items():
                self._send(side, node_id, group)

    def _send(self, side: RecoveryCluster, node_id: int, group: list[PendingRequest]) -> None:
        """As many as one fetch may ask for, if the leader can be asked now."""
        spoken = fetcher.choose_fetch_versions(side.topic_id(question.copy) for question in group)
        version = side.cluster.version_for(node_id, api_versions.FETCH_KEY, *spoken)
        trouble = side.cluster.trouble(node_id) if version is None else None
        if trouble is not None:
            for question in group:
                self._reply(question, offset_lookups.build_unanswered(trouble))
            return
        place = (side.is_target, node_id)
        if place in self._reading or version is None:
            self._waiting.extend((side, question) for question in group)
            return
        now, later = group[:MAX_READ_PARTITIONS], group[MAX_READ_PARTITIONS:]
        self._waiting.extend((side, question) for question in later)
        self._reading.add(place)
        self._read(side, node_id, now, version=version)

    def _read(
        self, side: RecoveryCluster, node_id: int, group: list[PendingRequest], *, version: int
    ) -> None:
        wanted = [
            FetchRequestPartition(
                side.topic(question.copy),
                side.topic_id(question.copy),
                question.copy.where.partition,
                -1,
                question.instruction.offset,
                -1,
                MAX_READ_BYTES,
            )
            for question in group
        ]
        body = fetch.encode_fetch_request(
            version,
            max_wait_ms=READ_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=16 * MAX_READ_BYTES,
            isolation_level=READ_UNCOMMITTED if side.is_target else READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            partitions=wanted,
            forgotten=(),
            rack_id="",
        )
        side.cluster.call_raw(
            node_id,
            lane=READ_CONNECTION_NAME,
            api_key=api_versions.FETCH_KEY,
            version=version,
            chunks=[body],
            done=lambda reply: self._answered(side, node_id, group, reply=reply),
            timeout_s=READ_TIMEOUT_S,
        )

    def _answered(
        self,
        side: RecoveryCluster,
        node_id: int,
        group: list[PendingRequest],
        *,
        reply: RawClientResponse,
    ) -> None:
        self._reading.discard((side.is_target, node_id))
        found = _decode_fetch(reply)
        if isinstance(found, NoResponse):
            for question in group:
                self._reply(question, found)
            return
        named = [(_find_fetched(found, side, question), question) for question in group]
        # Brokers fill an answer from the front: who got nothing asks first the next time.
        named.sort(key=_has_records)
        for each, question in named:
            if each is not None and each.error_code:
                self._refuse(side, question, each)
            else:
                self._reply(question, _build_answer(side, each))

    def _refuse(
        self, side: RecoveryCluster, question: PendingRequest, found: FetchResponsePartition
    ) -> None:
        """Brokers do not name the log's start with OFFSET_OUT_OF_RANGE: ask for it then."""
        refused = side.refused(question, found.error_code)
        out_of_range = found.error_code == offset_lookups.OUT_OF_RANGE
        if side.is_target and out_of_range and found.log_start_offset < 0:
            log_start = LogStartLookup(refused.message)
            self._ask_offset(side, PendingRequest(question.copy, question.token, log_start))
            return
        self._reply(
            question,
            InstructionRefused(
                code=refused.code, message=refused.message, log_start=found.log_start_offset
            ),
        )


_FetchedByTopic = dict[tuple[str | bytes, int], FetchResponsePartition]
"""By topic, or by topic id where the response names no topics, and partition."""


def _decode_fetch(reply: RawClientResponse) -> _FetchedByTopic | NoResponse:
    response: FetchResponse | None = None
    reason = str(reply.failure) if reply.failure is not None else "no answer"
    if reply.body is not None:
        try:
            response = fetch.decode_fetch_response(reply.version, reply.body)
        except TruncatedResponse as error:
            reason = str(error)
    if response is None or response.error_code:
        return NoResponse(reason=f"reading: {reason}")
    return {(each.topic or each.topic_id, each.partition): each for each in response.partitions}


def _has_records(answer: tuple[FetchResponsePartition | None, PendingRequest]) -> bool:
    return answer[0] is not None and len(answer[0].records) > 0


def _find_fetched(
    found: _FetchedByTopic, side: RecoveryCluster, question: PendingRequest
) -> FetchResponsePartition | None:
    number = question.copy.where.partition
    by_name = found.get((side.topic(question.copy), number))
    return by_name or found.get((side.topic_id(question.copy), number))


def _build_answer(side: RecoveryCluster, found: FetchResponsePartition | None) -> InstructionAnswer:
    if found is None:
        return offset_lookups.build_missing_partition()
    return FetchedRecords(
        records=found.records,
        log_start=found.log_start_offset,
        end=found.high_watermark if side.is_target else found.last_stable_offset,
        aborted=tuple(found.aborted),
        last_stable=_read_last_stable_offset(found) if side.is_target else None,
    )


def _read_last_stable_offset(found: FetchResponsePartition) -> int | None:
    """-1 is how brokers say that they do not know it."""
    return found.last_stable_offset if found.last_stable_offset >= 0 else None
