"""A private directory for one run, removed by a later run if this one cannot do it.

The directory has mode 0700 and holds a locked file. The lock ends with its process, however that
ends; the next process that creates a directory of the same kind removes unlocked ones.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_LOCK_FILE = "lock"


class RunDirectory:
    """Made by `create`."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self._lock_fd: int | None = lock_fd

    def remove(self) -> None:
        """Remove it with everything in it. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.leave()

    def leave(self) -> None:
        """Let it be, for somebody to look into, until the next run clears it away."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def create(kind: str, *, parent: Path | None = None, kept: int = 0) -> RunDirectory:
    """Make `<kind>XXXXXXXX` under `parent` or the temporary directory, and clear old ones away but
    for the newest `kept`."""
    where = parent or Path(tempfile.gettempdir())
    remove_stale(kind, where, kept=kept)
    path = Path(tempfile.mkdtemp(prefix=kind, dir=where))
    # Named only once it is locked: nobody can take it for one that was left behind.
    unnamed = path / f"{_LOCK_FILE}.new"
    lock_fd = os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unnamed.rename(path / _LOCK_FILE)
    return RunDirectory(path, lock_fd)


def remove_stale(kind: str, where: Path, *, kept: int = 0) -> None:
    """Remove the directories of that kind whose process has ended, but for the newest `kept`;
    others' are left in peace."""
    locks = sorted(where.glob(f"{kind}*/{_LOCK_FILE}"), key=_read_created_ns, reverse=True)
    ended = 0
    for lock in locks:
        try:
            lock_fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # another user's, or just removed
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock_fd).st_uid != os.geteuid():
                continue
            ended += 1
            if ended > kept:
                shutil.rmtree(lock.parent, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock_fd)


def _read_created_ns(lock: Path) -> int:
    """0 for one that has just been removed, or that we may not look at."""
    try:
        return lock.lstat().st_mtime_ns
    except OSError:
        return 0
