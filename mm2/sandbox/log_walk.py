"""Walks two logs side by side, once, and finds what has no counterpart. Pure: logs are iterators.

Equal logs are compared as they stream by. From the first difference on, records are condensed and
both sides read ahead in windows, which `alignment.py` aligns; a window grows until the logs meet
again. What became of the unmatched is told at the end (`unmatched.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mm2.sandbox import alignment, comparison, record, unmatched

WINDOW_RECORDS = 8_192
WINDOW_RECORDS_MAX = 131_072

Chunks = Iterator[Sequence[record.Record]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`size`: bytes of keys and values at the source. `cut_short` as in `PartitionComparison`."""

    source_records: int
    target_records: int
    size: int
    differences: tuple[comparison.Difference, ...] = ()
    cut_short: bool = False


@dataclass(slots=True)
class _Side:
    """One log as far as it is read ahead; `condensing` from the first difference on."""

    chunks: Chunks
    ahead: deque[record.Record] = field(default_factory=deque)
    condensing: bool = False
    ended: bool = False
    records: int = 0
    size: int = 0

    def fill(self, count: int) -> None:
        """Read until `count` records are ahead, or the log has ended."""
        while len(self.ahead) < count and not self.ended:
            chunk = next(self.chunks, None)
            if chunk is None:
                self.ended = True
                return
            self.records += len(chunk)
            self.size += sum(each.size for each in chunk)
            self.ahead.extend(map(record.condensed, chunk) if self.condensing else chunk)

    def condense(self) -> None:
        if not self.condensing:
            self.condensing = True
            self.ahead = deque(map(record.condensed, self.ahead))

    def offset_at(self, index: int) -> int | None:
        return self.ahead[index].offset if index < len(self.ahead) else None

    def drop(self, count: int) -> None:
        for _ in range(count):
            self.ahead.popleft()


def walk(
    source: Iterable[Sequence[record.Record]],
    target: Iterable[Sequence[record.Record]],
    *,
    find_originals: unmatched.FindOriginals,
) -> Outcome:
    """Compare two logs, given in chunks, to their ends; memory stays bounded."""
    left, right = _Side(iter(source)), _Side(iter(target))
    found = unmatched.Unmatched()
    while _skip_equal(left, right):
        left.condense()
        right.condense()
        _align_ahead(left, right, found=found)
    return Outcome(
        source_records=left.records,
        target_records=right.records,
        size=left.size,
        differences=found.tell(find_originals),
        cut_short=found.cut_short,
    )


def _skip_equal(left: _Side, right: _Side) -> bool:
    """Pass over what is equal; False when both logs have ended with it."""
    while True:
        left.fill(1)
        right.fill(1)
        common = min(len(left.ahead), len(right.ahead))
        if common == 0:
            return bool(left.ahead or right.ahead)
        for _ in range(common):
            if left.ahead[0].content != right.ahead[0].content:
                return True
            left.ahead.popleft()
            right.ahead.popleft()


def _align_ahead(left: _Side, right: _Side, *, found: unmatched.Unmatched) -> None:
    """Read ahead until the logs meet again, and note what has no counterpart up to there.

    Nothing is decided beyond a window's last match: the counterparts may just not be read yet.
    """
    window = WINDOW_RECORDS
    while True:
        left.fill(window)
        right.fill(window)
        pairs = alignment.matches(
            [each.content for each in left.ahead], [each.content for each in right.ahead]
        )
        if left.ended and right.ended:
            _note(left, right, pairs=[*pairs, (len(left.ahead), len(right.ahead))], found=found)
            return
        if pairs:
            _note(left, right, pairs=pairs, found=found)
            return
        if left.ended or right.ended or window >= WINDOW_RECORDS_MAX:
            _note(left, right, pairs=[_hopeless(left, right)], found=found)
            return
        window *= 2


def _hopeless(left: _Side, right: _Side) -> alignment.Match:
    """How much of each side to give up where windows have nothing in common.

    Beside a log that has ended: all that was read of the other. Of two that go on: half of each,
    so that the next window overlaps this one.
    """
    if left.ended or right.ended:
        return (
            0 if left.ended else len(left.ahead),
            0 if right.ended else len(right.ahead),
        )
    return len(left.ahead) // 2, len(right.ahead) // 2


def _note(
    left: _Side,
    right: _Side,
    *,
    pairs: Sequence[alignment.Match],
    found: unmatched.Unmatched,
) -> None:
    """Note what lies between the matches, and drop all that lies before the last one."""
    start_left = start_right = 0
    for end_left, end_right in pairs:
        if end_left > start_left or end_right > start_right:
            found.open_gap()
            for index in range(start_left, end_left):
                found.note_lost(left.ahead[index], right.offset_at(end_right))
            for index in range(start_right, end_right):
                found.note_added(right.ahead[index], left.offset_at(end_left))
        start_left, start_right = end_left + 1, end_right + 1
    last_left, last_right = pairs[-1]
    left.drop(last_left)
    right.drop(last_right)
