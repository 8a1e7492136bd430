"""JSON of the internal topics, byte for byte as Java's JsonConverter (schemas.enable=false) has it.

Bytes matter where they are keys: an offset is found again only by the very bytes of its partition.
Java writes no spaces, keeps the order of the map, prints numbers as `Long.toString` and
`Double.toString` do, and escapes only what must be, in upper-case hexadecimal; and characters
beyond U+FFFF, as two surrogates each.
"""

from __future__ import annotations

import base64
import decimal
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from connect_runtime.base import errors

Json: TypeAlias = (
    "bool | int | float | str | bytes | Mapping[str, Json] | list[Json] | tuple[Json, ...] | None"
)
"""What can be written; what is read has neither bytes nor tuples, and maps are plain `dict`s."""

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_ESCAPED = re.compile(r'[\x00-\x1f"\\\ud800-\udfff\U00010000-\U0010ffff]')
_LAST_OF_ONE_UNIT = 0xFFFF
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
_PLAIN_MIN = 1e-3
_PLAIN_END = 1e7
"""`Double.toString` writes magnitudes from 0.001 up to below 10,000,000 without an exponent."""


class Malformed(errors.FatalError):
    """These bytes are no JSON; the message says where and why."""


class Unencodable(errors.FatalError):
    """This value has no form in JSON: of no type that Connect knows, or out of its range."""


def encode(value: Json) -> bytes:
    """UTF-8 JSON. `bytes` become base64 text; maps with a key that is no string, pairs.

    Raises `Unencodable`.
    """
    try:
        return _text(value).encode()
    except RecursionError as error:
        raise Unencodable("writing JSON: nested too deeply") from error


def _text(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return _integer(value)
        case float():
            return java_double(value)
        case str():
            return _quoted(value)
        case bytes():
            return _quoted(base64.b64encode(value).decode())
        case Mapping():
            return _map(value)
        case list() | tuple():
            return _array(value)
    raise Unencodable(f"writing JSON: {type(value).__name__} has no form there")


def _integer(value: int) -> str:
    if not INT64_MIN <= value <= INT64_MAX:
        raise Unencodable(f"writing JSON: {value} does not fit into 64 bits")
    return str(int(value))


def _map(value: Mapping[object, object]) -> str:
    if all(isinstance(key, str) for key in value):
        members = (f"{_quoted(str(key))}:{_text(each)}" for key, each in value.items())
        return "{" + ",".join(members) + "}"
    return _array([list(pair) for pair in value.items()])


def _array(value: Iterable[object]) -> str:
    return "[" + ",".join(map(_text, value)) + "]"


def _quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if ord(character) > _LAST_OF_ONE_UNIT:
        units = character.encode("utf-16-be").hex().upper()
        return f"\\u{units[:4]}\\u{units[4:]}"
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def java_double(value: float) -> str:
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
    if _PLAIN_MIN <= abs(value) < _PLAIN_END:
        return minus + _plain(shown, point)
    return f"{minus}{shown[0]}.{shown[1:] or '0'}E{point - 1}"


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    whole = digits[:point].ljust(point, "0")
    return f"{whole}.{digits[point:] or '0'}"


def decode(data: bytes | None) -> Json:
    """The value; None for no bytes, as for JSON's null. What follows an object or array is ignored.

    Integers come in any width, as a tombstone comes as None or as `null`: so does Java read them.
    Raises `Malformed`.
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
        raise Malformed(f"reading JSON: {_reason(error)}") from error
    if not isinstance(value, dict | list) and text[end:].strip(_WHITESPACE):
        raise Malformed(f"reading JSON: something follows the value at character {end}")
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def integer(value: Json) -> int | None:
    """`value` where it is an integer (a boolean is none), else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def kind(value: Json) -> str:
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
