"""Plugins are found by every name that users have for them."""

from __future__ import annotations

import logging
import sys

import pytest

from connect_runtime.api import config_types
from connect_runtime.api.errors import ConfigError
from connect_runtime.plugins import plugin_aliases, plugin_discovery
from connect_runtime.plugins.file_stream import FileStreamSinkConnector, FileStreamSourceConnector
from connect_runtime.plugins.header_converter import SimpleHeaderConverter
from connect_runtime.plugins.json_converter import JsonConverter

Kind = plugin_aliases.Kind
CONNECTORS = (Kind.SOURCE, Kind.SINK)
MODULE = """
from connect_runtime.api import config_def, connector, converter
from connect_runtime.plugins.json_converter import JsonConverter

class {name}(connector.SourceConnector):
    def version(self): return "7"
    def config(self): return config_def.ConfigDef()
    def task_class(self): return None
    def task_configs(self, max_tasks): return []

class Abstract(converter.Converter): ...
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for `plugin.path`; what it brings is gone afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSourceConnector",
        "FileStreamSource",
        "connect_runtime.plugins.file_stream:FileStreamSourceConnector",
        "connect_runtime.plugins.file_stream.FileStreamSourceConnector",
        " FileStreamSource ",
    ],
)
def test_shipped_connectors_go_by_javas_names_and_ours(name, tmp_path):
    found = plugin_discovery.discover_plugins(file_paths=[str(tmp_path)]).find_plugin_class(
        name, *CONNECTORS
    )
    assert issubclass(found, FileStreamSourceConnector)
    assert config_types.get_class_name(found) == config_types.get_class_name(
        FileStreamSourceConnector
    )


@pytest.mark.parametrize(
    "name",
    [
        "FileStreamSource",
        "FileStreamSink",
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "connect_runtime.plugins.file_stream:FileStreamSinkConnector",
    ],
)
def test_file_stream_connectors_are_off_unless_paths_are_allowed(name):
    found = plugin_discovery.discover_plugins()
    with pytest.raises(ConfigError, match=r"file\.stream\.allowed\.paths"):
        found.find_plugin_class(name, *CONNECTORS)
    assert not [each for each in found.list_installed_plugins() if "FileStream" in each.class_name]


def test_kinds_are_told_apart():
    found = plugin_discovery.discover_plugins()
    assert found.find_plugin_class("Json", Kind.CONVERTER) is JsonConverter
    assert found.find_plugin_class("Simple", Kind.HEADER_CONVERTER) is SimpleHeaderConverter
    with pytest.raises(ConfigError, match="name matches FileStreamSource"):
        found.find_plugin_class("FileStreamSource", Kind.CONVERTER)


def test_what_is_there_is_listed_with_versions():
    installed = plugin_discovery.discover_plugins(file_paths=["/"]).list_installed_plugins()
    found = {(each.kind, each.class_name): each.version for each in installed}
    name = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    assert found[Kind.SINK, name] == FileStreamSinkConnector().version()
    assert (Kind.HEADER_CONVERTER, "org.apache.kafka.connect.json.JsonConverter") in found


def test_a_folder_of_modules_brings_plugins(folder):
    (folder / "acme_orders.py").write_text(MODULE.format(name="OrdersConnector"))
    found = plugin_discovery.discover_plugins([str(folder)])
    for name in ("acme_orders.OrdersConnector", "OrdersConnector", "Orders"):
        assert found.find_plugin_class(name, *CONNECTORS).__module__ == "acme_orders"
    listed = [each for each in found.list_installed_plugins() if "acme_orders" in each.class_name]
    assert [(each.kind, each.version) for each in listed] == [(Kind.SOURCE, "7")]


def test_what_a_folder_brings_is_told_and_that_one_brings_nothing(folder, caplog):
    (folder / "acme_sales.py").write_text(MODULE.format(name="SalesConnector"))
    nested = folder / "acme"
    nested.mkdir()
    (nested / "java_style").mkdir()
    (nested / "java_style" / "acme_stock.py").write_text(MODULE.format(name="StockConnector"))
    with caplog.at_level(logging.INFO):
        plugin_discovery.discover_plugins([str(folder), str(nested)])
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("INFO", f"plugin.path: plugins in {folder}: acme_sales.SalesConnector"),
        ("WARNING", f"plugin.path: no plugins found in the Python modules of {nested}"),
    ]


def test_a_short_name_of_two_is_refused_and_full_names_are_not(folder):
    (folder / "one_of_two.py").write_text(MODULE.format(name="FileStreamSourceConnector"))
    found = plugin_discovery.discover_plugins([str(folder)], ["/"])
    with pytest.raises(ConfigError, match="More than one connector matches alias") as told:
        found.find_plugin_class("FileStreamSource", *CONNECTORS)
    assert "one_of_two.FileStreamSourceConnector" in str(told.value)
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in str(told.value)
    assert (
        found.find_plugin_class("one_of_two.FileStreamSourceConnector", *CONNECTORS).__module__
        == "one_of_two"
    )


def test_a_module_that_cannot_be_imported_harms_no_other(folder, caplog):
    (folder / "broken_plugin.py").write_text("raise RuntimeError('out of paper')")
    (folder / "script_plugin.py").write_text("import sys\nsys.exit('done with work')")
    (folder / "good_plugin.py").write_text(MODULE.format(name="Good"))
    (folder / "driver.jar").touch()
    with caplog.at_level(logging.WARNING):
        found = plugin_discovery.discover_plugins([str(folder), str(folder / "absent")])
    assert found.find_plugin_class("Good", *CONNECTORS)
    assert "out of paper" in caplog.text
    assert "done with work" in caplog.text
    assert "jars" in caplog.text
    assert "absent is not a directory" in caplog.text


def test_entry_points_may_bring_a_name_of_javas(folder):
    (folder / "declared_plugin.py").write_text(MODULE.format(name="Mirror"))
    points = folder / "declared_plugin-1.0.dist-info"
    points.mkdir()
    (points / "METADATA").write_text("Metadata-Version: 2.1\nName: declared-plugin\nVersion: 1.0\n")
    (points / "entry_points.txt").write_text(
        f"[{plugin_discovery.ENTRY_POINT_GROUP}]\norg.acme.MirrorConnector = "
        "declared_plugin:Mirror\n"
        "broken = declared_plugin:Nothing\nnone = json:loads\n"
    )
    sys.path.append(str(folder))
    found = plugin_discovery.discover_plugins()
    for name in ("org.acme.MirrorConnector", "MirrorConnector", "Mirror", "declared_plugin:Mirror"):
        assert found.find_plugin_class(name, *CONNECTORS).__name__ == "Mirror"
    assert "org.acme.MirrorConnector" in [
        each.class_name for each in found.list_installed_plugins()
    ]


MARKS = """
import pathlib
pathlib.Path(__file__).with_suffix(".imported").touch()
"""


@pytest.mark.parametrize("kind", list(Kind), ids=lambda each: each.value)
@pytest.mark.parametrize("name", ["quiet_plugin.Quiet", "quiet_plugin:Quiet", "quiet_plugin.x.Y"])
def test_a_class_that_is_not_discovered_is_not_imported(folder, name, kind):
    """Names come from connectors' configurations, which anybody who reaches REST may send."""
    (folder / "quiet_plugin.py").write_text(MARKS + MODULE.format(name="Quiet"))
    sys.path.append(str(folder))
    found = plugin_discovery.discover_plugins()
    with pytest.raises(ConfigError, match="Failed to find any class that implements"):
        found.find_plugin_class(name, kind)
    assert "quiet_plugin" not in sys.modules
    assert not (folder / "quiet_plugin.imported").exists()


def test_a_class_that_is_imported_and_no_plugin_is_not_found_either(folder):
    with pytest.raises(ConfigError, match="Failed to find any class"):
        plugin_discovery.discover_plugins().find_plugin_class(f"{__name__}.Undeclared", *CONNECTORS)


class Undeclared(FileStreamSourceConnector):
    """A connector that nobody has declared."""


def test_a_plugin_whose_import_ends_the_process_is_left_out(folder, caplog):
    (folder / "ends.py").write_text("class Ends(BaseException): ...\nraise Ends('the end')")
    plugin_discovery.discover_plugins([str(folder)])
    assert "the end" in caplog.text
