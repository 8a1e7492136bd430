"""Kinds of plugins, the shipped plugins with their names and aliases, and the port
`PluginRegistry`.

Data only: `plugin_discovery` loads the classes. Java's class names map to our classes, so that a
connector configuration runs unchanged. As in Java, a class may also be called by its simple name,
and by that name without the suffix of its kind (`FileStreamSource`, `Json`). An alias that two
plugins of one kind share is not usable for either.
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
    """The value is the word that Connect's REST API has for it."""

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
    """`java_name` is its class in Apache Kafka, `target` ours, as `module:Class`."""

    kind: PluginKind
    java_name: str
    target: str

    @property
    def full_names(self) -> tuple[str, ...]:
        return self.java_name, self.target, self.target.replace(":", ".")


def list_short_names(class_name: str, kind: PluginKind) -> tuple[str, ...]:
    """The simple name, and that without its ending (Java's PluginUtils.prunedName).

    Of `…InsertField$Value` it is `Value`, which many transforms share: of no use, as in Java.
    """
    simple = class_name.rpartition(".")[2].rpartition("$")[2].rpartition(":")[2]
    place = simple.rfind(_CLASS_NAME_SUFFIXES[kind])
    return tuple(dict.fromkeys((simple, simple[:place] if place > 0 else simple)))


def _declare_converter(
    java_package: str, simple: str, module: str
) -> tuple[ShippedPlugin, ShippedPlugin]:
    """A class that converts records and headers."""
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
"""Connectors that read and write files of the worker's machine: there only for workers that set
`file.stream.allowed.paths`. (Apache took them off its class path in 3.2, KAFKA-13748.)"""

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
    """From every name of the plugins of one kind to its class.

    A full name goes before a short one; a short one that means two classes is left out.
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
    """`class_name` is what users write: Java's where there is one. `version` None: it has none."""

    kind: Kind
    class_name: str
    version: str | None


class PluginRegistry(Protocol):
    """Any thread may ask."""

    def find(self, name: str, *kinds: Kind) -> type[Any]:
        """The class that a name means among these kinds: full name, simple name or alias.

        Raises `ConfigError`: there is none, or the short name means several.
        """

    def installed(self) -> Sequence[InstalledPlugin]:
        """All, sorted by kind and name."""
