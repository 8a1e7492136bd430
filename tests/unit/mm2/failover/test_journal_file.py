"""A journal on disk: one process at a time, and whole lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connect_runtime.base.errors import FatalError
from mm2.failover import journal
from mm2.failover.journal import MoveIdentity
from mm2.failover.journal_file import JournalFile
from mm2.failover.move_request import MoveKind, MoveRequest
from mm2.failover.move_steps import MoveStep

Step = MoveStep
BEGUN = MoveIdentity(
    request=MoveRequest(origin="east", destination="west", kind=MoveKind.EMERGENCY),
    flow="east->west",
)
FIRST = journal.encode_begun(BEGUN, at_ms=5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "move.jsonl"


def test_what_was_noted_is_there_the_next_time(path):
    with JournalFile(path, begin=FIRST) as file:
        file.append(journal.encode_done(Step.RECORD, {"n": 1}, at_ms=6))
        assert file.journal.next_step is Step.STOP_FLOW
    with JournalFile(path) as file:
        assert file.journal.identity == BEGUN
        assert file.journal.next_step is Step.STOP_FLOW


def test_a_line_that_was_cut_off_gives_way_to_the_next(path):
    path.write_text(FIRST + '{"v":3,"at_')
    with JournalFile(path) as file:
        file.append(journal.encode_done(Step.RECORD, {}, at_ms=6))
    assert path.read_text() == FIRST + journal.encode_done(Step.RECORD, {}, at_ms=6)


def test_a_journal_that_is_there_is_not_begun_again(path):
    path.write_text(FIRST)
    with pytest.raises(FatalError, match="resume the move"):
        JournalFile(path, begin=FIRST)
    assert path.read_text() == FIRST


def test_two_processes_do_not_share_one(path):
    with (
        JournalFile(path, begin=FIRST),
        pytest.raises(FatalError, match="in use"),
    ):
        JournalFile(path)


def test_what_is_no_journal_is_told(path):
    path.write_text("dear diary\n")
    with pytest.raises(FatalError, match="line 1 cannot be read"):
        JournalFile(path)
    with pytest.raises(FatalError, match="opening the journal"):
        JournalFile(path.with_name("none"))


def test_a_disk_that_is_full_leaves_no_piece_of_a_line(path, monkeypatch: pytest.MonkeyPatch):
    real, room = os.write, [20, 0]

    def write(descriptor: int, data: bytes) -> int:
        if not room:
            return real(descriptor, data)
        if size := room.pop(0):
            return real(descriptor, data[:size])
        raise OSError(28, "No space left on device")

    failed = journal.encode_failed(Step.MOVE_GROUPS, "no", at_ms=7)
    with JournalFile(path, begin=FIRST) as file:
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(FatalError, match="No space left"):
            file.append(journal.encode_group_moved("billing", at_ms=6))
        file.append(failed)
    assert path.read_text() == FIRST + failed
