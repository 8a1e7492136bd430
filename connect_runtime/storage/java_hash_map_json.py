"""Encodes JSON exactly like Java's JsonConverter (schemas.enable=false), and orders keys like
Java's HashMap.

The bytes must be equal to Java's in record keys of the offsets topic, because a source partition's
offset is found only by the exact bytes of its key. JsonConverter writes no spaces and writes fields
in the map's iteration order. It formats numbers as `Long.toString` and `Double.toString` do, and
escapes only characters that must be escaped, in upper-case hexadecimal. Characters beyond U+FFFF
become two escaped surrogates.

Most source partitions of Java connectors are HashMaps, so fields must be written in HashMap order.
(Java converts a bucket with eight keys to a tree if the HashMap has at least 64 buckets, and the
order may then differ. Source partitions are much smaller.)
"""

from __future__ import annotations

import base64
import decimal
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from connect_runtime.base.errors import FatalError

Json: TypeAlias = (
    "bool | int | float | str | bytes | Mapping[str, Json] | list[Json] | tuple[Json, ...] | None"
)
"""Values that can be encoded. Decoded values contain no bytes or tuples, and maps are plain
dicts."""

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_ESCAPED_CHARS = re.compile(r'[\x00-\x1f"\\\ud800-\udfff\U00010000-\U0010ffff]')
_MAX_SINGLE_UNIT_CHAR = 0xFFFF
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
_WHITESPACE = " \t\n\r"
_PLAIN_NOTATION_MIN = 1e-3
_PLAIN_NOTATION_END = 1e7
"""Upper limit (exclusive) of numbers that `Double.toString` writes without an exponent, by absolute
value. The lower limit is `_PLAIN_NOTATION_MIN`."""


class MalformedJson(FatalError):
    """Raised if the bytes are not valid JSON. The message contains the position and the reason."""


class UnencodableValue(FatalError):
    """Raised if a value cannot be encoded as JSON, because its type is not supported or it is out
    of range."""


def encode_json(value: Json) -> bytes:
    """Encode a value as UTF-8 JSON. `bytes` become base64; maps with non-string keys become arrays
    of [key, value] pairs. Raises `UnencodableValue`."""
    try:
        return _encode_value(value).encode()
    except RecursionError as error:
        raise UnencodableValue("writing JSON: nested too deeply") from error


def _encode_value(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return _encode_integer(value)
        case float():
            return format_java_double(value)
        case str():
            return _quote_text(value)
        case bytes():
            return _quote_text(base64.b64encode(value).decode())
        case Mapping():
            return _encode_map(value)
        case list() | tuple():
            return _encode_array(value)
    raise UnencodableValue(f"writing JSON: {type(value).__name__} is not supported")


def _encode_integer(value: int) -> str:
    if not INT64_MIN <= value <= INT64_MAX:
        raise UnencodableValue(f"writing JSON: {value} does not fit into 64 bits")
    return str(int(value))


def _encode_map(value: Mapping[object, object]) -> str:
    if all(isinstance(key, str) for key in value):
        members = (f"{_quote_text(str(key))}:{_encode_value(each)}" for key, each in value.items())
        return "{" + ",".join(members) + "}"
    return _encode_array([list(pair) for pair in value.items()])


def _encode_array(value: Iterable[object]) -> str:
    return "[" + ",".join(map(_encode_value, value)) + "]"


def _quote_text(text: str) -> str:
    return '"' + _ESCAPED_CHARS.sub(_escape_matched_character, text) + '"'


def _escape_matched_character(match: re.Match[str]) -> str:
    character = match.group()
    if ord(character) > _MAX_SINGLE_UNIT_CHAR:
        units = character.encode("utf-16-be").hex().upper()
        return f"\\u{units[:4]}\\u{units[4:]}"
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def format_java_double(value: float) -> str:
    """Format a number like `Double.toString` since Java 19: with the fewest digits that distinguish
    it from other doubles. Non-finite values are quoted, as in Jackson."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    shortest = decimal.Decimal(repr(value))
    if len(shortest.as_tuple().digits) == 1:  # Java then uses the nearest two-digit number
        shortest = decimal.Decimal(f"{value:.1e}")
    sign, digits, exponent = shortest.as_tuple()
    assert isinstance(exponent, int), value
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent  # digits before the decimal point
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0.0"
    if _PLAIN_NOTATION_MIN <= abs(value) < _PLAIN_NOTATION_END:
        return minus + _format_plain_notation(shown, point)
    return f"{minus}{shown[0]}.{shown[1:] or '0'}E{point - 1}"


def _format_plain_notation(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    whole = digits[:point].ljust(point, "0")
    return f"{whole}.{digits[point:] or '0'}"


def decode_json(data: bytes | None) -> Json:
    """Decode JSON. Return None if the input is None or empty, or if its value is null.

    As in Java, bytes after an object or array are ignored and integers may have any width. Raises
    `MalformedJson`.
    """
    if data is None:
        return None
    try:
        text = data.decode("utf-8-sig").lstrip(_WHITESPACE)
        if not text:
            return None
        value: Json
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise MalformedJson(f"reading JSON: {_describe_json_error(error)}") from error
    if not isinstance(value, dict | list) and text[end:].strip(_WHITESPACE):
        raise MalformedJson(f"reading JSON: unexpected characters after the value at {end}")
    return value


def _describe_json_error(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _reject_nonfinite_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(parse_constant=_reject_nonfinite_constant)


def get_integer_or_none(value: Json) -> int | None:
    """Return the value if it is an integer but not a boolean; otherwise None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def get_json_type_name(value: Json) -> str:
    """Return the JSON type name of a value, for error messages that must not contain the value
    itself."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str() | bytes():
            return "a string"
        case Mapping():
            return "an object"
        case _:
            return "an array"


_HASH_MAP_CAPACITY = 16
_HASH_MAP_LOAD_FACTOR = 0.75
_HASH_MODULUS = 2**32

Value = TypeVar("Value")


def hash_java_string(text: str) -> int:
    """Compute Java's `String.hashCode` over UTF-16 code units, as an unsigned 32-bit integer."""
    result = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        result = (31 * result + int.from_bytes(encoded[at : at + 2])) % _HASH_MODULUS
    return result


def order_keys_by_java_hash_bucket(keys: Iterable[str]) -> list[str]:
    """Sort keys by their bucket in a Java HashMap. Keys within a bucket keep their order."""
    given = list(keys)
    capacity = _HASH_MAP_CAPACITY
    while len(given) > _HASH_MAP_LOAD_FACTOR * capacity:
        capacity *= 2
    return sorted(given, key=lambda key: _find_hash_bucket(hash_java_string(key), capacity))


def _find_hash_bucket(hashed: int, capacity: int) -> int:
    return (hashed ^ (hashed >> 16)) & (capacity - 1)


def order_entries_like_java_hash_map(mapping: Mapping[str, Value]) -> dict[str, Value]:
    """Return the mapping in the iteration order of a Java HashMap with the same insertion order."""
    return {key: mapping[key] for key in order_keys_by_java_hash_bucket(mapping)}
