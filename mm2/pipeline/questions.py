"""Carries out the questions of partitions' scripts, many partitions to a request where Kafka
allows.

A question is dropped unanswered when its script has been abandoned meanwhile (`script_token`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from connect_runtime.wire.codec import failures, fetch, messages, targets, versions
from connect_runtime.wire.connection import cluster
from mm2.core.copy import instructions, partition
from mm2.formats import map_record
from mm2.pipeline import worker_link

TRANSACTION_TIMEOUT_MS = 60_000
READ_WAIT_MS = 100
READ_BYTES = 1024 * 1024
READ_PARTITIONS = 100
READ_TIMEOUT_S = 20.0
CALL_TIMEOUT_S = 30.0
FETCH_KEY = 1
LATEST, EARLIEST = -1, -2
UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE = 3, 5
OUT_OF_RANGE = 1

Answered = Callable[[partition.PartitionCopy, instructions.Answer], None]


@dataclass(frozen=True, slots=True)
class _Asked:
    """One partition's open question; `token` tells whether its script still waits."""

    copy: partition.PartitionCopy
    token: int
    instruction: Any


@dataclass(frozen=True, slots=True)
class _LogStart:
    """Where the target's log starts, for a read that was out of range."""

    message: str


@dataclass(slots=True)
class _Side:
    """One cluster, with how partitions are called there."""

    cluster: cluster.ClusterConnections
    is_target: bool

    def topic(self, copy: partition.PartitionCopy) -> str:
        return copy.where.remote_topic if self.is_target else copy.where.topic

    def topic_id(self, copy: partition.PartitionCopy) -> bytes:
        where = copy.where
        return where.target_topic_id if self.is_target else where.source_topic_id

    def leader(self, copy: partition.PartitionCopy) -> Any:
        return self.cluster.view.leader(self.topic(copy), copy.where.partition)


class Questions:
    """`ask` collects, `flush` sends; answers go to `answered` on the loop's own thread."""

    def __init__(
        self,
        *,
        source: cluster.ClusterConnections,
        target: cluster.ClusterConnections,
        link: worker_link.WorkerLink,
        answered: Answered,
    ) -> None:
        self._source = _Side(source, is_target=False)
        self._target = _Side(target, is_target=True)
        self._link = link
        self._answered = answered
        self._offsets: list[tuple[_Side, _Asked]] = []
        self._epochs: list[_Asked] = []
        self._reads: list[tuple[_Side, _Asked]] = []
        self._reading: set[tuple[bool, int]] = set()
        self._sleeping: list[tuple[float, _Asked]] = []

    def ask(
        self, copy: partition.PartitionCopy, instruction: instructions.Instruction, now_s: float
    ) -> None:
        asked = _Asked(copy, copy.script_token, instruction)
        match instruction:
            case instructions.AskMayTake():
                self._link.ask_may_take(answered=self._to(asked))
            case instructions.ReadFacts(target=target):
                self._link.read_facts(copy.where, target, answered=self._to(asked))
            case instructions.Record(items=items):
                self._link.record(items, answered=self._to(asked))
            case instructions.NoteTargetEnd():
                self._offsets.append((self._target, asked))
            case instructions.FindSourceOffset():
                self._offsets.append((self._source, asked))
            case instructions.FindEpochEnd():
                self._epochs.append(asked)
            case instructions.ReadTarget():
                self._reads.append((self._target, asked))
            case instructions.ReadSource():
                self._reads.append((self._source, asked))
            case instructions.Sleep(delay_s=delay_s):
                self._sleeping.append((now_s + delay_s, asked))
            case _:
                self._ask_coordinator(asked)

    def flush(self, now_s: float) -> None:
        """Send what was collected; wake the sleepers whose time has come."""
        if self._sleeping:
            self._wake(now_s)
        if self._offsets:
            self._send_offsets()
        if self._epochs:
            self._send_epochs()
        if self._reads:
            self._send_reads()

    def next_wake_s(self) -> float:
        """When the earliest sleeper is due (monotonic seconds), infinity for none."""
        return min((at_s for at_s, _ in self._sleeping), default=float("inf"))

    def _to(self, asked: _Asked) -> worker_link.Answered:
        return lambda answer: self._reply(asked, answer)

    def _reply(self, asked: _Asked, answer: instructions.Answer) -> None:
        if asked.token == asked.copy.script_token:
            self._answered(asked.copy, answer)

    def _wake(self, now_s: float) -> None:
        due = [asked for at_s, asked in self._sleeping if at_s <= now_s]
        self._sleeping = [each for each in self._sleeping if each[0] > now_s]
        for asked in due:
            self._reply(asked, instructions.Done())

    # The transaction coordinator

    def _ask_coordinator(self, asked: _Asked) -> None:
        where = asked.copy.where
        to = targets.Coordinator(targets.TRANSACTION, where.transactional_id)
        match asked.instruction:
            case instructions.InitProducer():
                message = messages.init_producer_id(where.transactional_id, TRANSACTION_TIMEOUT_MS)
            case instructions.AddToTransaction(producer=producer):
                message = messages.add_partitions_to_txn(
                    where.transactional_id,
                    producer_id=producer.id,
                    epoch=producer.epoch,
                    topics={where.remote_topic: [where.partition]},
                )
            case instructions.CommitTransaction(producer=producer):
                message = messages.end_txn(
                    where.transactional_id,
                    producer_id=producer.id,
                    epoch=producer.epoch,
                    committed=True,
                )
            case other:
                raise AssertionError(other)
        self._target.cluster.call(
            to,
            message,
            done=lambda reply: self._coordinator_answered(asked, reply),
            timeout_s=CALL_TIMEOUT_S,
        )

    def _coordinator_answered(self, asked: _Asked, reply: cluster.Reply) -> None:
        if reply.failure is not None:
            self._reply(asked, _failed(reply.failure))
            return
        body = reply.body
        match asked.instruction:
            case instructions.AddToTransaction():
                code = body.results_by_topic_v3_and_below[0].results_by_partition[0]
                code = int(code.partition_error_code)
            case _:
                code = int(body.error_code)
        if code:
            where = asked.copy.where
            if code in (15, 16):
                kind = targets.TRANSACTION
                self._target.cluster.forget_coordinator(kind, where.transactional_id)
            text = f"transactional id {where.transactional_id}: {_name(code)}"
            self._reply(asked, instructions.Refused(code=code, message=text))
        elif isinstance(asked.instruction, instructions.InitProducer):
            producer = instructions.ProducerIdentity(
                id=int(body.producer_id), epoch=int(body.producer_epoch)
            )
            self._reply(asked, producer)
        else:
            self._reply(asked, instructions.Done())

    # Offsets and epochs: one request per leader

    def _by_leader(self, side: _Side, asked: Sequence[_Asked]) -> dict[int, list[_Asked]]:
        groups: dict[int, list[_Asked]] = defaultdict(list)
        for each in asked:
            leader = side.leader(each.copy)
            if leader is None:
                self._no_leader(side, each)
            else:
                groups[leader.node_id].append(each)
        return groups

    def _no_leader(self, side: _Side, asked: _Asked) -> None:
        side.cluster.refresh_metadata()
        topic = side.topic(asked.copy)
        known = side.cluster.view.topic(topic)
        name = f"{topic}-{asked.copy.where.partition}"
        if known is not None and known.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            code, text = UNKNOWN_TOPIC_OR_PARTITION, f"{name}: the topic does not exist (deleted?)"
        else:
            code, text = LEADER_NOT_AVAILABLE, f"{name} has no leader at present"
        self._reply(asked, instructions.Refused(code=code, message=text))

    def _send_offsets(self) -> None:
        waiting, self._offsets = self._offsets, []
        for side in (self._source, self._target):
            mine = [asked for other, asked in waiting if other is side]
            for node_id, group in self._by_leader(side, mine).items():
                self._list_offsets(side, node_id, group)

    def _list_offsets(self, side: _Side, node_id: int, group: list[_Asked]) -> None:
        topics: dict[str, list[messages.OffsetQuery]] = defaultdict(list)
        for asked in group:
            query = messages.OffsetQuery(
                partition=asked.copy.where.partition, timestamp=_timestamp(asked.instruction)
            )
            topics[side.topic(asked.copy)].append(query)
        side.cluster.call(
            targets.Node(node_id),
            messages.list_offsets(topics, read_committed=not side.is_target),
            done=lambda reply: self._offsets_answered(side, group, reply),
            timeout_s=CALL_TIMEOUT_S,
            lane="questions",
        )

    def _offsets_answered(self, side: _Side, group: list[_Asked], reply: cluster.Reply) -> None:
        found: dict[tuple[str, int], Any] = {}
        if reply.body is not None:
            for topic in reply.body.topics:
                for each in topic.partitions:
                    found[(str(topic.name), int(each.partition_index))] = each
        for asked in group:
            each = found.get((side.topic(asked.copy), asked.copy.where.partition))
            self._settle(side, asked, reply, each, make=_offset_of)

    def _send_epochs(self) -> None:
        waiting, self._epochs = self._epochs, []
        for node_id, group in self._by_leader(self._target, waiting).items():
            self._find_epoch_ends(node_id, group)

    def _find_epoch_ends(self, node_id: int, group: list[_Asked]) -> None:
        topics: dict[str, list[messages.EpochQuery]] = defaultdict(list)
        for asked in group:
            query = messages.EpochQuery(
                partition=asked.copy.where.partition,
                current_epoch=asked.instruction.current_leader_epoch,
                leader_epoch=asked.instruction.leader_epoch,
            )
            topics[asked.copy.where.remote_topic].append(query)
        self._target.cluster.call(
            targets.Node(node_id),
            messages.offsets_for_leader_epochs(topics),
            done=lambda reply: self._epochs_answered(group, reply),
            timeout_s=CALL_TIMEOUT_S,
            lane="questions",
        )

    def _epochs_answered(self, group: list[_Asked], reply: cluster.Reply) -> None:
        found: dict[tuple[str, int], Any] = {}
        if reply.body is not None:
            for topic in reply.body.topics:
                for each in topic.partitions:
                    found[(str(topic.topic), int(each.partition))] = each
        for asked in group:
            where = asked.copy.where
            each = found.get((where.remote_topic, where.partition))
            self._settle(self._target, asked, reply, each, make=_epoch_end_of)

    def _settle(  # noqa: PLR0917 - one answer of a grouped request, with how to read it
        self,
        side: _Side,
        asked: _Asked,
        reply: cluster.Reply,
        found: Any,
        *,
        make: Callable[[_Asked, Any], instructions.Answer],
    ) -> None:
        if reply.failure is not None:
            self._reply(asked, _failed(reply.failure))
        elif found is None:
            self._reply(asked, instructions.Unanswered(reason="the response does not name it"))
        elif int(found.error_code):
            side.cluster.refresh_metadata()
            self._reply(asked, _refused(side, asked, int(found.error_code)))
        else:
            self._reply(asked, make(asked, found))

    # Reading batches: one fetch without a session per leader at a time

    def _send_reads(self) -> None:
        waiting, self._reads = self._reads, []
        for side in (self._source, self._target):
            mine = [asked for other, asked in waiting if other is side]
            for node_id, group in self._by_leader(side, mine).items():
                place = (side.is_target, node_id)
                version = side.cluster.version_for(node_id, FETCH_KEY, *versions.FETCH)
                trouble = side.cluster.trouble(node_id) if version is None else None
                if trouble is not None:
                    for asked in group:
                        self._reply(asked, _failed(trouble))
                    continue
                if place in self._reading or version is None:
                    self._reads.extend((side, asked) for asked in group)
                    continue
                now, later = group[:READ_PARTITIONS], group[READ_PARTITIONS:]
                self._reads.extend((side, asked) for asked in later)
                self._reading.add(place)
                self._read(side, node_id, now, version=version)

    def _read(self, side: _Side, node_id: int, group: list[_Asked], *, version: int) -> None:
        wanted = [
            fetch.FetchPartition(
                side.topic(asked.copy),
                self._topic_id(side, asked.copy),
                asked.copy.where.partition,
                -1,
                asked.instruction.offset,
                -1,
                READ_BYTES,
            )
            for asked in group
        ]
        body = fetch.encode_fetch_request(
            version,
            max_wait_ms=READ_WAIT_MS,
            min_bytes=1,
            max_bytes=16 * READ_BYTES,
            isolation_level=0 if side.is_target else 1,
            session_id=0,
            session_epoch=-1,
            partitions=wanted,
            forgotten=(),
            rack_id="",
        )
        side.cluster.call_raw(
            node_id,
            lane="questions-read",
            api_key=FETCH_KEY,
            version=version,
            chunks=[body],
            done=lambda reply: self._read_answered(side, node_id, group, reply),
            timeout_s=READ_TIMEOUT_S,
        )

    def _topic_id(self, side: _Side, copy: partition.PartitionCopy) -> bytes:
        known = side.topic_id(copy)
        return known if known != map_record.NO_TOPIC_ID else bytes(16)

    def _read_answered(  # noqa: PLR0917 - bound by _read alone
        self, side: _Side, node_id: int, group: list[_Asked], reply: cluster.RawReply
    ) -> None:
        self._reading.discard((side.is_target, node_id))
        response: fetch.FetchResponse | None = None
        reason = str(reply.failure) if reply.failure is not None else "no answer"
        if reply.body is not None:
            try:
                response = fetch.decode_fetch_response(reply.version, reply.body)
            except failures.TruncatedResponse as error:
                reason = str(error)
        if response is None or response.error_code:
            for asked in group:
                self._reply(asked, instructions.Unanswered(reason=f"reading: {reason}"))
            return
        found = {
            (each.topic or each.topic_id, each.partition): each for each in response.partitions
        }
        for asked in group:
            copy = asked.copy
            key: Any = (side.topic(copy), copy.where.partition)
            each = found.get(key) or found.get((side.topic_id(copy), copy.where.partition))
            if each is not None and each.error_code:
                self._refuse_read(side, asked, each)
            else:
                self._reply(asked, self._records_of(side, each))

    def _refuse_read(self, side: _Side, asked: _Asked, found: fetch.FetchedPartition) -> None:
        """Brokers do not name the log's start with OFFSET_OUT_OF_RANGE: ask for it then."""
        side.cluster.refresh_metadata()
        refused = _refused(side, asked, found.error_code)
        if side.is_target and found.error_code == OUT_OF_RANGE and found.log_start_offset < 0:
            follow_up = _Asked(asked.copy, asked.token, _LogStart(refused.message))
            self._offsets.append((side, follow_up))
            return
        self._reply(
            asked,
            instructions.Refused(
                code=refused.code, message=refused.message, log_start=found.log_start_offset
            ),
        )

    def _records_of(self, side: _Side, found: fetch.FetchedPartition | None) -> instructions.Answer:
        if found is None:
            return instructions.Unanswered(reason="the response does not name it")
        end = found.high_watermark if side.is_target else found.last_stable_offset
        return instructions.Records(
            records=found.records,
            log_start=found.log_start_offset,
            end=end,
            aborted=tuple(found.aborted),
        )


def _timestamp(
    instruction: instructions.NoteTargetEnd | instructions.FindSourceOffset | _LogStart,
) -> int:
    match instruction:
        case instructions.FindSourceOffset(position="earliest") | _LogStart():
            return EARLIEST
        case instructions.FindSourceOffset(position="latest") | instructions.NoteTargetEnd():
            return LATEST
        case instructions.FindSourceOffset(position=position):
            return int(position)


def _offset_of(asked: _Asked, found: Any) -> instructions.Answer:
    if isinstance(asked.instruction, instructions.NoteTargetEnd):
        epoch = int(found.leader_epoch)
        return instructions.TargetEnd(offset=int(found.offset), leader_epoch=epoch)
    if isinstance(asked.instruction, _LogStart):
        return instructions.Refused(
            code=OUT_OF_RANGE, message=asked.instruction.message, log_start=int(found.offset)
        )
    return instructions.SourceOffset(offset=int(found.offset))


def _epoch_end_of(_asked: _Asked, found: Any) -> instructions.Answer:
    return instructions.EpochEnd(offset=int(found.end_offset))


def _refused(side: _Side, asked: _Asked, code: int) -> instructions.Refused:
    name = f"{side.topic(asked.copy)}-{asked.copy.where.partition}"
    return instructions.Refused(code=code, message=f"{name}: {_name(code)}")


def _name(code: int) -> str:
    try:
        return f"{ErrorCode(code).name.upper()} ({code})"
    except ValueError:
        return f"error {code}"


def _failed(failure: Exception) -> instructions.Unanswered:
    return instructions.Unanswered(reason=str(failure))
