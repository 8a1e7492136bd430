"""Converts Connect data and schemas to JSON text."""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import logical_types, schema, structs
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Field, Schema, SchemaType
from connect_runtime.api.structs import Struct
from connect_runtime.plugins import jackson_json, java_value_formatting
from connect_runtime.plugins.jackson_json import LruCache
from connect_runtime.plugins.schema_expansion_limit import SchemaExpansionLimit

TYPE_NAMES: Mapping[SchemaType, str] = {
    SchemaType.BOOLEAN: "boolean",
    SchemaType.INT8: "int8",
    SchemaType.INT16: "int16",
    SchemaType.INT32: "int32",
    SchemaType.INT64: "int64",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BYTES: "bytes",
    SchemaType.STRING: "string",
    SchemaType.ARRAY: "array",
    SchemaType.MAP: "map",
    SchemaType.STRUCT: "struct",
}
_NULL = "null"
MAX_CACHED_CHARS = 2_000_000
"""Maximum total length of the cached JSON schemas, in characters. The cached schemas need about 15
bytes of memory per character."""


def create_text_cache(limit: int) -> LruCache[Schema, str]:
    """Create a cache of the JSON of at most `limit` schemas. The total length of the JSON is
    limited, too."""
    return LruCache(limit, size_limit=MAX_CACHED_CHARS)


class DecimalFormat(enum.Enum):
    """How decimals are written to JSON (`decimal.format`): as base64 of the unscaled bytes, or as a
    number."""

    BASE64 = "BASE64"
    NUMERIC = "NUMERIC"


@dataclass(slots=True, kw_only=True)
class JsonWriter:
    """Converts Connect values and schemas to JSON text, and caches schemas. Raises `DataError` if a
    value is invalid."""

    decimal_format: DecimalFormat = DecimalFormat.BASE64
    default_for_null: bool = True
    schemas: LruCache[Schema, str] = field(default_factory=lambda: create_text_cache(1000))
    _expansion: SchemaExpansionLimit = field(default_factory=SchemaExpansionLimit)
    """Counts the defaults that replace nulls in the schema or record that is being written."""

    # Schemas

    def format_schema(self, described: Schema | None) -> str:
        """Format a schema as JsonConverter writes it to the envelope, in Java's field order. Only
        complete schemas are cached, not the schemas nested in them."""
        if described is None:
            return _NULL
        known = self.schemas.get(described)
        if known is None:
            self._expansion.start_record()
            known = self._format_uncached_schema(described)
            self.schemas.put(described, known, size=len(known))
        return known

    def _format_uncached_schema(self, described: Schema | None) -> str:
        if described is None:
            return _NULL
        parts = [f'"type":"{TYPE_NAMES[described.type]}"']
        match described.type:
            case SchemaType.ARRAY:
                parts.append(f'"items":{self._format_uncached_schema(described.elements)}')
            case SchemaType.MAP:
                parts.append(f'"keys":{self._format_uncached_schema(described.keys)}')
                parts.append(f'"values":{self._format_uncached_schema(described.elements)}')
            case SchemaType.STRUCT:
                fields = ",".join(self._format_field(each) for each in described.fields)
                parts.append(f'"fields":[{fields}]')
        parts.append(f'"optional":{_write_boolean(described.optional)}')
        if described.name is not None:
            parts.append(f'"name":{jackson_json.quote_text(described.name)}')
        if described.version is not None:
            parts.append(f'"version":{described.version}')
        if described.doc is not None:
            parts.append(f'"doc":{jackson_json.quote_text(described.doc)}')
        if described.parameters is not None:
            parts.append(f'"parameters":{_write_parameters(described.parameters)}')
        if described.default is not None:
            parts.append(f'"default":{self.format_value(described, described.default)}')
        return f"{{{','.join(parts)}}}"

    def _format_field(self, of: Field) -> str:
        name = jackson_json.quote_text(of.name)
        return f'{self._format_uncached_schema(of.schema)[:-1]},"field":{name}}}'

    # Values

    def format_root_value(self, described: Schema | None, value: Any) -> str:
        """Format the value of a record or header."""
        self._expansion.start_record()
        return self.format_value(described, value)

    def format_value(self, described: Schema | None, value: Any) -> str:
        if value is None:
            return self._format_null(described)
        if described is None:
            return self._format_schemaless_value(value)
        convert = _LOGICAL_WRITERS.get(described.name or "")
        if convert is not None:
            return convert(self, described, value)
        if described.type in _CONTAINER_WRITERS:
            return _CONTAINER_WRITERS[described.type](self, described, value)
        structs.validate_value(described, value)
        return _SCALAR_WRITERS[described.type](value)

    def _format_null(self, described: Schema | None) -> str:
        if described is None:
            return _NULL
        if described.default is not None and self.default_for_null:
            self._expansion.add_default_value(described.default)
            return self.format_value(described, described.default)
        if described.optional:
            return _NULL
        raise DataError(
            "Conversion error: null value for field that is required and has no default value"
        )

    def _format_schemaless_value(self, value: Any) -> str:
        of = structs.infer_schema_type(value)
        if of is None:
            raise DataError(
                f"Python class {type(value).__name__} does not have corresponding schema type."
            )
        if of is SchemaType.STRUCT:
            raise DataError("A struct cannot be converted without a schema.")
        if of is SchemaType.INT64 and not -(2**63) <= value < 2**63:
            raise DataError("An integer without a schema must fit in 64 bits.")
        if of in _CONTAINER_WRITERS:
            return _CONTAINER_WRITERS[of](self, None, value)
        return _SCALAR_WRITERS[of](value)

    def format_array(self, described: Schema | None, value: Any) -> str:
        if not isinstance(value, (list, tuple)):
            raise _create_type_mismatch_error(SchemaType.ARRAY, value)
        element = None if described is None else described.elements
        texts: list[str] = []
        for each in value:  # a generator or comprehension would add a level to the stack
            texts.append(self.format_value(element, each))  # noqa: PERF401
        return f"[{','.join(texts)}]"

    def format_map(self, described: Schema | None, value: Any) -> str:
        """Format a map as a JSON object if its keys are strings, otherwise as an array of [key,
        value] pairs."""
        if not isinstance(value, Mapping):
            raise _create_type_mismatch_error(SchemaType.MAP, value)
        keys = None if described is None else described.keys
        values = None if described is None else described.elements
        if keys is None:
            as_object = all(isinstance(key, str) for key in value)
        else:
            as_object = keys.type is SchemaType.STRING
        if not as_object:
            pairs: list[str] = []
            for key, each in value.items():
                pairs.append(f"[{self.format_value(keys, key)},{self.format_value(values, each)}]")
            return f"[{','.join(pairs)}]"
        entries: list[str] = []
        for key, each in value.items():
            entries.append(f"{self._format_map_key(keys, key)}:{self.format_value(values, each)}")
        return f"{{{','.join(entries)}}}"

    def _format_map_key(self, keys: Schema | None, key: Any) -> str:
        """Format a map key as a JSON field name. A null key becomes the field name `"null"`."""
        text = self.format_value(keys, key)
        return text if text.startswith('"') else jackson_json.quote_text(text)

    def format_struct(self, described: Schema | None, value: Any) -> str:
        if not isinstance(value, Struct):
            raise _create_type_mismatch_error(SchemaType.STRUCT, value)
        if described is None or not structs.is_compatible_struct_schema(value.schema, described):
            raise DataError("Mismatching schema.")
        entries = (
            f"{jackson_json.quote_field_name(each.name)}:"
            f"{self.format_value(each.schema, value.get_without_default(each.name))}"
            for each in described.fields
        )
        return f"{{{','.join(entries)}}}"

    def format_decimal(self, described: Schema, value: Any) -> str:
        if not isinstance(value, decimal.Decimal):
            raise _create_type_mismatch_error("Decimal", value)
        stored = (
            logical_types.decimal_from_logical(described, value)
            if self._uses_base64_decimals
            else None
        )
        if stored is not None:
            return _write_base64(stored)
        if not value.is_finite():
            raise DataError("A Decimal value must be finite.")
        return str(value)

    @property
    def _uses_base64_decimals(self) -> bool:
        return self.decimal_format is DecimalFormat.BASE64


def _create_type_mismatch_error(of: SchemaType | str, value: Any) -> DataError:
    return DataError(f"Invalid type for {of}: {type(value).__name__}")


def _write_boolean(value: bool) -> str:
    return "true" if value else "false"


def _write_parameters(parameters: Mapping[str, str]) -> str:
    pairs = (
        f"{jackson_json.quote_text(k)}:{jackson_json.quote_text(v)}" for k, v in parameters.items()
    )
    return f"{{{','.join(pairs)}}}"


def _write_base64(value: bytes | bytearray | memoryview) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _write_float(value: float) -> str:
    return _write_number(java_value_formatting.format_float(value))


def _write_double(value: float) -> str:
    return _write_number(java_value_formatting.format_double(value))


def _write_number(text: str) -> str:
    """Format a number as JSON. Values that JSON numbers cannot express, such as NaN, are quoted."""
    return f'"{text}"' if text[-1] in "Ny" else text


def _write_date(_: JsonWriter, described: Schema, value: Any) -> str:
    if not isinstance(value, datetime.date):
        raise _create_type_mismatch_error("Date", value)
    return str(logical_types.date_from_logical(described, value))


def _write_time(_: JsonWriter, described: Schema, value: Any) -> str:
    if not isinstance(value, datetime.time):
        raise _create_type_mismatch_error("Time", value)
    return str(logical_types.time_from_logical(described, value))


def _write_timestamp(_: JsonWriter, described: Schema, value: Any) -> str:
    if not isinstance(value, datetime.datetime):
        raise _create_type_mismatch_error("Timestamp", value)
    return str(logical_types.timestamp_from_logical(described, value))


_LOGICAL_WRITERS: Mapping[str, Callable[[JsonWriter, Schema, Any], str]] = {
    schema.DECIMAL_NAME: JsonWriter.format_decimal,
    schema.DATE_NAME: _write_date,
    schema.TIME_NAME: _write_time,
    schema.TIMESTAMP_NAME: _write_timestamp,
}
_CONTAINER_WRITERS: Mapping[SchemaType, Callable[[JsonWriter, Schema | None, Any], str]] = {
    SchemaType.ARRAY: JsonWriter.format_array,
    SchemaType.MAP: JsonWriter.format_map,
    SchemaType.STRUCT: JsonWriter.format_struct,
}
_SCALAR_WRITERS: Mapping[SchemaType, Callable[[Any], str]] = {
    SchemaType.INT8: str,
    SchemaType.INT16: str,
    SchemaType.INT32: str,
    SchemaType.INT64: str,
    SchemaType.FLOAT32: _write_float,
    SchemaType.FLOAT64: _write_double,
    SchemaType.BOOLEAN: _write_boolean,
    SchemaType.STRING: jackson_json.quote_text,
    SchemaType.BYTES: _write_base64,
}
