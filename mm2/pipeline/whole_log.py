"""A partition read from its first record to its end, for who compares logs and has time."""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.base import errors, ids
from connect_runtime.wire.codec import failures, messages, targets
from mm2.core.copy import compared_logs
from mm2.pipeline import single_questions

_LATEST = -1
_EARLIEST = -2
EMPTY_READS = 5
"""So often in a row an answer may bring nothing, where there should be something."""


class WholeLog:
    """Every call waits, and raises `ConnectError` when nobody answers."""

    def __init__(
        self, questions: single_questions.SingleQuestions, partition: ids.TopicPartition
    ) -> None:
        self._questions = questions
        self._partition = partition

    def start(self) -> int:
        """The offset of the first record that is still there."""
        return self._listed(_EARLIEST, "start")

    def end(self) -> int:
        """The last stable offset."""
        return self._listed(_LATEST, "end")

    def read(self, into: compared_logs.ComparedLog, *, turn: Callable[[], None]) -> None:
        """Up to where it is to end; `turn` is called after each fetch, and may raise.

        Raises `FatalError` for what cannot be read.
        """
        place, idle = self._partition, 0
        while not into.complete:
            before = into.at
            fetched = self._questions.fetch(
                place.topic, into.at, partition=place.partition, committed=True
            )
            try:
                into.add(memoryview(fetched.records), tuple(fetched.aborted))
            except compared_logs.Unreadable as error:
                raise errors.FatalError(f"reading {place} at offset {into.at}: {error}") from error
            turn()
            idle = 0 if into.at > before else idle + 1
            if idle >= EMPTY_READS:
                into.end()  # the cleaner took what stood before the end

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
