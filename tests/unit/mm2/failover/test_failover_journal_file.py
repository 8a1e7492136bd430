"""A journal on disk: one process at a time, and whole lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.system import secure_file_access
from mm2.failover import failover_journal, failover_journal_file
from mm2.failover.failover_journal import FailoverIdentity
from mm2.failover.failover_journal_file import JournalFile
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep

Step = FailoverStep
BEGUN = FailoverIdentity(
    request=FailoverRequest(origin="east", destination="west", kind=FailoverKind.EMERGENCY),
    flow="east->west",
)
FIRST = failover_journal.encode_begun_entry(BEGUN, at_ms=5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "move.jsonl"


def test_what_was_noted_is_there_the_next_time(path):
    with JournalFile(path, begin=FIRST) as file:
        file.append_entry(failover_journal.encode_step_done(Step.RECORD, {"n": 1}, at_ms=6))
        assert file.journal.next_step is Step.STOP_FLOW
    with JournalFile(path) as file:
        assert file.journal.identity == BEGUN
        assert file.journal.next_step is Step.STOP_FLOW


def test_a_line_that_was_cut_off_gives_way_to_the_next(path):
    path.write_text(FIRST + '{"v":3,"at_')
    with JournalFile(path) as file:
        file.append_entry(failover_journal.encode_step_done(Step.RECORD, {}, at_ms=6))
    assert path.read_text() == FIRST + failover_journal.encode_step_done(Step.RECORD, {}, at_ms=6)


def test_a_journal_that_is_there_is_not_begun_again(path):
    path.write_text(FIRST)
    with pytest.raises(FatalError, match="resume the failover"):
        JournalFile(path, begin=FIRST)
    assert path.read_text() == FIRST


def test_a_pipe_and_a_link_are_no_journals(path):
    os.mkfifo(path)
    with pytest.raises(FatalError, match=r"opening the journal .*: not a regular file"):
        JournalFile(path)
    link = path.with_name("link.jsonl")
    link.symlink_to(path)
    with pytest.raises(FatalError, match="symbolic links are not followed"):
        JournalFile(link)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_journal_of_another_user_is_not_resumed(path):
    path.write_text(FIRST)
    os.chown(path, 4242, -1)
    with pytest.raises(FatalError, match="is owned by user id 4242, not by this user or root"):
        JournalFile(path)


def find(folder: Path) -> list[str]:
    excluded = folder / "mine.jsonl"
    found = failover_journal_file.find_unfinished_failovers(
        folder, ("east", "west"), excluded=excluded
    )
    return [Path(each.path).name for each in found]


def test_a_pipe_and_a_link_among_the_journals_are_skipped(path):
    path.write_text(FIRST)
    os.mkfifo(path.with_name("a.jsonl"))
    path.with_name("b.jsonl").symlink_to(path)
    path.with_name("c.jsonl").symlink_to(path.with_name("a.jsonl"))
    assert find(path.parent) == ["move.jsonl"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_journals_of_another_user_are_skipped_and_hide_none(path, monkeypatch):
    monkeypatch.setattr(failover_journal_file, "MAX_JOURNALS", 1)
    for number in range(3):
        foreign = path.with_name(f"a{number}.jsonl")
        foreign.write_text(FIRST)
        os.chown(foreign, 4242, -1)
    path.write_text(FIRST)
    assert find(path.parent) == ["move.jsonl"]
    said = failover_journal_file.describe_foreign_journals(path.parent)
    assert said.startswith("3 journals of other users in ")


def test_a_new_journal_may_belong_to_the_user_of_a_network_file_system(path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    shown = os.stat_result((0o100600, 1, 1, 1, 65534, *[0] * 5))
    monkeypatch.setattr(os, "fstat", lambda _: shown)
    os.close(secure_file_access.open_user_owned_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    with pytest.raises(PermissionError, match="is owned by user id 65534"):
        secure_file_access.open_user_owned_file(path, os.O_RDWR)


def test_an_own_journal_is_no_foreign_one(path):
    path.write_text(FIRST)
    assert failover_journal_file.describe_foreign_journals(path.parent) == ""


def test_a_link_with_a_too_long_target_is_no_journal(path):
    path.symlink_to("a" * 300)
    assert failover_journal_file.describe_foreign_journals(path.parent) == ""
    assert find(path.parent) == []
    assert "already exists" in failover_journal_file.explain_unusable_path(path)


def test_a_journal_beyond_the_limit_is_skipped(path, monkeypatch):
    path.write_text(FIRST)
    monkeypatch.setattr(failover_journal_file, "MAX_OTHER_JOURNAL_BYTES", len(FIRST))
    assert find(path.parent) == ["move.jsonl"]
    monkeypatch.setattr(failover_journal_file, "MAX_OTHER_JOURNAL_BYTES", len(FIRST) - 1)
    assert find(path.parent) == []


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

    failed = failover_journal.encode_step_failed(Step.MOVE_GROUPS, "no", at_ms=7)
    with JournalFile(path, begin=FIRST) as file:
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(FatalError, match="No space left"):
            file.append_entry(failover_journal.encode_group_moved_entry("billing", at_ms=6))
        file.append_entry(failed)
    assert path.read_text() == FIRST + failed
