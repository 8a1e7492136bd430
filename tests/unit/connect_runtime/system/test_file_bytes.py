from __future__ import annotations

import os
import subprocess
import sys

import pytest

from connect_runtime.system import file_bytes

MB = 1 << 20


def test_a_file_is_read_whole(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"\xff" * MB)
    assert file_bytes.read(file, most=MB) == b"\xff" * MB
    assert file_bytes.read(file, most=MB, regular=True) == b"\xff" * MB


@pytest.mark.parametrize("regular", [False, True])
def test_what_is_too_large_is_not_read_to_its_end(tmp_path, regular):
    file = tmp_path / "large"
    with file.open("wb") as large:
        large.truncate(1 << 40)
    with pytest.raises(OSError, match="it is larger than 2 MB"):
        file_bytes.read(file, most=2 * MB, regular=regular)


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "."])
def test_what_may_never_end_is_not_read_where_only_files_will_do(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        file_bytes.read(tmp_path / name, most=MB, regular=True)


def test_shells_hand_over_pipes_as_files(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = f"open({str(pipe)!r}, 'w').write('said')"
    with subprocess.Popen([sys.executable, "-c", text]) as writer:
        assert file_bytes.read(pipe, most=MB) == b"said"
        assert writer.wait(10) == 0


def test_a_folder_and_nothing_are_told_apart(tmp_path):
    with pytest.raises(IsADirectoryError):
        file_bytes.read(tmp_path, most=MB)
    with pytest.raises(FileNotFoundError):
        file_bytes.read(tmp_path / "nothing", most=MB)
