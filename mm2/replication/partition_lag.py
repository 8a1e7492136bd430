"""Computes the lag of one partition: in records, and as the age of the oldest record that is not
replicated yet.

All lags in metrics (including those that MirrorMaker 2 also has) and in the status of a flow are
computed here.
"""

from __future__ import annotations

import math

from mm2.replication import replication_latency
from mm2.replication.partition_replicator import PartitionReplicator


def count_lag_records(
    *, source_end: int | None, copied_to: int | None, log_start: int | None = None
) -> int | None:
    """Return the lag in offsets, never negative: an upper bound if the source's log has gaps.

    `source_end` is the source's last stable offset, `copied_to` the first source offset that is not
    on the target. Returns None if one of them is unknown (None or negative). Offsets below
    `log_start` were deleted and are not counted.
    """
    if source_end is None or copied_to is None or source_end < 0 or copied_to < 0:
        return None
    return max(0, source_end - max(copied_to, log_start or 0))


def compute_lag_ms(
    *, lag_records: int | None, oldest_uncopied_ms: int | None, now_ms: int
) -> int | None:
    """Return the age of the oldest record that is not replicated, never negative.

    Returns 0 if all records are replicated. Returns None if the age is unknown: nothing was copied
    yet (`oldest_uncopied_ms` is None or negative), or the timestamp is in the future, for example
    after a clock change.
    """
    if lag_records == 0:
        return 0
    if oldest_uncopied_ms is None or oldest_uncopied_ms < 0:
        return None
    return replication_latency.compute_age_ms(oldest_uncopied_ms, now_ms)


def compute_replicated_end_offset(copy: PartitionReplicator) -> int:
    """Compute the first source offset that consumers cannot read on the target yet; -1 while
    unknown."""
    if copy.map is None:
        return -1
    return copy.transaction_mode.open_from if copy.transaction_mode.is_open else copy.map.through


def compute_oldest_unreplicated_ms(copy: PartitionReplicator) -> int:
    """Compute the timestamp (ms) of the oldest record that is not replicated yet; -1 if all are
    replicated.

    If that record was not fetched yet, return the timestamp of the newest replicated record as a
    lower bound.
    """
    for pending in (copy.in_flight.oldest_timestamp, copy.send_queue.oldest_timestamp):
        if pending is not None:
            return pending
    behind = copy.map is not None and copy.map.through < copy.source.end
    return copy.counters.newest_ms if behind else -1


def compute_oldest_unrecorded_time_s(copy: PartitionReplicator) -> float | None:
    """Compute the time (monotonic seconds) of the oldest replicated records that no stored resume
    point covers.

    Return `math.inf` if all records are covered, and None while unknown.
    """
    if copy.map is None:
        return None
    since_s = copy.map.oldest_unrecorded_time_s
    return math.inf if since_s is None else since_s
