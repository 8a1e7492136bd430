"""JsonConverter: converts Connect data to and from JSON, with or without an embedded schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import config_types, converter, schema
from connect_runtime.api.config_def import ConfigDef, Importance, Type, Width
from connect_runtime.api.config_validators import CaseInsensitiveValidString
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Schema, SchemaAndValue
from connect_runtime.plugins import connect_data_to_json, jackson_json, json_to_connect_data
from connect_runtime.plugins.connect_data_to_json import DecimalFormat, JsonWriter
from connect_runtime.plugins.json_to_connect_data import JsonReader
from connect_runtime.plugins.simple_converters import SchemalessConverter

SCHEMAS_ENABLE_CONFIG = "schemas.enable"
SCHEMA_CONTENT_CONFIG = "schema.content"
SCHEMAS_CACHE_SIZE_CONFIG = "schemas.cache.size"
DECIMAL_FORMAT_CONFIG = "decimal.format"
REPLACE_NULL_WITH_DEFAULT_CONFIG = "replace.null.with.default"

_ENVELOPE_FIELDS = {"schema", "payload"}


class JsonConverter(SchemalessConverter):
    """Converts Connect data to and from JSON: `{"schema":…,"payload":…}` if `schemas.enable` is
    set, otherwise plain data.

    The output is identical to that of Java's JsonConverter. Without schemas, integers are read as
    INT64, other numbers as FLOAT64, and objects as mappings.
    """

    def __init__(self) -> None:
        self._with_schemas = True
        self._fixed: Schema | None = None
        self._writer = JsonWriter()
        self._reader = JsonReader()

    def config(self) -> ConfigDef:
        return _CONFIG

    def apply_config(self, config: Mapping[str, Any]) -> None:
        cache_size = config[SCHEMAS_CACHE_SIZE_CONFIG]
        self._with_schemas = config[SCHEMAS_ENABLE_CONFIG]
        self._writer = JsonWriter(
            decimal_format=DecimalFormat(config[DECIMAL_FORMAT_CONFIG].upper()),
            default_for_null=config[REPLACE_NULL_WITH_DEFAULT_CONFIG],
            schemas=connect_data_to_json.create_text_cache(cache_size),
        )
        self._reader = JsonReader(
            default_for_null=config[REPLACE_NULL_WITH_DEFAULT_CONFIG],
            schemas=json_to_connect_data.create_schema_cache(cache_size),
        )
        self._fixed = self._parse_fixed_schema(config[SCHEMA_CONTENT_CONFIG])

    def _parse_fixed_schema(self, text: str | None) -> Schema | None:
        """Parse `schema.content` (KIP-1054), the common schema of all payloads. The payloads then
        have no envelope."""
        if not text:
            return None
        try:
            node = jackson_json.parse_payload(text.encode())
            return self._reader.parse_schema(None if node is jackson_json.MISSING_JSON else node)
        except DataError as error:
            raise config_types.build_invalid_value_error(
                SCHEMA_CONTENT_CONFIG, text, str(error)
            ) from error

    @property
    def cached_schemas(self) -> tuple[int, int]:
        """Number of cached schemas: (for writing, for reading)."""
        return len(self._writer.schemas), len(self._reader.schemas)

    def encode(self, data: SchemaAndValue) -> bytes | None:
        if data.schema is None and data.value is None:
            return None
        try:
            payload = self._writer.format_root_value(data.schema, data.value)
            if self._with_schemas:
                described = self._writer.format_schema(data.schema)
                payload = f'{{"schema":{described},"payload":{payload}}}'
        except RecursionError:
            raise _create_nesting_error() from None
        return payload.encode()

    def decode(self, payload: bytes | None) -> SchemaAndValue:
        if payload is None:
            return schema.NULL_SCHEMA_AND_VALUE
        try:
            return self._decode_payload(payload)
        except RecursionError:
            raise _create_nesting_error() from None

    def _decode_payload(self, payload: bytes) -> SchemaAndValue:
        node = jackson_json.parse_payload(payload)
        if not self._with_schemas:
            value = (
                None
                if node is jackson_json.MISSING_JSON
                else self._reader.parse_root_value(None, node, record_bytes=len(payload))
            )
            return SchemaAndValue(None, value)
        if self._fixed is not None:
            absent = node is jackson_json.MISSING_JSON
            value = self._reader.parse_root_value(
                self._fixed, None if absent else node, record_bytes=len(payload)
            )
            return SchemaAndValue(self._fixed, value)
        if not isinstance(node, dict) or node.keys() != _ENVELOPE_FIELDS:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and '
                "may not contain additional fields. If you are trying to deserialize plain JSON "
                "data, set schemas.enable=false in your converter configuration."
            )
        described = self._reader.parse_schema(node["schema"])
        value = self._reader.parse_root_value(described, node["payload"], record_bytes=len(payload))
        return SchemaAndValue(described, value)


def _create_nesting_error() -> DataError:
    return DataError("Arrays, objects or schemas are nested too deeply to convert.")


def _define_config() -> ConfigDef:
    definition = converter.create_converter_config_def()
    definition.define(
        SCHEMAS_ENABLE_CONFIG,
        Type.BOOLEAN,
        "Whether each key and value contains its schema.",
        default=True,
        group="Schemas",
        order_in_group=0,
        width=Width.MEDIUM,
        display_name="Enable Schemas",
    )
    definition.define(
        SCHEMAS_CACHE_SIZE_CONFIG,
        Type.INT,
        "Number of schemas that a converter caches, for reading and for writing.",
        default=1000,
        group="Schemas",
        order_in_group=1,
        width=Width.MEDIUM,
        display_name="Schema Cache Size",
    )
    definition.define(
        SCHEMA_CONTENT_CONFIG,
        Type.STRING,
        "Schema, as JSON, of all keys and values that are read, which then contain no schema.",
        default=None,
        group="Schemas",
        order_in_group=2,
        width=Width.MEDIUM,
        display_name="Schema Content",
    )
    definition.define(
        DECIMAL_FORMAT_CONFIG,
        Type.STRING,
        "How decimals are written: BASE64 (unscaled bytes) or NUMERIC (a JSON number). "
        "Both can be read.",
        default=DecimalFormat.BASE64.value,
        validator=CaseInsensitiveValidString(*(each.value for each in DecimalFormat)),
        importance=Importance.LOW,
        group="Serialization",
        order_in_group=0,
        width=Width.MEDIUM,
        display_name="Decimal Format",
    )
    return definition.define(
        REPLACE_NULL_WITH_DEFAULT_CONFIG,
        Type.BOOLEAN,
        "Whether null is replaced by the default of its schema, if there is one.",
        default=True,
        importance=Importance.LOW,
        group="Serialization",
        order_in_group=1,
        width=Width.MEDIUM,
        display_name="Replace null with default",
    )


_CONFIG = _define_config()
