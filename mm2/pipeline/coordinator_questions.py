"""What partitions' scripts ask of transaction coordinators: one request each."""

from __future__ import annotations

from typing import Any

from connect_runtime.wire.codec import failures, messages, targets
from connect_runtime.wire.connection import cluster
from mm2.core.copy import instructions, setup
from mm2.pipeline import asked

TRANSACTION_TIMEOUT_MS = 60_000
MOVED = frozenset({15, 16})
"""COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR"""


class CoordinatorQuestions:
    """`ask` sends at once: there is nothing to share a request with."""

    def __init__(self, target: cluster.ClusterConnections, *, reply: asked.Reply) -> None:
        self._target = target
        self._reply = reply

    def ask(self, question: asked.Asked) -> None:
        where = question.copy.where
        self._target.call(
            _to(where, question.instruction),
            _message(where, question.instruction),
            done=lambda reply: self._answered(question, reply),
            timeout_s=asked.CALL_TIMEOUT_S,
        )

    def _answered(self, question: asked.Asked, reply: cluster.Reply) -> None:
        if isinstance(reply.failure, failures.CoordinatorRefused):
            code, text = reply.failure.error_code, str(reply.failure)
            self._reply(question, instructions.Refused(code=code, message=text))
            return
        if reply.failure is not None:
            self._reply(question, asked.failed(reply.failure))
            return
        transactional_id = question.copy.where.transactional_id
        code = _error_code(question.instruction, reply.body)
        if code in MOVED:
            self._target.forget_coordinator(targets.TRANSACTION, transactional_id)
        if code:
            plain = isinstance(question.instruction, instructions.GetProducerId)
            of = "a producer id" if plain else f"transactional id {transactional_id}"
            text = f"{of}: {failures.error_name(code)}"
            self._reply(question, instructions.Refused(code=code, message=text))
        else:
            self._reply(question, _answer(question.instruction, reply.body))


def _to(where: setup.PartitionSetup, instruction: Any) -> targets.Target:
    if isinstance(instruction, instructions.GetProducerId):
        return targets.AnyNode()
    return targets.Coordinator(targets.TRANSACTION, where.transactional_id)


def _message(where: setup.PartitionSetup, instruction: Any) -> messages.Message:
    match instruction:
        case instructions.InitProducer():
            return messages.init_producer_id(where.transactional_id, TRANSACTION_TIMEOUT_MS)
        case instructions.GetProducerId():
            return messages.init_producer_id(None, TRANSACTION_TIMEOUT_MS)
        case instructions.AddToTransaction(producer=producer):
            return messages.add_partitions_to_txn(
                where.transactional_id,
                producer_id=producer.id,
                epoch=producer.epoch,
                topics={where.remote_topic: [where.partition]},
            )
        case instructions.CommitTransaction(producer=producer):
            return messages.end_txn(
                where.transactional_id,
                producer_id=producer.id,
                epoch=producer.epoch,
                committed=True,
            )
    raise AssertionError(instruction)


def _error_code(instruction: Any, body: Any) -> int:
    if isinstance(instruction, instructions.AddToTransaction):
        result = body.results_by_topic_v3_and_below[0].results_by_partition[0]
        return int(result.partition_error_code)
    return int(body.error_code)


def _answer(instruction: Any, body: Any) -> instructions.Answer:
    if isinstance(instruction, instructions.InitProducer | instructions.GetProducerId):
        return instructions.ProducerIdentity(
            id=int(body.producer_id), epoch=int(body.producer_epoch)
        )
    return instructions.Done()
