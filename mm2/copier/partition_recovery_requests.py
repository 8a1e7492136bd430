"""Sends the requests of recovering partitions, combined into one Kafka request where possible.

Requests to transaction coordinators cannot be combined. A response is dropped if the partition's
recovery no longer waits for it (`PendingRequest.is_awaited`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.network.cluster_connections import ClientResponse, ClusterConnections
from connect_runtime.protocol import consumer_group_requests, request_builders, request_errors
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorKey,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import CoordinatorLookupRefused
from mm2.copier import offset_lookups
from mm2.copier.driver_client import DriverAnswerHandler, DriverClient
from mm2.copier.offset_lookups import (
    OffsetLookups,
    PartitionRecoveryCluster,
    PendingRequest,
    ReplyHandler,
)
from mm2.copier.recovery_batch_reads import BatchReadQueue
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    AppendToFlowState,
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

TRANSACTION_TIMEOUT_MS = 60_000


class TransactionCoordinatorRequests:
    """Sends requests to transaction coordinators, one per partition, without queuing."""

    def __init__(self, target: ClusterConnections, *, reply: ReplyHandler) -> None:
        self._target = target
        self._reply_if_awaited = reply

    def send_instruction(self, question: PendingRequest) -> None:
        where = question.copy.setup
        self._target.call(
            _find_coordinator(where, question.instruction),
            _build_request(where, question.instruction),
            done=lambda reply: self._on_answer(question, reply),
            timeout_s=offset_lookups.REQUEST_TIMEOUT_S,
        )

    def _on_answer(self, question: PendingRequest, reply: ClientResponse) -> None:
        if isinstance(reply.failure, CoordinatorLookupRefused):
            code, text = reply.failure.error_code, str(reply.failure)
            self._reply_if_awaited(question, InstructionRefused(code=code, message=text))
            return
        if reply.failure is not None:
            self._reply_if_awaited(question, offset_lookups.build_no_response_answer(reply.failure))
            return
        transactional_id = question.copy.setup.transactional_id
        code = _read_error_code(question.instruction, reply.body)
        if code in consumer_group_requests.COORDINATOR_MOVED_ERRORS:
            self._target.forget_coordinator(
                request_builders.TRANSACTION_COORDINATOR, transactional_id
            )
        if code:
            plain = isinstance(question.instruction, InitIdempotentProducer)
            subject = "InitProducerId" if plain else f"transactional id {transactional_id}"
            text = f"{subject}: {request_errors.format_error_code(code)}"
            self._reply_if_awaited(question, InstructionRefused(code=code, message=text))
        else:
            self._reply_if_awaited(question, _build_answer(question.instruction, reply.body))


def _find_coordinator(where: PartitionSetup, instruction: Any) -> RequestTarget:
    if isinstance(instruction, InitIdempotentProducer):
        return AnyNodeTarget()
    return CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, where.transactional_id)


def _build_request(where: PartitionSetup, instruction: Any) -> RequestBuilder:
    match instruction:
        case InitProducer():
            return request_builders.build_init_producer_id_request(
                where.transactional_id, TRANSACTION_TIMEOUT_MS
            )
        case InitIdempotentProducer():
            return request_builders.build_init_producer_id_request(None, TRANSACTION_TIMEOUT_MS)
        case AddToTransaction(producer=producer):
            return request_builders.build_add_partitions_to_txn_request(
                where.transactional_id,
                producer_id=producer.id,
                epoch=producer.epoch,
                topics={where.remote_topic: [where.partition]},
            )
        case CommitTransaction(producer=producer):
            return request_builders.build_end_txn_request(
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
"""Time limit in seconds of tail matching, which uses CPU time, per iteration of the copy loop. The
step of a partition is not interrupted, so the last one may exceed the limit."""
RecoveryAnswerHandler = Callable[[PartitionReplicator, InstructionAnswer], None]


class RecoveryRequests:
    """Sends the requests of recovering partitions and passes the answers to `on_answer`.

    `submit_instruction` queues a request and `send_queued_requests` sends the queued requests.
    Requests to the driver and to transaction coordinators are sent immediately. Runs on the thread
    of the copy loop.
    """

    def __init__(
        self,
        *,
        source: ClusterConnections,
        target: ClusterConnections,
        driver: DriverClient,
        on_answer: RecoveryAnswerHandler,
        clock: Clock,
        granted: bool = False,
    ) -> None:
        """Create the request queues. `granted` is True if the driver has already permitted the
        first acquisition of each partition."""
        self._granted = granted
        self._clock = clock
        self._granted_copies: set[int] = set()
        self._source = PartitionRecoveryCluster(source, is_target=False)
        self._target = PartitionRecoveryCluster(target, is_target=True)
        self._driver = driver
        self._on_answer = on_answer
        self._coordinators = TransactionCoordinatorRequests(target, reply=self._reply_if_awaited)
        self._offsets = OffsetLookups(
            source=self._source, target=self._target, reply=self._reply_if_awaited
        )
        self._reads = BatchReadQueue(
            source=self._source,
            target=self._target,
            reply=self._reply_if_awaited,
            queue_offset_lookup=self._offsets.queue_offset_lookup,
        )
        self._delayed: list[tuple[float, PendingRequest]] = []

    def submit_instruction(
        self, copy: PartitionReplicator, instruction: Instruction, now_s: float
    ) -> None:
        """Queue or send the request of a recovering partition (`instruction`) for the cluster,
        transaction coordinator or driver that handles it."""
        question = PendingRequest(copy, copy.script_runner.token, instruction)
        match instruction:
            case FindTargetEnd():
                self._offsets.queue_offset_lookup(self._target, question)
            case FindSourceOffset():
                self._offsets.queue_offset_lookup(self._source, question)
            case FindEpochEnd():
                self._offsets.queue_epoch_end_lookup(question)
            case FindOpenTransactions():
                self._offsets.queue_open_transactions_lookup(question)
            case ReadTarget():
                self._reads.queue_read(self._target, question)
            case ReadSource():
                self._reads.queue_read(self._source, question)
            case RequestAcquisition() if self._granted and id(copy) not in self._granted_copies:
                self._granted_copies.add(
                    id(copy)
                )  # ids are unique: no replicator is freed before this object
                self._delayed.append((now_s, question))
            case Delay(delay_s=delay_s):
                self._delayed.append((now_s + delay_s, question))
            case _:
                if not self._try_send_request_to_driver(question):
                    self._coordinators.send_instruction(question)

    def _try_send_request_to_driver(self, question: PendingRequest) -> bool:
        """Send the request to the driver. Return False if the driver does not handle this kind of
        request."""
        match question.instruction:
            case RequestAcquisition():
                self._driver.request_acquisition_permission(
                    on_answer=self._build_reply_handler(question)
                )
            case ReadRecoveredState(target_offset=target):
                self._driver.request_recovered_state(
                    question.copy.setup, target, on_answer=self._build_reply_handler(question)
                )
            case FindReverseFlowProducers(producers=producers):
                self._driver.request_reverse_flow_producers(
                    producers, on_answer=self._build_reply_handler(question)
                )
            case AppendToFlowState(items=items):
                self._driver.append_to_flow_state(
                    items, on_stored=self._build_reply_handler(question)
                )
            case _:
                return False
        return True

    def send_queued_requests(self, now_s: float) -> None:
        """Continue the recovery of partitions whose requested delay has elapsed, then send the
        queued requests. No further partition is continued after `MAX_COMPUTE_TIME_S`; the next call
        handles the remaining partitions."""
        if self._delayed:
            self._resume_delayed_partitions(now_s)
        self._offsets.send_queued_lookups()
        self._reads.send_queued_reads()

    def find_next_delay_end_s(self) -> float:
        """Time at which the earliest delay requested by a partition ends (monotonic seconds);
        infinity if no delay is pending."""
        return min((due_s for due_s, _ in self._delayed), default=float("inf"))

    def _build_reply_handler(self, question: PendingRequest) -> DriverAnswerHandler:
        return lambda answer: self._reply_if_awaited(question, answer)

    def _reply_if_awaited(self, question: PendingRequest, answer: InstructionAnswer) -> None:
        if question.is_awaited:
            self._on_answer(question.copy, answer)

    def _resume_delayed_partitions(self, now_s: float) -> None:
        """Continue the recovery of partitions whose requested delay has elapsed. Each of them may
        compare the end of its mirror log with the source, which uses CPU time, so stop after
        `MAX_COMPUTE_TIME_S`."""
        due = deque(each for each in self._delayed if each[0] <= now_s)
        self._delayed = [each for each in self._delayed if each[0] > now_s]
        while due:
            self._reply_if_awaited(due.popleft()[1], InstructionDone())
            if self._clock.now_s() - now_s > MAX_COMPUTE_TIME_S:
                break
        self._delayed = [*due, *self._delayed]
