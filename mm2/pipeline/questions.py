"""Carries out the questions of partitions' scripts, many partitions to a request where Kafka
allows.

A question is dropped unanswered when its script has been abandoned meanwhile (`script.token`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from connect_runtime.base import clock
from connect_runtime.wire.connection import cluster
from mm2.core.copy import instructions, partition
from mm2.pipeline import (
    asked,
    coordinator_questions,
    offset_questions,
    read_questions,
    worker_link,
)

TURN_S = 1.0
"""So long at most partitions compute in one turn of the loop, the last of them a little longer."""
Answered = Callable[[partition.PartitionCopy, instructions.Answer], None]


class Questions:
    """`ask` collects, `flush` sends; answers go to `answered` on the loop's own thread."""

    def __init__(
        self,
        *,
        source: cluster.ClusterConnections,
        target: cluster.ClusterConnections,
        link: worker_link.WorkerLink,
        answered: Answered,
        now: clock.Clock,
        granted: bool = False,
    ) -> None:
        """`granted` as in `messages.Configure`."""
        self._granted = granted
        self._clock = now
        self._taken: set[int] = set()
        self._source = asked.Side(source, is_target=False)
        self._target = asked.Side(target, is_target=True)
        self._link = link
        self._answered = answered
        self._coordinators = coordinator_questions.CoordinatorQuestions(target, reply=self._reply)
        self._offsets = offset_questions.OffsetQuestions(
            source=self._source, target=self._target, reply=self._reply
        )
        self._reads = read_questions.ReadQuestions(
            source=self._source,
            target=self._target,
            reply=self._reply,
            ask_offset=self._offsets.ask_offset,
        )
        self._sleeping: list[tuple[float, asked.Asked]] = []

    def ask(
        self, copy: partition.PartitionCopy, instruction: instructions.Instruction, now_s: float
    ) -> None:
        """Send what a script asks to whoever knows; the answer comes with the script's token."""
        question = asked.Asked(copy, copy.script.token, instruction)
        match instruction:
            case instructions.NoteTargetEnd():
                self._offsets.ask_offset(self._target, question)
            case instructions.FindSourceOffset():
                self._offsets.ask_offset(self._source, question)
            case instructions.FindEpochEnd():
                self._offsets.ask_epoch_end(question)
            case instructions.FindOpenTransactions():
                self._offsets.ask_producers(question)
            case instructions.ReadTarget():
                self._reads.ask(self._target, question)
            case instructions.ReadSource():
                self._reads.ask(self._source, question)
            case instructions.AskMayTake() if self._granted and id(copy) not in self._taken:
                self._taken.add(id(copy))  # copies live as long as this does
                self._sleeping.append((now_s, question))
            case instructions.Sleep(delay_s=delay_s):
                self._sleeping.append((now_s + delay_s, question))
            case _:
                if not self._ask_worker(question):
                    self._coordinators.ask(question)

    def _ask_worker(self, question: asked.Asked) -> bool:
        """False: it is none that the worker answers."""
        match question.instruction:
            case instructions.AskMayTake():
                self._link.ask_may_take(answered=self._to(question))
            case instructions.ReadFacts(target=target):
                self._link.read_facts(question.copy.where, target, answered=self._to(question))
            case instructions.AskOpposite(producers=producers):
                self._link.ask_opposite(producers, answered=self._to(question))
            case instructions.Record(items=items):
                self._link.record(items, answered=self._to(question))
            case _:
                return False
        return True

    def flush(self, now_s: float) -> None:
        """Send what was collected; wake the sleepers whose time has come, for `TURN_S` at most."""
        if self._sleeping:
            self._wake(now_s)
        self._offsets.flush()
        self._reads.flush()

    def next_wake_s(self) -> float:
        """When the earliest sleeper is due (monotonic seconds), infinity for none."""
        return min((at_s for at_s, _ in self._sleeping), default=float("inf"))

    def _to(self, question: asked.Asked) -> worker_link.Answered:
        return lambda answer: self._reply(question, answer)

    def _reply(self, question: asked.Asked, answer: instructions.Answer) -> None:
        if question.awaited:
            self._answered(question.copy, answer)

    def _wake(self, now_s: float) -> None:
        """Who pairs large batches computes each time it wakes: the loop has to run in between."""
        due = deque(each for each in self._sleeping if each[0] <= now_s)
        self._sleeping = [each for each in self._sleeping if each[0] > now_s]
        while due:
            self._reply(due.popleft()[1], instructions.Done())
            if self._clock.now_s() - now_s > TURN_S:
                break
        self._sleeping = [*due, *self._sleeping]
