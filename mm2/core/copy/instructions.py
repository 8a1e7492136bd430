"""What one partition's copy asks of the world, and what it can be told; the vocabulary of the copy.

Every instruction is about the partition of the machine that gave it. Scripts (`take`, `boundary`)
have one of them outstanding at a time; each is answered by exactly one of the answers named with
it, by `Refused` (somebody said no, with Kafka's error code) or by `Unanswered` (nobody said
anything in time: the outcome is unknown).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from mm2.core.copy import facts as copy_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """A producer id and the epoch granted with it."""

    id: int
    epoch: int


# Instructions


@dataclass(frozen=True, slots=True)
class AskMayTake:
    """Ask the worker whether this copy may take the partition. Answer: `Done`."""


@dataclass(frozen=True, slots=True)
class NoteTargetEnd:
    """ListOffsets(latest, read_uncommitted) of the target partition. Answer: `TargetEnd`."""


@dataclass(frozen=True, slots=True)
class InitProducer:
    """InitProducerId with the partition's own transactional id. Answer: `ProducerIdentity`."""


@dataclass(frozen=True, slots=True)
class GetProducerId:
    """InitProducerId without a transactional id: a new id, which fences nobody. Answer:
    `ProducerIdentity`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddToTransaction:
    """AddPartitionsToTxn for the target partition. Answer: `Done`."""

    producer: ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTransaction:
    """EndTxn(commit) of the partition's transactional id. Answer: `Done`."""

    producer: ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTarget:
    """Fetch(read_uncommitted) of the target partition from `offset` on. Answer: `Records`."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSource:
    """Fetch(read_committed) of the source partition from `offset` on. Answer: `Records`."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """What the map topic says of the partition, read to its end as seen when asked.

    With `target`: also the source position that belongs to that target offset. Answer: `Facts`.
    """

    target: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOpposite:
    """Ask the worker which of these producer ids of the source are the opposite flow's, whose map
    topic is read to its end for that. Answer: `Theirs`."""

    producers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindEpochEnd:
    """OffsetForLeaderEpoch on the target. Answer: `EpochEnd`."""

    leader_epoch: int
    current_leader_epoch: int


@dataclass(frozen=True, slots=True)
class FindOpenTransactions:
    """DescribeProducers of the target partition. Answer: `OpenTransactions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindSourceOffset:
    """ListOffsets on the source: "earliest", "latest" (the last stable offset) or a timestamp in
    ms.

    Answer: `SourceOffset`.
    """

    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Append these to the flow's map or receipt topic, in this order. Answer: `Done`, once stored.

    Outside a script it is answered through `PartitionCopy.recorded` with the same `token`.
    """

    items: tuple[LogItem, ...]
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogItem:
    """One record for the map topic, or for the receipt topic; value None deletes."""

    key: bytes
    value: bytes | None
    receipt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Come back after so many seconds. Answer: `Done`."""

    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshTarget:
    """The target's leaders have changed: read its metadata again. Answer: `Done` (at once)."""


Instruction = (
    AskMayTake
    | NoteTargetEnd
    | InitProducer
    | GetProducerId
    | AddToTransaction
    | CommitTransaction
    | ReadTarget
    | ReadSource
    | ReadFacts
    | AskOpposite
    | FindEpochEnd
    | FindOpenTransactions
    | FindSourceOffset
    | Record
    | Sleep
    | RefreshTarget
)

# Answers


@dataclass(frozen=True, slots=True)
class Done:
    """It is done; there is nothing to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEnd:
    """High watermark of the target partition, and the leader epoch of the broker that named it."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Fetched batches as they came, whole or cut off at the end.

    `aborted` lists (producer id, first offset) of aborted transactions (read_committed only);
    `end` is the high watermark, or the last stable offset for read_committed. `last_stable`: up to
    there readers of committed records see the target; None where that is not told.
    """

    records: memoryview
    log_start: int
    end: int
    aborted: tuple[tuple[int, int], ...] = ()
    last_stable: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """Those of the ids asked of with which the opposite flow writes."""

    producers: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """End of the leader epoch asked for on the target; -1 when the broker does not know."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """It begins at target offset `start`, which retention may have deleted since."""

    producer_id: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactions:
    """Those of the target partition that have no marker, as its leader knows them."""

    transactions: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Kafka said no. `code` is its error code; `log_start` the log's start where a Fetch names
    it."""

    code: int
    message: str = ""
    log_start: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """Disconnected or timed out: what was asked may have happened."""

    reason: str


Answer = (
    Done
    | TargetEnd
    | ProducerIdentity
    | Records
    | copy_facts.Facts
    | Theirs
    | EpochEnd
    | OpenTransactions
    | SourceOffset
    | Refused
    | Unanswered
)

Result = TypeVar("Result")
Script = Generator[Instruction, Answer, Result]
"""A sequence of questions, each asked with the answer to the one before; returns what came of
it."""
