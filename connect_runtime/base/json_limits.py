"""Detects JSON with too many values before the JSON is parsed. A parsed value needs many times the
memory of the JSON text that describes the value."""

from __future__ import annotations

_VALUE_MARKS = (b",", b"[", b"{")


def exceeds_json_value_limit(data: bytes, limit: int) -> bool:
    """Return True if the JSON in `data` contains more than `limit` values. The JSON is not
    parsed."""
    if sum(map(data.count, _VALUE_MARKS)) <= limit:
        return False
    unescaped = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if unescaped.count(b'"') > 4 * limit:  # keys and values, two quotes each
        return True
    outside_strings = unescaped.split(b'"')[::2]
    return sum(each.count(mark) for each in outside_strings for mark in _VALUE_MARKS) > limit
