"""Converters for strings, bytes, numbers and booleans, which ignore the schema of a value.

Each class converts keys, values and headers. Numbers and booleans are big-endian, as in Kafka's own
serializers.
"""

from __future__ import annotations

import abc
import encodings
import encodings.aliases
import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from connect_runtime.api import config_types, converter, schema, structs
from connect_runtime.api.config_def import ConfigDef, Type, Width
from connect_runtime.api.converter import Converter, HeaderConverter
from connect_runtime.api.errors import DataError
from connect_runtime.api.records import Headers
from connect_runtime.api.schema import Schema, SchemaAndValue, SchemaType
from connect_runtime.plugins import compatible_kafka_version, java_value_formatting


class SchemalessConverter(Converter, HeaderConverter):
    """Base class of converters that do not use schemas. Subclasses implement `encode` (value to
    bytes) and `decode` (bytes to value)."""

    def version(self) -> str:
        return compatible_kafka_version.KAFKA_VERSION

    def config(self) -> ConfigDef:
        return converter.create_converter_config_def()

    def configure(self, configs: Mapping[str, Any], *, is_key: bool = False) -> None:
        self.apply_config(self.config().parse(converter.add_converter_type(configs, is_key=is_key)))

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
_CHARSETS = frozenset(
    """
    ascii big5 big5hkscs cp037 cp273 cp424 cp437 cp500 cp737 cp775 cp850 cp852 cp855 cp857 cp858
    cp860 cp861 cp862 cp863 cp864 cp865 cp866 cp869 cp874 cp875 cp932 cp949 cp950 cp1006 cp1026
    cp1140 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 euc_jp euc_kr gb2312 gbk
    gb18030 iso2022_jp iso2022_jp_2 iso2022_kr iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6
    iso8859_7 iso8859_8 iso8859_9 iso8859_13 iso8859_15 iso8859_16 johab koi8_r koi8_u latin_1
    shift_jis tis_620 utf_8 utf_16 utf_16_be utf_16_le utf_32 utf_32_be utf_32_le
    """.split()  # noqa: SIM905 - a list would have one line for each charset
)
"""Python's names of the charsets that both Java and Python support. Not allowed are other codecs of
Python, such as `punycode`, whose decoder needs quadratic time."""
_CHARSETS_BY_NAME = {name: name for name in _CHARSETS} | {
    alias: name for alias, name in encodings.aliases.aliases.items() if name in _CHARSETS
}
_MAX_CHARSET_NAME_CHARS = 40


def _find_charset(name: str) -> str:
    """Return Python's name of a charset. Raises `ConfigError`.

    `codecs.lookup` is called only with known names, because it caches every name forever.
    """
    shown = name[:_MAX_CHARSET_NAME_CHARS]
    found = _CHARSETS_BY_NAME.get(encodings.normalize_encoding(shown).lower())
    if found is None or shown != name:
        raise config_types.build_invalid_value_error(
            ENCODING_CONFIG,
            shown,
            "unknown charset; use a charset that Java and Python support, such as UTF-8, UTF-16, "
            "ISO-8859-1 or windows-1252",
        )
    return found


class StringConverter(SchemalessConverter):
    """Converts text to and from bytes in the charset `converter.encoding`. Characters that the
    charset does not contain become `?`."""

    def __init__(self) -> None:
        self._encoding = "utf-8"

    def config(self) -> ConfigDef:
        return converter.create_converter_config_def().define(
            ENCODING_CONFIG,
            Type.STRING,
            "Charset of the text, by its Java name.",
            default="UTF-8",
            width=Width.MEDIUM,
            display_name="Encoding",
        )

    def apply_config(self, config: Mapping[str, Any]) -> None:
        self._encoding = _find_charset(config[ENCODING_CONFIG])

    def encode(self, data: SchemaAndValue) -> bytes | None:
        if data.value is None:
            return None
        return java_value_formatting.format_value(data.value).encode(
            self._encoding, errors="replace"
        )

    def decode(self, payload: bytes | None) -> SchemaAndValue:
        text = None if payload is None else payload.decode(self._encoding, errors="replace")
        return SchemaAndValue(schema.OPTIONAL_STRING_SCHEMA, text)


class ByteArrayConverter(SchemalessConverter):
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


class _FixedSizeNumberConverter(SchemalessConverter):
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


class BooleanConverter(SchemalessConverter):
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
