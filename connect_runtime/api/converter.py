"""Converter and HeaderConverter: conversion between Connect data and bytes in Kafka."""

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
    """What a converter is configured for; the value stands in `converter.type`."""

    KEY = "key"
    VALUE = "value"
    HEADER = "header"


class Converter(Plugin, abc.ABC):
    """For keys or values of records. One instance belongs to one task and one of the two.

    Raise DataError for what cannot be converted: `errors.tolerance` decides what follows.
    """

    def configure(self, configs: Mapping[str, Any], *, is_key: bool = False) -> None:
        """Called first, with the keys under `key.converter.` or `value.converter.`."""

    @abc.abstractmethod
    def from_connect_data(
        self, topic: str, data: SchemaAndValue, record_headers: Headers
    ) -> bytes | None:
        """The bytes to write; None for a tombstone. It may add to the record's headers."""

    @abc.abstractmethod
    def to_connect_data(
        self, topic: str, payload: bytes | None, record_headers: Headers
    ) -> SchemaAndValue:
        """What the bytes read say; `record_headers` as they were read."""


class HeaderConverter(Plugin, abc.ABC):
    """For the values of headers."""

    @abc.abstractmethod
    def from_connect_header(self, topic: str, key: str, data: SchemaAndValue) -> bytes | None:
        """The bytes to write for the header `key` of a record for `topic`."""

    @abc.abstractmethod
    def to_connect_header(self, topic: str, key: str, payload: bytes | None) -> SchemaAndValue:
        """What the bytes read say."""


def converter_config() -> ConfigDef:
    """A definition with `converter.type`, which every converter of ours begins with."""
    return ConfigDef().define(
        TYPE_CONFIG,
        Type.STRING,
        "How this converter will be used.",
        validator=ValidString(*(each.value for each in ConverterType)),
        importance=Importance.LOW,
    )


def with_type(configs: Mapping[str, Any], *, is_key: bool) -> dict[str, Any]:
    """The configuration with `converter.type`, should it not say so itself."""
    own = ConverterType.KEY if is_key else ConverterType.VALUE
    return {TYPE_CONFIG: own.value, **configs}
