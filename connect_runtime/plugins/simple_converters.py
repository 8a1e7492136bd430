"""Converters for strings, bytes, numbers and booleans, which ignore the schema of a value.

Each class converts keys, values and headers. Numbers and booleans are big-endian, as in Kafka's own
serializers.
"""

from __future__ import annotations

import abc
import codecs
import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from connect_runtime.api import config_types, converter, schema, structs
from connect_runtime.api.config_def import ConfigDef, Type, Width
from connect_runtime.api.converter import Converter, HeaderConverter
from connect_runtime.api.errors import DataError
from connect_runtime.api.records import Headers
from connect_runtime.api.schema import Schema, SchemaAndValue, SchemaType
from connect_runtime.plugins import java_text, kafka_version


class PlainConverter(Converter, HeaderConverter):
    """Base class of converters that do not use schemas. Subclasses implement `encode` (value to
    bytes) and `decode` (bytes to value)."""

    def version(self) -> str:
        return kafka_version.KAFKA_VERSION

    def config(self) -> ConfigDef:
        return converter.converter_config()

    def configure(self, configs: Mapping[str, Any], *, is_key: bool = False) -> None:
        self.apply_config(self.config().parse(converter.with_type(configs, is_key=is_key)))

    def apply_config(self, config: Mapping[str, Any]) -> None:
        """Apply the converter's parsed configuration."""

    @abc.abstractmethod
    def encode(self, data: SchemaAndValue) -> bytes | None:
        """Convert a Connect value to bytes. Raises `DataError` if the value has the wrong type."""

    @abc.abstractmethod
    def decode(self, payload: bytes | None) -> SchemaAndValue:
        """Convert bytes to a Connect value. Raises `DataError` if the bytes are invalid."""

    def from_connect_data(
        self, topic: str, data: SchemaAndValue, record_headers: Headers
    ) -> bytes | None:
        return self.encode(data)

    def to_connect_data(
        self, topic: str, payload: bytes | None, record_headers: Headers
    ) -> SchemaAndValue:
        return self.decode(payload)

    def from_connect_header(self, topic: str, key: str, data: SchemaAndValue) -> bytes | None:
        return self.encode(data)

    def to_connect_header(self, topic: str, key: str, payload: bytes | None) -> SchemaAndValue:
        return self.decode(payload)


ENCODING_CONFIG = "converter.encoding"


class StringConverter(PlainConverter):
    """Converts text to and from bytes in the charset `converter.encoding`. Characters that the
    charset does not contain become `?`."""

    def __init__(self) -> None:
        self._encoding = "utf-8"

    def config(self) -> ConfigDef:
        return converter.converter_config().define(
            ENCODING_CONFIG,
            Type.STRING,
            "Charset of the text, by its Java name.",
            default="UTF-8",
            width=Width.MEDIUM,
            display_name="Encoding",
        )

    def apply_config(self, config: Mapping[str, Any]) -> None:
        try:
            self._encoding = codecs.lookup(config[ENCODING_CONFIG]).name
        except LookupError as error:
            raise config_types.build_invalid_value_error(
                ENCODING_CONFIG, config[ENCODING_CONFIG], "unknown charset"
            ) from error

    def encode(self, data: SchemaAndValue) -> bytes | None:
        if data.value is None:
            return None
        return java_text.format_value(data.value).encode(self._encoding, errors="replace")

    def decode(self, payload: bytes | None) -> SchemaAndValue:
        text = None if payload is None else payload.decode(self._encoding, errors="replace")
        return SchemaAndValue(schema.OPTIONAL_STRING_SCHEMA, text)


class ByteArrayConverter(PlainConverter):
    """Passes bytes and null through unchanged, and rejects all other values."""

    def encode(self, data: SchemaAndValue) -> bytes | None:
        if data.schema is not None and data.schema.type is not SchemaType.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {data.schema.type}")
        if data.value is None:
            return None
        if not isinstance(data.value, (bytes, bytearray, memoryview)):
            raise DataError(
                "ByteArrayConverter is not compatible with objects of type "
                f"{type(data.value).__name__}"
            )
        return bytes(data.value)

    def decode(self, payload: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(schema.OPTIONAL_BYTES_SCHEMA, payload)


class _FixedSizeNumberConverter(PlainConverter):
    """Base class of number converters. The Python type of a value is checked, not its schema."""

    kind: ClassVar[str]
    layout: ClassVar[struct.Struct]
    described: ClassVar[Schema]

    def encode(self, data: SchemaAndValue) -> bytes | None:
        if data.value is None:
            return None
        try:
            structs.validate_value(self.described, data.value)
        except DataError as error:
            raise DataError(
                f"Failed to serialize to {self.kind} (was {type(data.value).__name__}): {error}"
            ) from error
        return self.layout.pack(data.value)

    def decode(self, payload: bytes | None) -> SchemaAndValue:
        if payload is None:
            return SchemaAndValue(self.described, None)
        if len(payload) != self.layout.size:
            raise DataError(
                f"Failed to deserialize {self.kind}: {len(payload)} bytes instead of "
                f"{self.layout.size}"
            )
        return SchemaAndValue(self.described, self.layout.unpack(payload)[0])


class ShortConverter(_FixedSizeNumberConverter):
    """Converts INT16 numbers to and from 2 bytes."""

    kind = "short"
    layout = struct.Struct(">h")
    described = schema.OPTIONAL_INT16_SCHEMA


class IntegerConverter(_FixedSizeNumberConverter):
    """Converts INT32 numbers to and from 4 bytes."""

    kind = "integer"
    layout = struct.Struct(">i")
    described = schema.OPTIONAL_INT32_SCHEMA


class LongConverter(_FixedSizeNumberConverter):
    """Converts INT64 numbers to and from 8 bytes."""

    kind = "long"
    layout = struct.Struct(">q")
    described = schema.OPTIONAL_INT64_SCHEMA


class FloatConverter(_FixedSizeNumberConverter):
    """Converts FLOAT32 numbers to and from 4 bytes."""

    kind = "float"
    layout = struct.Struct(">f")
    described = schema.OPTIONAL_FLOAT32_SCHEMA


class DoubleConverter(_FixedSizeNumberConverter):
    """Converts FLOAT64 numbers to and from 8 bytes."""

    kind = "double"
    layout = struct.Struct(">d")
    described = schema.OPTIONAL_FLOAT64_SCHEMA


class BooleanConverter(PlainConverter):
    """Converts booleans to and from one byte, 0 or 1."""

    def encode(self, data: SchemaAndValue) -> bytes | None:
        if data.schema is not None and data.schema.type is not SchemaType.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {data.schema.type}")
        if data.value is None:
            return None
        if not isinstance(data.value, bool):
            raise DataError(
                "BooleanConverter is not compatible with objects of type "
                f"{type(data.value).__name__}"
            )
        return b"\x01" if data.value else b"\x00"

    def decode(self, payload: bytes | None) -> SchemaAndValue:
        if payload is None:
            return SchemaAndValue(schema.OPTIONAL_BOOLEAN_SCHEMA, None)
        if payload not in (b"\x00", b"\x01"):
            raise DataError(
                f"Failed to deserialize boolean: expected one byte of 0 or 1, not {payload[:8]!r}"
            )
        return SchemaAndValue(schema.OPTIONAL_BOOLEAN_SCHEMA, payload == b"\x01")
