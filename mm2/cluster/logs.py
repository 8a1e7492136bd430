"""Port: where partitions' logs begin and end, and when their records are from.

Every call takes the seconds it may last and reports partition by partition: one that fails never
stands in the way of the others. What concerns the whole cluster (unreachable, credentials refused)
is raised instead. One thread at a time calls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from connect_runtime.base import errors, ids
from mm2.core.offsets import log_ends

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PerPartition(Generic[T]):
    """What became of each partition asked about: every one is in exactly one of the two."""

    done: Mapping[ids.TopicPartition, T]
    failed: Mapping[ids.TopicPartition, errors.ConnectError]


class Logs(Protocol):
    """One cluster's. All raise `UnreachableError` when time is up without an answer, and
    `AuthenticationError` as soon as credentials or certificates are refused. Needs DESCRIBE; for
    times READ."""

    def ends(
        self, partitions: Collection[ids.TopicPartition], timeout_s: float
    ) -> PerPartition[log_ends.Ends]:
        """As they are now."""

    def offsets_at(
        self, moments_ms: Mapping[ids.TopicPartition, int], timeout_s: float
    ) -> PerPartition[int | None]:
        """The first offset whose timestamp is not before that time; None: there is none.

        It may be that of a transaction's marker, which bears the time of the transaction's end.
        """

    def times_ms(
        self, offsets: Mapping[ids.TopicPartition, int], timeout_s: float
    ) -> Mapping[ids.TopicPartition, int]:
        """Timestamps of the first committed records at or behind these offsets.

        Left out is whatever has none, may not be read, or was not read when time was up.
        """

    def newest_ms(
        self, ends: Mapping[ids.TopicPartition, log_ends.Ends], timeout_s: float
    ) -> Mapping[ids.TopicPartition, int]:
        """Timestamps of the last committed records before these ends; markers, which bear the times
        of brokers, are none. Left out is whatever has none, or was not found in time; where time
        was up it may be that of one before."""

    def close(self) -> None:
        """Let go of the connections."""
