from __future__ import annotations

import importlib

import pytest

from connect_runtime.api import connector, converter
from connect_runtime.builtin import aliases

Kind = aliases.Kind
SHIPPED = (*aliases.FILE_STREAMS, *aliases.PLUGINS)
BASES = {
    Kind.SOURCE: connector.SourceConnector,
    Kind.SINK: connector.SinkConnector,
    Kind.CONVERTER: converter.Converter,
    Kind.HEADER_CONVERTER: converter.HeaderConverter,
}


@pytest.mark.parametrize("plugin", SHIPPED, ids=lambda each: f"{each.kind}-{each.target}")
def test_each_target_is_a_class_of_its_kind(plugin):
    module, _, name = plugin.target.partition(":")
    found = getattr(importlib.import_module(module), name)
    assert issubclass(found, BASES[plugin.kind])
    assert found().version() == "4.3.1"


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        (
            "org.apache.kafka.connect.file.FileStreamSourceConnector",
            Kind.SOURCE,
            "connectors.file_stream_source:FileStreamSourceConnector",
        ),
        (
            "FileStreamSource",
            Kind.SOURCE,
            "connectors.file_stream_source:FileStreamSourceConnector",
        ),
        ("FileStreamSink", Kind.SINK, "connectors.file_stream_sink:FileStreamSinkConnector"),
        (
            "org.apache.kafka.connect.json.JsonConverter",
            Kind.CONVERTER,
            "converters.json:JsonConverter",
        ),
        ("JsonConverter", Kind.CONVERTER, "converters.json:JsonConverter"),
        ("Json", Kind.CONVERTER, "converters.json:JsonConverter"),
        ("StringConverter", Kind.HEADER_CONVERTER, "converters.string:StringConverter"),
        ("ByteArray", Kind.CONVERTER, "converters.byte_array:ByteArrayConverter"),
        (
            "org.apache.kafka.connect.converters.LongConverter",
            Kind.HEADER_CONVERTER,
            "converters.primitives:LongConverter",
        ),
        (
            "connect_runtime.builtin.converters.json.JsonConverter",
            Kind.CONVERTER,
            "converters.json:JsonConverter",
        ),
    ],
)
def test_names_that_configurations_use(name, kind, target):
    assert aliases.table(SHIPPED, kind)[name] == f"connect_runtime.builtin.{target}"


def test_kinds_do_not_mix():
    assert "FileStreamSink" not in aliases.table(SHIPPED, Kind.SOURCE)
    assert "JsonConverter" not in aliases.table(SHIPPED, Kind.SINK)


@pytest.mark.parametrize(
    ("class_name", "kind", "names"),
    [
        ("a.b.FooConnector", Kind.SINK, ("FooConnector", "Foo")),
        ("a.b:FooConnector", Kind.SINK, ("FooConnector", "Foo")),
        ("a.b.Foo", Kind.SOURCE, ("Foo",)),
        ("a.b.Connector", Kind.SOURCE, ("Connector",)),
        ("a.b.SimpleHeaderConverter", Kind.HEADER_CONVERTER, ("SimpleHeaderConverter", "Simple")),
        ("a.b.JsonConverter", Kind.HEADER_CONVERTER, ("JsonConverter",)),
        ("a.b.InsertField$Value", Kind.TRANSFORMATION, ("Value",)),
    ],
)
def test_short_names(class_name, kind, names):
    assert aliases.short_names(class_name, kind) == names


def test_a_short_name_of_two_classes_means_neither():
    one = aliases.Plugin(Kind.SOURCE, "a.FooConnector", "a:FooConnector")
    two = aliases.Plugin(Kind.SOURCE, "b.FooConnector", "b:FooConnector")
    three = aliases.Plugin(Kind.SOURCE, "c.FooConnector", "c:FooConnector")
    found = aliases.table([one, two, three], Kind.SOURCE)
    assert "Foo" not in found
    assert "FooConnector" not in found
    assert found["a.FooConnector"] == "a:FooConnector"
    assert found["b:FooConnector"] == "b:FooConnector"
