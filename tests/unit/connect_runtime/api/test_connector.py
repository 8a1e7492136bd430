from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.api import config_def, connector, errors


class Source(connector.SourceConnector):
    def __init__(self) -> None:
        self.calls: list[object] = []
        self.definition = config_def.ConfigDef().define("topic", config_def.Type.STRING, "Where")

    def start(self, props):
        self.calls.append(props)

    def stop(self):
        self.calls.append("stop")

    def task_class(self):
        raise NotImplementedError

    def task_configs(self, max_tasks):
        return [{}] * max_tasks

    def config(self):
        return self.definition


def test_a_connector_is_validated_by_its_definition():
    (found,) = Source().validate({})
    assert found.error_messages == [
        'Missing required configuration "topic" which has no default value.'
    ]
    lacking: Any = Source()
    lacking.definition = None
    with pytest.raises(errors.ConnectError, match="must return a ConfigDef that is not null"):
        lacking.validate({})


def test_it_is_reconfigured_by_stop_and_start():
    source = Source()
    source.reconfigure({"topic": "t"})
    assert source.calls == ["stop", {"topic": "t"}]


def test_what_it_does_not_say_it_does_not_support():
    source = Source()
    assert source.exactly_once_support({}) is None
    unsupported = connector.TransactionBoundaries.UNSUPPORTED
    assert source.can_define_transaction_boundaries({}) is unsupported
    assert source.alter_offsets({}, []) is False
    assert source.version() == "undefined"
    kind: Any = connector.SinkConnector
    with pytest.raises(TypeError, match="task_configs"):
        kind()
