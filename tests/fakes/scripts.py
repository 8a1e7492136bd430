"""Plays the copy's scripts: answers by kind of question, and notes what was asked.

An answer is given as it is, as a list (one for each time the kind is asked; one more fails), or as
a function of the question, such as a `Log`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mm2.formats import record_batch
from mm2.replication.recovery_instructions import (
    AppendToFlowState,
    Delay,
    FetchedRecords,
    FlowStateRecord,
    InstructionDone,
    InstructionRefused,
    NoResponse,
    ReadSource,
    ReadTarget,
    RequestAcquisition,
    Script,
)
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp

Answers = Mapping[Any, Any]
"""By the kind of question; a list holds them one after the other."""

NOW_MS = 1_700_000_000_000
DONE = InstructionDone()
LOST = NoResponse(reason="connection lost")

_GRANTED: dict[type, Any] = {
    RequestAcquisition: DONE,
    AppendToFlowState: DONE,
    Delay: DONE,
}


@dataclass(frozen=True, slots=True)
class Played:
    """What a script returned, its questions in order without `Sleep`, and how long it slept (s)."""

    outcome: Any
    asked: list[Any]
    slept: list[float]

    @property
    def kinds(self) -> list[type]:
        return [type(each) for each in self.asked]

    @property
    def stored(self) -> list[FlowStateRecord]:
        """The items of every record that was asked for, in order."""
        of = [each for each in self.asked if isinstance(each, AppendToFlowState)]
        return [item for each in of for item in each.items]


def play(script: Script[Any], answers: Answers) -> Played:
    """To the script's end; a kind of question that has no answer fails."""
    given = {**_GRANTED, **answers}
    queues = {kind: iter(each) for kind, each in given.items() if isinstance(each, list)}
    asked: list[Any] = []
    slept: list[float] = []
    answer: Any = None
    while True:
        try:
            question = script.send(answer)
        except StopIteration as end:
            return Played(end.value, asked, slept)
        if isinstance(question, Delay):
            slept.append(question.delay_s)
        else:
            asked.append(question)
        assert len(asked) < 5000, question
        answer = _answer(question, given, queues)


def _answer(question: Any, given: Answers, queues: Mapping[type, Any]) -> Any:
    kind = type(question)
    if kind in queues:
        answer = next(queues[kind], None)
        assert answer is not None, f"asked once more than thought: {question}"
    else:
        answer = given[kind]
    if isinstance(answer, Callable):  # type: ignore[arg-type]
        return answer(question)
    return answer


# Logs to read


class Log:
    """A partition's log as a fetch sees it; out of range before its start and behind its end."""

    def __init__(
        self,
        *held: bytes,
        start: int = 0,
        end: int | None = None,
        aborted: tuple[tuple[int, int], ...] = (),
        last_stable: int | None = None,
    ) -> None:
        self.held = [(record_batch.read_batch_header(memoryview(each)), each) for each in held]
        self.start = start
        last = max((header.last_offset + 1 for header, _ in self.held), default=start)
        self.end = last if end is None else end
        self.aborted = aborted
        self.last_stable = last_stable

    def __call__(self, question: ReadTarget | ReadSource) -> FetchedRecords | InstructionRefused:
        at = question.offset
        if not self.start <= at <= self.end:
            return InstructionRefused(code=1, log_start=self.start)
        found = b"".join(each for header, each in self.held if header.last_offset >= at)
        return records(
            found,
            log_start=self.start,
            end=self.end,
            aborted=self.aborted,
            last_stable=self.last_stable,
        )


def records(
    *found: bytes,
    log_start: int = 0,
    end: int = 0,
    aborted: tuple[tuple[int, int], ...] = (),
    last_stable: int | None = None,
) -> FetchedRecords:
    """One fetch's answer; the bytes can be stamped over, as fetched ones can."""
    joined = memoryview(bytearray(b"".join(found)))
    return FetchedRecords(
        records=joined,
        log_start=log_start,
        end=end,
        aborted=aborted,
        last_stable_offset=last_stable,
    )


def data(
    base: int,
    *values: bytes,
    producer: tuple[int, int] = (-1, -1),
    transactional: bool = False,
    attributes: int = 0,
    leader_epoch: int = 0,
    timestamp: int = NOW_MS,
    last_delta: int | None = None,
    deltas: Sequence[int] = (),
    codec: int = 0,
) -> bytes:
    """A batch of these values; `producer` is (id, epoch).

    `deltas` are those of the records, `last_delta` the batch's, where compaction left gaps.
    """
    stamp = Stamp(
        base_offset=base,
        leader_epoch=leader_epoch,
        producer_id=producer[0],
        producer_epoch=producer[1],
        attributes=attributes | (batches.TRANSACTIONAL if transactional else 0),
    )
    held = [
        Record(value=value, timestamp=timestamp, offset_delta=delta)
        for value, delta in itertools.zip_longest(values, deltas)
    ]
    if deltas and last_delta is None:
        last_delta = deltas[-1]
    return batches.data(held, stamp, last_offset_delta=last_delta, codec=codec)


def marker(
    base: int, producer: tuple[int, int], *, commit: bool = True, leader_epoch: int = 0
) -> bytes:
    """The control batch that ends a transaction of `producer`, (id, epoch)."""
    stamp = Stamp(
        base_offset=base,
        leader_epoch=leader_epoch,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    return batches.marker(stamp, commit=commit, timestamp=NOW_MS)
