"""Schemas: what a key, a value or a header is made of, as Kafka Connect describes it.

Immutable values; `schema_builder` makes them, `structs` checks values against them. Two schemas
are equal when everything is: type, optional, default, name, version, doc, parameters, fields and
element schemas.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import errors

DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
DATE_NAME = "org.apache.kafka.connect.data.Date"
TIME_NAME = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME = "org.apache.kafka.connect.data.Timestamp"
LOGICAL_NAMES = frozenset({DECIMAL_NAME, DATE_NAME, TIME_NAME, TIMESTAMP_NAME})


class Type(enum.Enum):
    """The value is the name that error texts and Java use.

    Python values: int for INT8 to INT64 (within range, no bool), float, bool, str, bytes,
    list or tuple, mapping, Struct.
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
    def primitive(self) -> bool:
        return self not in (Type.ARRAY, Type.MAP, Type.STRUCT)

    def __str__(self) -> str:
        return self.value


_PLAIN = {Type.STRING: str, Type.BOOLEAN: bool, Type.FLOAT64: float, Type.BYTES: bytes}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct; `index` is its place."""

    name: str
    index: int
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Schema:
    """Use `SchemaBuilder` or the constants below; this only holds what was built.

    `default` is a value in its logical form (a `decimal.Decimal`, not bytes). `struct_fields`,
    `keys` and `elements` are None where the type has none, and where values that were read from
    text have no schema in common: read them through `fields`, `key_schema` and `value_schema`,
    which say so.
    """

    type: Type
    optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    struct_fields: tuple[Field, ...] | None = None
    keys: Schema | None = None
    elements: Schema | None = None
    plain: Any = field(init=False)
    """The class whose every value fits, if there is one: what needs no closer look."""
    _by_name: Mapping[str, Field] = field(init=False)
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        fields = self.struct_fields or ()
        if self.type is Type.STRUCT:
            object.__setattr__(self, "struct_fields", fields)
        plain = None if self.name in LOGICAL_NAMES else _PLAIN.get(self.type)
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "_by_name", {each.name: each for each in fields})
        parameters = None if self.parameters is None else frozenset(self.parameters.items())
        described = (self.type, self.optional, self.name, self.version, self.doc, parameters)
        object.__setattr__(
            self, "_hash", hash((described, self.struct_fields, self.keys, self.elements))
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        """Raises DataError unless this is a STRUCT."""
        if self.struct_fields is None:
            raise errors.DataError(f"Cannot list fields on non-struct type {self.type}")
        return self.struct_fields

    def field(self, name: str) -> Field | None:
        """None if there is none of that name; DataError unless this is a STRUCT."""
        if self.struct_fields is None:
            raise errors.DataError(f"Cannot look up fields on non-struct type {self.type}")
        return self._by_name.get(name)

    @property
    def key_schema(self) -> Schema:
        """Of a MAP's keys; DataError for every other type."""
        if self.type is not Type.MAP:
            raise errors.DataError(f"Cannot look up key schema on non-map type {self.type}")
        if self.keys is None:
            raise errors.DataError("No schema defined for the keys of a map")
        return self.keys

    @property
    def value_schema(self) -> Schema:
        """Of a MAP's values or an ARRAY's elements; DataError for every other type."""
        if self.type not in (Type.MAP, Type.ARRAY):
            raise errors.DataError(
                f"Cannot look up value schema on non-array and non-map type {self.type}"
            )
        if self.elements is None:
            raise errors.DataError(f"No schema defined for the values of type {self.type}")
        return self.elements

    def equal_but_for_default(self, other: Schema) -> bool:
        return self._hash == other._hash and all(
            getattr(self, name) == getattr(other, name) for name in _COMPARED
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return self.equal_but_for_default(other) and self.default == other.default

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Schema{{{self.name}:{self.type}}}" if self.name else f"Schema{{{self.type}}}"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Hashes differ between processes: the other one makes its own."""
        return _unpickled, (self.default, *(getattr(self, name) for name in _COMPARED))


_COMPARED = (
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


def _unpickled(default: Any, *compared: Any) -> Schema:
    return Schema(default=default, **dict(zip(_COMPARED, compared, strict=True)))


@dataclass(frozen=True, slots=True)
class SchemaAndValue:
    """A value with what describes it; without a schema the value speaks for itself."""

    schema: Schema | None
    value: Any


NOTHING = SchemaAndValue(None, None)
"""No schema and no value: a tombstone."""

INT8_SCHEMA = Schema(type=Type.INT8)
INT16_SCHEMA = Schema(type=Type.INT16)
INT32_SCHEMA = Schema(type=Type.INT32)
INT64_SCHEMA = Schema(type=Type.INT64)
FLOAT32_SCHEMA = Schema(type=Type.FLOAT32)
FLOAT64_SCHEMA = Schema(type=Type.FLOAT64)
BOOLEAN_SCHEMA = Schema(type=Type.BOOLEAN)
STRING_SCHEMA = Schema(type=Type.STRING)
BYTES_SCHEMA = Schema(type=Type.BYTES)

OPTIONAL_INT8_SCHEMA = Schema(type=Type.INT8, optional=True)
OPTIONAL_INT16_SCHEMA = Schema(type=Type.INT16, optional=True)
OPTIONAL_INT32_SCHEMA = Schema(type=Type.INT32, optional=True)
OPTIONAL_INT64_SCHEMA = Schema(type=Type.INT64, optional=True)
OPTIONAL_FLOAT32_SCHEMA = Schema(type=Type.FLOAT32, optional=True)
OPTIONAL_FLOAT64_SCHEMA = Schema(type=Type.FLOAT64, optional=True)
OPTIONAL_BOOLEAN_SCHEMA = Schema(type=Type.BOOLEAN, optional=True)
OPTIONAL_STRING_SCHEMA = Schema(type=Type.STRING, optional=True)
OPTIONAL_BYTES_SCHEMA = Schema(type=Type.BYTES, optional=True)
