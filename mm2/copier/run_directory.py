"""A private directory of one process, which a later process removes if this process cannot.

The directory has mode 0700 and contains a locked file. The operating system releases the lock when
the process ends, even if it is killed. The next process that creates a directory of the same kind
removes unlocked directories.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_LOCK_FILE = "lock"


class RunDirectory:
    """A private directory with a lock. Created by `create`."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self._lock_fd: int | None = lock_fd

    def remove(self) -> None:
        """Delete the directory with its contents. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.keep()

    def keep(self) -> None:
        """Release the lock but keep the directory for inspection, until the next process of the
        same kind removes it."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def create_run_directory(
    kind: str, *, parent: Path | None = None, keep_count: int = 0
) -> RunDirectory:
    """Create a private directory under `parent`, by default the temporary directory.

    Its name is `kind` followed by random characters. Also removes the directories of processes that
    have ended, except for the newest `keep_count`.
    """
    folder = parent or Path(tempfile.gettempdir())
    remove_stale_directories(kind, folder, keep_count=keep_count)
    path = Path(tempfile.mkdtemp(prefix=kind, dir=folder))
    # Renamed only after it is locked, so that no other process sees an unlocked lock file.
    unlocked_name = path / f"{_LOCK_FILE}.new"
    lock_fd = os.open(unlocked_name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unlocked_name.rename(path / _LOCK_FILE)
    return RunDirectory(path, lock_fd)


def remove_stale_directories(kind: str, parent: Path, *, keep_count: int = 0) -> None:
    """Remove this user's directories of the given kind whose process has ended, except for the
    newest `keep_count`."""
    locks = sorted(parent.glob(f"{kind}*/{_LOCK_FILE}"), key=_read_created_ns, reverse=True)
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
            if ended > keep_count:
                shutil.rmtree(lock.parent, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock_fd)


def _read_created_ns(lock: Path) -> int:
    """Return the modification time of the lock file; 0 if the file is missing or not accessible."""
    try:
        return lock.lstat().st_mtime_ns
    except OSError:
        return 0
