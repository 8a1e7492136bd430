"""How large a produced batch may be, and which small batches are merged.

The target's topic limits may change at any time, so they are learned from what it rejects. Merging
costs a little per record and saves the target a batch: it pays for batches of few records, and for
larger ones where acknowledgements are slow and the copy has time to spare.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mm2.replication import error_policy
from mm2.replication.in_flight import SentBatch

ENCODED_BATCH_BYTES_MAX = 1_000_000
"""Batches that are made stay below the usual `max.message.bytes` (1 MB)."""
NO_RECORD_LIMIT = 1 << 31

DECODE_PART_RECORDS = 20_000
DECODE_PART_BYTES = 4 * ENCODED_BATCH_BYTES_MAX
"""A batch of more records or bytes (uncompressed) is opened part by part: a part takes a few tenths
of a second at most, and the copy loop runs after each."""

ALWAYS_MERGED_RECORDS = 16
ALWAYS_MERGED_BYTES = 16 * 1024
"""A batch of so few records and bytes costs more to pass through than to join."""

IDLE_SHARE_HIGH = 0.4
IDLE_SHARE_LOW = 0.2
"""From this share of its time that a copy waits on it has some to spare; below that one none."""
MERGE_LIMIT_INTERVAL_S = 0.25

LEARNED_LIMIT_TTL_S = 3600.0
"""How long a refusal counts. Finding out again costs a few refused batches, and a take each."""


@dataclass(slots=True)
class BatchMergeLimits:
    """Shared by all partitions of a task: which batches are small enough to be joined.

    `records` and `bytes` are the most that one of them may have. Where acknowledgements are slow
    and the copy mostly waits for them, there is time to join larger ones too; where it is the
    brokers' processors that it waits for, there is not.
    """

    records: int = ALWAYS_MERGED_RECORDS
    bytes: int = ALWAYS_MERGED_BYTES
    _waited_s: float = 0.0
    _since_s: float = 0.0

    def waited(self, wait_s: float, now_s: float, *, slow_acks: bool) -> None:
        """The copy had nothing to do for so long, up to now."""
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
    """Of one partition. What is as large as `refused_bytes` is opened; made batches hold
    `made_bytes` of records at most, and `records` while copying source offsets below `until`.

    All that was learned is forgotten at `known_until_s` (monotonic seconds).
    """

    joining: BatchMergeLimits = field(default_factory=BatchMergeLimits)
    refused_bytes: int = NO_RECORD_LIMIT
    made_bytes: int = ENCODED_BATCH_BYTES_MAX
    records: int = NO_RECORD_LIMIT
    until: int = -1
    known_until_s: float = math.inf

    def refused(self, code: int, sent: SentBatch, now_s: float) -> bool:
        """The target refused a batch in flight: will it be sent in smaller ones next?"""
        if code in error_policy.TOO_LARGE_CODES:
            divided = self.too_large(size=sent.size, count=sent.batch.records)
        elif code in error_policy.INVALID_RECORD_CODES:
            divided = self.isolate(count=sent.batch.records, until=sent.batch.next_source)
        else:
            return False
        self.known_until_s = now_s + LEARNED_LIMIT_TTL_S
        if not divided:
            self.forget()  # by the time that it is tried again, the target may take it
        return divided

    def too_large(self, *, size: int, count: int) -> bool:
        """The target refused a batch of `size` bytes: can a smaller one be made of it?"""
        if count == 1:
            return False
        self.refused_bytes = min(self.refused_bytes, size)
        self.made_bytes = min(self.made_bytes, size) // 2
        return True

    def isolate(self, *, count: int, until: int) -> bool:
        """The target refused one of `count` records before source offset `until`: is it unknown
        which?"""
        if count == 1:
            return False
        self.records = (min(self.records, count) + 1) // 2
        self.until = max(self.until, until)
        return True

    def records_at(self, source: int) -> int:
        """The most records that a batch from this source offset on may hold."""
        if source >= self.until:
            self.records = NO_RECORD_LIMIT
        return self.records

    def tick(self, now_s: float) -> None:
        if now_s >= self.known_until_s:
            self.forget()

    def forget(self) -> None:
        """Somebody may have changed what the target takes."""
        self.refused_bytes, self.made_bytes = NO_RECORD_LIMIT, ENCODED_BATCH_BYTES_MAX
        self.records, self.until = NO_RECORD_LIMIT, -1
        self.known_until_s = math.inf
