"""Walks two logs side by side, once, and finds what has no counterpart. Pure: logs are iterators.

Equal logs are compared as they stream by. From the first difference on, records are condensed and
both sides read ahead in windows, which `alignment.py` aligns; a window grows until the logs meet
again. What became of the unmatched is told at the end (`unmatched.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from mm2.sandbox import alignment, comparison, record, unmatched

WINDOW_RECORDS = 8_192
WINDOW_RECORDS_MAX = 131_072

_Content = record.Raw | record.Content


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
    """One log as far as it is read ahead, from index `at` on; condensed since the first difference.

    Invariant: `offsets` and `contents` are of one length, and `at` is at most that.
    """

    chunks: Iterator[record.Chunk]
    offsets: list[int] = field(default_factory=list)
    contents: list[_Content] = field(default_factory=list)
    at: int = 0
    condensing: bool = False
    ended: bool = False
    records: int = 0
    size: int = 0

    @property
    def ahead(self) -> int:
        return len(self.contents) - self.at

    def fill(self, count: int) -> None:
        """Read until `count` records are ahead, or the log has ended."""
        while self.ahead < count and not self.ended:
            chunk = next(self.chunks, None)
            if chunk is None:
                self.ended = True
                return
            self._forget_passed()
            self.records += len(chunk.offsets)
            self.size += chunk.size
            self.offsets += chunk.offsets
            self.contents += (
                map(record.condensed, chunk.contents) if self.condensing else chunk.contents
            )

    def condense(self) -> None:
        """From now on contents are hashable and small; both sides do it together."""
        self._forget_passed()
        if not self.condensing:
            self.condensing = True
            self.contents = [record.condensed(each) for each in self._raw()]

    def offset_at(self, index: int) -> int | None:
        return self.offsets[index] if index < len(self.offsets) else None

    def record_at(self, index: int) -> record.Record:
        content = self.contents[index]
        assert isinstance(content, record.Content)
        return record.Record(self.offsets[index], content)

    def _raw(self) -> list[record.Raw]:
        return cast("list[record.Raw]", self.contents)

    def _forget_passed(self) -> None:
        del self.offsets[: self.at]
        del self.contents[: self.at]
        self.at = 0


def walk(
    source: Iterable[record.Chunk],
    target: Iterable[record.Chunk],
    *,
    find_originals: unmatched.FindOriginals,
    may_lack: unmatched.MayLack = unmatched.nothing,
) -> Outcome:
    """Compare two logs, given in chunks, to their ends; memory stays bounded.

    Records of the source that the target `may_lack` are no difference when it does.
    """
    left, right = _Side(iter(source)), _Side(iter(target))
    found = unmatched.Unmatched(may_lack)
    while _skip_equal(left, right):
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
        common = min(left.ahead, right.ahead)
        if common == 0:
            return bool(left.ahead or right.ahead)
        mine = left.contents[left.at : left.at + common]
        theirs = right.contents[right.at : right.at + common]
        same = common if mine == theirs else _common_start(mine, theirs)
        left.at += same
        right.at += same
        if same < common:
            return True


def _common_start(mine: Sequence[_Content], theirs: Sequence[_Content]) -> int:
    pairs = enumerate(zip(mine, theirs, strict=True))
    return next(index for index, (one, other) in pairs if one != other)


def _align_ahead(left: _Side, right: _Side, *, found: unmatched.Unmatched) -> None:
    """Read ahead until the logs meet again, and note what has no counterpart up to there.

    Nothing is decided beyond a window's last match: the counterparts may just not be read yet.
    """
    left.condense()
    right.condense()
    window = WINDOW_RECORDS
    while True:
        left.fill(window)
        right.fill(window)
        pairs = alignment.matches(left.contents, right.contents)
        if left.ended and right.ended:
            _note(left, right, pairs=[*pairs, (left.ahead, right.ahead)], found=found)
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
            0 if left.ended else left.ahead,
            0 if right.ended else right.ahead,
        )
    return left.ahead // 2, right.ahead // 2


def _note(
    left: _Side,
    right: _Side,
    *,
    pairs: Sequence[alignment.Match],
    found: unmatched.Unmatched,
) -> None:
    """Note what lies between the matches, and pass over all that lies before the last one."""
    start_left = start_right = 0
    for end_left, end_right in pairs:
        if end_left > start_left or end_right > start_right:
            found.open_gap()
            for index in range(start_left, end_left):
                found.note_lost(left.record_at(index), right.offset_at(end_right))
            for index in range(start_right, end_right):
                found.note_added(right.record_at(index), left.offset_at(end_left))
        start_left, start_right = end_left + 1, end_right + 1
    left.at, right.at = pairs[-1]
