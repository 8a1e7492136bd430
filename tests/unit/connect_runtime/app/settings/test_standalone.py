from __future__ import annotations

import pathlib

import pytest

from connect_runtime.app.settings import problems, standalone


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
    assert found.access.settings["socket.timeout.ms"] == 5000


def test_a_file_is_read(tmp_path: pathlib.Path):
    file = tmp_path / "w.properties"
    file.write_text("offset.flush.interval.ms=-1\n")
    with pytest.raises(problems.SettingsError, match="5 problems in") as raised:
        standalone.read(file, environment={})
    assert "w.properties:1: offset.flush.interval.ms: Value must be at least 0" in str(raised.value)
