"""Which items of two sequences belong together: a patience diff.

Items that are unique on both sides are the anchors; the longest run of them in the same order is
kept, and what lies between two anchors is aligned by itself. n log n on data whose records mostly
differ; short stretches without an anchor are compared thoroughly.
"""

from __future__ import annotations

import bisect
import difflib
from collections import Counter
from collections.abc import Hashable, Sequence

_THOROUGH_MAX = 40_000
"""Product of two lengths up to which a stretch without anchors is compared item by item."""

Match = tuple[int, int]
_Span = tuple[int, int, int, int]


def matches(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[Match]:
    """Pairs of equal items (index left, index right), both strictly increasing."""
    found: list[Match] = []
    open_spans: list[_Span] = [(0, len(left), 0, len(right))]
    while open_spans:
        span = _trim(left, right, span=open_spans.pop(), found=found)
        low, high, start, end = span
        if low == high or start == end:
            continue
        anchors = _anchors(left, right, span)
        if anchors:
            found.extend(anchors)
            open_spans.extend(_between(anchors, span))
        elif (high - low) * (end - start) <= _THOROUGH_MAX:
            found.extend(_thorough(left, right, span))
    return sorted(found)


def _trim(
    left: Sequence[Hashable], right: Sequence[Hashable], *, span: _Span, found: list[Match]
) -> _Span:
    """Take the common beginning and the common end off."""
    low, high, start, end = span
    while low < high and start < end and left[low] == right[start]:
        found.append((low, start))
        low, start = low + 1, start + 1
    while low < high and start < end and left[high - 1] == right[end - 1]:
        high, end = high - 1, end - 1
        found.append((high, end))
    return low, high, start, end


def _anchors(left: Sequence[Hashable], right: Sequence[Hashable], span: _Span) -> list[Match]:
    low, high, start, end = span
    left_counts = Counter(left[low:high])
    right_counts = Counter(right[start:end])
    place = {right[index]: index for index in range(start, end)}
    pairs = [
        (index, place[left[index]])
        for index in range(low, high)
        if left_counts[left[index]] == 1 and right_counts.get(left[index]) == 1
    ]
    return _longest_increasing(pairs)


def _longest_increasing(pairs: Sequence[Match]) -> list[Match]:
    """The longest run of pairs whose second numbers increase; the first ones do already."""
    tails: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect.bisect_left(tails, place)
        before.append(holders[length - 1] if length else -1)
        tails[length : length + 1] = [place]
        holders[length : length + 1] = [index]
    run: list[Match] = []
    index = holders[-1] if holders else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def _between(anchors: Sequence[Match], span: _Span) -> list[_Span]:
    low, high, start, end = span
    spans: list[_Span] = []
    for left_index, right_index in [*anchors, (high, end)]:
        spans.append((low, left_index, start, right_index))
        low, start = left_index + 1, right_index + 1
    return spans


def _thorough(left: Sequence[Hashable], right: Sequence[Hashable], span: _Span) -> list[Match]:
    low, high, start, end = span
    matcher = difflib.SequenceMatcher(None, left[low:high], right[start:end], autojunk=False)
    return [
        (low + block.a + step, start + block.b + step)
        for block in matcher.get_matching_blocks()
        for step in range(block.size)
    ]
