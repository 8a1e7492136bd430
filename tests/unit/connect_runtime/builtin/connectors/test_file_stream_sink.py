from __future__ import annotations

import io

import pytest

from connect_runtime.api import errors, records
from connect_runtime.builtin.connectors import allowed_paths
from connect_runtime.builtin.connectors import file_stream_sink as sink

TASK = allowed_paths.restrict_to_paths(sink.FileStreamSinkTask, allowed_paths.AllowedPaths(["/"]))


def record(value: object) -> records.SinkRecord:
    return records.SinkRecord(topic="t", kafka_partition=0, kafka_offset=1, value=value)


def test_records_are_lines(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("before\n")
    task = TASK()
    task.start({"file": str(path)})
    task.put([record("caf\u00e9"), record(None)])
    task.put([record({"a": True})])
    task.flush({})
    assert path.read_text() == "before\ncaf\u00e9\nnull\n{a=true}\n"
    task.stop()
    task.stop()


def test_without_a_file_it_is_standard_output(monkeypatch):
    output = io.StringIO()
    monkeypatch.setattr("sys.stdout", output)
    task = TASK()
    task.start({})
    task.put([record(5)])
    task.flush({})
    task.stop()
    assert not output.closed
    assert output.getvalue() == "5\n"


def test_a_file_that_cannot_be_made_fails_with_its_name(tmp_path):
    path = tmp_path / "none" / "out.txt"
    with pytest.raises(errors.ConnectError, match=f"Couldn't find or create file '{path}'"):
        TASK().start({"file": str(path)})


def test_the_connector():
    one = sink.FileStreamSinkConnector()
    one.start({"file": "f"})
    assert one.task_configs(3) == [{"file": "f"}] * 3
    assert issubclass(one.task_class(), sink.FileStreamSinkTask)
    assert one.alter_offsets({}, {})
    assert list(one.config().keys) == ["file"]
    one.stop()
