from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys

import pytest

from mm2.copier import process_private_directory


def test_it_is_private_and_goes_when_asked(tmp_path):
    made = process_private_directory.create_run_directory("mm2-x-", parent=tmp_path)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert made.path.name.startswith("mm2-x-")
    made.remove_directory()
    made.remove_directory()
    assert list(tmp_path.iterdir()) == []


def test_a_held_one_is_left_in_peace(tmp_path):
    first = process_private_directory.create_run_directory("mm2-x-", parent=tmp_path)
    second = process_private_directory.create_run_directory("mm2-x-", parent=tmp_path)
    assert first.path.exists()
    assert second.path != first.path


def test_one_that_was_left_goes_with_the_next_of_its_kind(tmp_path):
    left = process_private_directory.create_run_directory("mm2-x-", parent=tmp_path)
    (left.path / "spark.log").write_text("why")
    left.keep_for_inspection()
    process_private_directory.create_run_directory("mm2-y-", parent=tmp_path)
    assert (left.path / "spark.log").exists()
    process_private_directory.create_run_directory("mm2-x-", parent=tmp_path)
    assert not left.path.exists()


def test_one_of_a_process_that_was_killed_goes(tmp_path):
    program = (
        "import os, pathlib, signal, sys\n"
        "from mm2.copier import process_private_directory\n"
        "parent = pathlib.Path(sys.argv[1])\n"
        "made = process_private_directory.create_run_directory('mm2-x-', parent=parent)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)
    (killed,) = tmp_path.iterdir()
    process_private_directory.remove_stale_directories("mm2-x-", tmp_path)
    assert not killed.exists()


def test_what_has_no_lock_is_not_ours(tmp_path):
    (tmp_path / "mm2-x-users").mkdir()
    (tmp_path / "mm2-x-link").mkdir()
    os.symlink("/etc/passwd", tmp_path / "mm2-x-link" / "lock")
    process_private_directory.remove_stale_directories("mm2-x-", tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_links_with_too_long_targets_are_skipped(tmp_path):
    stale = process_private_directory.create_run_directory("mm2-x-", parent=tmp_path)
    stale.keep_for_inspection()
    too_long = "a" * 300
    os.symlink(too_long, tmp_path / "mm2-x-link")
    (tmp_path / "mm2-x-folder").mkdir()
    os.symlink(too_long, tmp_path / "mm2-x-folder" / "lock")
    process_private_directory.create_run_directory("mm2-x-", parent=tmp_path).remove_directory()
    assert {each.name for each in tmp_path.iterdir()} == {"mm2-x-link", "mm2-x-folder"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_directory_of_another_user_is_not_removed(tmp_path):
    foreign = process_private_directory.create_run_directory("mm2-x-", parent=tmp_path)
    foreign.keep_for_inspection()
    os.chown(foreign.path, 4242, -1)
    process_private_directory.remove_stale_directories("mm2-x-", tmp_path)
    assert foreign.path.exists()


def test_the_newest_that_were_left_may_be_kept(tmp_path):
    left = []
    for at_s in range(4):
        each = process_private_directory.create_run_directory("run-", parent=tmp_path, keep_count=2)
        os.utime(each.path / "lock", (at_s, at_s))
        each.keep_for_inspection()
        left.append(each.path)
    running = process_private_directory.create_run_directory("run-", parent=tmp_path, keep_count=2)
    assert [each.exists() for each in left] == [False, False, True, True]
    running.remove_directory()


def test_those_that_are_held_are_not_counted_among_the_kept(tmp_path):
    left = process_private_directory.create_run_directory("mm2-x-", parent=tmp_path)
    held = [
        process_private_directory.create_run_directory("mm2-x-", parent=tmp_path, keep_count=2)
        for _ in range(2)
    ]
    left.keep_for_inspection()
    process_private_directory.remove_stale_directories("mm2-x-", tmp_path, keep_count=1)
    assert left.path.exists()
    for each in held:
        each.remove_directory()


def test_directories_that_cannot_be_locked_are_reported_once(tmp_path, monkeypatch, caplog):
    made = [
        process_private_directory.create_run_directory("mm2-x-", parent=tmp_path) for _ in range(2)
    ]

    def fail(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    process_private_directory.remove_stale_directories("mm2-x-", tmp_path)
    assert caplog.messages == [], "their process is running"
    monkeypatch.setattr(fcntl, "flock", fail)
    process_private_directory.remove_stale_directories("mm2-x-", tmp_path)
    (message,) = caplog.messages
    assert "/lock cannot be locked: No locks available; remove them yourself" in message
    for each in made:
        assert each.path.exists()
        each.remove_directory()
