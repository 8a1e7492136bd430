"""Control messages between the driver and a log comparison process, which rebuilds an offset map by
comparing the records of the source and target logs.

After `configure`, the driver sends `match`. For each partition, the process sends the matched
ranges of offsets in `stretch` messages, and then one `matched` or `unmatched` message. After the
last partition, the process sends `ended`.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.offsets import offset_map_rebuild_plan
from mm2.offsets.partition_log_alignment import AlignedRange, LogAlignment

JsonMessage = dict[str, Any]
_MAX_RUNS_PER_MESSAGE = 20_000
"""Maximum number of offset runs (ranges with a constant offset difference) per message, which keeps
messages below the maximum frame size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompareRange:
    """A source partition to compare with its mirror."""

    partition: TopicPartition
    source_end: int = -1
    """Exclusive end offset of the comparison in the source log; -1 for the log end."""
    target_end: int = -1
    """Exclusive end offset of the comparison in the target log; -1 for the log end."""
    reverse_producers: frozenset[int] = frozenset()
    """Producer ids of the reverse flow. Records of these producers are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompareRequest:
    """Partitions that one process compares sequentially."""

    ranges: tuple[LogCompareRange, ...]
    memory_bytes: int
    """Memory limit for one partition."""
    all_differ: bool = False
    """True if all records of a log are assumed to differ from each other, as in
    `log_alignment.align_logs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompareResult:
    """Result of comparing one partition."""

    partition: TopicPartition
    alignment: LogAlignment | None = None
    """Alignment of the logs; None if they could not be compared or have no records in common."""
    source_records: int = 0
    """Number of source records that were compared."""
    target_records: int = 0
    """Number of target records that were compared."""
    failure: str = ""
    """Reason why the logs could not be compared; "" if they could."""


def encode_compare_request(request: LogCompareRequest) -> JsonMessage:
    return {
        "type": "match",
        "memory_bytes": request.memory_bytes,
        "all_differ": request.all_differ,
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "source_to": each.source_end,
                "target_to": each.target_end,
                "reverse_producers": sorted(each.reverse_producers),
            }
            for each in request.ranges
        ],
    }


def decode_compare_request(message: JsonMessage) -> LogCompareRequest:
    bounds = tuple(
        LogCompareRange(
            partition=_decode_partition(each),
            source_end=each["source_to"],
            target_end=each["target_to"],
            reverse_producers=frozenset(each["reverse_producers"]),
        )
        for each in message["partitions"]
    )
    return LogCompareRequest(
        ranges=bounds, memory_bytes=message["memory_bytes"], all_differ=message["all_differ"]
    )


def encode_compare_result(result: LogCompareResult) -> Iterator[JsonMessage]:
    """Encode the result of comparing one partition as control messages: a `stretch` message for
    each matched range, then one `matched` message; or only an `unmatched` message."""
    partition = {"topic": result.partition.topic, "partition": result.partition.partition}
    counts = {"source": result.source_records, "target": result.target_records}
    matched = result.alignment
    if matched is None:
        yield {"type": "unmatched", **partition, **counts, "reason": result.failure}
        return
    for each in offset_map_rebuild_plan.split_ranges(
        matched.ranges, runs_max=_MAX_RUNS_PER_MESSAGE
    ):
        encoded = bytearray()
        offset_map_records.append_offset_runs(encoded, each.runs, previous=None)
        yield {
            "type": "stretch",
            **partition,
            "place": [each.first, each.through, each.target_next, each.below, each.above],
            "count": len(each.runs),
            "runs": base64.b64encode(encoded).decode("ascii"),
        }
    yield {
        "type": "matched",
        **partition,
        **counts,
        "first_source": matched.first_source,
        "first_target": matched.first_target,
        "matched": matched.matched_offsets,
        "bounded": matched.bounded_offsets,
        "tail": matched.unmatched_tail,
        "writers": list(matched.producer_ids),
    }


class LogComparisonResultDecoder:
    """Assembles the result messages of partitions that are compared sequentially."""

    def __init__(self) -> None:
        self._stretches: list[AlignedRange] = []

    def add_message(self, message: JsonMessage) -> LogCompareResult | None:
        """Add a message from the log comparison process. Return the partition's result once it is
        complete, else None."""
        if message["type"] == "stretch":
            first, through, target_next, below, above = message["place"]
            data = base64.b64decode(message["runs"])
            runs = tuple(offset_map_records.read_offset_runs(data, 0, count=message["count"])[0])
            self._stretches.append(AlignedRange(first, through, target_next, runs, below, above))
            return None
        stretches, self._stretches = tuple(self._stretches), []
        result = LogCompareResult(
            partition=_decode_partition(message),
            source_records=message["source"],
            target_records=message["target"],
        )
        if message["type"] == "unmatched":
            return dataclasses.replace(result, failure=message["reason"])
        matched = LogAlignment(
            first_source=message["first_source"],
            first_target=message["first_target"],
            ranges=stretches,
            matched_offsets=message["matched"],
            bounded_offsets=message["bounded"],
            unmatched_tail=message["tail"],
            producer_ids=tuple(message["writers"]),
        )
        return dataclasses.replace(result, alignment=matched)


def _decode_partition(message: JsonMessage) -> TopicPartition:
    return TopicPartition(message["topic"], message["partition"])
