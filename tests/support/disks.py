"""A disk that is too small for a broker's data."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster


@contextlib.contextmanager
def small(folder: Path) -> Iterator[Path]:
    """A disk of 40 MB at `folder`; the test is skipped where this user may not mount one."""
    folder.mkdir()
    mounted = _run("mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder))
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        _run("umount", "-l", str(folder))


def grow(disk: Path) -> None:
    """To 400 MB, with what is on it."""
    grown = _run("mount", "-o", "remount,size=400m", str(disk))
    assert grown.returncode == 0, grown.stderr


def move_data(target: SandboxCluster, disk: Path) -> None:
    """Put the data of the cluster's only broker on that disk; the broker is restarted."""
    target.stop()
    node = target.brokers[1]
    shutil.copytree(node.folder / "data", disk / "data")
    node.change_settings({"log.dirs": str(disk / "data")})
    target.start()


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30.0)
