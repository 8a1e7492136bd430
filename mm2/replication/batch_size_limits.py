"""Limits the size of produced batches and chooses which small batches are merged.

The target's topic limits may change at any time, so they are learned from rejected batches. Merging
costs CPU time per record but reduces the number of batches that the target must process. Batches of
a few records are always merged. Larger batches are merged only if acknowledgements are slow and the
copy process has idle time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mm2.replication import error_policy
from mm2.replication.in_flight_batches import SentBatch

ENCODED_BATCH_BYTES_MAX = 1_000_000
"""Maximum size of a re-encoded batch, below the usual `max.message.bytes` (1 MB)."""
NO_RECORD_LIMIT = 1 << 31
"""Value of a record limit that means "no limit"."""

DECODE_PART_RECORDS = 20_000
DECODE_PART_BYTES = 4 * ENCODED_BATCH_BYTES_MAX
"""Limits of a part. A batch with more than `DECODE_PART_RECORDS` records or `DECODE_PART_BYTES`
uncompressed bytes is decoded in parts, and the copy loop runs between the parts. A part takes at
most a few tenths of a second."""

ALWAYS_MERGED_RECORDS = 16
ALWAYS_MERGED_BYTES = 16 * 1024
"""Maximum size of a batch that is always merged if it also has at most `ALWAYS_MERGED_RECORDS`
records. Merging such a batch is cheaper than passing it through."""

IDLE_SHARE_HIGH = 0.4
IDLE_SHARE_LOW = 0.2
"""Shares of time in which the copy process is idle. Merge limits are raised if acknowledgements are
slow and the idle share is at least `IDLE_SHARE_HIGH`. They are lowered if acknowledgements are fast
or the idle share is below `IDLE_SHARE_LOW`."""
MERGE_LIMIT_INTERVAL_S = 0.25
"""Interval at which the merge limits are adjusted."""

LEARNED_LIMIT_TTL_S = 3600.0
"""Time after which a learned limit is forgotten. Learning it again costs a few rejected batches and
a reacquisition for each."""


@dataclass(slots=True)
class BatchMergeLimits:
    """Limits the size of the batches that may be merged. The limits are shared by all partitions of
    a task.

    The limits are raised while acknowledgements are slow and the copy process is mostly idle,
    because the process then has time to merge larger batches.
    """

    records: int = ALWAYS_MERGED_RECORDS
    """Maximum number of records in a batch that may be merged."""
    bytes: int = ALWAYS_MERGED_BYTES
    """Maximum size in bytes of a batch that may be merged."""
    _waited_s: float = 0.0
    _since_s: float = 0.0

    def record_idle_time(self, wait_s: float, now_s: float, *, slow_acks: bool) -> None:
        """Record that the copy process was idle for `wait_s` seconds until now, and adjust the
        merge limits."""
        self._waited_s += wait_s
        elapsed_s = now_s - self._since_s
        if elapsed_s < MERGE_LIMIT_INTERVAL_S:
            return
        share = self._waited_s / elapsed_s
        self._waited_s, self._since_s = 0.0, now_s
        if share >= IDLE_SHARE_HIGH and slow_acks:
            self.records, self.bytes = DECODE_PART_RECORDS, ENCODED_BATCH_BYTES_MAX // 2
        elif share < IDLE_SHARE_LOW or not slow_acks:
            self.records, self.bytes = ALWAYS_MERGED_RECORDS, ALWAYS_MERGED_BYTES


@dataclass(slots=True)
class PartitionBatchLimits:
    """Batch limits of one partition, learned from batches that the target rejected."""

    merge_limits: BatchMergeLimits = field(default_factory=BatchMergeLimits)
    refused_bytes: int = NO_RECORD_LIMIT
    """Batches of at least this size are re-encoded as smaller batches."""
    reencoded_bytes_max: int = ENCODED_BATCH_BYTES_MAX
    """Maximum total size of the records in a re-encoded batch, in bytes."""
    records: int = NO_RECORD_LIMIT
    """Maximum number of records per batch; applies only below source offset `record_limit_end`."""
    record_limit_end: int = -1
    """Source offset at which the record limit stops applying; -1 if no limit was learned."""
    expires_at_s: float = math.inf
    """Time at which the learned limits expire (monotonic seconds)."""

    def on_batch_refused(self, code: int, sent: SentBatch, now_s: float) -> bool:
        """Learn smaller batch limits from a rejected batch. Return True if the batch's records will
        be sent in smaller batches."""
        if code in error_policy.TOO_LARGE_CODES:
            is_split = self.halve_size_limit(size=sent.size, count=sent.batch.records)
        elif code in error_policy.INVALID_RECORD_CODES:
            is_split = self.halve_record_limit(
                count=sent.batch.records, until=sent.batch.next_source
            )
        else:
            return False
        self.expires_at_s = now_s + LEARNED_LIMIT_TTL_S
        if not is_split:
            self.reset()  # the target may accept the record when it is retried
        return is_split

    def halve_size_limit(self, *, size: int, count: int) -> bool:
        """Halve the size limit after a batch of `size` bytes was rejected. Return False if the
        batch has a single record and cannot be split."""
        if count == 1:
            return False
        self.refused_bytes = min(self.refused_bytes, size)
        self.reencoded_bytes_max = min(self.reencoded_bytes_max, size) // 2
        return True

    def halve_record_limit(self, *, count: int, until: int) -> bool:
        """Halve the maximum number of records per batch, to isolate the record that the target
        rejected. The limit applies to source offsets below `until`. `count` is the number of
        records in the rejected batch. Return False if the batch has a single record and cannot be
        split."""
        if count == 1:
            return False
        self.records = (min(self.records, count) + 1) // 2
        self.record_limit_end = max(self.record_limit_end, until)
        return True

    def get_record_limit(self, source: int) -> int:
        """Return the maximum number of records in a batch that starts at source offset `source`."""
        if source >= self.record_limit_end:
            self.records = NO_RECORD_LIMIT
        return self.records

    def expire_limits(self, now_s: float) -> None:
        """Forget learned limits that have expired."""
        if now_s >= self.expires_at_s:
            self.reset()

    def reset(self) -> None:
        """Forget all learned limits, because the topic's configuration may have changed."""
        self.refused_bytes, self.reencoded_bytes_max = NO_RECORD_LIMIT, ENCODED_BATCH_BYTES_MAX
        self.records, self.record_limit_end = NO_RECORD_LIMIT, -1
        self.expires_at_s = math.inf
