"""Values as Java prints them: what StringConverter and FileStreamSink write."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Mapping
from typing import Any

from connect_runtime.api import structs

_INFINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def of(value: Any) -> str:
    """Java's `String.valueOf`, where that says something.

    Bytes are read as UTF-8 (Java prints an address), dates and times are ISO-8601 (Java prints
    its own zone's).
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return of_double(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode(errors="backslashreplace")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(of(each) for each in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{of(key)}={of(each)}' for key, each in value.items())}}}"
    if isinstance(value, structs.Struct):
        return _of_struct(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def _of_struct(value: structs.Struct) -> str:
    pairs = ((each.name, value.get_without_default(each.name)) for each in value.schema.fields)
    return f"Struct{{{','.join(f'{name}={of(each)}' for name, each in pairs if each is not None)}}}"


def of_double(value: float) -> str:
    """`1.0`, `1.0E10`, `NaN`: the fewest digits that mean this number, at least one after the
    point."""
    if not math.isfinite(value):
        return _INFINITE.get(value, "NaN")
    digits = repr(value)
    if sum(each.isdigit() for each in digits.split("e")[0].strip("-0.")) < 2:
        digits = f"{value:.1e}"
    return _in_java_form(digits)


def of_float(value: float) -> str:
    """As `of_double`, with the fewest digits that mean this number in 32 bits."""
    narrow = narrowed(value)
    if not math.isfinite(narrow) or narrow == 0:
        return of_double(narrow)
    for digits in range(1, 9):
        text = f"{narrow:.{digits}e}"
        if narrowed(float(text)) == narrow:
            break
    return _in_java_form(text)


def narrowed(value: float) -> float:
    """The nearest number of 32 bits, as Java's cast to float."""
    try:
        return float(struct.unpack(">f", struct.pack(">f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _in_java_form(text: str) -> str:
    """From Python's notation, with or without an exponent, to Java's."""
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
