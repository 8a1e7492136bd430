"""Formats numbers, sizes, rates, durations and tables for terminal output.

Sizes and rates use decimal units. Columns are left-aligned, separated by two spaces and never
truncated, as in Kafka's own tools, so that `grep` and `awk` work with the output.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from connect_runtime.base import terminal_escape

UNKNOWN_NUMBER = "-"

_SIZE_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_DURATION_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0))


def format_count(number: float | None) -> str:
    """Format a count with thousands separators, such as `1,234,567`. Values below 10 that are not
    whole keep one decimal place."""
    if number is None:
        return UNKNOWN_NUMBER
    if 0 < number < 9.95 and number != int(number):
        return f"{number:.1f}"
    return f"{number:,.0f}"


def format_megabytes(size: float | None) -> str:
    """Format bytes as megabytes (10^6 bytes) without the unit, for table columns."""
    if size is None:
        return UNKNOWN_NUMBER
    value = size / 1e6
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}"


def format_size(number: float) -> str:
    """Format a number of bytes in a readable unit, for example `1.2 GB`."""
    for unit, factor in _SIZE_UNITS:
        if number >= factor * 0.9995:
            return f"{number / factor:.1f} {unit}"
    return f"{number:.0f} B"


def format_rate(bytes_s: float) -> str:
    """Format a rate in bytes per second in a readable unit, for example `1 MB/s` or `1.5 MB/s`."""
    for unit, factor in _SIZE_UNITS:
        if bytes_s >= factor:
            return f"{bytes_s / factor:g} {unit}/s"
    return f"{bytes_s:g} B/s"


def format_time(ms: int | None, timespec: str = "seconds") -> str:
    """Format a wall-clock time in UTC, for example `2026-11-22T14:40:00Z`. A time outside the years
    1 to 9999, which can occur in record timestamps, is formatted as milliseconds since 1970, such
    as `253402300800000 ms`."""
    if ms is None:
        return UNKNOWN_NUMBER
    try:
        found = datetime.datetime.fromtimestamp(ms / 1000, tz=datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return found.isoformat(timespec=timespec).replace("+00:00", "Z")


def format_duration(seconds: float | None) -> str:
    """Format a duration in seconds in a readable unit: `0.3 s`, `45 s`, `12.5 min` or `3.4 h`."""
    if seconds is None:
        return UNKNOWN_NUMBER
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "0 s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    for unit, factor in _DURATION_UNITS:
        if seconds >= 2 * factor or unit == "min":
            return f"{seconds / factor:.1f} {unit}"
    raise AssertionError(seconds)


MAX_COLUMN_CHARS = 80
"""Maximum width to which the cells of a column are padded, because group ids may have any
length."""


def format_columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table with a header line. Cells are never truncated, so that `grep` and
    `awk` work with the output. A cell longer than `MAX_COLUMN_CHARS` shifts the rest of its row,
    instead of widening every row."""
    rows = [[terminal_escape.escape_unprintable(cell) for cell in row] for row in rows]
    widths = [
        min(max(map(len, cells)), MAX_COLUMN_CHARS) for cells in zip(names, *rows, strict=True)
    ]
    for row in (names, *rows):
        yield "  ".join(
            f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)
        ).rstrip()
