"""Values as the text that headers carry: JSON-like, with ISO-8601 dates (Java's Values).

`text_parsing` reads it back. Java formats dates in its own time zone, this in UTC.
"""

from __future__ import annotations

import base64
import datetime
import decimal
from collections.abc import Mapping
from typing import Any

from connect_runtime.api import errors, schema, structs
from connect_runtime.builtin import java_text

_MIDNIGHT = datetime.time()


def to_text(described: schema.Schema | None, value: Any) -> str | None:
    """The text of a value; null is none. Raises DataError for what Connect has no type for."""
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    return _embedded(described, value)


def _embedded(described: schema.Schema | None, value: Any) -> str:
    """As it stands inside a list, a map or a struct: texts are quoted."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        narrow = described is not None and described.type is schema.Type.FLOAT32
        return java_text.of_float(value) if narrow else java_text.of_double(value)
    if isinstance(value, (int, decimal.Decimal)):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _quoted(base64.b64encode(value).decode())
    if isinstance(value, (datetime.date, datetime.time)):
        return _temporal(value)
    return _container(described, value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _container(described: schema.Schema | None, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        element = None if described is None else described.elements
        return f"[{','.join(_embedded(element, each) for each in value)}]"
    if isinstance(value, Mapping):
        keys = None if described is None else described.keys
        values = None if described is None else described.elements
        pairs = (f"{_embedded(keys, k)}:{_embedded(values, v)}" for k, v in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, structs.Struct):
        pairs = (
            f"{_quoted(each.name)}:{_embedded(each.schema, value.get(each.name))}"
            for each in value.schema.fields
        )
        return f"{{{','.join(pairs)}}}"
    raise errors.DataError(f"Failed to serialize unexpected value type {type(value).__name__}")


def _temporal(value: datetime.date | datetime.time) -> str:
    """A timestamp at midnight is a date, as in Java."""
    if isinstance(value, datetime.time):
        return f"{value.isoformat('milliseconds')}Z"
    if isinstance(value, datetime.datetime):
        utc = value.astimezone(datetime.UTC)
        if utc.time() != _MIDNIGHT:
            return f"{utc.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
        value = utc.date()
    return value.isoformat()
