"""Records of state topics and flow logs, read into a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Reader(Protocol[T_co]):
    """A `TopicTail`, a `TopicReader` or a `FlowStateLog`."""

    def read_to_end(self, timeout_s: float, take: Callable[[T_co], object]) -> None: ...


def read(reader: Reader[T_co], timeout_s: float) -> list[T_co]:
    """Return all records since the last call. After an error the records that were read before it
    are lost."""
    found: list[T_co] = []
    reader.read_to_end(timeout_s, found.append)
    return found
