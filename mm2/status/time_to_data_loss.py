"""Estimates the time to data loss: how long the source retains the oldest unreplicated record. No
I/O.

Kafka deletes the beginning of a log by `retention.ms` (a segment is deleted when its newest record
is older than the limit), by `retention.bytes` (the oldest segment is deleted if the remaining log
is still at least as large as the limit) and by DeleteRecords. The estimate states when the oldest
unreplicated record may be deleted if no more records are replicated. It is computed from samples of
one partition.

Also describes the risk of data loss, and builds the command that increases the topic's retention.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import plurals
from mm2 import text_format
from mm2.suggested_commands import ClusterCommands

START_MOVES_MAX = 8
"""Maximum number of remembered increases of the log start offset. The log start offset advances by
whole segments."""
RATE_SAMPLING_MS = 600_000
"""Interval over which the write rate is measured."""
SHORT_SHARE = 0.25
"""A warning is logged if less than this fraction of the retention (time, bytes or offsets) is left
before unreplicated records are deleted."""
CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES = "cleanup.policy", "retention.ms", "retention.bytes"
RETENTION_CONFIGS = (CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRetention:
    """Retention settings of a topic. A limit is None if it is disabled."""

    retention_ms: int | None = None
    retention_bytes: int | None = None

    @staticmethod
    def parse(settings: Mapping[str, str | None]) -> TopicRetention | None:
        """Parse the retention settings from a topic's configuration. Return None if a setting is
        missing or is not a number."""
        policy = settings.get(CLEANUP_POLICY)
        if policy is None:
            return None
        if "delete" not in policy:
            return TopicRetention()
        try:
            keeps_ms, keeps_bytes = (int(settings.get(key) or "") for key in RETENTION_CONFIGS[1:])
        except ValueError:
            return None
        return TopicRetention(
            retention_ms=keeps_ms if keeps_ms >= 0 else None,
            retention_bytes=keeps_bytes if keeps_bytes >= 0 else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSample:
    """Sample of one source partition at one point in time."""

    at_ms: int
    start: int
    """Log start offset."""
    end: int
    """Last stable offset."""
    copied_to: int
    """Next offset to replicate."""
    waiting_since_ms: int | None = None
    """Timestamp of the oldest unreplicated record, or None if unknown."""
    bytes_per_record: float | None = None
    """Average record size in the log, or None if unknown."""


class RiskKind(enum.Enum):
    """Kind of risk that unreplicated records are deleted."""

    NOTHING_WAITS = "nothing-waits"
    """All records are replicated."""
    KEPT = "kept"
    """Unreplicated records exist, but the topic has no retention limit that could delete them."""
    RUNS_OUT = "runs-out"
    """Unreplicated records exist and will be deleted unless they are replicated in time."""
    GONE = "gone"
    """Records were deleted before they were replicated, even if no copy process has detected this
    yet."""
    UNKNOWN = "unknown"
    """The risk cannot be determined from the configuration and the samples."""


class DeletionCause(enum.Enum):
    """Cause that is expected to be the first to delete unreplicated records."""

    TIME = RETENTION_MS
    """Deletion by `retention.ms`. The estimate is the earliest possible time, because a segment is
    deleted only when its newest record exceeds the retention time."""
    SIZE = RETENTION_BYTES
    """Deletion because of the log's size, estimated from the current write rate."""
    START = "log-start"
    """Deletion by any cause, for example DeleteRecords, estimated from the rate at which the log
    start offset has advanced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRisk:
    """Estimated risk of data loss in one partition."""

    kind: RiskKind
    left_ms: int | None = None
    """Time until deletion in milliseconds, for `RUNS_OUT`."""
    cause: DeletionCause | None = None
    """Cause that is expected to be the first to delete unreplicated records, for `RUNS_OUT`."""
    share: float | None = None
    """`left_ms` as a fraction of the retention, from 0 to 1."""
    deleted_offsets: int = 0
    """Number of offsets that were deleted before they were replicated."""

    @property
    def is_time_to_data_loss_short(self) -> bool:
        """True if so little time is left that a warning should be logged."""
        return self.kind is RiskKind.GONE or (self.share is not None and self.share < SHORT_SHARE)


@dataclass(slots=True)
class RetentionRiskEstimator:
    """Estimates the retention risk of one partition from samples. Invariant: the samples are in
    time order, and their number is bounded."""

    _samples: deque[RetentionSample] = field(default_factory=deque)
    _moves: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=START_MOVES_MAX))

    def observe(self, seen: RetentionSample) -> None:
        """Add a sample. Earlier samples are discarded if the clock was set back, or if the log
        start or log end is lower than before, because the topic was then recreated."""
        newest = self._samples[-1] if self._samples else None
        if newest is not None:
            set_back = seen.at_ms <= newest.at_ms
            if set_back or seen.start < newest.start or seen.end < newest.end:
                self._samples.clear()
                self._moves.clear()
            elif seen.start > newest.start:
                self._moves.append((seen.at_ms, seen.start))
        self._samples.append(seen)
        while len(self._samples) > 2 and seen.at_ms - self._samples[1].at_ms >= RATE_SAMPLING_MS:
            self._samples.popleft()

    def estimate_risk(self, retention: TopicRetention | None) -> RetentionRisk:
        """Estimate the risk as of the newest sample. `retention` is None if the topic's
        configuration is unknown."""
        if not self._samples:
            return RetentionRisk(kind=RiskKind.UNKNOWN)
        now = self._samples[-1]
        if now.start > now.copied_to:
            gone = now.start - now.copied_to
            return RetentionRisk(kind=RiskKind.GONE, left_ms=0, share=0.0, deleted_offsets=gone)
        if now.copied_to >= now.end:
            return RetentionRisk(kind=RiskKind.NOTHING_WAITS)
        ends = list(self._find_earliest_deletion(now, retention))
        if ends:
            return min(ends, key=_compute_time_left_ms)
        unlimited = retention is not None and retention.retention_ms is None
        sized = retention is not None and retention.retention_bytes is not None
        return RetentionRisk(kind=RiskKind.KEPT if unlimited and not sized else RiskKind.UNKNOWN)

    def _find_earliest_deletion(
        self, now: RetentionSample, retention: TopicRetention | None
    ) -> Iterator[RetentionRisk]:
        if retention is not None and retention.retention_ms is not None:
            yield from _estimate_by_retention_time(now, retention.retention_ms)
        if retention is not None and retention.retention_bytes is not None:
            yield from self._estimate_by_size(now, retention.retention_bytes)
        yield from self._estimate_by_log_start(now)

    def _estimate_by_size(self, now: RetentionSample, keeps: int) -> Iterator[RetentionRisk]:
        """Estimate when `retention.bytes` (`keeps`) deletes the oldest unreplicated record. The
        record may be deleted when the size of the log from this record to the log end reaches the
        limit."""
        first = self._samples[0]
        passed_ms = now.at_ms - first.at_ms
        if now.bytes_per_record is None or not passed_ms:
            return
        room = max(0.0, keeps - (now.end - now.copied_to) * now.bytes_per_record)
        coming = (now.end - first.end) * now.bytes_per_record / passed_ms
        if coming > 0 or not room:
            left_ms = int(room / coming) if room else 0
            share = room / keeps if keeps else 0.0
            yield RetentionRisk(
                kind=RiskKind.RUNS_OUT, left_ms=left_ms, cause=DeletionCause.SIZE, share=share
            )

    def _estimate_by_log_start(self, now: RetentionSample) -> Iterator[RetentionRisk]:
        """Estimate the deletion time from the average rate at which the log start offset has
        advanced since the first remembered change. At least two changes are required, because the
        log start offset advances in steps of whole segments."""
        if len(self._moves) < 2:
            return
        since_ms, since = self._moves[0]
        speed = (self._moves[-1][1] - since) / (now.at_ms - since_ms)
        room = now.copied_to - now.start
        yield RetentionRisk(
            kind=RiskKind.RUNS_OUT,
            left_ms=int(room / speed),
            cause=DeletionCause.START,
            share=room / (now.end - now.start),
        )

    def check_invariants(self) -> None:
        times = [each.at_ms for each in self._samples]
        assert times == sorted(set(times)), times
        assert len(self._moves) <= START_MOVES_MAX
        assert all(times[-1] - each < RATE_SAMPLING_MS for each in times[1:-1])


def _estimate_by_retention_time(now: RetentionSample, keeps_ms: int) -> Iterator[RetentionRisk]:
    if now.waiting_since_ms is None:
        return
    left_ms = max(0, now.waiting_since_ms + keeps_ms - now.at_ms)
    share = min(1.0, left_ms / keeps_ms) if keeps_ms else 0.0
    yield RetentionRisk(
        kind=RiskKind.RUNS_OUT, left_ms=left_ms, cause=DeletionCause.TIME, share=share
    )


def _compute_time_left_ms(found: RetentionRisk) -> int:
    assert found.left_ms is not None, found
    return found.left_ms


_DELETION_TEXTS = {
    DeletionCause.TIME: "{left} at the earliest (retention.ms)",
    DeletionCause.SIZE: "about {left} at the current write rate (retention.bytes)",
    DeletionCause.START: "about {left} at the rate at which its log start advances",
}


def format_time_left(risk: RetentionRisk | None) -> str:
    """Format the time left for a table column: `3.4 h`, `gone`, or `-` if no loss is expected."""
    if risk is None or risk.kind not in (
        RiskKind.GONE,
        RiskKind.RUNS_OUT,
    ):
        return text_format.UNKNOWN_NUMBER
    if risk.kind is RiskKind.GONE:
        return "gone"
    assert risk.left_ms is not None
    return text_format.format_duration(risk.left_ms / 1000)


def describe_data_loss(risk: RetentionRisk) -> str:
    """Describe when unreplicated records will be deleted; return "" if no loss is expected."""
    match risk.kind:
        case RiskKind.GONE:
            offsets = plurals.format_count(risk.deleted_offsets, "offset")
            return f"the source deleted {offsets} before they were replicated"
        case RiskKind.RUNS_OUT:
            assert risk.cause is not None
            how = _DELETION_TEXTS[risk.cause].format(left=format_time_left(risk))
            return f"the source deletes unreplicated records in {how}"
        case _:
            return ""


def make_retention_command(
    topic: str,
    risk: RetentionRisk,
    *,
    retention: TopicRetention | None,
    source: ClusterCommands,
) -> str:
    """Build the command that doubles the limit (`retention.ms` or `retention.bytes`) that will
    delete unreplicated records first.

    Return "" if neither limit is the expected cause, or if no unreplicated records are at risk or
    they are already deleted.
    """
    if retention is None or risk.kind is not RiskKind.RUNS_OUT:
        return ""
    kept = {
        DeletionCause.TIME: (RETENTION_MS, retention.retention_ms),
        DeletionCause.SIZE: (RETENTION_BYTES, retention.retention_bytes),
    }
    key, value = kept.get(risk.cause, ("", None)) if risk.cause is not None else ("", None)
    return source.build_set_topic_configs_command(topic, {key: str(2 * value)}) if value else ""
