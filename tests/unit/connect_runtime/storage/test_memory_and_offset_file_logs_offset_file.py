"""The file has what was acknowledged, whole, and another worker reads it."""

from __future__ import annotations

import os
import queue
import stat
from pathlib import Path

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.storage import offset_file_format, offset_store
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.internal_topic_log import SharedLogRecord
from connect_runtime.storage.memory_and_offset_file_logs import OffsetFileLog
from connect_runtime.storage.offset_store import LogOffsetBackingStore

FILE = {"filename": "/tmp/a"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "connect.offsets"


@pytest.fixture
def opened():
    stores = []

    def start(path):
        store = LogOffsetBackingStore(OffsetFileLog(path))
        stores.append(store)
        store.start(1.0)
        return store

    yield start
    for each in stores:
        each.stop(5.0)


def commit(store, *pairs):
    offset_store.commit_offsets(store, "c", pairs, timeout_s=10.0)


def test_the_next_worker_reads_it(path, opened):
    first = opened(path)
    commit(first, (FILE, {"position": 1}))
    commit(first, (FILE, {"position": 2}), ({"filename": "/tmp/b"}, {"position": 3}))
    commit(first, ({"filename": "/tmp/b"}, None))
    first.stop(5.0)
    assert opened(path).read_all_offsets("c", 1.0) == [(FILE, {"position": 2})]
    assert offset_file_format.decode_offsets(path.read_bytes()) == {
        b'["c",{"filename":"/tmp/a"}]': b'{"position":2}'
    }


def test_what_somebody_else_keeps_there_stays(path, opened):
    path.write_bytes(offset_file_format.encode_offsets({b"no key of an offset": b"v"}))
    store = opened(path)
    commit(store, (FILE, {"position": 1}))
    assert offset_file_format.decode_offsets(path.read_bytes())[b"no key of an offset"] == b"v"


def test_it_is_there_from_the_start(path, opened):
    opened(path)
    assert offset_file_format.decode_offsets(path.read_bytes()) == {}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_its_permissions_and_its_place_stay(tmp_path, path, opened):
    real = tmp_path / "elsewhere" / "offsets"
    real.parent.mkdir()
    real.write_bytes(b"")
    real.chmod(0o640)
    path.symlink_to(real)
    commit(opened(path), (FILE, {"position": 1}))
    assert path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert offset_file_format.decode_offsets(real.read_bytes())
    assert os.listdir(real.parent) == ["offsets"]


def test_a_file_that_others_can_write_is_refused(path, opened):
    path.write_bytes(b"")
    path.chmod(0o666)
    with pytest.raises(FatalError, match=r"other users can write .* chmod go-w"):
        opened(path)


def test_the_file_of_another_user_is_refused(path, opened, monkeypatch):
    path.write_bytes(b"")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 4242)
    if path.stat().st_uid == 0:
        os.chown(path, 65534, -1)
    with pytest.raises(FatalError, match="user id"):
        opened(path)


def test_a_pipe_is_refused_and_not_waited_for(path, opened):
    os.mkfifo(path)
    with pytest.raises(FatalError, match="not a regular file"):
        opened(path)


def test_no_permission_to_run_it_stays(path, opened):
    path.write_bytes(b"")
    path.chmod(0o6755)
    commit(opened(path), (FILE, {"position": 1}))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_what_cannot_be_understood_is_refused_with_the_way_on(path, opened):
    path.write_bytes(b"\xac\xed\x00\x05 and something else")
    with pytest.raises(FatalError, match=r"offset.storage.file.filename"):
        opened(path)
    assert path.read_bytes().endswith(b"something else")


@pytest.mark.parametrize("place", ["missing/offsets", "."])
def test_a_place_that_cannot_be_used_is_refused_at_start(tmp_path, opened, place):
    with pytest.raises(ConnectError, match=r"offset.storage.file.filename"):
        opened(tmp_path / place)


def test_what_could_not_be_written_is_not_committed(tmp_path, opened):
    path = tmp_path / "folder" / "offsets"
    path.parent.mkdir()
    store = opened(path)
    commit(store, (FILE, {"position": 1}))
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(RetriableError, match="writing offsets"):
        commit(store, (FILE, {"position": 2}))
    assert store.read_offsets("c", [FILE], 1.0) == [{"position": 1}]
    path.parent.mkdir()
    commit(store, (FILE, {"position": 3}))
    assert store.read_offsets("c", [FILE], 1.0) == [{"position": 3}]


def test_after_a_stop_nothing_is_taken(path):
    log = OffsetFileLog(path)
    store = LogOffsetBackingStore(log)
    store.start(1.0)
    assert store.name == str(path)
    store.stop(5.0)
    with pytest.raises(FatalError, match="closed"):
        log.send(KeyedRecord(key=b"k", value=b"v"), on_recorded=lambda _: None)


class Choking:
    """Cannot take one of the records."""

    def on_record(self, record: SharedLogRecord) -> None:
        if record.value == b"poison":
            raise ValueError("choked")

    def on_replay_completed(self) -> None: ...

    def on_log_reset(self) -> None: ...


def test_who_needs_it_is_told_when_nobody_writes_any_more(path, caplog):
    told: queue.Queue[str] = queue.Queue()
    log = OffsetFileLog(path, on_broken=told.put)
    log.start(Choking(), 1.0)
    try:
        log.send(KeyedRecord(key=b"k", value=b"poison"), on_recorded=lambda _: None)
        assert told.get(timeout=10.0) == "the thread that writes connect.offsets ended: choked"
        with pytest.raises(FatalError, match="closed"):
            log.send(KeyedRecord(key=b"k", value=b"v"), on_recorded=lambda _: None)
    finally:
        log.stop(0.1)
    assert told.empty()
    assert "choked" in caplog.text
