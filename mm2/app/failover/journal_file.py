"""The journal of a move on disk: lines that are on the disk before the next step begins.

One process at a time: the file is locked for as long as it is open.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
from types import TracebackType
from typing import Self

from connect_runtime.base import errors
from mm2.core.failover import journal


class JournalFile:
    """Raises `FatalError` where the file cannot be made, read, locked or written."""

    def __init__(self, path: pathlib.Path, *, begin: str | None = None) -> None:
        """`begin` is the first line of a new journal; None: it is there, and is gone on with."""
        self.path = path
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT | os.O_EXCL if begin else 0)
        try:
            self._fd = os.open(path, flags, 0o600)
        except FileExistsError as error:
            raise errors.FatalError(
                f"{path} is there already: go on with it (--resume --journal {path}), or name "
                "another one"
            ) from error
        except OSError as error:
            raise errors.FatalError(f"opening the journal {path}: {error.strerror}") from error
        try:
            self._lock()
            if begin is not None:
                self._append(begin)
                _sync_folder(path.parent)
            self.found = self._read()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def append(self, line: str) -> None:
        """It stands on the disk when this returns, and counts in `found`."""
        self._append(line)
        self.found.apply(journal.decode(line))

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise errors.FatalError(
                f"{self.path} is in use: another process does this move; wait for it, or end it"
            ) from error

    def _read(self) -> journal.Journal:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.ftruncate(self._fd, len(whole))
        try:
            return journal.read(whole.decode())
        except (journal.JournalError, UnicodeDecodeError) as error:
            raise errors.FatalError(f"{self.path}: {error}") from error

    def _append(self, line: str) -> None:
        try:
            left = line.encode()
            while left:  # a disk that is full takes part of it
                left = left[os.write(self._fd, left) :]
            os.fsync(self._fd)
        except OSError as error:
            raise errors.FatalError(f"writing the journal {self.path}: {error.strerror}") from error


def _sync_folder(folder: pathlib.Path) -> None:
    """So that the file's name is on the disk, too."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise errors.FatalError(f"writing the folder {folder}: {error.strerror}") from error
