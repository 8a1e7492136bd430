"""Bytes as they are: for data that somebody else understands."""

from __future__ import annotations

from connect_runtime.api import errors, schema
from connect_runtime.builtin.converters import plain


class ByteArrayConverter(plain.PlainConverter):
    """Takes and gives bytes or null, and nothing else."""

    def encode(self, data: schema.SchemaAndValue) -> bytes | None:
        if data.schema is not None and data.schema.type is not schema.Type.BYTES:
            raise errors.DataError(
                f"Invalid schema type for ByteArrayConverter: {data.schema.type}"
            )
        if data.value is None:
            return None
        if not isinstance(data.value, (bytes, bytearray, memoryview)):
            raise errors.DataError(
                "ByteArrayConverter is not compatible with objects of type "
                f"{type(data.value).__name__}"
            )
        return bytes(data.value)

    def decode(self, payload: bytes | None) -> schema.SchemaAndValue:
        return schema.SchemaAndValue(schema.OPTIONAL_BYTES_SCHEMA, payload)
