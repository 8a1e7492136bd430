"""Struct, and validation of values against schemas (Java's Struct and ConnectSchema).

Validation checks the Python class and the range of integers. For logical types it checks the
classes that `logical_types` converts: Decimal, date, time and datetime. Error messages contain
class and field names, but never values, which may be secret.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping
from typing import Any

from connect_runtime.api import schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Field, Schema, SchemaType

_INT_BITS = {
    SchemaType.INT8: 8,
    SchemaType.INT16: 16,
    SchemaType.INT32: 32,
    SchemaType.INT64: 64,
}
_CLASSES: Mapping[SchemaType, tuple[type, ...]] = {
    SchemaType.INT8: (int,),
    SchemaType.INT16: (int,),
    SchemaType.INT32: (int,),
    SchemaType.INT64: (int,),
    SchemaType.FLOAT32: (float,),
    SchemaType.FLOAT64: (float,),
    SchemaType.BOOLEAN: (bool,),
    SchemaType.STRING: (str,),
    SchemaType.BYTES: (bytes, bytearray, memoryview),
    SchemaType.ARRAY: (list, tuple),
    SchemaType.MAP: (Mapping,),
}
_LOGICAL_CLASSES: Mapping[str, tuple[type, ...]] = {
    schema.DECIMAL_NAME: (decimal.Decimal,),
    schema.DATE_NAME: (datetime.date,),
    schema.TIME_NAME: (datetime.time,),
    schema.TIMESTAMP_NAME: (datetime.datetime,),
}
_FLOAT32_OVERFLOW = (2.0 - 2.0**-24) * 2.0**127
"""The smallest value that rounds to infinity when converted to a 32-bit float."""


class Struct:
    """Field values of a STRUCT schema.

    An unset field is null; `get` and `[]` return the field's default instead. A value is validated
    when it is set. `validate` detects required fields that are not set. Structs are equal if their
    schemas and values are equal.
    """

    __slots__ = ("_values", "schema")

    def __init__(self, described: Schema, values: Mapping[str, Any] | None = None) -> None:
        """Create a struct with the given values. Raises DataError if the schema is not a STRUCT or
        a value is invalid."""
        if described.type is not SchemaType.STRUCT:
            raise DataError(f"Not a struct schema: {described!r}")
        self.schema = described
        self._values: list[Any] = [None] * len(described.fields)
        for name, value in (values or {}).items():
            self.put(name, value)

    @classmethod
    def from_valid_values(cls, described: Schema, values: list[Any]) -> Struct:
        """Create a struct from one value per field, in order. The values must be valid.

        They are not validated again, because that would repeat the validation of nested structs at
        every level.
        """
        struct = cls(described)
        struct._values = values
        return struct

    def put(self, name: str, value: Any) -> Struct:
        """Set a field's value and return this struct.

        Raises DataError if the field is unknown or the value is invalid.
        """
        found = self._find_field(name)
        validate_value(found.schema, value, field=name)
        self._values[found.index] = value
        return self

    def get(self, name: str) -> Any:
        """Return the field's value, or its default if the field is not set.

        Raises DataError if the field is unknown.
        """
        found = self._find_field(name)
        value = self._values[found.index]
        return found.schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        return self._values[self._find_field(name).index]

    def get_typed(self, name: str, expected: SchemaType) -> Any:
        """Return the field's value. Raises DataError if the field does not have the expected
        type."""
        found = self._find_field(name)
        if found.schema.type is not expected:
            raise DataError(f"Field '{name}' is not of type {expected}")
        return self._values[found.index]

    def validate(self) -> None:
        """Raise DataError for the first field whose value is invalid, or that is required but
        not set."""
        for each in self.schema.fields:
            value = self._values[each.index]
            if value is None and (each.schema.optional or each.schema.default is not None):
                continue
            validate_value(each.schema, value, field=each.name)

    def _find_field(self, name: str) -> Field:
        found = self.schema.field(name)
        if found is None:
            raise DataError(f"{name} is not a valid field name")
        return found

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.put(name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self.schema == other.schema and self._values == other._values

    def __hash__(self) -> int:
        """Hash the struct so that it can be used as a map key. Do not modify a struct while it is a
        map key."""
        return hash((self.schema, *(_to_hashable(value) for value in self._values)))

    def __repr__(self) -> str:
        pairs = zip(self.schema.fields, self._values, strict=True)
        shown = ",".join(f"{each.name}={value}" for each, value in pairs if value is not None)
        return f"Struct{{{shown}}}"


def _to_hashable(value: Any) -> object:
    if isinstance(value, (list, tuple)):
        return tuple(_to_hashable(each) for each in value)
    if isinstance(value, Mapping):
        return frozenset((_to_hashable(key), _to_hashable(each)) for key, each in value.items())
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def infer_schema_type(value: Any) -> SchemaType | None:
    """Infer the schema type of schemaless data; None if Connect has no type for the value."""
    if isinstance(value, Struct):
        return SchemaType.STRUCT
    if isinstance(value, bool):
        return SchemaType.BOOLEAN
    if isinstance(value, int):
        return SchemaType.INT64
    if isinstance(value, float):
        return SchemaType.FLOAT64
    for each in (SchemaType.STRING, SchemaType.BYTES, SchemaType.ARRAY, SchemaType.MAP):
        if isinstance(value, _CLASSES[each]):
            return each
    return None


def validate_value(described: Schema, value: Any, *, field: str | None = None) -> None:
    """Raise DataError if the value, or anything nested in it, is not valid for the schema."""
    _validate_nested_value(
        described, value, ("value",) if field is None else ('field: "', field, '"')
    )


def _validate_nested_value(described: Schema, value: Any, where: tuple[str, ...]) -> None:
    """Raise DataError if a value is not valid for its schema. `where` is the value's location, as
    string parts for the error message.

    The parts are joined only if an error is raised, because joining them for each element is slow.
    """
    if type(value) is described.python_class:
        return
    if value is None:
        if not described.optional:
            raise DataError(
                f"Invalid value: null used for required {''.join(where)}, "
                f"schema type: {described.type}"
            )
        return
    if not is_value_class_valid(described, value):
        name = "" if described.name is None else f' "{described.name}"'
        raise DataError(
            f"Invalid Python object for schema{name} with type {described.type}: "
            f"{type(value).__name__} for {''.join(where)}"
        )
    reason = _describe_range_error(described, value)
    if reason is not None:
        raise DataError(
            f"Invalid value for schema type {described.type}: {reason}, {''.join(where)}"
        )
    if described.name not in _LOGICAL_CLASSES:
        _validate_elements(described, value, where)


def is_value_class_valid(described: Schema, value: Any) -> bool:
    """Return True if the value's class is valid for the schema. Nested values are not checked."""
    logical = _LOGICAL_CLASSES.get(described.name or "")
    if logical is not None:
        # A datetime is a subclass of date, but as a Date it would lose its time of day.
        too_much = described.name == schema.DATE_NAME and isinstance(value, datetime.datetime)
        return isinstance(value, logical) and not too_much
    if described.type is SchemaType.STRUCT:
        return isinstance(value, Struct)
    if isinstance(value, bool):
        return described.type is SchemaType.BOOLEAN
    return isinstance(value, _CLASSES[described.type])


def _describe_range_error(described: Schema, value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        bits = _INT_BITS[described.type]
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            return f"an int that does not fit in {bits} bits"
    elif isinstance(value, float) and described.type is SchemaType.FLOAT32:
        if math.isfinite(value) and abs(value) >= _FLOAT32_OVERFLOW:
            return "a float that does not fit in 32 bits"
    elif isinstance(value, decimal.Decimal):
        return None if value.is_finite() else "a Decimal that is NaN or infinite"
    elif isinstance(value, datetime.datetime):
        return None if value.tzinfo is not None else "a datetime without a time zone"
    elif isinstance(value, datetime.time):
        return None if value.tzinfo is None else "a time with a time zone (times are UTC)"
    return None


def _validate_elements(described: Schema, value: Any, where: tuple[str, ...]) -> None:
    match described.type:
        case SchemaType.STRUCT:
            if not is_compatible_struct_schema(value.schema, described):
                raise DataError(f"Struct schemas do not match, {''.join(where)}")
            value.validate()
        case SchemaType.ARRAY:
            for each in value:
                _validate_nested_value(described.value_schema, each, ("element of array ", *where))
        case SchemaType.MAP:
            for key, each in value.items():
                _validate_nested_value(described.key_schema, key, ("key of map ", *where))
                _validate_nested_value(described.value_schema, each, ("value of map ", *where))


def is_compatible_struct_schema(of_value: Schema, described: Schema) -> bool:
    """Return True if a struct with schema `of_value` is a valid value for schema `described`.

    This is the case if the schemas are equal. It is also the case if `of_value` is the schema of
    the default struct of `described`, and the two schemas differ only in their default.
    """
    if of_value == described:
        return True
    default = described.default
    is_default = isinstance(default, Struct) and of_value == default.schema
    return is_default and of_value.equals_ignoring_default(described)
