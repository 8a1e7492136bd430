"""Numbers as people read them."""

from __future__ import annotations

UNKNOWN = "-"

_SIZES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_DURATIONS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0))


def count(number: float | None) -> str:
    """`1,234,567`; small fractions keep a digit."""
    if number is None:
        return UNKNOWN
    if 0 < number < 9.95 and number != int(number):
        return f"{number:.1f}"
    return f"{number:,.0f}"


def megabytes(size: float | None) -> str:
    """In units of 10^6 bytes, without the unit: for columns."""
    if size is None:
        return UNKNOWN
    value = size / 1e6
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}"


def size(number: float) -> str:
    """`1.2 GB`, decimal units."""
    for unit, factor in _SIZES:
        if number >= factor * 0.9995:
            return f"{number / factor:.1f} {unit}"
    return f"{number:.0f} B"


def rate(bytes_s: float) -> str:
    """`1 MB/s`, `1.5 MB/s`, decimal units."""
    for unit, factor in _SIZES:
        if bytes_s >= factor:
            return f"{bytes_s / factor:g} {unit}/s"
    return f"{bytes_s:g} B/s"


def duration(seconds: float | None) -> str:
    """`0.3 s`, `45 s`, `12.5 min`, `3.4 h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "0 s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    for unit, factor in _DURATIONS:
        if seconds >= 2 * factor or unit == "min":
            return f"{seconds / factor:.1f} {unit}"
    raise AssertionError(seconds)
