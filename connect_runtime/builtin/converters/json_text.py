"""JSON as Jackson, which Java's JsonConverter uses, reads and writes it.

Written byte for byte the same: no blanks, short escapes, upper-case hex, characters outside the
basic plane as two escapes. Read with its tolerances (leading zeros, anything after the first
value) and without Python's (NaN, Infinity).
"""

from __future__ import annotations

import functools
import json
import re
from decimal import Decimal
from typing import Any

from connect_runtime.api import errors

Node = Any
"""None, bool, int, Decimal (numbers with a point or exponent), str, list or dict of them."""


class Nothing:
    """There was no value at all, not even null."""


NOTHING = Nothing()

_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t"}
_SHORT |= {"\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPED = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_BLANKS = " \t\r\n"
_LEADING_ZEROS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(?<![0-9.eE+\-])(-?)0+(?=[0-9])', re.DOTALL)
"""A text to its closing quote, or to the end, so that each quote is read once; or zeros."""


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    short = _SHORT.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04X}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def quoted(text: str) -> str:
    """A JSON string."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


@functools.lru_cache(maxsize=4096)
def quoted_name(name: str) -> str:
    """As `quoted`, for names of fields, which come again with each record."""
    return quoted(name)


def _refuse(constant: str) -> Node:
    raise ValueError(f"{constant} is not JSON")


_decoder = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)


def parse(payload: bytes) -> Node | Nothing:
    """The first value in the bytes, NOTHING if they are blank; DataError if they are not JSON."""
    try:
        text = payload.decode(json.detect_encoding(payload)).lstrip(_BLANKS)
        if not text:
            return NOTHING
        try:
            return _first(text)
        except ValueError:
            return _first(_LEADING_ZEROS.sub(_without_zeros, text))
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise errors.DataError(
            "Converting bytes to Connect data failed: they are not JSON "
            f"({type(error).__name__} near the start of {len(payload)} bytes)."
        ) from None


def _first(text: str) -> Node:
    value, end = _decoder.raw_decode(text)
    if not isinstance(value, (dict, list, str)) and text[end : end + 1].strip(_BLANKS):
        raise ValueError("a number or word must be followed by a blank")
    return value


def _without_zeros(found: re.Match[str]) -> str:
    return found.group() if found.group().startswith('"') else found.group(1)
