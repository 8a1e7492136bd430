"""A converter that looks at the value alone: for keys, values and headers alike."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from connect_runtime.api import config_def, converter, headers, schema
from connect_runtime.builtin import version


class PlainConverter(converter.Converter, converter.HeaderConverter):
    """Subclasses say how a value becomes bytes, and back."""

    def version(self) -> str:
        return version.KAFKA

    def config(self) -> config_def.ConfigDef:
        return converter.converter_config()

    def configure(self, configs: Mapping[str, Any], *, is_key: bool = False) -> None:
        self.set_up(self.config().parse(converter.with_type(configs, is_key=is_key)))

    def set_up(self, config: Mapping[str, Any]) -> None:
        """Take over the parsed configuration."""

    @abc.abstractmethod
    def encode(self, data: schema.SchemaAndValue) -> bytes | None:
        """Raises DataError."""

    @abc.abstractmethod
    def decode(self, payload: bytes | None) -> schema.SchemaAndValue:
        """Raises DataError."""

    def from_connect_data(
        self, topic: str, data: schema.SchemaAndValue, record_headers: headers.Headers
    ) -> bytes | None:
        return self.encode(data)

    def to_connect_data(
        self, topic: str, payload: bytes | None, record_headers: headers.Headers
    ) -> schema.SchemaAndValue:
        return self.decode(payload)

    def from_connect_header(
        self, topic: str, key: str, data: schema.SchemaAndValue
    ) -> bytes | None:
        return self.encode(data)

    def to_connect_header(
        self, topic: str, key: str, payload: bytes | None
    ) -> schema.SchemaAndValue:
        return self.decode(payload)
