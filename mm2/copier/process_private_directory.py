"""A private directory for the files of one process, which is removed even if the process crashes.

The directory has mode 0700 and contains a locked file. The operating system releases the lock when
the process ends, even if it is killed. The next process that creates a directory with the same name
prefix (`kind`) removes the directories that are no longer locked.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

_LOG = logging.getLogger(__name__)
_LOCK_FILE = "lock"


class RunDirectory:
    """A private directory with a lock file. Created by `create_run_directory`."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self._lock_fd: int | None = lock_fd

    def remove_directory(self) -> None:
        """Delete the directory with its contents. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.keep_for_inspection()

    def keep_for_inspection(self) -> None:
        """Release the lock but keep the directory for inspection. A later process that creates a
        directory of the same `kind` removes it."""
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
    """Remove this user's directories in `parent` whose name starts with `kind` and whose process
    has ended, except for the newest `keep_count`.

    A directory is skipped if its process holds the lock. If locking fails for another reason, a
    warning names the first such directory.
    """
    locks = [folder / _LOCK_FILE for folder in _list_own_directories(kind, parent)]
    ended = 0
    failure: tuple[Path, OSError] | None = None
    for lock in sorted(locks, key=_read_lock_mtime_ns, reverse=True):
        try:
            lock_fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # not a run directory, or just removed
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock_fd).st_uid != os.geteuid():
                continue
            ended += 1
            if ended > keep_count:
                shutil.rmtree(lock.parent, ignore_errors=True)
        except BlockingIOError:
            pass  # its process is running
        except OSError as error:
            failure = failure or (lock, error)
        finally:
            os.close(lock_fd)
    if failure is not None:
        first, reason = failure
        _LOG.warning(
            "directories of ended processes are not removed, because %s cannot be locked: %s; "
            "remove them yourself, or use a file system with working file locks",
            first,
            reason.strerror,
        )


def _list_own_directories(kind: str, parent: Path) -> list[Path]:
    """List this user's directories in `parent` whose name starts with `kind`. Symbolic links and
    the directories of other users are ignored."""
    try:
        names = os.listdir(parent)
    except OSError:
        return []
    found = (parent / name for name in names if name.startswith(kind))
    return [path for path in found if _is_own_directory(path)]


def _is_own_directory(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _read_lock_mtime_ns(lock: Path) -> int:
    """Return the modification time of the lock file; 0 if the file is missing or not accessible."""
    try:
        return lock.lstat().st_mtime_ns
    except OSError:
        return 0
