"""What partitions' scripts ask of leaders about offsets and transactions: one request per leader
and kind, and about transactions one at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.wire.codec import failures, messages, targets
from connect_runtime.wire.connection import cluster
from mm2.core.copy import instructions
from mm2.pipeline import asked

LANE = "questions"
PRODUCERS_PARTITIONS = 50
"""Of each a leader tells all producers that wrote in the last days: thousands, where ids come and
go."""
LATEST, EARLIEST = -1, -2
OUT_OF_RANGE = 1
UNSUPPORTED_VERSION = 35

_Found = Mapping[tuple[str, int], Any]
"""Of a response, by topic and partition."""
_Make = Callable[[asked.Asked, Any], instructions.Answer]


@dataclass(frozen=True, slots=True)
class LogStart:
    """Where the target's log starts, for a read that was out of range."""

    message: str


class OffsetQuestions:
    """`ask_offset`, `ask_epoch_end` and `ask_producers` collect, `flush` sends.

    Invariant: `_describing` are the node ids of leaders that have one of our DescribeProducers.
    """

    def __init__(self, *, source: asked.Side, target: asked.Side, reply: asked.Reply) -> None:
        self._sides = (source, target)
        self._target = target
        self._reply = reply
        self._offsets: list[tuple[asked.Side, asked.Asked]] = []
        self._epochs: list[asked.Asked] = []
        self._producers: list[asked.Asked] = []
        self._describing: set[int] = set()

    def ask_offset(self, side: asked.Side, question: asked.Asked) -> None:
        """NoteTargetEnd, FindSourceOffset or LogStart."""
        self._offsets.append((side, question))

    def ask_epoch_end(self, question: asked.Asked) -> None:
        """FindEpochEnd, of the target."""
        self._epochs.append(question)

    def ask_producers(self, question: asked.Asked) -> None:
        """FindOpenTransactions, of the target."""
        self._producers.append(question)

    def flush(self) -> None:
        if self._offsets:
            self._send_offsets()
        if self._epochs:
            self._send_epochs()
        if self._producers:
            self._send_producers()

    def _send_offsets(self) -> None:
        """The first that scripts ask: where nothing was heard of a topic yet it keeps."""
        waiting, self._offsets = self._offsets, []
        for side, question in waiting:
            if question.awaited and not side.knows(question.copy):
                self._offsets.append((side, question))
        for side in self._sides:
            mine = [
                question
                for other, question in waiting
                if other is side and side.knows(question.copy)
            ]
            for node_id, group in side.by_leader(mine, reply=self._reply).items():
                self._list_offsets(side, node_id, group)

    def _list_offsets(self, side: asked.Side, node_id: int, group: list[asked.Asked]) -> None:
        topics: dict[str, list[messages.OffsetQuery]] = defaultdict(list)
        for each in group:
            query = messages.OffsetQuery(
                partition=each.copy.where.partition, timestamp=_timestamp(each.instruction)
            )
            topics[side.topic(each.copy)].append(query)
        side.cluster.call(
            targets.Node(node_id),
            messages.list_offsets(topics, read_committed=not side.is_target),
            done=lambda reply: self._settle(
                side, group, reply, found=_by_name(reply.body), make=_offset_of
            ),
            timeout_s=asked.CALL_TIMEOUT_S,
            lane=LANE,
        )

    def _send_epochs(self) -> None:
        waiting, self._epochs = self._epochs, []
        for node_id, group in self._target.by_leader(waiting, reply=self._reply).items():
            self._find_epoch_ends(node_id, group)

    def _find_epoch_ends(self, node_id: int, group: list[asked.Asked]) -> None:
        topics: dict[str, list[messages.EpochQuery]] = defaultdict(list)
        for each in group:
            query = messages.EpochQuery(
                partition=each.copy.where.partition,
                current_epoch=each.instruction.current_leader_epoch,
                leader_epoch=each.instruction.leader_epoch,
            )
            topics[self._target.topic(each.copy)].append(query)
        self._target.cluster.call(
            targets.Node(node_id),
            messages.offsets_for_leader_epochs(topics),
            done=lambda reply: self._settle(
                self._target, group, reply, found=_epochs_in(reply.body), make=_epoch_end_of
            ),
            timeout_s=asked.CALL_TIMEOUT_S,
            lane=LANE,
        )

    def _send_producers(self) -> None:
        waiting, self._producers = self._producers, []
        for node_id, group in self._target.by_leader(waiting, reply=self._reply).items():
            room = 0 if node_id in self._describing else PRODUCERS_PARTITIONS
            self._producers.extend(group[room:])
            if room:
                self._describe_producers(node_id, group[:room])

    def _describe_producers(self, node_id: int, group: list[asked.Asked]) -> None:
        topics: dict[str, list[int]] = defaultdict(list)
        for each in group:
            topics[self._target.topic(each.copy)].append(each.copy.where.partition)
        self._describing.add(node_id)
        self._target.cluster.call(
            targets.Node(node_id),
            messages.describe_producers(topics),
            done=lambda reply: self._described(node_id, group, reply),
            timeout_s=asked.CALL_TIMEOUT_S,
            lane=LANE,
        )

    def _described(self, node_id: int, group: list[asked.Asked], reply: cluster.Reply) -> None:
        self._describing.discard(node_id)
        found = _by_name(reply.body)
        self._settle(self._target, group, reply, found=found, make=_open_transactions_of)

    def _settle(
        self,
        side: asked.Side,
        group: list[asked.Asked],
        reply: cluster.Reply,
        *,
        found: _Found,
        make: _Make,
    ) -> None:
        for question in group:
            if isinstance(reply.failure, failures.UnsupportedVersion):
                told = instructions.Refused(code=UNSUPPORTED_VERSION, message=str(reply.failure))
                self._reply(question, told)
                continue
            if reply.failure is not None:
                self._reply(question, asked.failed(reply.failure))
                continue
            each = found.get((side.topic(question.copy), question.copy.where.partition))
            if each is None:
                self._reply(question, asked.not_named())
            elif int(each.error_code):
                self._reply(question, side.refused(question, int(each.error_code)))
            else:
                self._reply(question, make(question, each))


def _by_name(body: Any) -> _Found:
    if body is None:
        return {}
    return {
        (str(topic.name), int(each.partition_index)): each
        for topic in body.topics
        for each in topic.partitions
    }


def _epochs_in(body: Any) -> _Found:
    if body is None:
        return {}
    return {
        (str(topic.topic), int(each.partition)): each
        for topic in body.topics
        for each in topic.partitions
    }


def _timestamp(
    instruction: instructions.NoteTargetEnd | instructions.FindSourceOffset | LogStart,
) -> int:
    match instruction:
        case instructions.FindSourceOffset(position="earliest") | LogStart():
            return EARLIEST
        case instructions.FindSourceOffset(position="latest") | instructions.NoteTargetEnd():
            return LATEST
        case instructions.FindSourceOffset(position=position):
            return int(position)


def _offset_of(question: asked.Asked, found: Any) -> instructions.Answer:
    match question.instruction:
        case instructions.NoteTargetEnd():
            epoch = int(found.leader_epoch)
            return instructions.TargetEnd(offset=int(found.offset), leader_epoch=epoch)
        case LogStart(message):
            return instructions.Refused(
                code=OUT_OF_RANGE, message=message, log_start=int(found.offset)
            )
    return instructions.SourceOffset(offset=int(found.offset))


def _epoch_end_of(_question: asked.Asked, found: Any) -> instructions.Answer:
    return instructions.EpochEnd(offset=int(found.end_offset))


def _open_transactions_of(_question: asked.Asked, found: Any) -> instructions.Answer:
    return instructions.OpenTransactions(
        transactions=tuple(
            instructions.OpenTransaction(
                producer_id=int(each.producer_id), start=int(each.current_txn_start_offset)
            )
            for each in found.active_producers
            if int(each.current_txn_start_offset) >= 0
        )
    )
