"""Connect's data and schemas from JSON nodes.

As Java's JsonConverter, but for data that does not fit its schema: there Java makes something up
(0 for a text, the lowest byte of a number), here it is a DataError.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import errors, logical, schema, schema_builder, structs
from connect_runtime.builtin import java_text
from connect_runtime.builtin.converters import json_text, json_write, lru

_TYPES = {name: of for of, name in json_write.TYPE_NAMES.items()}
_BITS = {
    schema.Type.INT8: 8,
    schema.Type.INT16: 16,
    schema.Type.INT32: 32,
    schema.Type.INT64: 64,
}
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DIGITS_MAX = 20


@dataclass(slots=True, kw_only=True)
class Reader:
    """Values and schemas from nodes; it remembers schemas. Raises DataError."""

    default_for_null: bool = True
    schemas: lru.Lru[str, schema.Schema] = field(default_factory=lambda: lru.Lru(1000))

    # Schemas

    def schema_of(self, node: json_text.Node) -> schema.Schema | None:
        if node is None:
            return None
        key = repr(node)
        known = self.schemas.get(key)
        if known is None:
            known = self._schema_of(node)
            self.schemas.put(key, known)
        return known

    def _schema_of(self, node: json_text.Node) -> schema.Schema:
        name = node.get("type") if isinstance(node, dict) else None
        if not isinstance(name, str):
            raise errors.DataError("Schema must contain 'type' field")
        if name not in _TYPES:
            raise errors.DataError(f"Unknown schema type: {name}")
        builder = self._builder(_TYPES[name], node)
        _describe(builder, node)
        if "default" in node:
            # A default is read by the schema that it is going to be the default of.
            default = self.value(builder.build(), node["default"])
            builder.default(default)
        return builder.build()

    def _builder(self, of: schema.Type, node: Mapping[str, Any]) -> schema_builder.SchemaBuilder:
        match of:
            case schema.Type.ARRAY:
                items = self._element(node, "items", "Array schema did not specify the element")
                return schema_builder.SchemaBuilder.array(items)
            case schema.Type.MAP:
                keys = self._element(node, "keys", "Map schema did not specify the key")
                values = self._element(node, "values", "Map schema did not specify the value")
                return schema_builder.SchemaBuilder.map(keys, values)
            case schema.Type.STRUCT:
                return self._struct_builder(node.get("fields"))
        return schema_builder.SchemaBuilder(of)

    def _element(self, node: Mapping[str, Any], name: str, complaint: str) -> schema.Schema:
        found = self.schema_of(node.get(name))
        if found is None:
            raise errors.DataError(f"{complaint} type")
        return found

    def _struct_builder(self, fields: Any) -> schema_builder.SchemaBuilder:
        if not isinstance(fields, list):
            raise errors.DataError('Struct schema\'s "fields" argument is not an array.')
        builder = schema_builder.SchemaBuilder.struct()
        for each in fields:
            name = each.get("field") if isinstance(each, dict) else None
            if not isinstance(name, str):
                raise errors.DataError("Struct schema's field name not specified properly")
            described = self.schema_of(each)
            assert described is not None, "a dict is a schema or an error"
            builder.field(name, described)
        return builder

    # Values

    def value(self, described: schema.Schema | None, node: json_text.Node) -> Any:
        if described is None:
            return self._schemaless(node)
        if node is None:
            if described.default is not None and self.default_for_null:
                return described.default
            if described.optional:
                return None
            raise errors.DataError(f"Invalid null value for required {described.type} field")
        convert = _LOGICAL.get(described.name or "")
        if convert is not None:
            return convert(described, node)
        match described.type:
            case schema.Type.ARRAY:
                _expect(node, list, described.type)
                return [self.value(described.value_schema, each) for each in node]
            case schema.Type.MAP:
                return self._map(described, node)
            case schema.Type.STRUCT:
                return self._struct(described, node)
        return _scalar(described.type, node)

    def _schemaless(self, node: json_text.Node) -> Any:
        """Whole numbers are INT64, others FLOAT64."""
        if isinstance(node, list):
            return [self._schemaless(each) for each in node]
        if isinstance(node, dict):
            return {name: self._schemaless(each) for name, each in node.items()}
        if isinstance(node, decimal.Decimal):
            return float(node)
        if isinstance(node, int) and not isinstance(node, bool):
            return _whole(schema.Type.INT64, node)
        return node

    def _map(self, described: schema.Schema, node: json_text.Node) -> dict[Any, Any]:
        values = described.value_schema
        if described.key_schema.type is schema.Type.STRING:
            if not isinstance(node, dict):
                raise errors.DataError(
                    "Maps with string fields should be encoded as JSON objects, "
                    f"but found {_kind(node)}"
                )
            return {name: self.value(values, each) for name, each in node.items()}
        if not isinstance(node, list):
            raise errors.DataError(
                "Maps with non-string fields should be encoded as JSON array of tuples, "
                f"but found {_kind(node)}"
            )
        found: dict[Any, Any] = {}
        for entry in node:
            if not isinstance(entry, list):
                raise errors.DataError(
                    f"Found invalid map entry instead of array tuple: {_kind(entry)}"
                )
            if len(entry) != 2:
                raise errors.DataError(
                    f"Found invalid map entry, expected length 2 but found :{len(entry)}"
                )
            found[_as_key(self.value(described.key_schema, entry[0]))] = self.value(
                values, entry[1]
            )
        return found

    def _struct(self, described: schema.Schema, node: json_text.Node) -> structs.Struct:
        if not isinstance(node, dict):
            raise errors.DataError(
                f"Structs should be encoded as JSON objects, but found {_kind(node)}"
            )
        struct = structs.Struct(described)
        for each in described.fields:
            struct.put(each.name, self.value(each.schema, node.get(each.name)))
        return struct


def _describe(builder: schema_builder.SchemaBuilder, node: Mapping[str, Any]) -> None:
    """What has the wrong JSON type is passed over, as in Java; only parameters must be text."""
    if node.get("optional") is True:
        builder.optional()
    else:
        builder.required()
    if isinstance(node.get("name"), str):
        builder.name(node["name"])
    version = node.get("version")
    if isinstance(version, int) and not isinstance(version, bool):
        builder.version(version)
    if isinstance(node.get("doc"), str):
        builder.doc(node["doc"])
    parameters = node.get("parameters")
    if isinstance(parameters, dict):
        if not all(isinstance(each, str) for each in parameters.values()):
            raise errors.DataError("Schema parameters must have string values.")
        builder.parameters(parameters)


def _scalar(of: schema.Type, node: json_text.Node) -> Any:
    if of in _BITS:
        return _whole(of, node)
    match of:
        case schema.Type.FLOAT32 | schema.Type.FLOAT64:
            return _float(of, node)
        case schema.Type.BOOLEAN:
            _expect(node, bool, of)
        case schema.Type.STRING:
            _expect(node, str, of)
        case schema.Type.BYTES:
            return _bytes(of, node)
    return node


def _whole(of: schema.Type, node: json_text.Node) -> int:
    """A number like 12.0 or 1e2 is whole as well."""
    if isinstance(node, decimal.Decimal) and node.is_finite() and node.adjusted() < _DIGITS_MAX:
        whole = node.to_integral_value()
        node = int(whole) if whole == node else node
    if not isinstance(node, int) or isinstance(node, bool):
        raise _unfit(of, node)
    bits = _BITS[of]
    if not -(1 << bits - 1) <= node < 1 << bits - 1:
        raise errors.DataError(f"Invalid value for {of} field: it does not fit in {bits} bits")
    return node


def _float(of: schema.Type, node: json_text.Node) -> float:
    if isinstance(node, str) and node in _SPECIAL:
        return _SPECIAL[node]
    if not isinstance(node, (int, decimal.Decimal)) or isinstance(node, bool):
        raise _unfit(of, node)
    try:
        value = float(node)
    except OverflowError:
        return math.inf if node > 0 else -math.inf
    return java_text.narrowed(value) if of is schema.Type.FLOAT32 else value


def _bytes(of: schema.Type | str, node: json_text.Node) -> bytes:
    if not isinstance(node, str):
        raise _unfit(of, node)
    try:
        return base64.b64decode(node, validate=True)
    except (binascii.Error, ValueError) as error:
        raise errors.DataError(f"Invalid bytes for {of} field: they are not base64") from error


def _expect(node: json_text.Node, kind: type, of: schema.Type) -> None:
    if not isinstance(node, kind):
        raise _unfit(of, node)


def _unfit(of: schema.Type | str, node: json_text.Node) -> errors.DataError:
    return errors.DataError(f"Invalid value for {of} field: found {_kind(node)}")


def _kind(node: json_text.Node) -> str:
    """The name that Jackson has for the kind of node."""
    if node is None:
        return "NULL"
    for kind, name in ((bool, "BOOLEAN"), (str, "STRING"), (list, "ARRAY"), (dict, "OBJECT")):
        if isinstance(node, kind):
            return name
    return "NUMBER"


def _as_key(value: Any) -> Any:
    """Lists cannot be keys of a Python dict, tuples can."""
    if isinstance(value, list):
        return tuple(_as_key(each) for each in value)
    if isinstance(value, dict):
        raise errors.DataError("A map cannot be the key of a map.")
    return value


def _decimal(described: schema.Schema, node: json_text.Node) -> decimal.Decimal:
    """Whatever `decimal.format` says: a number as it stands, or bytes."""
    if isinstance(node, (int, decimal.Decimal)) and not isinstance(node, bool):
        return decimal.Decimal(node)
    if not isinstance(node, str):
        raise errors.DataError(
            "Invalid type for Decimal, underlying representation should be numeric or bytes but "
            f"was {_kind(node)}"
        )
    return logical.decimal_to_logical(described, _bytes("Decimal", node))


def _integral(of: str, node: json_text.Node, bits: int) -> int:
    whole = isinstance(node, int) and not isinstance(node, bool)
    if not whole or not -(1 << bits - 1) <= node < 1 << bits - 1:
        raise errors.DataError(
            f"Invalid type for {of}, underlying representation should be integer but was "
            f"{_kind(node)}"
        )
    return int(node)


def _date(described: schema.Schema, node: json_text.Node) -> Any:
    return logical.date_to_logical(described, _integral("Date", node, 32))


def _time(described: schema.Schema, node: json_text.Node) -> Any:
    return logical.time_to_logical(described, _integral("Time", node, 32))


def _timestamp(described: schema.Schema, node: json_text.Node) -> Any:
    return logical.timestamp_to_logical(described, _integral("Timestamp", node, 64))


_LOGICAL: Mapping[str, Callable[[schema.Schema, json_text.Node], Any]] = {
    schema.DECIMAL_NAME: _decimal,
    schema.DATE_NAME: _date,
    schema.TIME_NAME: _time,
    schema.TIMESTAMP_NAME: _timestamp,
}
