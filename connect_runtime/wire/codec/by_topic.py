"""What stands in Fetch and Produce answers topic by topic, walked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from connect_runtime.wire.codec import varints

T = TypeVar("T")

NO_TOPIC_ID = bytes(16)
BY_ID = 13
"""From this version on, of Fetch and of Produce, topics go by id and no longer by name."""


def read(
    body: memoryview,
    position: int,
    decode: Callable[[memoryview, int, str, bytes], tuple[T, int]],
    *,
    version: int,
) -> tuple[list[T], int]:
    """Every partition of every topic, and the position behind them.

    `decode` reads a partition at a position of its topic: by name, or "" and its id.
    """
    topics, position = _count(body, position)
    found: list[T] = []
    topic: str | None = ""
    topic_id = NO_TOPIC_ID
    for _ in range(topics):
        if version >= BY_ID:
            topic_id, position = varints.take(body, position, 16)
        else:
            topic, position = varints.read_compact_string(body, position)
        count, position = _count(body, position)
        for _ in range(count):
            part, position = decode(body, position, topic or "", topic_id)
            found.append(part)
        position = varints.skip_tags(body, position)
    return found, position


def _count(body: memoryview, position: int) -> tuple[int, int]:
    """The length of an array that may not be null. Raises ValueError if it is."""
    count, after = varints.read(body, position)
    if count == 0:
        raise ValueError(f"null at {position}, where an array must be")
    return count - 1, after
