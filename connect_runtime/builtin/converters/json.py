"""JsonConverter: JSON with its schema beside it, or without any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import (
    config_def,
    config_types,
    config_validators,
    converter,
    errors,
    schema,
)
from connect_runtime.builtin.converters import json_read, json_text, json_write, lru, plain

SCHEMAS_ENABLE = "schemas.enable"
SCHEMA_CONTENT = "schema.content"
SCHEMAS_CACHE_SIZE = "schemas.cache.size"
DECIMAL_FORMAT = "decimal.format"
REPLACE_NULL_WITH_DEFAULT = "replace.null.with.default"

_ENVELOPE = {"schema", "payload"}


class JsonConverter(plain.PlainConverter):
    """With `schemas.enable` each payload is `{"schema":…,"payload":…}`, else the data alone.

    Bytes are those of Java's JsonConverter. Without schemas whole numbers are read as INT64,
    others as FLOAT64, objects as mappings.
    """

    def __init__(self) -> None:
        self._with_schemas = True
        self._fixed: schema.Schema | None = None
        self._writer = json_write.Writer()
        self._reader = json_read.Reader()

    def config(self) -> config_def.ConfigDef:
        return _CONFIG

    def set_up(self, config: Mapping[str, Any]) -> None:
        cache_size = config[SCHEMAS_CACHE_SIZE]
        self._with_schemas = config[SCHEMAS_ENABLE]
        self._writer = json_write.Writer(
            decimal_format=json_write.DecimalFormat(config[DECIMAL_FORMAT].upper()),
            default_for_null=config[REPLACE_NULL_WITH_DEFAULT],
            schemas=lru.Lru(cache_size),
        )
        self._reader = json_read.Reader(
            default_for_null=config[REPLACE_NULL_WITH_DEFAULT], schemas=lru.Lru(cache_size)
        )
        self._fixed = self._read_fixed(config[SCHEMA_CONTENT])

    def _read_fixed(self, text: str | None) -> schema.Schema | None:
        """KIP-1054: one schema for all that is read, which then comes without envelope."""
        if not text:
            return None
        try:
            node = json_text.parse(text.encode())
            return self._reader.schema_of(None if node is json_text.NOTHING else node)
        except errors.DataError as error:
            raise config_types.invalid(SCHEMA_CONTENT, text, str(error)) from error

    @property
    def cached_schemas(self) -> tuple[int, int]:
        """How many are remembered for writing, and for reading."""
        return len(self._writer.schemas), len(self._reader.schemas)

    def encode(self, data: schema.SchemaAndValue) -> bytes | None:
        if data.schema is None and data.value is None:
            return None
        try:
            payload = self._writer.value_text(data.schema, data.value)
            if self._with_schemas:
                described = self._writer.schema_text(data.schema)
                payload = f'{{"schema":{described},"payload":{payload}}}'
        except RecursionError:
            raise _too_deep() from None
        return payload.encode()

    def decode(self, payload: bytes | None) -> schema.SchemaAndValue:
        if payload is None:
            return schema.NOTHING
        try:
            return self._decode(payload)
        except RecursionError:
            raise _too_deep() from None

    def _decode(self, payload: bytes) -> schema.SchemaAndValue:
        node = json_text.parse(payload)
        if not self._with_schemas:
            value = None if node is json_text.NOTHING else self._reader.value(None, node)
            return schema.SchemaAndValue(None, value)
        if self._fixed is not None:
            absent = node is json_text.NOTHING
            value = self._reader.value(self._fixed, None if absent else node)
            return schema.SchemaAndValue(self._fixed, value)
        if not isinstance(node, dict) or node.keys() != _ENVELOPE:
            raise errors.DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and '
                "may not contain additional fields. If you are trying to deserialize plain JSON "
                "data, set schemas.enable=false in your converter configuration."
            )
        described = self._reader.schema_of(node["schema"])
        return schema.SchemaAndValue(described, self._reader.value(described, node["payload"]))


def _too_deep() -> errors.DataError:
    return errors.DataError("Arrays, objects or schemas are nested too deeply to be converted.")


def _definition() -> config_def.ConfigDef:
    definition = converter.converter_config()
    definition.define(
        SCHEMAS_ENABLE,
        config_def.Type.BOOLEAN,
        "Whether each key and value carries its schema.",
        default=True,
        group="Schemas",
        order_in_group=0,
        width=config_def.Width.MEDIUM,
        display_name="Enable Schemas",
    )
    definition.define(
        SCHEMAS_CACHE_SIZE,
        config_def.Type.INT,
        "How many schemas one converter remembers, for reading and for writing.",
        default=1000,
        group="Schemas",
        order_in_group=1,
        width=config_def.Width.MEDIUM,
        display_name="Schema Cache Size",
    )
    definition.define(
        SCHEMA_CONTENT,
        config_def.Type.STRING,
        "A schema, as JSON, of everything that is read; keys and values then come without one.",
        default=None,
        group="Schemas",
        order_in_group=2,
        width=config_def.Width.MEDIUM,
        display_name="Schema Content",
    )
    definition.define(
        DECIMAL_FORMAT,
        config_def.Type.STRING,
        "How decimals are written: BASE64, their unscaled bytes; NUMERIC, a JSON number. "
        "Both are read.",
        default=json_write.DecimalFormat.BASE64.value,
        validator=config_validators.CaseInsensitiveValidString(
            *(each.value for each in json_write.DecimalFormat)
        ),
        importance=config_def.Importance.LOW,
        group="Serialization",
        order_in_group=0,
        width=config_def.Width.MEDIUM,
        display_name="Decimal Format",
    )
    return definition.define(
        REPLACE_NULL_WITH_DEFAULT,
        config_def.Type.BOOLEAN,
        "Whether a null stands for the default of its schema, where that has one.",
        default=True,
        importance=config_def.Importance.LOW,
        group="Serialization",
        order_in_group=1,
        width=config_def.Width.MEDIUM,
        display_name="Replace null with default",
    )


_CONFIG = _definition()
