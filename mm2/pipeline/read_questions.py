"""Batches that partitions' scripts ask for: one fetch without a session per leader at a time."""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.wire.codec import failures, fetch, versions
from connect_runtime.wire.connection import cluster
from mm2.core.copy import instructions
from mm2.pipeline import asked, fetch_versions, offset_questions

READ_WAIT_MS = 100
READ_BYTES = 1024 * 1024
READ_PARTITIONS = 100
READ_TIMEOUT_S = 20.0
LANE = "questions-read"
UNCOMMITTED, COMMITTED = 0, 1


class ReadQuestions:
    """`ask` collects, `flush` sends. `ask_offset` gets what must be asked of ListOffsets first.

    Invariant: `_reading` are the leaders that have one of our fetches, by side and node id.
    """

    def __init__(
        self,
        *,
        source: asked.Side,
        target: asked.Side,
        reply: asked.Reply,
        ask_offset: Callable[[asked.Side, asked.Asked], None],
    ) -> None:
        self._sides = (source, target)
        self._reply = reply
        self._ask_offset = ask_offset
        self._waiting: list[tuple[asked.Side, asked.Asked]] = []
        self._reading: set[tuple[bool, int]] = set()

    def ask(self, side: asked.Side, question: asked.Asked) -> None:
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

    def _send(self, side: asked.Side, node_id: int, group: list[asked.Asked]) -> None:
        """As many as one fetch may ask for, if the leader can be asked now."""
        spoken = fetch_versions.of(side.topic_id(question.copy) for question in group)
        version = side.cluster.version_for(node_id, versions.FETCH_KEY, *spoken)
        trouble = side.cluster.trouble(node_id) if version is None else None
        if trouble is not None:
            for question in group:
                self._reply(question, asked.failed(trouble))
            return
        place = (side.is_target, node_id)
        if place in self._reading or version is None:
            self._waiting.extend((side, question) for question in group)
            return
        now, later = group[:READ_PARTITIONS], group[READ_PARTITIONS:]
        self._waiting.extend((side, question) for question in later)
        self._reading.add(place)
        self._read(side, node_id, now, version=version)

    def _read(
        self, side: asked.Side, node_id: int, group: list[asked.Asked], *, version: int
    ) -> None:
        wanted = [
            fetch.FetchPartition(
                side.topic(question.copy),
                side.topic_id(question.copy),
                question.copy.where.partition,
                -1,
                question.instruction.offset,
                -1,
                READ_BYTES,
            )
            for question in group
        ]
        body = fetch.encode_fetch_request(
            version,
            max_wait_ms=READ_WAIT_MS,
            min_bytes=1,
            max_bytes=16 * READ_BYTES,
            isolation_level=UNCOMMITTED if side.is_target else COMMITTED,
            session_id=0,
            session_epoch=-1,
            partitions=wanted,
            forgotten=(),
            rack_id="",
        )
        side.cluster.call_raw(
            node_id,
            lane=LANE,
            api_key=versions.FETCH_KEY,
            version=version,
            chunks=[body],
            done=lambda reply: self._answered(side, node_id, group, reply=reply),
            timeout_s=READ_TIMEOUT_S,
        )

    def _answered(
        self, side: asked.Side, node_id: int, group: list[asked.Asked], *, reply: cluster.RawReply
    ) -> None:
        self._reading.discard((side.is_target, node_id))
        found = _decode(reply)
        if isinstance(found, instructions.Unanswered):
            for question in group:
                self._reply(question, found)
            return
        named = [(_of(found, side, question), question) for question in group]
        # Brokers fill an answer from the front: who got nothing asks first the next time.
        named.sort(key=_got_something)
        for each, question in named:
            if each is not None and each.error_code:
                self._refuse(side, question, each)
            else:
                self._reply(question, _records_of(side, each))

    def _refuse(
        self, side: asked.Side, question: asked.Asked, found: fetch.FetchedPartition
    ) -> None:
        """Brokers do not name the log's start with OFFSET_OUT_OF_RANGE: ask for it then."""
        refused = side.refused(question, found.error_code)
        out_of_range = found.error_code == offset_questions.OUT_OF_RANGE
        if side.is_target and out_of_range and found.log_start_offset < 0:
            log_start = offset_questions.LogStart(refused.message)
            self._ask_offset(side, asked.Asked(question.copy, question.token, log_start))
            return
        self._reply(
            question,
            instructions.Refused(
                code=refused.code, message=refused.message, log_start=found.log_start_offset
            ),
        )


_Found = dict[tuple[str | bytes, int], fetch.FetchedPartition]
"""By topic, or by topic id where the response names no topics, and partition."""


def _decode(reply: cluster.RawReply) -> _Found | instructions.Unanswered:
    response: fetch.FetchResponse | None = None
    reason = str(reply.failure) if reply.failure is not None else "no answer"
    if reply.body is not None:
        try:
            response = fetch.decode_fetch_response(reply.version, reply.body)
        except failures.TruncatedResponse as error:
            reason = str(error)
    if response is None or response.error_code:
        return instructions.Unanswered(reason=f"reading: {reason}")
    return {(each.topic or each.topic_id, each.partition): each for each in response.partitions}


def _got_something(answer: tuple[fetch.FetchedPartition | None, asked.Asked]) -> bool:
    return answer[0] is not None and len(answer[0].records) > 0


def _of(found: _Found, side: asked.Side, question: asked.Asked) -> fetch.FetchedPartition | None:
    number = question.copy.where.partition
    by_name = found.get((side.topic(question.copy), number))
    return by_name or found.get((side.topic_id(question.copy), number))


def _records_of(side: asked.Side, found: fetch.FetchedPartition | None) -> instructions.Answer:
    if found is None:
        return asked.not_named()
    return instructions.Records(
        records=found.records,
        log_start=found.log_start_offset,
        end=found.high_watermark if side.is_target else found.last_stable_offset,
        aborted=tuple(found.aborted),
        last_stable=_told_stable(found) if side.is_target else None,
    )


def _told_stable(found: fetch.FetchedPartition) -> int | None:
    """-1 is how brokers say that they do not know it."""
    return found.last_stable_offset if found.last_stable_offset >= 0 else None
