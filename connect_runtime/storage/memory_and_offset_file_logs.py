"""Logs of a standalone worker: in memory for configurations and statuses, in a file for source
offsets.

`MemoryLog` passes records to its listener and does not store them, so configurations and statuses
are lost when the process ends. `OffsetFileLog` assumes that only this process uses the offset file.
It replaces the file atomically when offsets change, once for all pending writes. The file format is
the same as in Java (`offset_file_format`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.storage import offset_file_format
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.internal_topic_log import LogListener, OnRecorded, SharedLogRecord
from connect_runtime.storage.offset_file_format import MalformedOffsetFile
from connect_runtime.system import secure_file_access
from connect_runtime.system.supervised_threads import (
    PendingOperations,
    ThreadGroup,
    UnexpectedThreadEnd,
)


class MemoryLog:
    """Implements `SharedLog` in memory. `send` calls the listener on the caller's thread.

    If the listener acquires a lock, either all callers of `send` or none of them must hold that
    lock; otherwise threads may deadlock.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()
        self._next_offset = 0
        self._listener: LogListener | None = None

    @property
    def name(self) -> str:
        """Name of the log. This and the following methods are documented in `SharedLog`."""
        return self._name

    def start(self, listener: LogListener, timeout_s: float) -> None:
        del timeout_s  # the memory log never waits
        with self._lock:
            self._listener = listener
            listener.on_replay_completed()

    def send(self, record: KeyedRecord, *, on_recorded: OnRecorded) -> None:
        with self._lock:
            if self._listener is None:
                raise FatalError(f"cannot write to {self._name}: the log was stopped")
            offset = self._next_offset
            self._next_offset += 1
            self._listener.on_record(
                SharedLogRecord(
                    topic=self._name, partition=0, offset=offset, key=record.key, value=record.value
                )
            )
        on_recorded(None)

    def read_to_end(self, timeout_s: float) -> None:
        """Return immediately, because records are processed when they are sent."""

    def stop(self, timeout_s: float) -> None:
        with self._lock:
            self._listener = None


_LOG = logging.getLogger(__name__)
_THREAD_STOP_TIMEOUT_S = 5.0
_IDLE_WAIT_S = 1.0
_MAX_FILE_BYTES = 64 * 1024 * 1024

_PendingWrite = tuple[int, KeyedRecord, OnRecorded]


class OffsetFileLog:
    """Implements `SharedLog` on the file `offset.storage.file.filename`.

    If the writing thread ends unexpectedly, `on_broken` is called with the reason, and all further
    records are rejected.

    Invariant: the file contains every record that the listener has received.
    """

    def __init__(self, path: Path, *, on_broken: Callable[[str], None] = lambda _: None) -> None:
        self._path = Path(os.path.realpath(path))
        self._on_broken = on_broken
        self._listener: LogListener | None = None
        self._offsets: dict[bytes, bytes] = {}
        self._delivered_count = 0
        self._changed = threading.Condition()
        self._waiting: deque[_PendingWrite] = deque()
        self._outstanding = PendingOperations()
        self._threads = ThreadGroup(on_unexpected_end=self._handle_thread_death)

    @property
    def name(self) -> str:
        """Name of the log. This and the following methods are documented in `SharedLog`."""
        return str(self._path)

    def start(self, listener: LogListener, timeout_s: float) -> None:
        """Read the offset file and start the writing thread. A missing file counts as empty; a
        malformed file is rejected."""
        del timeout_s  # the file is read at once
        self._offsets = self._read_file()
        for key, value in self._offsets.items():
            self._deliver_to_listener(listener, key, value)
        listener.on_replay_completed()
        self._listener = listener
        self._threads.start(f"writes {self._path.name}", self._run_writer)

    def send(self, record: KeyedRecord, *, on_recorded: OnRecorded) -> None:
        with self._changed:
            if self._listener is None:
                raise FatalError(f"cannot write to {self._path}: the log was closed")
            self._waiting.append((self._outstanding.begin_operation(), record, on_recorded))
            self._changed.notify()

    def read_to_end(self, timeout_s: float) -> None:
        if not self._outstanding.wait_for_earlier_operations(timeout_s):
            raise RetriableError(
                f"writing offsets to {self._path}: not completed within {timeout_s:.0f} s; check"
                " the disk"
            )

    def stop(self, timeout_s: float) -> None:
        self._outstanding.wait_for_earlier_operations(timeout_s)
        left = self._reject_new_records()
        self._threads.stop_all(_THREAD_STOP_TIMEOUT_S)
        self._fail_records(left)

    def _reject_new_records(self) -> list[_PendingWrite]:
        """Reject all further records. Return the queued records that are not being written yet."""
        with self._changed:
            self._listener = None
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify()
        return left

    def _fail_records(self, left: list[_PendingWrite]) -> None:
        closed = RetriableError(
            f"writing {self._path}: the log was closed before the record was written"
        )
        for number, _, on_recorded in left:
            on_recorded(closed)
            self._outstanding.end_operation(number)

    def _run_writer(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._changed:
                if not self._waiting:
                    self._changed.wait(_IDLE_WAIT_S)
                batch = list(self._waiting)
                self._waiting.clear()
                listener = self._listener
            if batch and listener is not None:
                self._write_batch(batch, listener)

    def _write_batch(self, batch: list[_PendingWrite], listener: LogListener) -> None:
        offsets = dict(self._offsets)
        for _, record, _ in batch:
            if record.value is None:
                offsets.pop(record.key, None)
            else:
                offsets[record.key] = record.value
        failure = self._try_write_file(offsets)
        if failure is None:
            self._offsets = offsets
        for number, record, on_recorded in batch:
            if failure is None:
                self._deliver_to_listener(listener, record.key, record.value)
            on_recorded(failure)
            self._outstanding.end_operation(number)

    def _deliver_to_listener(self, listener: LogListener, key: bytes, value: bytes | None) -> None:
        listener.on_record(
            SharedLogRecord(
                topic=self.name, partition=0, offset=self._delivered_count, key=key, value=value
            )
        )
        self._delivered_count += 1

    def _read_file(self) -> dict[bytes, bytes]:
        try:
            content = secure_file_access.read_user_owned_file(self._path, max_bytes=_MAX_FILE_BYTES)
            self._check_write_permissions()
            return offset_file_format.decode_offsets(content)
        except FileNotFoundError:
            self._write_file({})  # report a missing write permission now
            return {}
        except OSError as error:
            raise FatalError(
                f"reading offsets from {self._path}: {error.strerror}; check"
                " offset.storage.file.filename"
            ) from error
        except MalformedOffsetFile as error:
            raise FatalError(
                f"{self._path}: {error}; set offset.storage.file.filename to another file, or move"
                " this file; all source connectors then start over"
            ) from error

    def _check_write_permissions(self) -> None:
        if secure_file_access.can_others_write(self._path):
            raise FatalError(
                f"reading offsets from {self._path}: other users can write to the file and so"
                " change the offsets of all source connectors; run: chmod go-w"
                f" {shlex.quote(str(self._path))}"
            )

    def _try_write_file(self, offsets: dict[bytes, bytes]) -> ConnectError | None:
        try:
            self._write_file(offsets)
        except ConnectError as error:
            return error
        return None

    def _write_file(self, offsets: dict[bytes, bytes]) -> None:
        try:
            _replace_file(self._path, offset_file_format.encode_offsets(offsets))
        except OSError as error:
            raise RetriableError(
                f"writing offsets to {self._path}: {error.strerror}; its directory must "
                "exist and be writable (offset.storage.file.filename)"
            ) from error

    def _handle_thread_death(self, ended: UnexpectedThreadEnd) -> None:
        reason = f"the thread that {ended.name} ended: {ended.error or 'it ended without an error'}"
        _LOG.error("%s", reason, exc_info=ended.error)
        self._fail_records(self._reject_new_records())
        self._on_broken(reason)


def _replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically. The new content is synced to disk before the rename."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _copy_file_permissions(path, name)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _copy_file_permissions(path: Path, name: str) -> None:
    """Copy the read and write permissions of an existing file. A new file is readable only by its
    owner."""
    with contextlib.suppress(FileNotFoundError):
        os.chmod(name, path.stat().st_mode & 0o664)
