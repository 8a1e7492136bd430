"""Where a partition's log begins and ends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The offset of the first record that is still there, and the one behind the last that readers
    of committed records may see (the last stable offset)."""

    start: int
    end: int
