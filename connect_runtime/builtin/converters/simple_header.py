"""SimpleHeaderConverter: headers as text, whose type is guessed when it is read."""

from __future__ import annotations

from connect_runtime.api import config_def, converter, schema
from connect_runtime.builtin import text_parsing, text_values, version


class SimpleHeaderConverter(converter.HeaderConverter):
    """What workers use unless `header.converter` says otherwise. Bytes that are no text are
    read as bytes."""

    def version(self) -> str:
        return version.KAFKA

    def config(self) -> config_def.ConfigDef:
        return config_def.ConfigDef()

    def from_connect_header(
        self, topic: str, key: str, data: schema.SchemaAndValue
    ) -> bytes | None:
        text = text_values.to_text(data.schema, data.value)
        return None if text is None else text.encode(errors="replace")

    def to_connect_header(
        self, topic: str, key: str, payload: bytes | None
    ) -> schema.SchemaAndValue:
        if payload is None:
            return schema.NOTHING
        try:
            return text_parsing.parse(payload.decode())
        except UnicodeDecodeError:
            return schema.SchemaAndValue(schema.BYTES_SCHEMA, payload)
