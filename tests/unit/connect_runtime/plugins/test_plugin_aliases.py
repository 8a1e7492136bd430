from __future__ import annotations

import importlib

import pytest

from connect_runtime.api.connector import SinkConnector, SourceConnector
from connect_runtime.api.converter import Converter, HeaderConverter
from connect_runtime.plugins import plugin_aliases
from connect_runtime.plugins.plugin_aliases import PluginKind, ShippedPlugin

Kind = PluginKind
SHIPPED = (*plugin_aliases.FILE_STREAM_PLUGINS, *plugin_aliases.SHIPPED_PLUGINS)
BASES = {
    Kind.SOURCE: SourceConnector,
    Kind.SINK: SinkConnector,
    Kind.CONVERTER: Converter,
    Kind.HEADER_CONVERTER: HeaderConverter,
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
            "file_stream:FileStreamSourceConnector",
        ),
        (
            "FileStreamSource",
            Kind.SOURCE,
            "file_stream:FileStreamSourceConnector",
        ),
        ("FileStreamSink", Kind.SINK, "file_stream:FileStreamSinkConnector"),
        (
            "org.apache.kafka.connect.json.JsonConverter",
            Kind.CONVERTER,
            "json_converter:JsonConverter",
        ),
        ("JsonConverter", Kind.CONVERTER, "json_converter:JsonConverter"),
        ("Json", Kind.CONVERTER, "json_converter:JsonConverter"),
        ("StringConverter", Kind.HEADER_CONVERTER, "simple_converters:StringConverter"),
        ("ByteArray", Kind.CONVERTER, "simple_converters:ByteArrayConverter"),
        (
            "org.apache.kafka.connect.converters.LongConverter",
            Kind.HEADER_CONVERTER,
            "simple_converters:LongConverter",
        ),
        (
            "connect_runtime.plugins.json_converter.JsonConverter",
            Kind.CONVERTER,
            "json_converter:JsonConverter",
        ),
    ],
)
def test_names_that_configurations_use(name, kind, target):
    assert (
        plugin_aliases.build_alias_table(SHIPPED, kind)[name] == f"connect_runtime.plugins.{target}"
    )


def test_kinds_do_not_mix():
    assert "FileStreamSink" not in plugin_aliases.build_alias_table(SHIPPED, Kind.SOURCE)
    assert "JsonConverter" not in plugin_aliases.build_alias_table(SHIPPED, Kind.SINK)


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
    assert plugin_aliases.list_short_names(class_name, kind) == names


def test_a_short_name_of_two_classes_means_neither():
    one = ShippedPlugin(Kind.SOURCE, "a.FooConnector", "a:FooConnector")
    two = ShippedPlugin(Kind.SOURCE, "b.FooConnector", "b:FooConnector")
    three = ShippedPlugin(Kind.SOURCE, "c.FooConnector", "c:FooConnector")
    found = plugin_aliases.build_alias_table([one, two, three], Kind.SOURCE)
    assert "Foo" not in found
    assert "FooConnector" not in found
    assert found["a.FooConnector"] == "a:FooConnector"
    assert found["b:FooConnector"] == "b:FooConnector"
