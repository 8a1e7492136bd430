"""Defines the plugin kinds, the shipped plugins with their names and aliases, and the protocol
`PluginRegistry`.

This module contains only data: `plugin_discovery` loads the classes. Java class names are mapped to
Python classes, so that an existing connector configuration works unchanged. As in Java, a class can
also be referenced by its simple name, and by the simple name without the suffix of its kind
(`FileStreamSource`, `Json`). An alias that two plugins of one kind share cannot be used.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_STORAGE_PACKAGE = "org.apache.kafka.connect.storage"
_JSON_PACKAGE = "org.apache.kafka.connect.json"
_CONVERTERS_PACKAGE = "org.apache.kafka.connect.converters"
_FILE_PACKAGE = "org.apache.kafka.connect.file"
_PLUGINS_PACKAGE = "connect_runtime.plugins"


class PluginKind(enum.Enum):
    """Kind of plugin. The enum value is the name of the kind in Connect's REST API."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


_CLASS_NAME_SUFFIXES = {
    PluginKind.SOURCE: "Connector",
    PluginKind.SINK: "Connector",
    PluginKind.CONVERTER: "Converter",
    PluginKind.HEADER_CONVERTER: "HeaderConverter",
    PluginKind.TRANSFORMATION: "Transformation",
    PluginKind.PREDICATE: "Predicate",
}


@dataclass(frozen=True, slots=True)
class ShippedPlugin:
    """A plugin that is shipped with the worker: its class name in Apache Kafka, and its Python
    class as `module:Class`."""

    kind: PluginKind
    java_name: str
    target: str

    @property
    def full_names(self) -> tuple[str, ...]:
        return self.java_name, self.target, self.target.replace(":", ".")


def list_short_names(class_name: str, kind: PluginKind) -> tuple[str, ...]:
    """Return a class's simple name, and its simple name without the suffix of its kind (Java's
    prunedName).

    For `…InsertField$Value` the simple name is `Value`. Many transforms have this simple name, so
    it is ambiguous and cannot be used, as in Java.
    """
    simple = class_name.rpartition(".")[2].rpartition("$")[2].rpartition(":")[2]
    place = simple.rfind(_CLASS_NAME_SUFFIXES[kind])
    return tuple(dict.fromkeys((simple, simple[:place] if place > 0 else simple)))


def _declare_converter(
    java_package: str, simple: str, module: str
) -> tuple[ShippedPlugin, ShippedPlugin]:
    """Declare a shipped class as both a record converter and a header converter."""
    java_name, target = f"{java_package}.{simple}", f"{_PLUGINS_PACKAGE}.{module}:{simple}"
    return (
        ShippedPlugin(PluginKind.CONVERTER, java_name, target),
        ShippedPlugin(PluginKind.HEADER_CONVERTER, java_name, target),
    )


FILE_STREAM_PLUGINS: tuple[ShippedPlugin, ...] = (
    ShippedPlugin(
        PluginKind.SOURCE,
        f"{_FILE_PACKAGE}.FileStreamSourceConnector",
        f"{_PLUGINS_PACKAGE}.file_stream:FileStreamSourceConnector",
    ),
    ShippedPlugin(
        PluginKind.SINK,
        f"{_FILE_PACKAGE}.FileStreamSinkConnector",
        f"{_PLUGINS_PACKAGE}.file_stream:FileStreamSinkConnector",
    ),
)
"""Connectors that access files on the worker's machine. They are available only if the worker sets
`file.stream.allowed.paths`. (Apache removed them from its class path in 3.2, KAFKA-13748.)"""

SHIPPED_PLUGINS: tuple[ShippedPlugin, ...] = (
    *_declare_converter(_JSON_PACKAGE, "JsonConverter", "json_converter"),
    *_declare_converter(_STORAGE_PACKAGE, "StringConverter", "simple_converters"),
    ShippedPlugin(
        PluginKind.HEADER_CONVERTER,
        f"{_STORAGE_PACKAGE}.SimpleHeaderConverter",
        f"{_PLUGINS_PACKAGE}.header_converter:SimpleHeaderConverter",
    ),
    *_declare_converter(_CONVERTERS_PACKAGE, "ByteArrayConverter", "simple_converters"),
    *_declare_converter(_CONVERTERS_PACKAGE, "BooleanConverter", "simple_converters"),
    *_declare_converter(_CONVERTERS_PACKAGE, "ShortConverter", "simple_converters"),
    *_declare_converter(_CONVERTERS_PACKAGE, "IntegerConverter", "simple_converters"),
    *_declare_converter(_CONVERTERS_PACKAGE, "LongConverter", "simple_converters"),
    *_declare_converter(_CONVERTERS_PACKAGE, "FloatConverter", "simple_converters"),
    *_declare_converter(_CONVERTERS_PACKAGE, "DoubleConverter", "simple_converters"),
)


def build_alias_table(plugins: Iterable[ShippedPlugin], kind: PluginKind) -> dict[str, str]:
    """Map every full and short name of the plugins of one kind to the plugin's class.

    Full names take precedence over short names. Ambiguous short names are omitted.
    """
    wanted = [each for each in plugins if each.kind is kind]
    found: dict[str, str] = {}
    ambiguous: set[str] = set()
    for each in wanted:
        for name in list_short_names(each.java_name, kind):
            if found.setdefault(name, each.target) != each.target:
                ambiguous.add(name)
    for name in ambiguous:
        del found[name]
    for each in wanted:
        found.update(dict.fromkeys(each.full_names, each.target))
    return found


Kind = PluginKind


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """An installed plugin. `class_name` is the Java class name if the plugin has one; `version` is
    None if unknown."""

    kind: Kind
    class_name: str
    version: str | None


class PluginRegistry(Protocol):
    """Finds installed plugin classes by name. Thread-safe."""

    def find_plugin_class(self, name: str, *kinds: Kind) -> type[Any]:
        """Return the plugin class of one of these kinds with the given full name, simple name or
        alias.

        Raises `ConfigError` if no plugin matches, or if a short name is ambiguous.
        """

    def list_installed_plugins(self) -> Sequence[InstalledPlugin]:
        """Return all installed plugins, sorted by kind and name."""
