"""Sharing work out to tasks (Java's ConnectorUtils)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def group_partitions(items: Sequence[Item], groups: int) -> list[list[Item]]:
    """Runs of neighbours, the first ones longer by one where it does not come out even.

    With more groups than items the last groups are empty. ValueError for less than one group.
    """
    if groups < 1:
        raise ValueError(f"cannot share out to {groups} groups: one is the least")
    size, longer = divmod(len(items), groups)
    result: list[list[Item]] = []
    start = 0
    for number in range(groups):
        end = start + size + (number < longer)
        result.append(list(items[start:end]))
        start = end
    return result
