"""Kinds of plugins, the shipped plugins with their names and aliases, and the protocol
`PluginRegistry`.

Data only: `plugin_discovery` loads the classes. Java's class names map to Python classes, so that a
connector configuration works unchanged. As in Java, a class is also known by its simple name, and
by that name without the suffix of its kind (`FileStreamSource`, `Json`). An alias that two
plugins of one kind share cannot be used.
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
    """Kinds of plugins; the value is the kind's name in Connect's REST API."""

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
    """A plugin with its class name in Apache Kafka, and the Python class as `module:Class`."""

    kind: PluginKind
    java_name: str
    target: str

    @property
    def full_names(self) -> tuple[str, ...]:
        return self.java_name, self.target, self.target.replace(":", ".")


def list_short_names(class_name: str, kind: PluginKind) -> tuple[str, ...]:
    """Return the simple name, and the name without its kind's suffix (Java's prunedName).

    For `…InsertField$Value` this is `Value`, which many transforms share: unusable, as in Java.
    """
    simple = class_name.rpartition(".")[2].rpartition("$")[2].rpartition(":")[2]
    place = simple.rfind(_CLASS_NAME_SUFFIXES[kind])
    return tuple(dict.fromkeys((simple, simple[:place] if place > 0 else simple)))


def _declare_converter(
    java_package: str, simple: str, module: str
) -> tuple[ShippedPlugin, ShippedPlugin]:
    """Declare a class as both a record converter and a header converter."""
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
"""Connectors that access files of the worker's machine: available only if the worker sets
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
    """Map every name of the plugins of one kind to its class.

    Full names take precedence over short names; ambiguous short names are left out.
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
    """An installed plugin; `class_name` is Java's if there is one, `version` None if unknown."""

    kind: Kind
    class_name: str
    version: str | None


class PluginRegistry(Protocol):
    """Finds plugin classes by name. Thread-safe."""

    def find(self, name: str, *kinds: Kind) -> type[Any]:
        """Return the class of these kinds with this full name, simple name or alias.

        Raises `ConfigError` if there is none, or if a short name is ambiguous.
        """

    def list_installed(self) -> Sequence[InstalledPlugin]:
        """Return all plugins, sorted by kind and name."""
