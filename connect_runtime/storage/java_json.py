"""JSON exactly as Java's JsonConverter (schemas.enable=false) writes it, and Java's HashMap order.

Bytes matter in keys: an offset is found only by the exact bytes of its partition. Java writes no
spaces, keeps the order of the map, prints numbers as `Long.toString` and `Double.toString` do,
escapes only what must be escaped, in upper-case hexadecimal, and writes characters beyond U+FFFF as
two escaped surrogates. Most partition maps of Java connectors are HashMaps, so the same bytes need
the same field order. (Java turns buckets into trees at eight keys in one of 64 buckets, and the
order may differ then; partition maps are far smaller.)
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
"""What can be written; what is read has neither bytes nor tuples, and maps are plain `dict`s."""

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
"""`Double.toString` writes magnitudes from 0.001 up to below 10,000,000 without an exponent."""


class MalformedJson(FatalError):
    """These bytes are no JSON; the message says where and why."""


class UnencodableValue(FatalError):
    """This value has no form in JSON: of no type that Connect knows, or out of its range."""


def encode_json(value: Json) -> bytes:
    """UTF-8 JSON. `bytes` become base64 text; maps with a key that is no string, pairs.

    Raises `UnencodableValue`.
    """
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
    raise UnencodableValue(f"writing JSON: {type(value).__name__} has no form there")


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
    return '"' + _ESCAPED_CHARS.sub(_escape_match, text) + '"'


def _escape_match(match: re.Match[str]) -> str:
    character = match.group()
    if ord(character) > _MAX_SINGLE_UNIT_CHAR:
        units = character.encode("utf-16-be").hex().upper()
        return f"\\u{units[:4]}\\u{units[4:]}"
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def format_java_double(value: float) -> str:
    """As `Double.toString` prints it since Java 19 (the shortest digits); what is no number, quoted
    as Jackson does."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    shortest = decimal.Decimal(repr(value))
    if len(shortest.as_tuple().digits) == 1:  # Java picks the nearest of two digits, then
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
    """The value; None for no bytes, as for JSON's null. What follows an object or array is ignored.

    Integers come in any width, as a tombstone comes as None or as `null`: so does Java read them.
    Raises `MalformedJson`.
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
        raise MalformedJson(f"reading JSON: something follows the value at character {end}")
    return value


def _describe_json_error(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


def read_integer(value: Json) -> int | None:
    """`value` where it is an integer (a boolean is none), else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def name_json_type(value: Json) -> str:
    """What a value is, in JSON's words, for messages: values may be secret."""
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
    """`String.hashCode` as 32 unsigned bits, over UTF-16 units."""
    result = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        result = (31 * result + int.from_bytes(encoded[at : at + 2])) % _HASH_MODULUS
    return result


def order_keys(keys: Iterable[str]) -> list[str]:
    """The keys by bucket; keys that share one keep the order they are given in."""
    given = list(keys)
    capacity = _HASH_MAP_CAPACITY
    while len(given) > _HASH_MAP_LOAD_FACTOR * capacity:
        capacity *= 2
    return sorted(given, key=lambda key: _find_bucket(hash_java_string(key), capacity))


def _find_bucket(hashed: int, capacity: int) -> int:
    return (hashed ^ (hashed >> 16)) & (capacity - 1)


def order_like_java_map(mapping: Mapping[str, Value]) -> dict[str, Value]:
    """The same map, in the order of a HashMap that these keys were put into one after another."""
    return {key: mapping[key] for key in order_keys(mapping)}
