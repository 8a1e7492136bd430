"""Reads and writes JSON text like Jackson, the library of Java's JsonConverter.

Output is identical byte for byte: no spaces, short escapes, upper-case hex, and two escapes for
characters outside the Basic Multilingual Plane. Like Jackson, the parser accepts leading zeros and
ignores anything after the first value. Unlike Python's `json`, it rejects NaN and Infinity.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections import OrderedDict
from decimal import Decimal
from typing import Any, Generic, TypeVar

from connect_runtime.api.errors import DataError

Key = TypeVar("Key")
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """A cache with at most `limit` entries and a total size of at most `size_limit`. It evicts the
    least recently used entries. Not thread-safe."""

    def __init__(self, limit: int, *, size_limit: float = math.inf) -> None:
        self._limit = limit
        self._size_limit = size_limit
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._size = 0

    def get(self, key: Key) -> Value | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Key, value: Value, *, size: int = 0) -> None:
        """Add an entry, and evict the least recently used entries that no longer fit. An entry
        larger than `size_limit` is not cached."""
        _, old_size = self._entries.pop(key, (None, 0))
        self._size -= old_size
        if size > self._size_limit:
            return
        self._entries[key] = value, size
        self._size += size
        while len(self._entries) > self._limit or self._size > self._size_limit:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._size -= dropped

    def __len__(self) -> int:
        return len(self._entries)


JsonNode = Any
"""Parsed JSON: None, bool, int, Decimal (numbers with a fraction or exponent), str, or a list or
dict of these."""


class MissingJsonNode:
    """Type of `MISSING_JSON`, which marks an empty payload: it contains no value, not even null."""


MISSING_JSON = MissingJsonNode()

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t"}
_SHORT_ESCAPES |= {"\n": "\\n", "\f": "\\f", "\r": "\\r"}
_CHARACTERS_TO_ESCAPE = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_BLANKS = " \t\r\n"
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""Maximum size of JSON that is parsed. Parsed JSON takes many times the memory of its text."""
_LEADING_ZEROS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(?<![0-9.eE+\-])(-?)0+(?=[0-9])', re.DOTALL)
"""Matches either a string up to its closing quote or the end of the text, or the leading zeros of a
number."""


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
    """Encode a string as a JSON string, with quotes and escapes."""
    return f'"{_CHARACTERS_TO_ESCAPE.sub(_escape_character, text)}"'


_MAX_CACHED_NAME_CHARS = 256


def quote_field_name(name: str) -> str:
    """Encode a field name as a JSON string. Unless the name is long, the result is cached, because
    field names recur in each record."""
    return _quote_and_cache(name) if len(name) <= _MAX_CACHED_NAME_CHARS else quote_text(name)


_quote_and_cache = functools.lru_cache(maxsize=4096)(quote_text)


def _reject_nonfinite_constant(constant: str) -> JsonNode:
    raise ValueError(f"{constant} is not JSON")


_decoder = json.JSONDecoder(parse_float=Decimal, parse_constant=_reject_nonfinite_constant)


def parse_payload(payload: bytes) -> JsonNode | MissingJsonNode:
    """Parse the first JSON value of a payload. Return `MISSING_JSON` if the payload is empty.
    Raises `DataError` if the JSON is invalid or larger than `MAX_PAYLOAD_BYTES`."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise DataError(
            f"Converting bytes to Connect data failed: the payload has {len(payload):,} bytes, but"
            f" JSON may have at most {MAX_PAYLOAD_BYTES:,}: make the records smaller or use"
            " ByteArrayConverter"
        )
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
            "Converting bytes to Connect data failed: the payload is not valid JSON "
            f"({type(error).__name__} near the start of {len(payload)} bytes)."
        ) from None


def _decode_first_value(text: str) -> JsonNode:
    value, end = _decoder.raw_decode(text)
    if not isinstance(value, (dict, list, str)) and text[end : end + 1].strip(_BLANKS):
        raise ValueError("a number or literal must be followed by whitespace or the end")
    return value


def _drop_leading_zeros(found: re.Match[str]) -> str:
    return found.group() if found.group().startswith('"') else found.group(1)
