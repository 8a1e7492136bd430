"""A journal on disk: one process at a time, and whole lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connect_runtime.base import errors
from mm2.app.failover import journal_file
from mm2.core.failover import journal, orders, steps

Step = steps.Step
BEGUN = journal.Begun(
    wanted=orders.Wanted(origin="east", destination="west", kind=orders.Kind.EMERGENCY),
    flow="east->west",
)
FIRST = journal.begun(BEGUN, at_ms=5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "move.jsonl"


def test_what_was_noted_is_there_the_next_time(path):
    with journal_file.JournalFile(path, begin=FIRST) as file:
        file.append(journal.done(Step.RECORD, {"n": 1}, at_ms=6))
        assert file.found.next_step is Step.STOP_FLOW
    with journal_file.JournalFile(path) as file:
        assert file.found.begun == BEGUN
        assert file.found.next_step is Step.STOP_FLOW


def test_a_line_that_was_cut_off_gives_way_to_the_next(path):
    path.write_text(FIRST + '{"v":3,"at_')
    with journal_file.JournalFile(path) as file:
        file.append(journal.done(Step.RECORD, {}, at_ms=6))
    assert path.read_text() == FIRST + journal.done(Step.RECORD, {}, at_ms=6)


def test_a_journal_that_is_there_is_not_begun_again(path):
    path.write_text(FIRST)
    with pytest.raises(errors.FatalError, match="go on with it"):
        journal_file.JournalFile(path, begin=FIRST)
    assert path.read_text() == FIRST


def test_two_processes_do_not_share_one(path):
    with (
        journal_file.JournalFile(path, begin=FIRST),
        pytest.raises(errors.FatalError, match="in use"),
    ):
        journal_file.JournalFile(path)


def test_what_is_no_journal_is_told(path):
    path.write_text("dear diary\n")
    with pytest.raises(errors.FatalError, match="line 1 cannot be read"):
        journal_file.JournalFile(path)
    with pytest.raises(errors.FatalError, match="opening the journal"):
        journal_file.JournalFile(path.with_name("none"))


def test_a_disk_that_is_full_leaves_no_piece_of_a_line(path, monkeypatch: pytest.MonkeyPatch):
    real, room = os.write, [20, 0]

    def write(descriptor: int, data: bytes) -> int:
        if not room:
            return real(descriptor, data)
        if size := room.pop(0):
            return real(descriptor, data[:size])
        raise OSError(28, "No space left on device")

    failed = journal.failed(Step.MOVE_GROUPS, "no", at_ms=7)
    with journal_file.JournalFile(path, begin=FIRST) as file:
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(errors.FatalError, match="No space left"):
            file.append(journal.group_moved("billing", at_ms=6))
        file.append(failed)
    assert path.read_text() == FIRST + failed
