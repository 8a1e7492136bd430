from __future__ import annotations

import json
import pathlib

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.app import standalone_settings
from connect_runtime.app.standalone_settings import ConnectorFile
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.storage.cluster_config_state import TargetState

State = TargetState
CONFIG = {"name": "a", "connector.class": "FileStreamSource", "tasks.max": "1"}


def parse(content: str) -> ConnectorFile:
    return standalone_settings.parse_connector_file(content.encode())


@pytest.mark.parametrize(
    ("content", "state"),
    [
        ("# of mine\nname=a\nconnector.class: FileStreamSource\ntasks.max=1\n", None),
        (json.dumps({**CONFIG, "tasks.max": 1}), None),
        (json.dumps({"name": "a", "config": CONFIG}), None),
        (
            json.dumps({
                "name": "a",
                "config": {each: CONFIG[each] for each in CONFIG if each != "name"},
                "initial_state": "stopped",
                "owner": "me",
            }),
            State.STOPPED,
        ),
    ],
)  # fmt: skip
def test_the_shapes_of_a_file(content, state):
    found = parse(content)
    assert (found.name, found.config, found.target_state) == ("a", CONFIG, state)


def test_null_and_numbers_in_json():
    found = parse('\ufeff {"name": "a", "x": null, "y": 1.50, "z": true}')
    assert found.config == {"name": "a", "x": None, "y": "1.50", "z": "true"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "has no 'name'"),
        ("connector.class=X\n", "has no 'name'"),
        ("a=\\u1\n", "line 1"),
        ('{"connector.class": "X"}', "has no 'name'"),
        ('{"config": {"connector.class": "X"}}', "has no 'name'"),
        ('{"name": "a", "config": {"name": "b"}}', "differs from the 'name' outside 'config'"),
        ('{"name": "a", "config": [5]}', "expected a JSON object of strings as 'config'"),
        ('{"name": "a", "config": {}, "initial_state": "ASLEEP"}', "must be one of RUNNING"),
        ('{"name": "a"', "not valid JSON.* line 1, column 13"),
    ],
)
def test_what_is_no_connector_is_refused(content, told):
    with pytest.raises(ConfigError, match=told):
        parse(content)


def test_a_file_is_named_and_its_values_are_not(tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"password": "hush"}')
    with pytest.raises(ConfigError, match=r"c.json: the connector has no 'name'") as raised:
        standalone_settings.read_connector_file(file)
    assert "hush" not in str(raised.value)
    assert "hush" not in repr(parse("name=a\npassword=hush\n"))
    with pytest.raises(ConfigError, match="gone: cannot be read"):
        standalone_settings.read_connector_file(tmp_path / "gone")


def test_a_worker_alone(alone, tmp_path):
    found = alone({"topic.tracking.enable": "false", "offset.flush.interval.ms": "10"})
    assert found.offset_file == tmp_path / "offsets"
    assert (found.config.flush_interval_s, found.herder.topics_tracked) == (0.01, False)
    assert found.access.bootstrap == ("a:1", "b:2")


def test_a_group_is_nothing_to_it(alone):
    (told,) = alone({"group.id": "g"}).warnings
    assert told.startswith("w:5: group.id: has no effect")


def test_what_its_clients_know_is_known(alone):
    found = alone({"security.protocol": "PLAINTEXT", "request.timeout.ms": "5000"})
    assert found.warnings == ()
    assert found.access.librdkafka_settings["socket.timeout.ms"] == 5000


def test_a_file_is_read(tmp_path: pathlib.Path):
    file = tmp_path / "w.properties"
    file.write_text("offset.flush.interval.ms=-1\n")
    with pytest.raises(SettingsError, match="5 problems in") as raised:
        standalone_settings.read_settings(file, environment={})
    assert "w.properties:1: offset.flush.interval.ms: Value must be at least 0" in str(raised.value)
