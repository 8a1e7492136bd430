"""How long a source still keeps what is not copied yet, as a fold over looks at one partition.

Three things end a log's past: `retention.ms` (a segment goes once its newest record is so old),
`retention.bytes` (as long as what is left is at least so much), and whoever moves its start. What
is told is when the oldest record that is not copied may go, as if nothing were copied until then.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

MOVES_MAX = 8
"""So many moves of a log's start are remembered: it moves by whole segments."""
LOOKS_MS = 600_000
"""How fast records come is measured over about this long."""
SHORT = 0.25
"""Of what a source keeps: with less left than this share, somebody should know."""
CLEANUP, KEEPS_MS, KEEPS_BYTES = "cleanup.policy", "retention.ms", "retention.bytes"
SETTINGS = (CLEANUP, KEEPS_MS, KEEPS_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a topic's settings delete by; None: nothing is deleted by that."""

    keeps_ms: int | None = None
    keeps_bytes: int | None = None

    @staticmethod
    def of(settings: Mapping[str, str | None]) -> Retention | None:
        """Of a topic's settings by name; None where they do not tell."""
        policy = settings.get(CLEANUP)
        if policy is None:
            return None
        if "delete" not in policy:
            return Retention()
        try:
            keeps_ms, keeps_bytes = (int(settings.get(key) or "") for key in SETTINGS[1:])
        except ValueError:
            return None
        return Retention(
            keeps_ms=keeps_ms if keeps_ms >= 0 else None,
            keeps_bytes=keeps_bytes if keeps_bytes >= 0 else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
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


class Kind(enum.Enum):
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


class By(enum.Enum):
    """What deletes it first."""

    TIME = KEEPS_MS
    """Not before then: a segment goes with its newest record."""
    SIZE = KEEPS_BYTES
    """At the rate at which records come."""
    START = "log-start"
    """At the rate at which the log's start has moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """`left_ms`, of what `RUNS_OUT`, and `share`: how much that is of all that the source keeps, 0
    to 1. `gone` offsets were deleted unread."""

    kind: Kind
    left_ms: int | None = None
    by: By | None = None
    share: float | None = None
    gone: int = 0

    @property
    def is_short(self) -> bool:
        """Should somebody know?"""
        return self.kind is Kind.GONE or (self.share is not None and self.share < SHORT)


@dataclass(slots=True)
class TimeToLoss:
    """One partition's looks. Invariant: they are in order of time, and bounded."""

    _looks: deque[Look] = field(default_factory=deque)
    _moves: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MOVES_MAX))

    def look(self, seen: Look) -> None:
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
        while len(self._looks) > 2 and seen.at_ms - self._looks[1].at_ms >= LOOKS_MS:
            self._looks.popleft()

    def outlook(self, retention: Retention | None) -> Outlook:
        """As of the newest look; `retention` None: settings that may not be read."""
        if not self._looks:
            return Outlook(kind=Kind.UNKNOWN)
        now = self._looks[-1]
        if now.start > now.copied_to:
            gone = now.start - now.copied_to
            return Outlook(kind=Kind.GONE, left_ms=0, share=0.0, gone=gone)
        if now.copied_to >= now.end:
            return Outlook(kind=Kind.NOTHING_WAITS)
        ends = list(self._ends(now, retention))
        if ends:
            return min(ends, key=_left)
        unlimited = retention is not None and retention.keeps_ms is None
        sized = retention is not None and retention.keeps_bytes is not None
        return Outlook(kind=Kind.KEPT if unlimited and not sized else Kind.UNKNOWN)

    def _ends(self, now: Look, retention: Retention | None) -> Iterator[Outlook]:
        if retention is not None and retention.keeps_ms is not None:
            yield from _by_time(now, retention.keeps_ms)
        if retention is not None and retention.keeps_bytes is not None:
            yield from self._by_size(now, retention.keeps_bytes)
        yield from self._by_start(now)

    def _by_size(self, now: Look, keeps: int) -> Iterator[Outlook]:
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
            yield Outlook(kind=Kind.RUNS_OUT, left_ms=left_ms, by=By.SIZE, share=share)

    def _by_start(self, now: Look) -> Iterator[Outlook]:
        """From move to move, since between them it stands still."""
        if len(self._moves) < 2:
            return
        since_ms, since = self._moves[0]
        speed = (self._moves[-1][1] - since) / (now.at_ms - since_ms)
        room = now.copied_to - now.start
        yield Outlook(
            kind=Kind.RUNS_OUT,
            left_ms=int(room / speed),
            by=By.START,
            share=room / (now.end - now.start),
        )

    def check_invariants(self) -> None:
        times = [each.at_ms for each in self._looks]
        assert times == sorted(set(times)), times
        assert len(self._moves) <= MOVES_MAX
        assert all(times[-1] - each < LOOKS_MS for each in times[1:-1])


def _by_time(now: Look, keeps_ms: int) -> Iterator[Outlook]:
    if now.waiting_since_ms is None:
        return
    left_ms = max(0, now.waiting_since_ms + keeps_ms - now.at_ms)
    share = min(1.0, left_ms / keeps_ms) if keeps_ms else 0.0
    yield Outlook(kind=Kind.RUNS_OUT, left_ms=left_ms, by=By.TIME, share=share)


def _left(found: Outlook) -> int:
    assert found.left_ms is not None, found
    return found.left_ms
