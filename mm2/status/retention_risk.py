"""Time to data loss: how long the source keeps the oldest record that is not copied yet. Pure.

Three things delete the beginning of a log: `retention.ms` (a segment goes once its newest
record is that old), `retention.bytes` (as long as at least that much remains) and whoever moves
the log start offset. The estimate says when the oldest unreplicated record may be deleted if
nothing is copied until then. It is a fold over samples of one partition.

Also describes a risk in words, with the command that raises the topic's retention.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import plurals
from mm2 import text_format
from mm2.operator_commands import ClusterCommands

START_MOVES_MAX = 8
"""So many moves of a log's start are remembered: it moves by whole segments."""
RATE_SAMPLING_MS = 600_000
"""How fast records come is measured over about this long."""
SHORT_SHARE = 0.25
"""Of what a source keeps: with less left than this share, somebody should know."""
CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES = "cleanup.policy", "retention.ms", "retention.bytes"
RETENTION_CONFIGS = (CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRetention:
    """What a topic's settings delete by; None: nothing is deleted by that."""

    keeps_ms: int | None = None
    keeps_bytes: int | None = None

    @staticmethod
    def of(settings: Mapping[str, str | None]) -> TopicRetention | None:
        """Of a topic's settings by name; None where they do not tell."""
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
            keeps_ms=keeps_ms if keeps_ms >= 0 else None,
            keeps_bytes=keeps_bytes if keeps_bytes >= 0 else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSample:
    """One partition at one moment. `start` and `end` (last stable offset) of the source's log,
    `copied_to` is the next offset to copy.

    `waiting_since_ms` is the timestamp of the oldest record not yet copied, `bytes_each` what a
    record takes in the log; None: unknown.
    """

    at_ms: int
    start: int
    end: int
    copied_to: int
    waiting_since_ms: int | None = None
    bytes_each: float | None = None


class RiskKind(enum.Enum):
    """What can be said."""

    NOTHING_WAITS = "nothing-waits"
    """Everything is copied."""
    KEPT = "kept"
    """Something waits, and nothing is known that would delete it."""
    RUNS_OUT = "runs-out"
    """Something waits, and will be deleted."""
    GONE = "gone"
    """Records were deleted before they were copied, though nobody may have stumbled over it yet."""
    UNKNOWN = "unknown"
    """Neither settings nor what was seen so far tell."""


class DeletionCause(enum.Enum):
    """What deletes it first."""

    TIME = RETENTION_MS
    """Not before then: a segment goes with its newest record."""
    SIZE = RETENTION_BYTES
    """At the rate at which records come."""
    START = "log-start"
    """At the rate at which the log's start has moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRisk:
    """`left_ms`, of what `RUNS_OUT`, and `share`: how much that is of all that the source keeps, 0
    to 1. `gone` offsets were deleted unread."""

    kind: RiskKind
    left_ms: int | None = None
    by: DeletionCause | None = None
    share: float | None = None
    gone: int = 0

    @property
    def is_short(self) -> bool:
        """Should somebody know?"""
        return self.kind is RiskKind.GONE or (self.share is not None and self.share < SHORT_SHARE)


@dataclass(slots=True)
class RetentionRiskEstimator:
    """One partition's looks. Invariant: they are in order of time, and bounded."""

    _looks: deque[RetentionSample] = field(default_factory=deque)
    _moves: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=START_MOVES_MAX))

    def look(self, seen: RetentionSample) -> None:
        """The newest counts. A log that begins earlier than before, or ends earlier, is another
        one, of which nothing was seen yet; so it is where the clock was set back."""
        newest = self._looks[-1] if self._looks else None
        if newest is not None:
            set_back = seen.at_ms <= newest.at_ms
            if set_back or seen.start < newest.start or seen.end < newest.end:
                self._looks.clear()
                self._moves.clear()
            elif seen.start > newest.start:
                self._moves.append((seen.at_ms, seen.start))
        self._looks.append(seen)
        while len(self._looks) > 2 and seen.at_ms - self._looks[1].at_ms >= RATE_SAMPLING_MS:
            self._looks.popleft()

    def outlook(self, retention: TopicRetention | None) -> RetentionRisk:
        """As of the newest look; `retention` None: settings that may not be read."""
        if not self._looks:
            return RetentionRisk(kind=RiskKind.UNKNOWN)
        now = self._looks[-1]
        if now.start > now.copied_to:
            gone = now.start - now.copied_to
            return RetentionRisk(kind=RiskKind.GONE, left_ms=0, share=0.0, gone=gone)
        if now.copied_to >= now.end:
            return RetentionRisk(kind=RiskKind.NOTHING_WAITS)
        ends = list(self._ends(now, retention))
        if ends:
            return min(ends, key=_time_left_ms)
        unlimited = retention is not None and retention.keeps_ms is None
        sized = retention is not None and retention.keeps_bytes is not None
        return RetentionRisk(kind=RiskKind.KEPT if unlimited and not sized else RiskKind.UNKNOWN)

    def _ends(
        self, now: RetentionSample, retention: TopicRetention | None
    ) -> Iterator[RetentionRisk]:
        if retention is not None and retention.keeps_ms is not None:
            yield from _estimate_by_time(now, retention.keeps_ms)
        if retention is not None and retention.keeps_bytes is not None:
            yield from self._by_size(now, retention.keeps_bytes)
        yield from self._by_start(now)

    def _by_size(self, now: RetentionSample, keeps: int) -> Iterator[RetentionRisk]:
        """The oldest that waits stays as long as there is less behind it than is kept."""
        first = self._looks[0]
        passed_ms = now.at_ms - first.at_ms
        if now.bytes_each is None or not passed_ms:
            return
        room = max(0.0, keeps - (now.end - now.copied_to) * now.bytes_each)
        coming = (now.end - first.end) * now.bytes_each / passed_ms
        if coming > 0 or not room:
            left_ms = int(room / coming) if room else 0
            share = room / keeps if keeps else 0.0
            yield RetentionRisk(
                kind=RiskKind.RUNS_OUT, left_ms=left_ms, by=DeletionCause.SIZE, share=share
            )

    def _by_start(self, now: RetentionSample) -> Iterator[RetentionRisk]:
        """From move to move, since between them it stands still."""
        if len(self._moves) < 2:
            return
        since_ms, since = self._moves[0]
        speed = (self._moves[-1][1] - since) / (now.at_ms - since_ms)
        room = now.copied_to - now.start
        yield RetentionRisk(
            kind=RiskKind.RUNS_OUT,
            left_ms=int(room / speed),
            by=DeletionCause.START,
            share=room / (now.end - now.start),
        )

    def check_invariants(self) -> None:
        times = [each.at_ms for each in self._looks]
        assert times == sorted(set(times)), times
        assert len(self._moves) <= START_MOVES_MAX
        assert all(times[-1] - each < RATE_SAMPLING_MS for each in times[1:-1])


def _estimate_by_time(now: RetentionSample, keeps_ms: int) -> Iterator[RetentionRisk]:
    if now.waiting_since_ms is None:
        return
    left_ms = max(0, now.waiting_since_ms + keeps_ms - now.at_ms)
    share = min(1.0, left_ms / keeps_ms) if keeps_ms else 0.0
    yield RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=left_ms, by=DeletionCause.TIME, share=share)


def _time_left_ms(found: RetentionRisk) -> int:
    assert found.left_ms is not None, found
    return found.left_ms


_DELETION_TEXTS = {
    DeletionCause.TIME: "{left} at the earliest (retention.ms)",
    DeletionCause.SIZE: "about {left}, as fast as records come (retention.bytes)",
    DeletionCause.START: "about {left}, as fast as its log's start moves",
}


def format_time_left(outlook: RetentionRisk | None) -> str:
    """For columns: `3.4 h`, `gone`, `-` where nothing is known to run out."""
    if outlook is None or outlook.kind not in (
        RiskKind.GONE,
        RiskKind.RUNS_OUT,
    ):
        return text_format.UNKNOWN_NUMBER
    if outlook.kind is RiskKind.GONE:
        return "gone"
    assert outlook.left_ms is not None
    return text_format.format_duration(outlook.left_ms / 1000)


def describe_loss(outlook: RetentionRisk) -> str:
    """What the source does to what is not copied yet; "" where it does nothing to it."""
    match outlook.kind:
        case RiskKind.GONE:
            offsets = plurals.format_count(outlook.gone, "offset")
            return f"the source deleted {offsets} before they were copied"
        case RiskKind.RUNS_OUT:
            assert outlook.by is not None
            how = _DELETION_TEXTS[outlook.by].format(left=format_time_left(outlook))
            return f"the source deletes what is not copied yet in {how}"
        case _:
            return ""


def make_retention_command(
    topic: str,
    outlook: RetentionRisk,
    *,
    retention: TopicRetention | None,
    source: ClusterCommands,
) -> str:
    """The command that lets the source keep it twice as long; "" where that is no matter of its
    settings, or too late."""
    if retention is None or outlook.kind is not RiskKind.RUNS_OUT:
        return ""
    kept = {
        DeletionCause.TIME: (RETENTION_MS, retention.keeps_ms),
        DeletionCause.SIZE: (RETENTION_BYTES, retention.keeps_bytes),
    }
    key, value = kept.get(outlook.by, ("", None)) if outlook.by is not None else ("", None)
    return source.set_topic(topic, {key: str(2 * value)}) if value else ""
