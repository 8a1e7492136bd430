"""How far a partition's copy is, in figures for people: asked now and then, never per batch."""

from __future__ import annotations

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


def unrecorded_ms(copy: partition.PartitionCopy, *, now_s: float, wall_ms: int) -> int:
    """Since when (ms of the wall clock) something is copied that no stored anchor tells of; 0 when
    anchors tell of all, -1 while that is unknown. `now_s` is now on the monotonic clock."""
    if copy.map is None:
        return -1
    since_s = copy.map.unrecorded_since_s
    return 0 if since_s is None else wall_ms - round((now_s - since_s) * 1000)
