"""Stores the journal on disk; every line is fsynced before the next step begins.

The file is locked while it is open, so that only one process at a time executes the failover.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import pathlib
import shlex
import stat
from collections.abc import Collection
from types import TracebackType
from typing import Self

from connect_runtime.base import plurals
from connect_runtime.base.errors import FatalError
from connect_runtime.system import secure_file_access
from mm2.failover import failover_journal
from mm2.failover.failover_journal import FailoverJournal, JournalError
from mm2.failover.readiness import UnfinishedFailover

MAX_JOURNALS = 1_000
MAX_FIRST_LINE_BYTES = 1 << 20
MAX_OTHER_JOURNAL_BYTES = 256 << 20
"""Maximum size of the files that are searched for an unfinished failover. A journal has about 100
bytes per group or partition, so this is enough for more than two million."""


def explain_unusable_path(path: pathlib.Path) -> str:
    """Explain why no new journal can be created at this path; return "" if it can."""
    if os.path.lexists(path):
        return _explain_existing_file(path)
    folder = path.absolute().parent
    if not os.path.isdir(folder):
        return f"cannot create the journal {path}: the directory {folder} does not exist"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"cannot create the journal {path}: {folder} is not writable"
    return ""


def find_unfinished_failovers(
    folder: pathlib.Path, ends: Collection[str], *, excluded: pathlib.Path
) -> list[UnfinishedFailover]:
    """Find the unfinished failovers between two clusters, in either direction, in the journals
    (`*.jsonl`) of a directory. The journal `excluded`, files that are not journals, and files of
    users other than root and the current user are skipped."""
    found = []
    own = filter(_has_trusted_owner, folder.glob("*.jsonl"))
    for path in sorted(itertools.islice(own, MAX_JOURNALS)):
        try:
            if path.absolute() != excluded.absolute() and (
                other := _read_unfinished_failover(path, set(ends))
            ):
                found.append(other)
        except OSError:
            continue
    return found


def describe_foreign_journals(folder: pathlib.Path) -> str:
    """Describe the journals that `find_unfinished_failovers` skips because other users own them;
    return "" if none is skipped."""
    foreign = [
        path
        for path in folder.glob("*.jsonl")
        if os.path.isfile(path) and not _has_trusted_owner(path)
    ]
    if not foreign:
        return ""
    count = plurals.format_count(len(foreign), "journal")
    return (
        f"{count} of other users in {folder} ({min(foreign).name}, …) may belong to an unfinished "
        "failover"
    )


def _has_trusted_owner(path: pathlib.Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid())


def _read_unfinished_failover(
    path: pathlib.Path, ends: Collection[str]
) -> UnfinishedFailover | None:
    with os.fdopen(secure_file_access.open_user_owned_file(path, os.O_RDONLY), "rb") as file:
        try:
            first = failover_journal.read_journal(file.readline(MAX_FIRST_LINE_BYTES).decode())
            if (
                first.identity is None
                or {first.identity.request.origin, first.identity.request.destination} != ends
            ):
                return None
            file.seek(0)
            text = file.read(MAX_OTHER_JOURNAL_BYTES + 1)
            if len(text) > MAX_OTHER_JOURNAL_BYTES:
                return None
            whole = failover_journal.read_journal(text.decode())
        except (JournalError, UnicodeDecodeError):
            return None
        if whole.next_step is None or whole.identity is None:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            busy = False
        except BlockingIOError:
            busy = True
    return UnfinishedFailover(path=str(path), request=whole.identity.request, busy=busy)


def _explain_existing_file(path: pathlib.Path) -> str:
    return (
        f"{path} already exists: resume the failover (--resume --journal "
        f"{shlex.quote(str(path))}), or use another file"
    )


class JournalFile:
    """Keeps a journal open and locked. Raises `FatalError` if the journal cannot be created or
    used."""

    def __init__(self, path: pathlib.Path, *, begin: str | None = None) -> None:
        """Create a new journal with the first line `begin`, or open an existing journal if `begin`
        is None."""
        self.path = path
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT | os.O_EXCL if begin else 0)
        try:
            self._fd = secure_file_access.open_user_owned_file(path, flags)
        except FileExistsError as error:
            raise FatalError(_explain_existing_file(path)) from error
        except OSError as error:
            raise FatalError(
                f"opening the journal {path}: {error.strerror}; a failover must be resumed by "
                "the user that began it, on the file system where it was begun"
                if error.errno == errno.EPERM
                else f"opening the journal {path}: {error.strerror}"
            ) from error
        try:
            self._lock_file()
            if begin is not None:
                self._append_whole_line(begin)
                _sync_directory(path.parent)
            self.journal = self._read_journal()
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

    def append_entry(self, line: str) -> None:
        """Append a journal line durably, and apply it to `journal`."""
        self._append_whole_line(line)
        self.journal.apply_entry(failover_journal.decode_entry(line))

    def _lock_file(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FatalError(
                f"{self.path} is in use: another process executes this failover; wait for it or "
                "stop it"
            ) from error

    def _read_journal(self) -> FailoverJournal:
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(0)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.ftruncate(self._fd, len(whole))
        try:
            return failover_journal.read_journal(whole.decode())
        except (JournalError, UnicodeDecodeError) as error:
            raise FatalError(f"{self.path}: {error}") from error

    def _append_whole_line(self, line: str) -> None:
        """Append either the whole line or nothing, so that the next append begins on a new line."""
        before = os.fstat(self._fd).st_size
        try:
            left = line.encode()
            while left:  # a full disk accepts only a part
                left = left[os.write(self._fd, left) :]
            os.fsync(self._fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, before)
            raise FatalError(f"writing the journal {self.path}: {error.strerror}") from error


def _sync_directory(folder: pathlib.Path) -> None:
    """Fsync the directory so that the new file's directory entry is durable."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise FatalError(f"writing the directory {folder}: {error.strerror}") from error
