"""A partition read from its first record to its end, for who compares logs and has time."""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors, ids
from connect_runtime.wire.codec import failures, messages, targets
from mm2.core.copy import compared_logs
from mm2.pipeline import single_questions

_LATEST = -1
_EARLIEST = -2
PATIENCE_S = 60.0
"""So long nothing may come, where there should be something."""
_AGAIN_S = 0.2


class WholeLog:
    """Every call waits, and raises `ConnectError` when nobody answers. `turn` is called between
    questions with the seconds that it may take, and may raise."""

    def __init__(
        self,
        questions: single_questions.SingleQuestions,
        partition: ids.TopicPartition,
        *,
        clock: base_clock.Clock,
        turn: Callable[[float], None],
    ) -> None:
        self._questions = questions
        self._partition = partition
        self._clock = clock
        self._turn = turn

    def start(self) -> int:
        """The offset of the first record that is still there."""
        return self._listed(_EARLIEST, "start")

    def end(self) -> int:
        """The last stable offset."""
        return self._listed(_LATEST, "end")

    def stable_to(self, offset: int) -> None:
        """Wait until all before it is decided, and can be read. Raises `RetriableError` when it is
        not within `PATIENCE_S`."""
        until = deadline.Deadline.after(PATIENCE_S, now_s=self._clock.now_s())
        while (end := self.end()) < offset:
            if until.passed(self._clock.now_s()):
                raise errors.RetriableError(
                    f"{self._partition} can be read up to offset {end} only, not {offset}: a "
                    "transaction is open there, or the log was cut"
                )
            self._turn(_AGAIN_S)

    def read(self, into: compared_logs.ComparedLog) -> None:
        """Up to where it is to end. What does not come is not passed over: who can tell whether it
        was there?

        Raises `FatalError` for what cannot be read, `RetriableError` when nothing came for
        `PATIENCE_S`.
        """
        while not into.complete:
            self._read_on(into)

    def _read_on(self, into: compared_logs.ComparedLog) -> None:
        """At least one batch."""
        place, before = self._partition, into.at
        until = deadline.Deadline.after(PATIENCE_S, now_s=self._clock.now_s())
        why = "nothing came"
        while not until.passed(self._clock.now_s()):
            try:
                fetched = self._questions.fetch(
                    place.topic, before, partition=place.partition, committed=True
                )
                into.add(memoryview(fetched.records), tuple(fetched.aborted))
            except compared_logs.Unreadable as error:
                raise errors.FatalError(f"reading {place} at offset {into.at}: {error}") from error
            except errors.RetriableError as error:
                why = str(error)
            self._turn(0.0 if into.at > before else _AGAIN_S)
            if into.at > before:
                return
        raise errors.RetriableError(f"reading {place} at offset {before}: {why}")

    def _listed(self, timestamp: int, what: str) -> int:
        place = self._partition
        node = targets.Node(self._questions.leader(place.topic, place.partition))
        query = messages.OffsetQuery(partition=place.partition, timestamp=timestamp)
        message = messages.list_offsets({place.topic: [query]}, read_committed=True)
        ((found,),) = (each.partitions for each in self._questions.ask(node, message).topics)
        if int(found.error_code):
            raise errors.RetriableError(
                f"asking for the {what} of {place}: {failures.error_name(found.error_code)}"
            )
        return int(found.offset)
