"""JSON text as Jackson, the library of Java's JsonConverter, reads and writes it.

Written byte for byte the same: no blanks, short escapes, upper-case hex, characters outside the
basic plane as two escapes. Read with Jackson's tolerance (leading zeros, anything after the first
value) and without Python's (NaN, Infinity).
"""

from __future__ import annotations

import functools
import json
import re
from collections import OrderedDict
from decimal import Decimal
from typing import Any, Generic, TypeVar

from connect_runtime.api.errors import DataError

Key = TypeVar("Key")
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """Never holds more than `limit`; for one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        value = self._held.get(key)
        if value is not None:
            self._held.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        self._held[key] = value
        self._held.move_to_end(key)
        if len(self._held) > self._limit:
            self._held.popitem(last=False)

    def __len__(self) -> int:
        return len(self._held)


JsonNode = Any
"""None, bool, int, Decimal (numbers with a point or exponent), str, list or dict of them."""


class MissingJson:
    """There was no value at all, not even null."""


MISSING_JSON = MissingJson()

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t"}
_SHORT_ESCAPES |= {"\n": "\\n", "\f": "\\f", "\r": "\\r"}
_CHARACTERS_TO_ESCAPE = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_BLANKS = " \t\r\n"
_LEADING_ZEROS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(?<![0-9.eE+\-])(-?)0+(?=[0-9])', re.DOTALL)
"""A text to its closing quote, or to the end, so that each quote is read once; or zeros."""


def _escape_character(found: re.Match[str]) -> str:
    character = found.group()
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04X}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def quote_text(text: str) -> str:
    """A JSON string."""
    return f'"{_CHARACTERS_TO_ESCAPE.sub(_escape_character, text)}"'


@functools.lru_cache(maxsize=4096)
def quote_field_name(name: str) -> str:
    """As `quote_text`, for names of fields, which come again with each record."""
    return quote_text(name)


def _refuse_constant(constant: str) -> JsonNode:
    raise ValueError(f"{constant} is not JSON")


_decoder = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant)


def parse_payload(payload: bytes) -> JsonNode | MissingJson:
    """The first value in the bytes, NOTHING if they are blank; DataError if they are not JSON."""
    try:
        text = payload.decode(json.detect_encoding(payload)).lstrip(_BLANKS)
        if not text:
            return MISSING_JSON
        try:
            return _decode_first_value(text)
        except ValueError:
            return _decode_first_value(_LEADING_ZEROS.sub(_drop_leading_zeros, text))
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise DataError(
            "Converting bytes to Connect data failed: they are not JSON "
            f"({type(error).__name__} near the start of {len(payload)} bytes)."
        ) from None


def _decode_first_value(text: str) -> JsonNode:
    value, end = _decoder.raw_decode(text)
    if not isinstance(value, (dict, list, str)) and text[end : end + 1].strip(_BLANKS):
        raise ValueError("a number or word must be followed by a blank")
    return value


def _drop_leading_zeros(found: re.Match[str]) -> str:
    return found.group() if found.group().startswith('"') else found.group(1)
