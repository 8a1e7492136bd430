from __future__ import annotations

import json

import pytest

from connect_runtime.api import errors
from connect_runtime.app.settings import connector_files
from connect_runtime.core.state import cluster_config

State = cluster_config.TargetState
CONFIG = {"name": "a", "connector.class": "FileStreamSource", "tasks.max": "1"}


def parse(content: str) -> connector_files.Connector:
    return connector_files.parse(content.encode())


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
        ('{"name": "a", "config": {"name": "b"}}', "another than the 'name' beside it"),
        ('{"name": "a", "config": [5]}', "'config', a JSON object of strings, was expected"),
        ('{"name": "a", "config": {}, "initial_state": "ASLEEP"}', "none of RUNNING"),
        ('{"name": "a"', "no JSON.* line 1, column 13"),
    ],
)
def test_what_is_no_connector_is_refused(content, told):
    with pytest.raises(errors.ConfigError, match=told):
        parse(content)


def test_a_file_is_named_and_its_values_are_not(tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"password": "hush"}')
    with pytest.raises(errors.ConfigError, match=r"c.json: the connector has no 'name'") as raised:
        connector_files.read(file)
    assert "hush" not in str(raised.value)
    assert "hush" not in repr(parse("name=a\npassword=hush\n"))
    with pytest.raises(errors.ConfigError, match="gone: cannot be read"):
        connector_files.read(tmp_path / "gone")
