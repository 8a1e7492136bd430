"""Converts JSON to Connect data and schemas.

Follows Java's JsonConverter, except for data that does not match its schema: Java converts such
data to an arbitrary value (0 for a string, the lowest byte of a number), whereas this module raises
`DataError`.
"""

from __future__ import annotations

import base64
import binascii
import collections
import decimal
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import logical_types, schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Schema, SchemaType
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct
from connect_runtime.plugins import connect_data_to_json, java_value_formatting
from connect_runtime.plugins.jackson_json import JsonNode, LruCache
from connect_runtime.plugins.schema_expansion_limit import SchemaExpansionLimit

_TYPES_BY_NAME = {name: of for of, name in connect_data_to_json.TYPE_NAMES.items()}
_INTEGER_BITS = {
    SchemaType.INT8: 8,
    SchemaType.INT16: 16,
    SchemaType.INT32: 32,
    SchemaType.INT64: 64,
}
_SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_MAX_INTEGER_DIGITS = 20
_MAX_SCHEMA_DEPTH = 50
_MAX_NESTING = 200
"""Maximum nesting of arrays and objects without a schema. All converters and
`java_value_formatting` can write values of this depth. Each level takes up to three levels of
Python's stack."""
_MAX_EQUAL_HASHES = 100
"""Maximum number of map keys with the same hash. Inserting many of them takes quadratic time, and
unlike strings, numbers can be chosen so that their hashes are equal."""
_MAX_NON_STRING_KEYS = 5_000
"""Maximum number of entries of a map whose keys are not strings. Numbers can also be chosen so that
a dict probes many of the same hash table slots for each of them. This takes quadratic time: less
than 50 ms for this many keys."""


def create_schema_cache(limit: int) -> LruCache[str, Schema]:
    """Create a cache of at most `limit` schemas. The key of a schema is its JSON; the total length
    of the keys is limited, too."""
    return LruCache(limit, size_limit=connect_data_to_json.MAX_CACHED_CHARS)


@dataclass(slots=True, kw_only=True)
class JsonReader:
    """Converts JSON nodes to Connect values and schemas, and caches schemas. Raises `DataError` if
    a node is invalid."""

    default_for_null: bool = True
    schemas: LruCache[str, Schema] = field(default_factory=lambda: create_schema_cache(1000))
    _expansion: SchemaExpansionLimit = field(default_factory=SchemaExpansionLimit)
    """Limits the data that a schema adds to the current record (default values, names of absent
    fields), or to the defaults of the current schema."""

    # Schemas

    def parse_schema(self, node: JsonNode) -> Schema | None:
        """Parse a schema; None for a null node. Only complete schemas are cached, not the schemas
        nested in them."""
        if node is None:
            return None
        self._expansion.start_record()
        key = repr(node)
        known = self.schemas.get(key)
        if known is None:
            known = self._parse_required_schema(node, depth=1)
            self.schemas.put(key, known, size=len(key) + self._expansion.values)
        return known

    def _parse_required_schema(self, node: JsonNode, *, depth: int) -> Schema:
        if depth > _MAX_SCHEMA_DEPTH:
            raise DataError(f"The schema is nested more than {_MAX_SCHEMA_DEPTH} levels deep")
        name = node.get("type") if isinstance(node, dict) else None
        if not isinstance(name, str):
            raise DataError("Schema must contain 'type' field")
        if name not in _TYPES_BY_NAME:
            raise DataError(f"Unknown schema type: {name[:100]}")
        builder = self._create_schema_builder(_TYPES_BY_NAME[name], node, depth + 1)
        _read_schema_properties(builder, node)
        if "default" in node:
            # The default value is parsed with the schema that it belongs to.
            default = self.parse_value(builder.build(), node["default"])
            builder.default(default)
        return builder.build()

    def _create_schema_builder(
        self, of: SchemaType, node: Mapping[str, Any], depth: int
    ) -> SchemaBuilder:
        match of:
            case SchemaType.ARRAY:
                items = self._parse_nested_schema(
                    node, "items", "Array schema did not specify the element", depth
                )
                return SchemaBuilder.array(items)
            case SchemaType.MAP:
                keys = self._parse_nested_schema(
                    node, "keys", "Map schema did not specify the key", depth
                )
                values = self._parse_nested_schema(
                    node, "values", "Map schema did not specify the value", depth
                )
                return SchemaBuilder.map(keys, values)
            case SchemaType.STRUCT:
                return self._create_struct_builder(node.get("fields"), depth)
        return SchemaBuilder(of)

    def _parse_nested_schema(
        self, node: Mapping[str, Any], name: str, complaint: str, depth: int
    ) -> Schema:
        found = node.get(name)
        if found is None:
            raise DataError(f"{complaint} type")
        return self._parse_required_schema(found, depth=depth)

    def _create_struct_builder(self, fields: Any, depth: int) -> SchemaBuilder:
        if not isinstance(fields, list):
            raise DataError('Struct schema\'s "fields" argument is not an array.')
        builder = SchemaBuilder.struct()
        for each in fields:
            name = each.get("field") if isinstance(each, dict) else None
            if not isinstance(name, str):
                raise DataError("Struct schema's field name not specified properly")
            builder.field(name, self._parse_required_schema(each, depth=depth))
        return builder

    # Values

    def parse_root_value(
        self, described: Schema | None, node: JsonNode, *, record_bytes: int = 0
    ) -> Any:
        """Parse the value of a record or header. The larger the record, the more data its schema
        may add (`SchemaExpansionLimit`). Without a schema, the JSON node itself is modified and
        returned."""
        self._expansion.start_record(record_bytes)
        return self.parse_value(described, node)

    def parse_value(self, described: Schema | None, node: JsonNode) -> Any:
        if described is None:
            return _convert_schemaless_value(node)
        if node is None:
            if described.default is not None and self.default_for_null:
                self._expansion.add_default_value(described.default)
                return described.default
            if described.optional:
                return None
            raise DataError(f"Invalid null value for required {described.type} field")
        convert = _LOGICAL_READERS.get(described.name or "")
        if convert is not None:
            return convert(described, node)
        match described.type:
            case SchemaType.ARRAY:
                _check_node_class(node, list, described.type)
                return [self.parse_value(described.value_schema, each) for each in node]
            case SchemaType.MAP:
                return self._convert_map(described, node)
            case SchemaType.STRUCT:
                return self._convert_struct(described, node)
        return _read_scalar(described.type, node)

    def _convert_map(self, described: Schema, node: JsonNode) -> dict[Any, Any]:
        values = described.value_schema
        if described.key_schema.type is SchemaType.STRING:
            if not isinstance(node, dict):
                raise DataError(
                    "Maps with string fields should be encoded as JSON objects, "
                    f"but found {_get_jackson_node_type(node)}"
                )
            return {name: self.parse_value(values, each) for name, each in node.items()}
        if not isinstance(node, list):
            raise DataError(
                "Maps with non-string fields should be encoded as JSON array of tuples, "
                f"but found {_get_jackson_node_type(node)}"
            )
        if len(node) > _MAX_NON_STRING_KEYS:
            raise DataError(
                f"A map has {len(node):,} entries, but a map whose keys are not strings may have at"
                f" most {_MAX_NON_STRING_KEYS:,}: use strings as keys, or an array of structs"
            )
        found: dict[Any, Any] = {}
        equal: collections.Counter[str] = collections.Counter()  # Python salts hashes of strings
        for entry in node:
            if not isinstance(entry, list):
                raise DataError(
                    "Found invalid map entry instead of array tuple: "
                    f"{_get_jackson_node_type(entry)}"
                )
            if len(entry) != 2:
                raise DataError(
                    f"Found invalid map entry, expected length 2 but found :{len(entry)}"
                )
            key = _convert_to_map_key(self.parse_value(described.key_schema, entry[0]))
            known = len(found)
            found[key] = self.parse_value(values, entry[1])
            if type(key) is not int and len(found) > known:  # of 64-bit integers, 8 are equal
                hashed = str(hash(key))
                equal[hashed] += 1
                if equal[hashed] > _MAX_EQUAL_HASHES:
                    raise DataError(
                        f"More than {_MAX_EQUAL_HASHES} keys of a map have the same hash in Python:"
                        " use strings as keys"
                    )
        return found

    def _convert_struct(self, described: Schema, node: JsonNode) -> Struct:
        if not isinstance(node, dict):
            raise DataError(
                "Structs should be encoded as JSON objects, but found "
                f"{_get_jackson_node_type(node)}"
            )
        values = []
        for each in described.fields:
            if each.name not in node:
                self._expansion.add_absent_field(each.name)
            values.append(self.parse_value(each.schema, node.get(each.name)))
        return Struct.from_valid_values(described, values)


def _convert_schemaless_value(node: JsonNode) -> Any:
    """Convert a node without a schema in place: integers to INT64, other numbers to FLOAT64."""
    root = [node]
    level: list[Any] = [root]
    for _ in range(_MAX_NESTING + 1):
        nested: list[Any] = []
        for container in level:
            places = enumerate(container) if isinstance(container, list) else container.items()
            for place, value in places:
                kind = type(value)
                if kind is dict or kind is list:
                    nested.append(value)
                elif kind is decimal.Decimal:
                    container[place] = float(value)
                elif kind is int:
                    _read_integer(SchemaType.INT64, value)
        if not nested:
            return root[0]
        level = nested
    raise DataError(f"Arrays and objects are nested more than {_MAX_NESTING} levels deep")


def _read_schema_properties(builder: SchemaBuilder, node: Mapping[str, Any]) -> None:
    """Copy version, name, doc and parameters from a JSON schema to a schema builder. As in Java, a
    value of the wrong JSON type is ignored, except in parameters."""
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
            raise DataError("Schema parameters must have string values.")
        builder.parameters(parameters)


def _read_scalar(of: SchemaType, node: JsonNode) -> Any:
    if of in _INTEGER_BITS:
        return _read_integer(of, node)
    match of:
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return _read_float(of, node)
        case SchemaType.BOOLEAN:
            _check_node_class(node, bool, of)
        case SchemaType.STRING:
            _check_node_class(node, str, of)
        case SchemaType.BYTES:
            return _read_bytes(of, node)
    return node


def _read_integer(of: SchemaType, node: JsonNode) -> int:
    """Convert a JSON node to an integer. Numbers like 12.0 or 1e2 are accepted."""
    if (
        isinstance(node, decimal.Decimal)
        and node.is_finite()
        and node.adjusted() < _MAX_INTEGER_DIGITS
    ):
        whole = node.to_integral_value()
        node = int(whole) if whole == node else node
    if not isinstance(node, int) or isinstance(node, bool):
        raise _create_type_mismatch_error(of, node)
    bits = _INTEGER_BITS[of]
    if not -(1 << bits - 1) <= node < 1 << bits - 1:
        raise DataError(f"Invalid value for {of} field: the number does not fit in {bits} bits")
    return node


def _read_float(of: SchemaType, node: JsonNode) -> float:
    if isinstance(node, str) and node in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[node]
    if not isinstance(node, (int, decimal.Decimal)) or isinstance(node, bool):
        raise _create_type_mismatch_error(of, node)
    try:
        value = float(node)
    except OverflowError:
        return math.inf if node > 0 else -math.inf
    return java_value_formatting.narrow_to_float32(value) if of is SchemaType.FLOAT32 else value


def _read_bytes(of: SchemaType | str, node: JsonNode) -> bytes:
    if not isinstance(node, str):
        raise _create_type_mismatch_error(of, node)
    try:
        return base64.b64decode(node, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"Invalid bytes for {of} field: not valid base64") from error


def _check_node_class(node: JsonNode, kind: type, of: SchemaType) -> None:
    if not isinstance(node, kind):
        raise _create_type_mismatch_error(of, node)


def _create_type_mismatch_error(of: SchemaType | str, node: JsonNode) -> DataError:
    return DataError(f"Invalid value for {of} field: found {_get_jackson_node_type(node)}")


def _get_jackson_node_type(node: JsonNode) -> str:
    """Return Jackson's type name of a JSON node."""
    if node is None:
        return "NULL"
    for kind, name in ((bool, "BOOLEAN"), (str, "STRING"), (list, "ARRAY"), (dict, "OBJECT")):
        if isinstance(node, kind):
            return name
    return "NUMBER"


def _convert_to_map_key(value: Any) -> Any:
    """Convert lists to tuples, because lists cannot be map keys in Python."""
    if isinstance(value, list):
        return tuple(_convert_to_map_key(each) for each in value)
    if isinstance(value, dict):
        raise DataError("A map cannot be a key of another map.")
    return value


def _read_decimal(described: Schema, node: JsonNode) -> decimal.Decimal:
    """Convert a JSON number or base64 bytes to a Decimal, regardless of `decimal.format`."""
    if isinstance(node, (int, decimal.Decimal)) and not isinstance(node, bool):
        return decimal.Decimal(node)
    if not isinstance(node, str):
        raise DataError(
            "Invalid type for Decimal, underlying representation should be numeric or bytes but "
            f"was {_get_jackson_node_type(node)}"
        )
    return logical_types.decimal_to_logical(described, _read_bytes("Decimal", node))


def _read_logical_integer(of: str, node: JsonNode, bits: int) -> int:
    whole = isinstance(node, int) and not isinstance(node, bool)
    if not whole or not -(1 << bits - 1) <= node < 1 << bits - 1:
        raise DataError(
            f"Invalid type for {of}, underlying representation should be integer but was "
            f"{_get_jackson_node_type(node)}"
        )
    return int(node)


def _read_date(described: Schema, node: JsonNode) -> Any:
    return logical_types.date_to_logical(described, _read_logical_integer("Date", node, 32))


def _read_time(described: Schema, node: JsonNode) -> Any:
    return logical_types.time_to_logical(described, _read_logical_integer("Time", node, 32))


def _read_timestamp(described: Schema, node: JsonNode) -> Any:
    return logical_types.timestamp_to_logical(
        described, _read_logical_integer("Timestamp", node, 64)
    )


_LOGICAL_READERS: Mapping[str, Callable[[Schema, JsonNode], Any]] = {
    schema.DECIMAL_NAME: _read_decimal,
    schema.DATE_NAME: _read_date,
    schema.TIME_NAME: _read_time,
    schema.TIMESTAMP_NAME: _read_timestamp,
}
