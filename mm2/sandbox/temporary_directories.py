"""Temporary directories of sandbox clusters. If the owning process was killed, its directory is
removed by the next process that creates a temporary directory."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system import secure_file_access, system_clock
from mm2.sandbox.sandbox_errors import SandboxError

_OWNER_LOCK_FILE = "owner.lock"
_LOCK_TIMEOUT_S = 60.0


@dataclass(slots=True)
class TemporaryFolder:
    """A temporary directory that is reserved until `remove` is called. If this process dies, the
    directory is removed by the next process that creates a temporary directory."""

    path: Path
    _lock_fd: int | None

    def remove(self) -> None:
        if self._lock_fd is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock_fd)
            self._lock_fd = None


def make_temporary_folder(name: str) -> TemporaryFolder:
    """Create an empty temporary directory whose name contains `name`, readable by this user
    only."""
    base = make_private_folder("mm2-clusters")
    making_fd = _wait_for_lock(base / "making.lock")
    try:
        _remove_abandoned_folders(base)
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
        owner_fd = _try_lock_file(path / _OWNER_LOCK_FILE, create=True)
    finally:
        os.close(making_fd)
    return TemporaryFolder(path, owner_fd)


def make_private_folder(kind: str) -> Path:
    """Create the directory `<kind>-<uid>` in the temporary directory. Raises `SandboxError` if
    another user owns it."""
    folder = Path(tempfile.gettempdir()) / f"{kind}-{os.geteuid()}"
    try:
        return secure_file_access.ensure_private_directory(folder)
    except OSError as error:
        raise SandboxError(f"cannot use a private temporary directory: {error}") from error


def find_cache_folder() -> Path:
    """Return the user's cache directory (see `secure_file_access.find_user_cache_directory`).
    Raises `SandboxError` if the user has no home directory and the temporary replacement belongs to
    another user."""
    try:
        return secure_file_access.find_user_cache_directory()
    except OSError as error:
        raise SandboxError(f"{error}, or set MM2_CACHE") from error


def _remove_abandoned_folders(base: Path) -> None:
    for folder in base.iterdir():
        if folder.is_dir():
            owner_fd = _try_lock_file(folder / _OWNER_LOCK_FILE, create=False)
            if owner_fd is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(owner_fd)


def _wait_for_lock(path: Path) -> int:
    """Acquire the lock that processes hold only while they list and remove directories."""
    locked: list[int] = []

    def try_take_lock() -> bool:
        descriptor = _try_lock_file(path, create=True)
        locked.extend([] if descriptor is None else [descriptor])
        return descriptor is not None

    if not system_clock.wait_until(try_take_lock, timeout_s=_LOCK_TIMEOUT_S):
        raise SandboxError(
            f"another process has held the lock {path} for {_LOCK_TIMEOUT_S:.0f} s: stop that "
            "process and try again"
        )
    return locked[0]


def _try_lock_file(path: Path, *, create: bool) -> int | None:
    """Lock a file and return its descriptor, or None if another process holds the lock."""
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        return None  # being removed by its owner
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
