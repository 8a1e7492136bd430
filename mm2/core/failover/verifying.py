"""Do groups stand where they were moved to, and what is to be done where they do not?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import ids
from mm2.core.failover import details, orders
from mm2.core.offsets import checkpoints

BEFORE = "stands-before"
"""The code by which an operator accepts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """A group in one partition, by its name there; `at` None: it stands nowhere."""

    group: str
    partition: ids.TopicPartition
    moved_to: int
    at: int | None

    @property
    def is_before(self) -> bool:
        """Further is right: whoever consumes there already goes on."""
        return self.at is None or self.at < self.moved_to

    def __str__(self) -> str:
        at = "nowhere" if self.at is None else f"at {self.at}"
        return f"group {self.group}, {self.partition}: {at}, not at {self.moved_to}"


def compare(
    finals: Mapping[str, details.Final], stands: Mapping[str, checkpoints.Positions]
) -> list[Stand]:
    """Of each group and partition."""
    found = []
    for group, final in sorted(finals.items()):
        for partition, to in sorted(final.positions.items()):
            at = stands.get(group, {}).get(partition)
            found.append(
                Stand(
                    group=group,
                    partition=partition,
                    moved_to=to.offset,
                    at=None if at is None else at.offset,
                )
            )
    return found


def wrong(found: Iterable[Stand], accepted: Collection[str]) -> list[Stand]:
    """`accepted`: see `orders.Wanted`."""
    return [
        each
        for each in found
        if each.is_before and not {BEFORE, f"{BEFORE}:{each.group}"}.intersection(accepted)
    ]


def way_on(found: Collection[Stand], wanted: orders.Wanted, *, journal: str) -> str:
    """What differs, and what to type next."""
    groups = sorted({each.group for each in found})
    only = [word for each in groups for word in ("--group", each)]
    accept = [word for each in groups for word in ("--accept", f"{BEFORE}:{each}")]
    return (
        f"groups stand before where they were moved to: {'; '.join(map(str, found))}. Did somebody "
        "set them back? They would read again from there. To move them once more: "
        f"{wanted.command(*only, '--execute')}; to leave them where they stand and go on: "
        f"{wanted.command('--resume', '--journal', journal, *accept)}"
    )


def as_json(each: Stand) -> Mapping[str, Any]:
    """As it is noted in the journal, and reported."""
    return {
        "group": each.group,
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "moved_to": each.moved_to,
        "stands_at": each.at,
        "before": each.is_before,
    }
