"""Aligns two sequences with a patience diff.

Items that occur exactly once on both sides are anchors. The longest sequence of anchors in the same
order is kept, and items between two anchors are aligned recursively. Complexity is O(n log n) if
most items are unique. Short sections without an anchor are compared item by item.
"""

from __future__ import annotations

import bisect
import difflib
from collections import Counter
from collections.abc import Hashable, Sequence

_THOROUGH_PRODUCT_MAX = 40_000
"""Maximum product of the lengths of two sections that are compared item by item because they have
no anchors."""

MatchedItems = tuple[int, int]
_Span = tuple[int, int, int, int]


def align_sequences(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[MatchedItems]:
    """Return the pairs of equal items (left index, right index), both strictly increasing."""
    found: list[MatchedItems] = []
    open_spans: list[_Span] = [(0, len(left), 0, len(right))]
    while open_spans:
        span = _trim_common_ends(left, right, span=open_spans.pop(), found=found)
        low, high, start, end = span
        if low == high or start == end:
            continue
        anchors = _find_anchors(left, right, span)
        if anchors:
            found.extend(anchors)
            open_spans.extend(_list_spans_between_anchors(anchors, span))
        elif (high - low) * (end - start) <= _THOROUGH_PRODUCT_MAX:
            found.extend(_align_item_by_item(left, right, span))
    return sorted(found)


def _trim_common_ends(
    left: Sequence[Hashable], right: Sequence[Hashable], *, span: _Span, found: list[MatchedItems]
) -> _Span:
    """Match the common prefix and suffix of the two sequences within `span`. Return the remaining
    span."""
    low, high, start, end = span
    while low < high and start < end and left[low] == right[start]:
        found.append((low, start))
        low, start = low + 1, start + 1
    while low < high and start < end and left[high - 1] == right[end - 1]:
        high, end = high - 1, end - 1
        found.append((high, end))
    return low, high, start, end


def _find_anchors(
    left: Sequence[Hashable], right: Sequence[Hashable], span: _Span
) -> list[MatchedItems]:
    low, high, start, end = span
    left_counts = Counter(left[low:high])
    right_counts = Counter(right[start:end])
    place = {right[index]: index for index in range(start, end)}
    pairs = [
        (index, place[left[index]])
        for index in range(low, high)
        if left_counts[left[index]] == 1 and right_counts.get(left[index]) == 1
    ]
    return _find_longest_increasing_subsequence(pairs)


def _find_longest_increasing_subsequence(pairs: Sequence[MatchedItems]) -> list[MatchedItems]:
    """Return the longest subsequence of pairs whose second elements increase."""
    tails: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect.bisect_left(tails, place)
        before.append(holders[length - 1] if length else -1)
        tails[length : length + 1] = [place]
        holders[length : length + 1] = [index]
    run: list[MatchedItems] = []
    index = holders[-1] if holders else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def _list_spans_between_anchors(anchors: Sequence[MatchedItems], span: _Span) -> list[_Span]:
    low, high, start, end = span
    spans: list[_Span] = []
    for left_index, right_index in [*anchors, (high, end)]:
        spans.append((low, left_index, start, right_index))
        low, start = left_index + 1, right_index + 1
    return spans


def _align_item_by_item(
    left: Sequence[Hashable], right: Sequence[Hashable], span: _Span
) -> list[MatchedItems]:
    low, high, start, end = span
    matcher = difflib.SequenceMatcher(None, left[low:high], right[start:end], autojunk=False)
    return [
        (low + block.a + step, start + block.b + step)
        for block in matcher.get_matching_blocks()
        for step in range(block.size)
    ]
