from __future__ import annotations

import io
import os

import pytest

from connect_runtime.api import schema
from connect_runtime.api.connector import ExactlyOnceSupport
from connect_runtime.api.errors import ConfigError, ConnectError
from connect_runtime.api.records import SourceOffset, SourceRecord
from connect_runtime.plugins import allowed_paths, file_stream
from connect_runtime.plugins.allowed_paths import AllowedPaths
from connect_runtime.plugins.file_stream import FileStreamSourceConnector, FileStreamSourceTask
from tests.fakes.plugin_contexts import Context, Offsets

TASK = allowed_paths.restrict_plugin_to_paths(FileStreamSourceTask, AllowedPaths(["/"]))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "input.txt"


def started(path, stored=(), **props: str):
    task = TASK()
    fake = Context()
    fake.offset_reader = Offsets(list(stored))
    task.initialize(fake)
    named = {name.replace("_", "."): value for name, value in props.items()}
    task.start({"file": str(path), "topic": "lines", "name": "x", **named})
    return task, fake


def given(task) -> list[tuple[str, int]]:
    found = task.poll() or []
    return [(each.value, each.source_offset["position"]) for each in found]


def test_lines_become_records_with_the_place_behind_them(path):
    path.write_bytes(b"one\ntwo\r\nhalf")
    task, fake = started(path)
    first, second = task.poll()
    assert first == SourceRecord(
        topic="lines",
        value_schema=schema.STRING_SCHEMA,
        value="one",
        timestamp=fake.clock.wall,
        source_partition={"filename": str(path)},
        source_offset={"position": 4},
    )
    assert (second.value, second.source_offset) == ("two", {"position": 9})
    assert task.poll() is None
    with path.open("ab") as stream:
        stream.write(b" and half\n")
    assert given(task) == [("half and half", 23)]
    task.stop()


def test_it_goes_on_where_offsets_were_committed(path):
    path.write_bytes("\u00e9\u00e9\nb\nc\n".encode())
    task, _ = started(path)
    taken = task.poll()
    assert [each.value for each in taken] == ["\u00e9\u00e9", "b", "c"]
    partition, offset = taken[0].source_partition, taken[0].source_offset
    again, _ = started(path, [(partition, offset)])
    assert given(again) == [("b", 7), ("c", 9)]
    task.stop()
    again.stop()


def test_a_batch_has_its_size_and_the_rest_is_not_forgotten(path):
    path.write_bytes(b"a\nb\nc\nd\ne\n")
    task, _ = started(path, batch_size="2")
    batches = [given(task) for _ in range(4)]
    assert [[value for value, _ in batch] for batch in batches] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
        [],
    ]
    task.stop()


def test_lines_longer_than_a_chunk(path):
    path.write_bytes(b"x" * (3 * file_stream.READ_CHUNK_BYTES) + b"\nshort\n")
    task, _ = started(path)
    assert [len(value) for value, _ in given(task)] == [3 * file_stream.READ_CHUNK_BYTES, 5]
    task.stop()


def test_a_file_that_is_not_there_yet_is_waited_for(path):
    task, fake = started(path)
    assert task.poll() is None
    assert fake.waited_s == file_stream.IDLE_POLL_INTERVAL_S
    path.write_bytes(b"now\n")
    assert given(task) == [("now", 4)]
    task.stop()
    task.stop()


def test_what_cannot_be_opened_fails_with_its_name(tmp_path):
    task, _ = started(tmp_path)
    with pytest.raises(ConnectError, match=str(tmp_path)):
        task.poll()
    task.stop()


def test_a_stored_position_must_be_a_number(path):
    path.write_bytes(b"a\n")
    task, _ = started(path, [({"filename": str(path)}, {"position": "4"})])
    with pytest.raises(ConnectError, match="not an integer"):
        task.poll()


def test_standard_input_has_no_offsets(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stdin, os.fdopen(writing, "wb", buffering=0) as terminal:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stdin))
        task, fake = started("")
        assert task.poll() is None
        assert fake.waited_s == file_stream.IDLE_POLL_INTERVAL_S
        terminal.write(b"typed\nha")
        (record,) = task.poll()
        assert (record.value, record.source_offset) == ("typed", {"position": None})
        task.stop()
        assert not stdin.closed


def test_the_connector_has_one_task():
    one = FileStreamSourceConnector()
    props = {"file": "f", "topic": "t"}
    one.start(props)
    assert one.task_configs(5) == [props]
    assert issubclass(one.task_class(), FileStreamSourceTask)
    one.stop()


def test_its_configuration_is_checked():
    one = FileStreamSourceConnector()
    assert list(one.config().keys) == ["file", "topic", "batch.size"]
    assert [len(each.error_messages) for each in one.validate({"topic": "t"})] == [0, 0, 0]
    assert [len(each.error_messages) for each in one.validate({"topic": ""})] == [0, 1, 0]
    with pytest.raises(ConfigError, match='"topic"'):
        one.start({"file": "f"})


def test_only_a_file_can_be_read_exactly_once():
    one = FileStreamSourceConnector()
    support = ExactlyOnceSupport
    assert one.exactly_once_support({"file": "f", "topic": "t"}) is support.SUPPORTED
    assert one.exactly_once_support({"topic": "t"}) is support.UNSUPPORTED


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ({"filename": "f"}, {"position": 0}),
        ({"other": "f"}, None),
        ({"filename": "g"}, {"position": 5, "more": 1}),
    ],
)
def test_offsets_that_may_be_set(partition, offset):
    props = {"file": "f", "topic": "t"}
    altered = [SourceOffset(partition, offset)]
    assert FileStreamSourceConnector().alter_offsets(props, altered)


@pytest.mark.parametrize(
    ("partition", "offset", "why"),
    [
        ({"filename": "f"}, {}, "contain the key 'position'"),
        ({"filename": "f"}, {"position": "5"}, "Long value"),
        ({"filename": "f"}, {"position": -1}, "non-negative"),
        (None, {"position": 1}, "cannot be null"),
        ({"name": "f"}, {"position": 1}, "contain the key 'filename'"),
    ],
)
def test_offsets_that_may_not(partition, offset, why):
    altered = [SourceOffset(partition, offset)]
    with pytest.raises(ConnectError, match=why):
        FileStreamSourceConnector().alter_offsets({"file": "f", "topic": "t"}, altered)


def test_standard_input_has_none_to_set():
    with pytest.raises(ConnectError, match="stdin"):
        FileStreamSourceConnector().alter_offsets({"topic": "t"}, [])


def test_a_line_without_end_fails_the_task_before_it_fills_the_memory(path, monkeypatch):
    monkeypatch.setattr(file_stream, "LINE_BYTES_MAX", 1024 * 1024)
    path.write_bytes(b"short\n" + b"x" * 3_000_000)
    task, _ = started(path)
    assert given(task) == [("short", 6)]
    with pytest.raises(ConnectError, match="the line at byte 6 has more than 1 MiB: split it"):
        task.poll()
    task.stop()
    path.write_bytes(b"x" * (1024 * 1024) + b"\n")
    task, _ = started(path)
    assert [len(text) for text, _ in given(task)] == [1024 * 1024]
    task.stop()
