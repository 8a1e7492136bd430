"""Standalone's offsets in a file, as a log whose only writer and reader this process is.

The file is Java's (`core.state.offset_file`), and written anew whenever offsets change, all that
wait together; never half: what was there stays until the new one is whole.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from connect_runtime.base import errors
from connect_runtime.core.state import offset_file
from connect_runtime.ports import shared_log
from connect_runtime.system import outstanding, threads

_LOG = logging.getLogger(__name__)
_STOP_S = 5.0
_IDLE_S = 1.0

_Waiting = tuple[int, shared_log.Record, shared_log.OnRecorded]


class OffsetFile:
    """Implements `shared_log.SharedLog` over `offset.storage.file.filename`.

    `on_broken` hears why its thread ended that nobody had asked to: from then on nothing is taken.

    Invariant: the file has everything that the listener heard.
    """

    def __init__(self, path: Path, *, on_broken: Callable[[str], None] = lambda _: None) -> None:
        self._path = Path(os.path.realpath(path))
        self._on_broken = on_broken
        self._listener: shared_log.Listener | None = None
        self._offsets: dict[bytes, bytes] = {}
        self._told = 0
        self._wanted = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._outstanding = outstanding.Outstanding()
        self._threads = threads.Threads(on_unasked_end=self._on_unasked_end)

    @property
    def name(self) -> str:
        """See `shared_log.SharedLog`; so for all below."""
        return str(self._path)

    def start(self, listener: shared_log.Listener, timeout_s: float) -> None:
        """A file that is not there is an empty one; one that cannot be understood is refused."""
        del timeout_s  # it is read at once
        self._offsets = self._read()
        for key, value in self._offsets.items():
            self._tell(listener, key, value)
        listener.on_replayed()
        self._listener = listener
        self._threads.start(f"writes {self._path.name}", self._run)

    def send(self, record: shared_log.Record, *, on_recorded: shared_log.OnRecorded) -> None:
        with self._wanted:
            if self._listener is None:
                raise errors.FatalError(f"writing {self._path}: it was closed")
            self._waiting.append((self._outstanding.begin(), record, on_recorded))
            self._wanted.notify()

    def read_to_end(self, timeout_s: float) -> None:
        if not self._outstanding.wait(timeout_s):
            raise errors.RetriableError(
                f"writing {self._path}: not done within {timeout_s:.0f} s; look at the disk"
            )

    def stop(self, timeout_s: float) -> None:
        self._outstanding.wait(timeout_s)
        left = self._close()
        self._threads.stop_all(_STOP_S)
        self._refuse(left)

    def _close(self) -> list[_Waiting]:
        """Nothing is taken any more. Answers what was not begun."""
        with self._wanted:
            self._listener = None
            left = list(self._waiting)
            self._waiting.clear()
            self._wanted.notify()
        return left

    def _refuse(self, left: list[_Waiting]) -> None:
        closed = errors.RetriableError(f"writing {self._path}: closed before it was written")
        for number, _, on_recorded in left:
            on_recorded(closed)
            self._outstanding.end(number)

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._wanted:
                if not self._waiting:
                    self._wanted.wait(_IDLE_S)
                batch = list(self._waiting)
                self._waiting.clear()
                listener = self._listener
            if batch and listener is not None:
                self._record(batch, listener)

    def _record(self, batch: list[_Waiting], listener: shared_log.Listener) -> None:
        offsets = dict(self._offsets)
        for _, record, _ in batch:
            if record.value is None:
                offsets.pop(record.key, None)
            else:
                offsets[record.key] = record.value
        failure = self._write(offsets)
        if failure is None:
            self._offsets = offsets
        for number, record, on_recorded in batch:
            if failure is None:
                self._tell(listener, record.key, record.value)
            on_recorded(failure)
            self._outstanding.end(number)

    def _tell(self, listener: shared_log.Listener, key: bytes, value: bytes | None) -> None:
        listener.on_record(
            shared_log.LogRecord(
                topic=self.name, partition=0, offset=self._told, key=key, value=value
            )
        )
        self._told += 1

    def _read(self) -> dict[bytes, bytes]:
        try:
            return offset_file.decode(self._path.read_bytes())
        except FileNotFoundError:
            self._write_or_raise({})  # who may not write must hear of it now
            return {}
        except OSError as error:
            raise errors.FatalError(
                f"reading offsets from {self._path}: {error.strerror}; offset.storage.file.filename"
                " names the file"
            ) from error
        except offset_file.MalformedOffsetFile as error:
            raise errors.FatalError(
                f"{self._path}: {error}; name another file in offset.storage.file.filename, or move"
                " this one away: then every source begins at its beginning"
            ) from error

    def _write(self, offsets: dict[bytes, bytes]) -> errors.ConnectError | None:
        try:
            self._write_or_raise(offsets)
        except errors.ConnectError as error:
            return error
        return None

    def _write_or_raise(self, offsets: dict[bytes, bytes]) -> None:
        try:
            _replace(self._path, offset_file.encode(offsets))
        except OSError as error:
            raise errors.RetriableError(
                f"writing offsets to {self._path}: {error.strerror}; its folder must be there and "
                "writable (offset.storage.file.filename)"
            ) from error

    def _on_unasked_end(self, ended: threads.UnaskedEnd) -> None:
        why = f"the thread that {ended.name} ended: {ended.error or 'it just ended'}"
        _LOG.error("%s", why, exc_info=ended.error)
        self._refuse(self._close())
        self._on_broken(why)


def _replace(path: Path, data: bytes) -> None:
    """The new content is on the disk before it has the file's name."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _keep_mode(path, name)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _keep_mode(path: Path, name: str) -> None:
    """A new file may be read by its owner alone; one that was there keeps its permissions."""
    with contextlib.suppress(FileNotFoundError):
        os.chmod(name, path.stat().st_mode & 0o7777)
