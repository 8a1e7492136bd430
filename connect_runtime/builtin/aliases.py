"""By which names configurations call the plugins shipped here.

Data only: whoever looks for plugins loads the classes. Java's class names mean our classes, so
that a connector configuration runs unchanged; as in Java each class may also be called by its
simple name, and by that without the ending of its kind (`FileStreamSource`, `Json`). A name that
two plugins of one kind share means neither.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

_API = "org.apache.kafka.connect.storage"
_JSON = "org.apache.kafka.connect.json"
_CONVERTERS = "org.apache.kafka.connect.converters"
_FILE = "org.apache.kafka.connect.file"
_OURS = "connect_runtime.builtin"


class Kind(enum.Enum):
    """The value is the word that Connect's REST API has for it."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


_ENDINGS = {
    Kind.SOURCE: "Connector",
    Kind.SINK: "Connector",
    Kind.CONVERTER: "Converter",
    Kind.HEADER_CONVERTER: "HeaderConverter",
    Kind.TRANSFORMATION: "Transformation",
    Kind.PREDICATE: "Predicate",
}


@dataclass(frozen=True, slots=True)
class Plugin:
    """`java_name` is its class in Apache Kafka, `target` ours, as `module:Class`."""

    kind: Kind
    java_name: str
    target: str

    @property
    def full_names(self) -> tuple[str, ...]:
        return self.java_name, self.target, self.target.replace(":", ".")


def short_names(class_name: str, kind: Kind) -> tuple[str, ...]:
    """The simple name, and that without its ending (Java's PluginUtils.prunedName).

    Of `…InsertField$Value` it is `Value`, which many transforms share: of no use, as in Java.
    """
    simple = class_name.rpartition(".")[2].rpartition("$")[2].rpartition(":")[2]
    place = simple.rfind(_ENDINGS[kind])
    return tuple(dict.fromkeys((simple, simple[:place] if place > 0 else simple)))


def _both(java_package: str, simple: str, module: str) -> tuple[Plugin, Plugin]:
    """A class that converts records and headers."""
    java_name, target = f"{java_package}.{simple}", f"{_OURS}.converters.{module}:{simple}"
    return (
        Plugin(Kind.CONVERTER, java_name, target),
        Plugin(Kind.HEADER_CONVERTER, java_name, target),
    )


FILE_STREAMS: tuple[Plugin, ...] = (
    Plugin(
        Kind.SOURCE,
        f"{_FILE}.FileStreamSourceConnector",
        f"{_OURS}.connectors.file_stream_source:FileStreamSourceConnector",
    ),
    Plugin(
        Kind.SINK,
        f"{_FILE}.FileStreamSinkConnector",
        f"{_OURS}.connectors.file_stream_sink:FileStreamSinkConnector",
    ),
)
"""Connectors that read and write files of the worker's machine: there only for workers that set
`file.stream.allowed.paths`. (Apache took them off its class path in 3.2, KAFKA-13748.)"""

PLUGINS: tuple[Plugin, ...] = (
    *_both(_JSON, "JsonConverter", "json"),
    *_both(_API, "StringConverter", "string"),
    Plugin(
        Kind.HEADER_CONVERTER,
        f"{_API}.SimpleHeaderConverter",
        f"{_OURS}.converters.simple_header:SimpleHeaderConverter",
    ),
    *_both(_CONVERTERS, "ByteArrayConverter", "byte_array"),
    *_both(_CONVERTERS, "BooleanConverter", "primitives"),
    *_both(_CONVERTERS, "ShortConverter", "primitives"),
    *_both(_CONVERTERS, "IntegerConverter", "primitives"),
    *_both(_CONVERTERS, "LongConverter", "primitives"),
    *_both(_CONVERTERS, "FloatConverter", "primitives"),
    *_both(_CONVERTERS, "DoubleConverter", "primitives"),
)


def table(plugins: Iterable[Plugin], kind: Kind) -> dict[str, str]:
    """From every name of the plugins of one kind to its class.

    A full name goes before a short one; a short one that means two classes is left out.
    """
    wanted = [each for each in plugins if each.kind is kind]
    found: dict[str, str] = {}
    ambiguous: set[str] = set()
    for each in wanted:
        for name in short_names(each.java_name, kind):
            if found.setdefault(name, each.target) != each.target:
                ambiguous.add(name)
    for name in ambiguous:
        del found[name]
    for each in wanted:
        found.update(dict.fromkeys(each.full_names, each.target))
    return found
