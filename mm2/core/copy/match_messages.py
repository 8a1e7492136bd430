"""What is told of logs that are matched, over the control channel: after `configure`, `match` goes
down; `stretch` and `matched`, or `unmatched`, come up for each partition, and at last `ended`."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import ids
from mm2.core.offsets import matched_runs, rebuilt_map
from mm2.formats import run_steps

Message = dict[str, Any]
_RUNS_MAX = 20_000
"""Of one message: a frame has a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A partition of the source, up to where either log is compared (-1: to its end), and the
    producers of a flow back into it."""

    partition: ids.TopicPartition
    source_to: int = -1
    target_to: int = -1
    opposite: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one process compares, one partition after the other, each in so much memory at most.
    `all_differ` as in `matching.match`."""

    bounds: tuple[Bounds, ...]
    memory_bytes: int
    all_differ: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What came of one partition: `matched` None for nothing, and `why` where it could not be
    compared. `source` and `target` count the records of either log."""

    partition: ids.TopicPartition
    matched: matched_runs.Matched | None = None
    source: int = 0
    target: int = 0
    why: str = ""


def ask(asked: Asked) -> Message:
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


def read_ask(message: Message) -> Asked:
    bounds = tuple(
        Bounds(
            partition=_place(each),
            source_to=each["source_to"],
            target_to=each["target_to"],
            opposite=frozenset(each["opposite"]),
        )
        for each in message["partitions"]
    )
    return Asked(
        bounds=bounds, memory_bytes=message["memory_bytes"], all_differ=message["all_differ"]
    )


def answer(compared: Compared) -> Iterator[Message]:
    """Stretches first: with `matched` all of it is there."""
    place = {"topic": compared.partition.topic, "partition": compared.partition.partition}
    counts = {"source": compared.source, "target": compared.target}
    matched = compared.matched
    if matched is None:
        yield {"type": "unmatched", **place, **counts, "why": compared.why}
        return
    for each in rebuilt_map.cut(matched.stretches, runs_max=_RUNS_MAX):
        encoded = bytearray()
        run_steps.append(encoded, each.runs, previous=None)
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


class Answers:
    """Puts together what comes up; partitions come one after the other."""

    def __init__(self) -> None:
        self._stretches: list[matched_runs.Stretch] = []

    def add(self, message: Message) -> Compared | None:
        """None: there is more to come of that partition."""
        if message["type"] == "stretch":
            first, through, target_next, below, above = message["place"]
            data = base64.b64decode(message["runs"])
            runs = tuple(run_steps.read(data, 0, count=message["count"]))
            self._stretches.append(
                matched_runs.Stretch(first, through, target_next, runs, below, above)
            )
            return None
        stretches, self._stretches = tuple(self._stretches), []
        found = Compared(
            partition=_place(message), source=message["source"], target=message["target"]
        )
        if message["type"] == "unmatched":
            return dataclasses.replace(found, why=message["why"])
        matched = matched_runs.Matched(
            first_source=message["first_source"],
            first_target=message["first_target"],
            stretches=stretches,
            matched=message["matched"],
            unsure=message["unsure"],
            tail=message["tail"],
            writers=tuple(message["writers"]),
        )
        return dataclasses.replace(found, matched=matched)


def _place(message: Message) -> ids.TopicPartition:
    return ids.TopicPartition(message["topic"], message["partition"])
