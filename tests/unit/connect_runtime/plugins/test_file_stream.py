from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api.errors import ConnectError
from connect_runtime.api.records import SinkRecord
from connect_runtime.plugins import allowed_paths
from connect_runtime.plugins.allowed_paths import AllowedPaths
from connect_runtime.plugins.file_stream import (
    FileStreamSinkConnector,
    FileStreamSinkTask,
    LineSplitter,
)


def lines(*chunks: bytes) -> list[tuple[bytes, int]]:
    splitter = LineSplitter()
    found = []
    for chunk in chunks:
        splitter.add_bytes(chunk)
        while (line := splitter.pop_line()) is not None:
            found.append(line)
    return found


def test_three_ways_to_end_a_line():
    assert lines(b"a\nb\r\nc\rd\n\n") == [(b"a", 2), (b"b", 3), (b"c", 2), (b"d", 2), (b"", 1)]


def test_a_line_that_has_no_end_yet_waits():
    assert lines(b"ab") == []
    assert lines(b"ab", b"c", b"\n") == [(b"abc", 4)]


def test_half_an_end_waits_for_the_other_half():
    assert lines(b"a\r") == []
    assert lines(b"a\r", b"\nb\n") == [(b"a", 3), (b"b", 2)]
    assert lines(b"a\r", b"b\n") == [(b"a", 2), (b"b", 2)]


@given(
    parts=st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n", b"\r\n"])),
    cuts=st.lists(st.integers(0, 60)),
)
def test_chunks_make_no_difference(parts, cuts):
    whole = b"".join(parts)
    places = sorted({0, len(whole), *(each for each in cuts if each < len(whole))})
    chunks = [whole[a:b] for a, b in itertools.pairwise(places)]
    assert lines(*chunks) == lines(whole)
    taken = sum(size for _, size in lines(whole))
    ends = {b"", b"\n", b"\r"}
    assert whole[:taken][-1:] in ends
    assert b"\n" not in whole[taken:]


TASK = allowed_paths.restrict_plugin_to_paths(FileStreamSinkTask, AllowedPaths(["/"]))


def record(value: object) -> SinkRecord:
    return SinkRecord(topic="t", kafka_partition=0, kafka_offset=1, value=value)


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
    with pytest.raises(ConnectError, match=f"Couldn't find or create file '{path}'"):
        TASK().start({"file": str(path)})


def test_the_connector():
    one = FileStreamSinkConnector()
    one.start({"file": "f"})
    assert one.task_configs(3) == [{"file": "f"}] * 3
    assert issubclass(one.task_class(), FileStreamSinkTask)
    assert one.alter_offsets({}, {})
    assert list(one.config().keys) == ["file"]
    one.stop()
