"""Carries out the requests of recovering partitions, batching partitions per Kafka request.

Requests to transaction coordinators cannot be batched. An answer is dropped if the recovery that
requested it has been abandoned meanwhile (`script.token`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from connect_runtime.base.timing import Clock
from connect_runtime.network.cluster_connections import ClientResponse, ClusterConnections
from connect_runtime.protocol import request_builders, request_errors
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorTarget,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import CoordinatorLookupRefused
from mm2.copier import offset_lookups
from mm2.copier.batch_reads import BatchReads
from mm2.copier.driver_client import DriverAnswerHandler, DriverClient
from mm2.copier.offset_lookups import OffsetLookups, PendingRequest, RecoveryCluster, ReplyHandler
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    AppendToFlowLog,
    CommitTransaction,
    Delay,
    FindEpochEnd,
    FindOpenTransactions,
    FindReverseFlowProducers,
    FindSourceOffset,
    FindTargetEnd,
    InitIdempotentProducer,
    InitProducer,
    Instruction,
    InstructionAnswer,
    InstructionDone,
    InstructionRefused,
    ProducerIdentity,
    ReadRecoveredState,
    ReadSource,
    ReadTarget,
    RequestAcquisition,
)
from mm2.replication.setup import PartitionSetup

TRANSACTION_TIMEOUT_MS = 60_000
COORDINATOR_MOVED_ERRORS = frozenset({15, 16})
"""COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR"""


class TransactionCoordinatorRequests:
    """`ask` sends at once: there is nothing to share a request with."""

    def __init__(self, target: ClusterConnections, *, reply: ReplyHandler) -> None:
        self._target = target
        self._reply = reply

    def ask(self, question: PendingRequest) -> None:
        where = question.copy.where
        self._target.call(
            _find_coordinator(where, question.instruction),
            _build_request(where, question.instruction),
            done=lambda reply: self._answered(question, reply),
            timeout_s=offset_lookups.REQUEST_TIMEOUT_S,
        )

    def _answered(self, question: PendingRequest, reply: ClientResponse) -> None:
        if isinstance(reply.failure, CoordinatorLookupRefused):
            code, text = reply.failure.error_code, str(reply.failure)
            self._reply(question, InstructionRefused(code=code, message=text))
            return
        if reply.failure is not None:
            self._reply(question, offset_lookups.build_unanswered(reply.failure))
            return
        transactional_id = question.copy.where.transactional_id
        code = _read_error_code(question.instruction, reply.body)
        if code in COORDINATOR_MOVED_ERRORS:
            self._target.forget_coordinator(
                request_builders.TRANSACTION_COORDINATOR, transactional_id
            )
        if code:
            plain = isinstance(question.instruction, InitIdempotentProducer)
            of = "a producer id" if plain else f"transactional id {transactional_id}"
            text = f"{of}: {request_errors.format_error_code(code)}"
            self._reply(question, InstructionRefused(code=code, message=text))
        else:
            self._reply(question, _build_answer(question.instruction, reply.body))


def _find_coordinator(where: PartitionSetup, instruction: Any) -> RequestTarget:
    if isinstance(instruction, InitIdempotentProducer):
        return AnyNodeTarget()
    return CoordinatorTarget(request_builders.TRANSACTION_COORDINATOR, where.transactional_id)


def _build_request(where: PartitionSetup, instruction: Any) -> RequestBuilder:
    match instruction:
        case InitProducer():
            return request_builders.init_producer_id(where.transactional_id, TRANSACTION_TIMEOUT_MS)
        case InitIdempotentProducer():
            return request_builders.init_producer_id(None, TRANSACTION_TIMEOUT_MS)
        case AddToTransaction(producer=producer):
            return request_builders.add_partitions_to_txn(
                where.transactional_id,
                producer_id=producer.id,
                epoch=producer.epoch,
                topics={where.remote_topic: [where.partition]},
            )
        case CommitTransaction(producer=producer):
            return request_builders.end_txn(
                where.transactional_id,
                producer_id=producer.id,
                epoch=producer.epoch,
                committed=True,
            )
    raise AssertionError(instruction)


def _read_error_code(instruction: Any, body: Any) -> int:
    if isinstance(instruction, AddToTransaction):
        result = body.results_by_topic_v3_and_below[0].results_by_partition[0]
        return int(result.partition_error_code)
    return int(body.error_code)


def _build_answer(instruction: Any, body: Any) -> InstructionAnswer:
    if isinstance(instruction, InitProducer | InitIdempotentProducer):
        return ProducerIdentity(id=int(body.producer_id), epoch=int(body.producer_epoch))
    return InstructionDone()


MAX_COMPUTE_TIME_S = 1.0
"""So long at most partitions compute in one turn of the loop, the last of them a little longer."""
RecoveryAnswerHandler = Callable[[PartitionReplicator, InstructionAnswer], None]


class RecoveryRequests:
    """`ask` collects, `flush` sends; answers go to `answered` on the loop's own thread."""

    def __init__(
        self,
        *,
        source: ClusterConnections,
        target: ClusterConnections,
        link: DriverClient,
        answered: RecoveryAnswerHandler,
        now: Clock,
        granted: bool = False,
    ) -> None:
        """`granted` as in `messages.Configure`."""
        self._granted = granted
        self._clock = now
        self._taken: set[int] = set()
        self._source = RecoveryCluster(source, is_target=False)
        self._target = RecoveryCluster(target, is_target=True)
        self._link = link
        self._answered = answered
        self._coordinators = TransactionCoordinatorRequests(target, reply=self._reply)
        self._offsets = OffsetLookups(source=self._source, target=self._target, reply=self._reply)
        self._reads = BatchReads(
            source=self._source,
            target=self._target,
            reply=self._reply,
            ask_offset=self._offsets.ask_offset,
        )
        self._sleeping: list[tuple[float, PendingRequest]] = []

    def ask(self, copy: PartitionReplicator, instruction: Instruction, now_s: float) -> None:
        """Send what a script asks to whoever knows; the answer comes with the script's token."""
        question = PendingRequest(copy, copy.script.token, instruction)
        match instruction:
            case FindTargetEnd():
                self._offsets.ask_offset(self._target, question)
            case FindSourceOffset():
                self._offsets.ask_offset(self._source, question)
            case FindEpochEnd():
                self._offsets.ask_epoch_end(question)
            case FindOpenTransactions():
                self._offsets.ask_producers(question)
            case ReadTarget():
                self._reads.ask(self._target, question)
            case ReadSource():
                self._reads.ask(self._source, question)
            case RequestAcquisition() if self._granted and id(copy) not in self._taken:
                self._taken.add(id(copy))  # copies live as long as this does
                self._sleeping.append((now_s, question))
            case Delay(delay_s=delay_s):
                self._sleeping.append((now_s + delay_s, question))
            case _:
                if not self._ask_worker(question):
                    self._coordinators.ask(question)

    def _ask_worker(self, question: PendingRequest) -> bool:
        """False: it is none that the worker answers."""
        match question.instruction:
            case RequestAcquisition():
                self._link.ask_may_take(answered=self._to(question))
            case ReadRecoveredState(target=target):
                self._link.read_facts(question.copy.where, target, answered=self._to(question))
            case FindReverseFlowProducers(producers=producers):
                self._link.ask_opposite(producers, answered=self._to(question))
            case AppendToFlowLog(items=items):
                self._link.record(items, answered=self._to(question))
            case _:
                return False
        return True

    def flush(self, now_s: float) -> None:
        """Send what was collected; wake the sleepers whose time has come, for `MAX_COMPUTE_TIME_S`
        at most."""
        if self._sleeping:
            self._wake(now_s)
        self._offsets.flush()
        self._reads.flush()

    def next_wake_s(self) -> float:
        """When the earliest sleeper is due (monotonic seconds), infinity for none."""
        return min((at_s for at_s, _ in self._sleeping), default=float("inf"))

    def _to(self, question: PendingRequest) -> DriverAnswerHandler:
        return lambda answer: self._reply(question, answer)

    def _reply(self, question: PendingRequest, answer: InstructionAnswer) -> None:
        if question.awaited:
            self._answered(question.copy, answer)

    def _wake(self, now_s: float) -> None:
        """Who pairs large batches computes each time it wakes: the loop has to run in between."""
        due = deque(each for each in self._sleeping if each[0] <= now_s)
        self._sleeping = [each for each in self._sleeping if each[0] > now_s]
        while due:
            self._reply(due.popleft()[1], InstructionDone())
            if self._clock.now_s() - now_s > MAX_COMPUTE_TIME_S:
                break
        self._sleeping = [*due, *self._sleeping]
