"""Temporary folders of clusters, and the removal of those whose owner was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system import polling, private_folder, user_cache
from mm2.sandbox import failures

_OWNER = "owner.lock"
_LOCK_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Temporary:
    """A folder that is ours until `remove`; if we die, whoever makes the next one removes it."""

    path: Path
    _lock_fd: int | None

    def remove(self) -> None:
        if self._lock_fd is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock_fd)
            self._lock_fd = None


def temporary(name: str) -> Temporary:
    """Make an empty folder with `name` in its name, readable by this user alone."""
    base = private("mm2-clusters")
    making_fd = _lock_soon(base / "making.lock")
    try:
        _sweep(base)
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
        owner_fd = _try_lock(path / _OWNER, create=True)
    finally:
        os.close(making_fd)
    return Temporary(path, owner_fd)


def private(kind: str) -> Path:
    """`<kind>-<uid>` in the temporary directory. Raises `SandboxError` where somebody else made it
    first."""
    folder = Path(tempfile.gettempdir()) / f"{kind}-{os.geteuid()}"
    try:
        return private_folder.ensure_private(folder)
    except OSError as error:
        raise failures.SandboxError(f"cannot use a private folder: {error}") from error


def cache() -> Path:
    """`user_cache.folder`. Raises `SandboxError` where it cannot be trusted."""
    try:
        return user_cache.folder()
    except OSError as error:
        raise failures.SandboxError(f"{error}, or set MM2_CACHE") from error


def _sweep(base: Path) -> None:
    for folder in base.iterdir():
        if folder.is_dir():
            owner_fd = _try_lock(folder / _OWNER, create=False)
            if owner_fd is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(owner_fd)


def _lock_soon(path: Path) -> int:
    """Others hold this lock only while they list and remove folders."""
    locked: list[int] = []

    def try_once() -> bool:
        descriptor = _try_lock(path, create=True)
        locked.extend([] if descriptor is None else [descriptor])
        return descriptor is not None

    if not polling.until(try_once, timeout_s=_LOCK_TIMEOUT_S):
        raise failures.SandboxError(
            f"another process has held {path} for {_LOCK_TIMEOUT_S:.0f} s: end it and try again"
        )
    return locked[0]


def _try_lock(path: Path, *, create: bool) -> int | None:
    """The descriptor of a lock that nobody else holds, else None."""
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
