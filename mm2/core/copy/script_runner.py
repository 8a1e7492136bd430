"""Runs one script at a time: hands out its question, feeds it the answer, tells who follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mm2.core.copy import instructions, setup, stops
from mm2.formats import record_sets

OnEnd = Callable[[object, float], list[instructions.Instruction]]
"""Gets what the script returned and the time (monotonic seconds); says what to do next."""


@dataclass(slots=True)
class ScriptRunner:
    """Invariant: while a script runs, exactly one question of it is out.

    `token` changes with every start and every abandonment: an answer that comes with an older one
    belongs to a script that is gone.
    """

    where: setup.PartitionSetup
    token: int = 0
    _script: instructions.Script[object] | None = None
    _question: instructions.Instruction | None = None
    _on_end: OnEnd | None = None

    @property
    def running(self) -> bool:
        return self._script is not None

    def start(
        self, script: instructions.Script[object], on_end: OnEnd, *, now_s: float
    ) -> list[instructions.Instruction]:
        assert self._script is None
        self._script, self._on_end = self._guarded(script), on_end
        self.token += 1
        return self._step(None, now_s)

    def _guarded(self, script: instructions.Script[object]) -> instructions.Script[object]:
        """What a script cannot read on the mirror stops this partition, and no other."""
        try:
            return (yield from script)
        except record_sets.DamagedBatchError as error:
            return stops.mirror_unreadable(self.where, offset=error.base_offset, why=str(error))

    def answered(self, answer: instructions.Answer, now_s: float) -> list[instructions.Instruction]:
        assert self._script is not None, answer
        return self._step(answer, now_s)

    def asks(self, instruction: instructions.Instruction) -> bool:
        """Is this the question that is out?"""
        return instruction is self._question

    def abandon(self) -> None:
        assert self._script is not None
        self._script.close()
        self._script = self._question = None
        self.token += 1

    def _step(
        self, answer: instructions.Answer | None, now_s: float
    ) -> list[instructions.Instruction]:
        assert self._script is not None
        assert self._on_end is not None
        try:
            question = next(self._script) if answer is None else self._script.send(answer)
        except StopIteration as end:
            self._script = self._question = None
            return self._on_end(end.value, now_s)
        self._question = question
        return [question]
