"""Connect's data and schemas as JSON text."""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import errors, logical, schema, structs
from connect_runtime.builtin import java_text
from connect_runtime.builtin.converters import json_text, lru

TYPE_NAMES: Mapping[schema.Type, str] = {
    schema.Type.BOOLEAN: "boolean",
    schema.Type.INT8: "int8",
    schema.Type.INT16: "int16",
    schema.Type.INT32: "int32",
    schema.Type.INT64: "int64",
    schema.Type.FLOAT32: "float",
    schema.Type.FLOAT64: "double",
    schema.Type.BYTES: "bytes",
    schema.Type.STRING: "string",
    schema.Type.ARRAY: "array",
    schema.Type.MAP: "map",
    schema.Type.STRUCT: "struct",
}
_NULL = "null"


class DecimalFormat(enum.Enum):
    """`decimal.format`: unscaled bytes as base64, or a JSON number."""

    BASE64 = "BASE64"
    NUMERIC = "NUMERIC"


@dataclass(slots=True, kw_only=True)
class Writer:
    """Text for values, and for schemas, which it remembers. Raises DataError for what cannot be."""

    decimal_format: DecimalFormat = DecimalFormat.BASE64
    default_for_null: bool = True
    schemas: lru.Lru[schema.Schema, str] = field(default_factory=lambda: lru.Lru(1000))

    # Schemas

    def schema_text(self, described: schema.Schema | None) -> str:
        """The object that JsonConverter puts beside the data; fields in Java's order."""
        if described is None:
            return _NULL
        known = self.schemas.get(described)
        if known is None:
            known = self._schema_text(described)
            self.schemas.put(described, known)
        return known

    def _schema_text(self, described: schema.Schema) -> str:
        parts = [f'"type":"{TYPE_NAMES[described.type]}"']
        match described.type:
            case schema.Type.ARRAY:
                parts.append(f'"items":{self.schema_text(described.elements)}')
            case schema.Type.MAP:
                parts.append(f'"keys":{self.schema_text(described.keys)}')
                parts.append(f'"values":{self.schema_text(described.elements)}')
            case schema.Type.STRUCT:
                fields = ",".join(self._field_text(each) for each in described.fields)
                parts.append(f'"fields":[{fields}]')
        parts.append(f'"optional":{_boolean(described.optional)}')
        if described.name is not None:
            parts.append(f'"name":{json_text.quoted(described.name)}')
        if described.version is not None:
            parts.append(f'"version":{described.version}')
        if described.doc is not None:
            parts.append(f'"doc":{json_text.quoted(described.doc)}')
        if described.parameters is not None:
            parts.append(f'"parameters":{_parameters(described.parameters)}')
        if described.default is not None:
            parts.append(f'"default":{self.value_text(described, described.default)}')
        return f"{{{','.join(parts)}}}"

    def _field_text(self, of: schema.Field) -> str:
        return f'{self.schema_text(of.schema)[:-1]},"field":{json_text.quoted(of.name)}}}'

    # Values

    def value_text(self, described: schema.Schema | None, value: Any) -> str:
        if value is None:
            return self._null_text(described)
        if described is None:
            return self._schemaless_text(value)
        convert = _LOGICAL.get(described.name or "")
        if convert is not None:
            return convert(self, described, value)
        if described.type in _CONTAINERS:
            return _CONTAINERS[described.type](self, described, value)
        structs.validate_value(described, value)
        return _SCALARS[described.type](value)

    def _null_text(self, described: schema.Schema | None) -> str:
        if described is None:
            return _NULL
        if described.default is not None and self.default_for_null:
            return self.value_text(described, described.default)
        if described.optional:
            return _NULL
        raise errors.DataError(
            "Conversion error: null value for field that is required and has no default value"
        )

    def _schemaless_text(self, value: Any) -> str:
        of = structs.type_of(value)
        if of is None:
            raise errors.DataError(
                f"Python class {type(value).__name__} does not have corresponding schema type."
            )
        if of is schema.Type.STRUCT:
            raise errors.DataError("A struct cannot be converted without its schema.")
        if of is schema.Type.INT64 and not -(2**63) <= value < 2**63:
            raise errors.DataError("An int without a schema must fit in 64 bits.")
        if of in _CONTAINERS:
            return _CONTAINERS[of](self, None, value)
        return _SCALARS[of](value)

    def array_text(self, described: schema.Schema | None, value: Any) -> str:
        if not isinstance(value, (list, tuple)):
            raise _wrong_class(schema.Type.ARRAY, value)
        element = None if described is None else described.elements
        return f"[{','.join(self.value_text(element, each) for each in value)}]"

    def map_text(self, described: schema.Schema | None, value: Any) -> str:
        """An object if the keys are text, else an array of pairs."""
        if not isinstance(value, Mapping):
            raise _wrong_class(schema.Type.MAP, value)
        keys = None if described is None else described.keys
        values = None if described is None else described.elements
        if keys is None:
            as_object = all(isinstance(key, str) for key in value)
        else:
            as_object = keys.type is schema.Type.STRING
        if not as_object:
            pairs = (
                f"[{self.value_text(keys, key)},{self.value_text(values, each)}]"
                for key, each in value.items()
            )
            return f"[{','.join(pairs)}]"
        entries = (
            f"{self._name_text(keys, key)}:{self.value_text(values, each)}"
            for key, each in value.items()
        )
        return f"{{{','.join(entries)}}}"

    def _name_text(self, keys: schema.Schema | None, key: Any) -> str:
        """A name is text even where the key is null."""
        text = self.value_text(keys, key)
        return text if text.startswith('"') else json_text.quoted(text)

    def struct_text(self, described: schema.Schema | None, value: Any) -> str:
        if not isinstance(value, structs.Struct):
            raise _wrong_class(schema.Type.STRUCT, value)
        if described is None or not structs.same_struct(value.schema, described):
            raise errors.DataError("Mismatching schema.")
        entries = (
            f"{json_text.quoted_name(each.name)}:"
            f"{self.value_text(each.schema, value.get_without_default(each.name))}"
            for each in described.fields
        )
        return f"{{{','.join(entries)}}}"

    def decimal_text(self, described: schema.Schema, value: Any) -> str:
        if not isinstance(value, decimal.Decimal):
            raise _wrong_class("Decimal", value)
        stored = logical.decimal_from_logical(described, value) if self._base64 else None
        if stored is not None:
            return _base64(stored)
        if not value.is_finite():
            raise errors.DataError("A Decimal value must be a number, not NaN or infinite.")
        return str(value)

    @property
    def _base64(self) -> bool:
        return self.decimal_format is DecimalFormat.BASE64


def _wrong_class(of: schema.Type | str, value: Any) -> errors.DataError:
    return errors.DataError(f"Invalid type for {of}: {type(value).__name__}")


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _parameters(parameters: Mapping[str, str]) -> str:
    pairs = (f"{json_text.quoted(k)}:{json_text.quoted(v)}" for k, v in parameters.items())
    return f"{{{','.join(pairs)}}}"


def _base64(value: bytes | bytearray | memoryview) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _float(value: float) -> str:
    return _number(java_text.of_float(value))


def _double(value: float) -> str:
    return _number(java_text.of_double(value))


def _number(text: str) -> str:
    """What JSON has no number for is text."""
    return f'"{text}"' if text[-1] in "Ny" else text


def _date(_: Writer, described: schema.Schema, value: Any) -> str:
    if not isinstance(value, datetime.date):
        raise _wrong_class("Date", value)
    return str(logical.date_from_logical(described, value))


def _time(_: Writer, described: schema.Schema, value: Any) -> str:
    if not isinstance(value, datetime.time):
        raise _wrong_class("Time", value)
    return str(logical.time_from_logical(described, value))


def _timestamp(_: Writer, described: schema.Schema, value: Any) -> str:
    if not isinstance(value, datetime.datetime):
        raise _wrong_class("Timestamp", value)
    return str(logical.timestamp_from_logical(described, value))


_LOGICAL: Mapping[str, Callable[[Writer, schema.Schema, Any], str]] = {
    schema.DECIMAL_NAME: Writer.decimal_text,
    schema.DATE_NAME: _date,
    schema.TIME_NAME: _time,
    schema.TIMESTAMP_NAME: _timestamp,
}
_CONTAINERS: Mapping[schema.Type, Callable[[Writer, schema.Schema | None, Any], str]] = {
    schema.Type.ARRAY: Writer.array_text,
    schema.Type.MAP: Writer.map_text,
    schema.Type.STRUCT: Writer.struct_text,
}
_SCALARS: Mapping[schema.Type, Callable[[Any], str]] = {
    schema.Type.INT8: str,
    schema.Type.INT16: str,
    schema.Type.INT32: str,
    schema.Type.INT64: str,
    schema.Type.FLOAT32: _float,
    schema.Type.FLOAT64: _double,
    schema.Type.BOOLEAN: _boolean,
    schema.Type.STRING: json_text.quoted,
    schema.Type.BYTES: _base64,
}
