"""Port: topics that are state, read as a whole: MirrorMaker 2's own on the cluster mirrored to.

They are compacted: the last record of a key counts. One thread calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """One record as it was read. `value` None is a tombstone; `time_ms` is its timestamp, -1 where
    it has none."""

    topic: str
    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int = -1


Take = Callable[[TopicRecord], object]


class StateTopics(Protocol):
    """Both questions raise `UnreachableError` when time is up without an answer, and
    `AuthenticationError` as soon as credentials or certificates are refused."""

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Names of all topics that we may DESCRIBE, Kafka's own included."""

    def read_topic(self, topic: str, timeout_s: float, *, partitions: int = 1) -> list[TopicRecord]:
        """Everything in the topic, which has so many partitions, up to where it ends when asked; in
        order per partition.

        All or nothing: what could not be read to its end in time is raised, not left out. Raises
        `NotAuthorizedError`, and `TopicMissingError` when it stays missing.
        """

    def close(self) -> None:
        """Let go of the connections."""


class TopicTail(Protocol):
    """One such topic, read again and again; raises as `StateTopics` does."""

    def read_to_end(self, timeout_s: float) -> list[TopicRecord]:
        """Everything that was not read yet, up to where the topic ends when asked.

        Raises `LogTruncatedError` when records that were read are gone: begin anew with another
        tail. What else is raised leaves nothing out: the next call gives what was read so far, too.
        """

    def feed_to_end(self, timeout_s: float, take: Take) -> None:
        """The same, for who need not hold it all: `take` is given each record as it is read, and
        none again."""

    def close(self) -> None:
        """Let go of the connections."""
