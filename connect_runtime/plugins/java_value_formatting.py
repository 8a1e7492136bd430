"""Formats values like Java's String.valueOf, for StringConverter, FileStreamSink and other
plugins."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Mapping
from typing import Any

from connect_runtime.api.structs import Struct

_INFINITY_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}


def format_value(value: Any) -> str:
    """Format a value like Java's `String.valueOf`, with two exceptions.

    Bytes are decoded as UTF-8 (Java prints an object address); dates and times are ISO-8601 (Java
    uses its own time zone).
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_double(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode(errors="backslashreplace")
    if isinstance(value, (list, tuple)):
        # A generator or comprehension would add a level to the stack for each level of the value.
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, Mapping):
        entries: list[str] = []
        for key, item in value.items():
            entries.append(f"{format_value(key)}={format_value(item)}")
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, Struct):
        return _format_struct(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def _format_struct(value: Struct) -> str:
    pairs = ((field.name, value.get_without_default(field.name)) for field in value.schema.fields)
    entries = (f"{name}={format_value(item)}" for name, item in pairs if item is not None)
    return f"Struct{{{','.join(entries)}}}"


def format_double(value: float) -> str:
    """Format a number like Java's Double.toString: `1.0`, `1.0E10`, `NaN`. The result has the
    fewest digits that identify the number, and at least one after the decimal point."""
    if not math.isfinite(value):
        return _INFINITY_NAMES.get(value, "NaN")
    digits = repr(value)
    if sum(each.isdigit() for each in digits.split("e")[0].strip("-0.")) < 2:
        digits = f"{value:.1e}"
    return _to_java_notation(digits)


def format_float(value: float) -> str:
    """Format a 32-bit number like Java's Float.toString, with the fewest digits that identify the
    number."""
    narrow = narrow_to_float32(value)
    if not math.isfinite(narrow) or narrow == 0:
        return format_double(narrow)
    for digits in range(1, 9):
        text = f"{narrow:.{digits}e}"
        if narrow_to_float32(float(text)) == narrow:
            break
    return _to_java_notation(text)


def narrow_to_float32(value: float) -> float:
    """Return the nearest 32-bit floating-point number, like Java's cast to float."""
    try:
        return float(struct.unpack(">f", struct.pack(">f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _to_java_notation(text: str) -> str:
    """Convert a number from Python's notation to Java's, with or without an exponent."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    before, _, after = mantissa.partition(".")
    shift = int(exponent or 0) + len(before)
    digits = (before + after).lstrip("0")
    shift -= len(before + after) - len(digits)
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if -3 < shift <= 7:
        whole = digits[: max(shift, 0)].ljust(shift, "0") or "0"
        part = "0" * -min(shift, 0) + digits[max(shift, 0) :]
        return f"{sign}{whole}.{part or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{shift - 1}"
