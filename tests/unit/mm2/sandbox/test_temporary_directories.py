from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from mm2.sandbox import port_reservation, temporary_directories
from mm2.sandbox.sandbox_errors import SandboxError
from tests.support import processes


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"mm2-clusters-{os.getuid()}"


def _folders(base: Path) -> set[Path]:
    return {entry for entry in base.iterdir() if entry.is_dir()}


def test_folders_of_the_living_stay_and_a_removed_one_is_gone(base):
    first, second = (
        temporary_directories.make_temporary_folder("east"),
        temporary_directories.make_temporary_folder("east"),
    )

    assert first.path.name.startswith("east-")
    assert _folders(base) == {first.path, second.path}
    assert first.path.stat().st_mode & 0o777 == 0o700
    first.remove()
    first.remove()
    assert _folders(base) == {second.path}
    second.remove()


def test_a_folder_that_somebody_else_made_first_is_refused(base):
    """Through a link in it, files would be made elsewhere with our rights."""
    for kind, use in (
        ("mm2-clusters", lambda: temporary_directories.make_temporary_folder("east")),
        ("mm2-ports", port_reservation.reserve_port),
    ):
        folder = base.parent / f"{kind}-{os.geteuid()}"
        folder.mkdir()
        (folder / "making.lock").symlink_to(base.parent / "elsewhere")
        if os.geteuid() == 0:
            folder.chmod(0o700)
            os.chown(folder, 4242, -1)
        else:
            folder.chmod(0o777)
        with pytest.raises(SandboxError, match=r"user id 4242|chmod 700"):
            use()
        assert not (base.parent / "elsewhere").exists()


_OWNER = """
import signal
from mm2.sandbox import temporary_directories
print(temporary_directories.make_temporary_folder("dead").path, flush=True)
signal.pause()
"""


def test_the_folder_of_a_killed_owner_is_removed_by_the_next(base, tmp_path):
    owner = processes.start_python(_OWNER, env={"TMPDIR": str(tmp_path)})
    assert owner.stdout is not None
    left = Path(owner.stdout.readline().strip())
    (left / "data").mkdir()
    temporary_directories.make_temporary_folder("other").remove()
    assert left.exists(), "its owner lives"

    owner.send_signal(signal.SIGKILL)
    owner.communicate(timeout=10)
    new = temporary_directories.make_temporary_folder("east")

    assert _folders(base) == {new.path}
    new.remove()
