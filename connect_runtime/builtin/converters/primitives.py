"""One number or truth value as Kafka's own serializers write it, big-endian."""

from __future__ import annotations

import struct
from typing import ClassVar

from connect_runtime.api import errors, schema, structs
from connect_runtime.builtin.converters import plain


class _NumberConverter(plain.PlainConverter):
    """The schema of what is written does not matter, its class does."""

    kind: ClassVar[str]
    layout: ClassVar[struct.Struct]
    described: ClassVar[schema.Schema]

    def encode(self, data: schema.SchemaAndValue) -> bytes | None:
        if data.value is None:
            return None
        try:
            structs.validate_value(self.described, data.value)
        except errors.DataError as error:
            raise errors.DataError(
                f"Failed to serialize to {self.kind} (was {type(data.value).__name__}): {error}"
            ) from error
        return self.layout.pack(data.value)

    def decode(self, payload: bytes | None) -> schema.SchemaAndValue:
        if payload is None:
            return schema.SchemaAndValue(self.described, None)
        if len(payload) != self.layout.size:
            raise errors.DataError(
                f"Failed to deserialize {self.kind}: {len(payload)} bytes instead of "
                f"{self.layout.size}"
            )
        return schema.SchemaAndValue(self.described, self.layout.unpack(payload)[0])


class ShortConverter(_NumberConverter):
    """INT16 in 2 bytes."""

    kind = "short"
    layout = struct.Struct(">h")
    described = schema.OPTIONAL_INT16_SCHEMA


class IntegerConverter(_NumberConverter):
    """INT32 in 4 bytes."""

    kind = "integer"
    layout = struct.Struct(">i")
    described = schema.OPTIONAL_INT32_SCHEMA


class LongConverter(_NumberConverter):
    """INT64 in 8 bytes."""

    kind = "long"
    layout = struct.Struct(">q")
    described = schema.OPTIONAL_INT64_SCHEMA


class FloatConverter(_NumberConverter):
    """FLOAT32 in 4 bytes."""

    kind = "float"
    layout = struct.Struct(">f")
    described = schema.OPTIONAL_FLOAT32_SCHEMA


class DoubleConverter(_NumberConverter):
    """FLOAT64 in 8 bytes."""

    kind = "double"
    layout = struct.Struct(">d")
    described = schema.OPTIONAL_FLOAT64_SCHEMA


class BooleanConverter(plain.PlainConverter):
    """BOOLEAN in 1 byte, 0 or 1."""

    def encode(self, data: schema.SchemaAndValue) -> bytes | None:
        if data.schema is not None and data.schema.type is not schema.Type.BOOLEAN:
            raise errors.DataError(f"Invalid schema type for BooleanConverter: {data.schema.type}")
        if data.value is None:
            return None
        if not isinstance(data.value, bool):
            raise errors.DataError(
                "BooleanConverter is not compatible with objects of type "
                f"{type(data.value).__name__}"
            )
        return b"\x01" if data.value else b"\x00"

    def decode(self, payload: bytes | None) -> schema.SchemaAndValue:
        if payload is None:
            return schema.SchemaAndValue(schema.OPTIONAL_BOOLEAN_SCHEMA, None)
        if payload not in (b"\x00", b"\x01"):
            raise errors.DataError(
                f"Failed to deserialize boolean: expected one byte of 0 or 1, not {payload[:8]!r}"
            )
        return schema.SchemaAndValue(schema.OPTIONAL_BOOLEAN_SCHEMA, payload == b"\x01")
