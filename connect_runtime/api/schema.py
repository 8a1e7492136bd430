"""Schemas that describe a key, value or header, as in Kafka Connect.

Schemas are immutable. `schema_builder` builds schemas; `structs` validates values against schemas.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api.errors import DataError

DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
DATE_NAME = "org.apache.kafka.connect.data.Date"
TIME_NAME = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME = "org.apache.kafka.connect.data.Timestamp"
LOGICAL_NAMES = frozenset({DECIMAL_NAME, DATE_NAME, TIME_NAME, TIMESTAMP_NAME})


class SchemaType(enum.Enum):
    """Type of a schema. Each member's value is Java's name of the type.

    Python values: int for INT8 to INT64 (within range, not bool), float, bool, str, bytes, list or
    tuple, mapping, Struct.
    """

    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT32 = "FLOAT32"
    FLOAT64 = "FLOAT64"
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    BYTES = "BYTES"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"

    @property
    def is_primitive(self) -> bool:
        return self not in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)

    def __str__(self) -> str:
        return self.value


_PLAIN_CLASSES = {
    SchemaType.STRING: str,
    SchemaType.BOOLEAN: bool,
    SchemaType.FLOAT64: float,
    SchemaType.BYTES: bytes,
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct schema."""

    name: str
    index: int
    """Position of the field in the struct."""
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False, weakref_slot=True)
class Schema:
    """An immutable schema. Create it with `SchemaBuilder`, or use the constants of this module.

    Two schemas are equal if all properties and all nested schemas are equal. `fields`, `key_schema`
    and `value_schema` return nested schemas, or raise DataError. The attributes `struct_fields`,
    `keys` and `elements` are None if they do not apply to the schema's type. A header converter may
    parse a string into a map or array with keys or values of different types; `keys` and `elements`
    may be None in that case.
    """

    type: SchemaType
    optional: bool = False
    default: Any = None
    """Default value in logical form, for example a `decimal.Decimal` instead of bytes."""
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    struct_fields: tuple[Field, ...] | None = None
    keys: Schema | None = None
    elements: Schema | None = None
    python_class: Any = field(init=False)
    """Python class whose instances are all valid for the schema without further validation; None if
    there is no such class."""
    _by_name: Mapping[str, Field] = field(init=False)
    _hash: int = field(init=False)
    _last_equal: weakref.ref[Schema] | None = field(init=False)
    """Cache of the schema that was last found equal to this one. Without the cache, comparing two
    schemas would take exponential time if their defaults are structs whose nested schemas have
    defaults too."""
    _last_equal_ignoring_default: weakref.ref[Schema] | None = field(init=False)
    """Cache of the schema that was last found equal to this one, ignoring the default. Without the
    cache, all parameters of the schema would be compared each time the default of a struct is
    written."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_last_equal", None)
        object.__setattr__(self, "_last_equal_ignoring_default", None)
        fields = self.struct_fields or ()
        if self.type is SchemaType.STRUCT:
            object.__setattr__(self, "struct_fields", fields)
        plain = None if self.name in LOGICAL_NAMES else _PLAIN_CLASSES.get(self.type)
        object.__setattr__(self, "python_class", plain)
        object.__setattr__(self, "_by_name", {each.name: each for each in fields})
        parameters = None if self.parameters is None else frozenset(self.parameters.items())
        described = (self.type, self.optional, self.name, self.version, self.doc, parameters)
        object.__setattr__(
            self, "_hash", hash((described, self.struct_fields, self.keys, self.elements))
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields of a STRUCT. Raises DataError for any other type."""
        if self.struct_fields is None:
            raise DataError(f"Cannot list fields on non-struct type {self.type}")
        return self.struct_fields

    def field(self, name: str) -> Field | None:
        """Return the field with this name; None if it does not exist. Raises DataError if the
        schema is not a STRUCT."""
        if self.struct_fields is None:
            raise DataError(f"Cannot look up fields on non-struct type {self.type}")
        return self._by_name.get(name)

    @property
    def key_schema(self) -> Schema:
        """Return the key schema of a MAP. Raises DataError for any other type."""
        if self.type is not SchemaType.MAP:
            raise DataError(f"Cannot look up key schema on non-map type {self.type}")
        if self.keys is None:
            raise DataError("No schema defined for the keys of a map")
        return self.keys

    @property
    def value_schema(self) -> Schema:
        """Return the schema of a MAP's values or an ARRAY's elements. Raises DataError for any
        other type."""
        if self.type not in (SchemaType.MAP, SchemaType.ARRAY):
            raise DataError(
                f"Cannot look up value schema on non-array and non-map type {self.type}"
            )
        if self.elements is None:
            raise DataError(f"No schema defined for the values of type {self.type}")
        return self.elements

    def equals_ignoring_default(self, other: Schema) -> bool:
        known = self._last_equal_ignoring_default
        if known is not None and known() is other:
            return True
        if self._hash != other._hash or not all(
            getattr(self, name) == getattr(other, name) for name in _COMPARED_FIELDS
        ):
            return False
        object.__setattr__(self, "_last_equal_ignoring_default", weakref.ref(other))
        return True

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        if self._was_found_equal_to(other) or other._was_found_equal_to(self):
            return True
        if not (self.equals_ignoring_default(other) and self.default == other.default):
            return False
        object.__setattr__(self, "_last_equal", weakref.ref(other))
        object.__setattr__(other, "_last_equal", weakref.ref(self))
        return True

    def _was_found_equal_to(self, other: Schema) -> bool:
        return self._last_equal is not None and self._last_equal() is other

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Schema{{{self.name}:{self.type}}}" if self.name else f"Schema{{{self.type}}}"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickle the schema without its hash, because hashes differ between processes."""
        return _restore_schema, (self.default, *(getattr(self, name) for name in _COMPARED_FIELDS))


_COMPARED_FIELDS = (
    "type",
    "optional",
    "name",
    "version",
    "doc",
    "parameters",
    "struct_fields",
    "keys",
    "elements",
)


def _restore_schema(default: Any, *compared: Any) -> Schema:
    return Schema(default=default, **dict(zip(_COMPARED_FIELDS, compared, strict=True)))


@dataclass(frozen=True, slots=True)
class SchemaAndValue:
    """A value with its schema. Without a schema the value is schemaless data."""

    schema: Schema | None
    value: Any


NULL_SCHEMA_AND_VALUE = SchemaAndValue(None, None)
"""Null without a schema, which represents a tombstone."""

INT8_SCHEMA = Schema(type=SchemaType.INT8)
INT16_SCHEMA = Schema(type=SchemaType.INT16)
INT32_SCHEMA = Schema(type=SchemaType.INT32)
INT64_SCHEMA = Schema(type=SchemaType.INT64)
FLOAT32_SCHEMA = Schema(type=SchemaType.FLOAT32)
FLOAT64_SCHEMA = Schema(type=SchemaType.FLOAT64)
BOOLEAN_SCHEMA = Schema(type=SchemaType.BOOLEAN)
STRING_SCHEMA = Schema(type=SchemaType.STRING)
BYTES_SCHEMA = Schema(type=SchemaType.BYTES)

OPTIONAL_INT8_SCHEMA = Schema(type=SchemaType.INT8, optional=True)
OPTIONAL_INT16_SCHEMA = Schema(type=SchemaType.INT16, optional=True)
OPTIONAL_INT32_SCHEMA = Schema(type=SchemaType.INT32, optional=True)
OPTIONAL_INT64_SCHEMA = Schema(type=SchemaType.INT64, optional=True)
OPTIONAL_FLOAT32_SCHEMA = Schema(type=SchemaType.FLOAT32, optional=True)
OPTIONAL_FLOAT64_SCHEMA = Schema(type=SchemaType.FLOAT64, optional=True)
OPTIONAL_BOOLEAN_SCHEMA = Schema(type=SchemaType.BOOLEAN, optional=True)
OPTIONAL_STRING_SCHEMA = Schema(type=SchemaType.STRING, optional=True)
OPTIONAL_BYTES_SCHEMA = Schema(type=SchemaType.BYTES, optional=True)
