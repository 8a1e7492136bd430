"""Any value as its text; what is read is text."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any

from connect_runtime.api import config_def, config_types, converter, schema
from connect_runtime.builtin import java_text
from connect_runtime.builtin.converters import plain

ENCODING = "converter.encoding"


class StringConverter(plain.PlainConverter):
    """`converter.encoding` names the character set; characters that it lacks become `?`."""

    def __init__(self) -> None:
        self._encoding = "utf-8"

    def config(self) -> config_def.ConfigDef:
        return converter.converter_config().define(
            ENCODING,
            config_def.Type.STRING,
            "The character set of the text, by the name that Java has for it.",
            default="UTF-8",
            width=config_def.Width.MEDIUM,
            display_name="Encoding",
        )

    def set_up(self, config: Mapping[str, Any]) -> None:
        try:
            self._encoding = codecs.lookup(config[ENCODING]).name
        except LookupError as error:
            raise config_types.invalid(
                ENCODING, config[ENCODING], "there is no such character set"
            ) from error

    def encode(self, data: schema.SchemaAndValue) -> bytes | None:
        if data.value is None:
            return None
        return java_text.of(data.value).encode(self._encoding, errors="replace")

    def decode(self, payload: bytes | None) -> schema.SchemaAndValue:
        text = None if payload is None else payload.decode(self._encoding, errors="replace")
        return schema.SchemaAndValue(schema.OPTIONAL_STRING_SCHEMA, text)
