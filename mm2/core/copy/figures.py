"""How far a partition's copy is, in figures for people: asked now and then, never per batch."""

from __future__ import annotations

import math

from mm2.core.copy import partition


def copied_to(copy: partition.PartitionCopy) -> int:
    """The first source offset that readers do not see on the target yet; -1 while unknown."""
    if copy.map is None:
        return -1
    return copy.mode.open_from if copy.mode.open else copy.map.through


def oldest_ms(copy: partition.PartitionCopy) -> int:
    """Timestamp (ms) of the oldest record not copied, -1 when there is none.

    Where that record has not been fetched yet, the newest copied one's: it is not older.
    """
    for pending in (copy.window.oldest_timestamp, copy.outbox.oldest_timestamp):
        if pending is not None:
            return pending
    behind = copy.map is not None and copy.map.through < copy.source.end
    return copy.counters.newest_ms if behind else -1


def unrecorded_s(copy: partition.PartitionCopy) -> float | None:
    """Since when (on the monotonic clock) something is copied that no stored anchor tells of;
    `math.inf` when anchors tell of all, None while that is unknown."""
    if copy.map is None:
        return None
    since_s = copy.map.unrecorded_since_s
    return math.inf if since_s is None else since_s
