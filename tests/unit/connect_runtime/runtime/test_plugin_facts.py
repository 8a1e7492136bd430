from __future__ import annotations

from connect_runtime.adapters.plugins import discovery
from connect_runtime.api import connector
from connect_runtime.builtin.connectors import file_stream_sink
from connect_runtime.runtime import plugin_facts

INSTALLED = discovery.discover(file_paths=["/"])


class Mine(connector.SourceConnector):
    def version(self):
        raise OSError("no")

    def task_class(self):
        return str

    def start(self, props): ...
    def stop(self): ...
    def config(self): ...
    def task_configs(self, max_tasks): ...


def test_what_stands_in_for_a_java_class_goes_by_its_name():
    made = INSTALLED.find("FileStreamSink", *plugin_facts.CONNECTORS)()
    java = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    assert type(made).__module__ == file_stream_sink.__name__
    assert plugin_facts.java_name(type(made), INSTALLED, *plugin_facts.CONNECTORS) == java
    assert plugin_facts.task_name(made, INSTALLED) == java.replace("Connector", "Task")
    assert plugin_facts.of_connector(made, INSTALLED) == {
        "connector-type": "sink",
        "connector-class": java,
        "connector-version": made.version(),
    }


def test_a_source_may_have_a_converter_of_its_own():
    assert plugin_facts.default_converter(Mine()) is None
    made = Mine()
    made.default_converter = "Bytes"  # type: ignore[misc]  # what a class of its own would say
    assert plugin_facts.default_converter(made) == "Bytes"
    sink = INSTALLED.find("FileStreamSink", *plugin_facts.CONNECTORS)()
    assert plugin_facts.default_converter(sink) is None


def test_what_is_nobodys_has_its_own_name_and_whatever_version():
    made = Mine()
    assert plugin_facts.java_name(Mine, INSTALLED, *plugin_facts.CONNECTORS) is None
    assert plugin_facts.task_name(made, INSTALLED) == "builtins.str"
    assert plugin_facts.of_connector(made, INSTALLED) == {
        "connector-type": "source",
        "connector-class": f"{__name__}.Mine",
        "connector-version": "",
    }


def test_a_version_that_is_no_text_is_none():
    class Odd:
        def version(self):
            return 7

    assert plugin_facts.version(Odd()) is None
