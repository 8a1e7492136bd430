"""Control messages of log comparison, which rebuilds an offset map from the records themselves.

After `configure`, the driver sends `match`. For each partition the process answers with any
number of `stretch` and one `matched`, or with `unmatched`; at the end it sends `ended`.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.offsets import map_rebuild
from mm2.offsets.log_alignment import AlignedRange, LogAlignment

JsonMessage = dict[str, Any]
_MAX_RUNS_PER_MESSAGE = 20_000
"""Of one message: a frame has a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompareRange:
    """A partition of the source, up to where either log is compared (-1: to its end), and the
    producers of a flow back into it."""

    partition: TopicPartition
    source_to: int = -1
    target_to: int = -1
    opposite: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompareRequest:
    """What one process compares, one partition after the other, each in so much memory at most.
    `all_differ` as in `matching.match`."""

    bounds: tuple[LogCompareRange, ...]
    memory_bytes: int
    all_differ: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompareResult:
    """What came of one partition: `matched` None for nothing, and `why` where it could not be
    compared. `source` and `target` count the records of either log."""

    partition: TopicPartition
    matched: LogAlignment | None = None
    source: int = 0
    target: int = 0
    why: str = ""


def encode_request(asked: LogCompareRequest) -> JsonMessage:
    return {
        "type": "match",
        "memory_bytes": asked.memory_bytes,
        "all_differ": asked.all_differ,
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "source_to": each.source_to,
                "target_to": each.target_to,
                "opposite": sorted(each.opposite),
            }
            for each in asked.bounds
        ],
    }


def decode_request(message: JsonMessage) -> LogCompareRequest:
    bounds = tuple(
        LogCompareRange(
            partition=_decode_partition(each),
            source_to=each["source_to"],
            target_to=each["target_to"],
            opposite=frozenset(each["opposite"]),
        )
        for each in message["partitions"]
    )
    return LogCompareRequest(
        bounds=bounds, memory_bytes=message["memory_bytes"], all_differ=message["all_differ"]
    )


def encode_result(compared: LogCompareResult) -> Iterator[JsonMessage]:
    """Stretches first: with `matched` all of it is there."""
    place = {"topic": compared.partition.topic, "partition": compared.partition.partition}
    counts = {"source": compared.source, "target": compared.target}
    matched = compared.matched
    if matched is None:
        yield {"type": "unmatched", **place, **counts, "why": compared.why}
        return
    for each in map_rebuild.split_ranges(matched.stretches, runs_max=_MAX_RUNS_PER_MESSAGE):
        encoded = bytearray()
        offset_map_records.append_runs(encoded, each.runs, previous=None)
        yield {
            "type": "stretch",
            **place,
            "place": [each.first, each.through, each.target_next, each.below, each.above],
            "count": len(each.runs),
            "runs": base64.b64encode(encoded).decode("ascii"),
        }
    yield {
        "type": "matched",
        **place,
        **counts,
        "first_source": matched.first_source,
        "first_target": matched.first_target,
        "matched": matched.matched,
        "unsure": matched.unsure,
        "tail": matched.tail,
        "writers": list(matched.writers),
    }


class LogCompareResultDecoder:
    """Puts together what comes up; partitions come one after the other."""

    def __init__(self) -> None:
        self._stretches: list[AlignedRange] = []

    def add(self, message: JsonMessage) -> LogCompareResult | None:
        """None: there is more to come of that partition."""
        if message["type"] == "stretch":
            first, through, target_next, below, above = message["place"]
            data = base64.b64decode(message["runs"])
            runs = tuple(offset_map_records.read_runs(data, 0, count=message["count"]))
            self._stretches.append(AlignedRange(first, through, target_next, runs, below, above))
            return None
        stretches, self._stretches = tuple(self._stretches), []
        found = LogCompareResult(
            partition=_decode_partition(message), source=message["source"], target=message["target"]
        )
        if message["type"] == "unmatched":
            return dataclasses.replace(found, why=message["why"])
        matched = LogAlignment(
            first_source=message["first_source"],
            first_target=message["first_target"],
            stretches=stretches,
            matched=message["matched"],
            unsure=message["unsure"],
            tail=message["tail"],
            writers=tuple(message["writers"]),
        )
        return dataclasses.replace(found, matched=matched)


def _decode_partition(message: JsonMessage) -> TopicPartition:
    return TopicPartition(message["topic"], message["partition"])
