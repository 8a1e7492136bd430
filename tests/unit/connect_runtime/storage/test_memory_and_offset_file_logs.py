"""One process's own log: told at once, on the thread that sends."""

from __future__ import annotations

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.memory_and_offset_file_logs import MemoryLog


class Heard:
    def __init__(self):
        self.told = []

    def on_record(self, record):
        self.told.append((record.partition, record.offset, record.key, record.value))

    def on_replay_completed(self):
        self.told.append("replayed")

    def on_log_reset(self):
        self.told.append("start over")


def test_what_is_sent_is_told_before_it_is_acknowledged():
    log, heard, answers = MemoryLog("m"), Heard(), []
    log.start(heard, 1.0)
    for value in (b"1", None):
        record = KeyedRecord(key=b"k", value=value)
        log.send(record, on_recorded=lambda error: answers.append((error, len(heard.told))))
    log.read_to_end(0.0)
    assert heard.told == ["replayed", (0, 0, b"k", b"1"), (0, 1, b"k", None)]
    assert answers == [(None, 2), (None, 3)]
    assert log.name == "m"


def test_after_a_stop_nothing_is_taken():
    log = MemoryLog("m")
    log.start(Heard(), 1.0)
    log.stop(0.0)
    with pytest.raises(FatalError, match="stopped"):
        log.send(KeyedRecord(key=b"k", value=b"v"), on_recorded=lambda _: None)
