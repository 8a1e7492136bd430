"""Converter and HeaderConverter: convert between Connect data and the bytes stored in Kafka."""

from __future__ import annotations

import abc
import enum
from collections.abc import Mapping
from typing import Any

from connect_runtime.api.config_def import ConfigDef, Importance, Type
from connect_runtime.api.config_validators import ValidString
from connect_runtime.api.plugin import Plugin
from connect_runtime.api.records import Headers
from connect_runtime.api.schema import SchemaAndValue

TYPE_CONFIG = "converter.type"


class ConverterType(enum.Enum):
    """Kind of data that a converter converts: record keys, record values or header values
    (configuration key `converter.type`)."""

    KEY = "key"
    VALUE = "value"
    HEADER = "header"


class Converter(Plugin, abc.ABC):
    """Converts record keys or values. Each instance is used by one task, for either keys or values.

    Raise DataError if the data cannot be converted; `errors.tolerance` then decides how the task
    continues.
    """

    def configure(self, configs: Mapping[str, Any], *, is_key: bool = False) -> None:
        """Configure the converter. Called first, with the keys under `key.converter.` or
        `value.converter.`, without that prefix."""

    @abc.abstractmethod
    def from_connect_data(
        self, topic: str, data: SchemaAndValue, record_headers: Headers
    ) -> bytes | None:
        """Serialize a record's key or value; None is a tombstone. May add headers to
        `record_headers`."""

    @abc.abstractmethod
    def to_connect_data(
        self, topic: str, payload: bytes | None, record_headers: Headers
    ) -> SchemaAndValue:
        """Deserialize the bytes of a record's key or value. `record_headers` are the headers of
        the consumed record."""


class HeaderConverter(Plugin, abc.ABC):
    """Converts header values between Connect data and the bytes stored in Kafka."""

    @abc.abstractmethod
    def from_connect_header(self, topic: str, key: str, data: SchemaAndValue) -> bytes | None:
        """Serialize the value of the header `key` for a record of `topic`."""

    @abc.abstractmethod
    def to_connect_header(self, topic: str, key: str, payload: bytes | None) -> SchemaAndValue:
        """Deserialize the value of the header `key` of a record consumed from `topic`."""


def create_converter_config_def() -> ConfigDef:
    """Return a new ConfigDef that defines `converter.type`. Converters add their own keys to the
    returned ConfigDef."""
    return ConfigDef().define(
        TYPE_CONFIG,
        Type.STRING,
        "How this converter will be used.",
        validator=ValidString(*(each.value for each in ConverterType)),
        importance=Importance.LOW,
    )


def add_converter_type(configs: Mapping[str, Any], *, is_key: bool) -> dict[str, Any]:
    """Return the configuration, with `converter.type` added if it is missing."""
    own = ConverterType.KEY if is_key else ConverterType.VALUE
    return {TYPE_CONFIG: own.value, **configs}
