"""The journal on disk: every line is fsynced before the next step begins.

The file is locked while it is open, so one process at a time executes a move.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pathlib
from collections.abc import Collection
from types import TracebackType
from typing import Self

from connect_runtime.base.errors import FatalError
from mm2.failover import journal
from mm2.failover.journal import JournalError, MoveJournal
from mm2.failover.readiness import UnfinishedMove

MAX_JOURNALS = 1_000
MAX_FIRST_LINE_BYTES = 1 << 20


def explain_unusable_path(path: pathlib.Path) -> str:
    """Why no new journal can be begun there, "" where one can."""
    if path.exists():
        return _explain_existing_file(path)
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"the journal {path} cannot be made: there is no folder {folder}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the journal {path} cannot be made: {folder} may not be written"
    return ""


def find_unfinished_moves(
    folder: pathlib.Path, ends: Collection[str], *, but: pathlib.Path
) -> list[UnfinishedMove]:
    """Of the journals in a folder (files `*.jsonl`), those of moves between these two clusters, in
    whichever direction, that are not done. What is no journal is passed over."""
    found = []
    for path in sorted(itertools.islice(folder.glob("*.jsonl"), MAX_JOURNALS)):
        try:
            if path.absolute() != but.absolute() and (
                other := _read_unfinished_move(path, set(ends))
            ):
                found.append(other)
        except OSError:
            continue
    return found


def _read_unfinished_move(path: pathlib.Path, ends: Collection[str]) -> UnfinishedMove | None:
    with path.open("rb") as file:
        try:
            first = journal.read_journal(file.readline(MAX_FIRST_LINE_BYTES).decode())
            if (
                first.begun is None
                or {first.begun.wanted.origin, first.begun.wanted.destination} != ends
            ):
                return None
            file.seek(0)
            whole = journal.read_journal(file.read().decode())
        except (JournalError, UnicodeDecodeError):
            return None
        if whole.next_step is None or whole.begun is None:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            busy = False
        except BlockingIOError:
            busy = True
    return UnfinishedMove(path=str(path), wanted=whole.begun.wanted, busy=busy)


def _explain_existing_file(path: pathlib.Path) -> str:
    return (
        f"{path} is there already: go on with it (--resume --journal {path}), or name another one"
    )


class JournalFile:
    """Raises `FatalError` where the file cannot be made, read, locked or written."""

    def __init__(self, path: pathlib.Path, *, begin: str | None = None) -> None:
        """`begin` is the first line of a new journal; None: it is there, and is gone on with."""
        self.path = path
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT | os.O_EXCL if begin else 0)
        try:
            self._fd = os.open(path, flags, 0o600)
        except FileExistsError as error:
            raise FatalError(_explain_existing_file(path)) from error
        except OSError as error:
            raise FatalError(f"opening the journal {path}: {error.strerror}") from error
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
        self.found.apply(journal.decode_entry(line))

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FatalError(
                f"{self.path} is in use: another process does this move; wait for it, or end it"
            ) from error

    def _read(self) -> MoveJournal:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.ftruncate(self._fd, len(whole))
        try:
            return journal.read_journal(whole.decode())
        except (JournalError, UnicodeDecodeError) as error:
            raise FatalError(f"{self.path}: {error}") from error

    def _append(self, line: str) -> None:
        """Whole, or not at all: what is appended next begins a line."""
        before = os.fstat(self._fd).st_size
        try:
            left = line.encode()
            while left:  # a disk that is full takes part of it
                left = left[os.write(self._fd, left) :]
            os.fsync(self._fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, before)
            raise FatalError(f"writing the journal {self.path}: {error.strerror}") from error


def _sync_folder(folder: pathlib.Path) -> None:
    """So that the file's name is on the disk, too."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise FatalError(f"writing the folder {folder}: {error.strerror}") from error
