"""Provides the Unix socket over which commands query the process that runs a configuration file.

A process that runs `clusters.yaml` listens in a directory that only its user can access:
`$MM2_RUN_DIR`, else `$XDG_RUNTIME_DIR/mm2`, else `mm2-run-<uid>` in the temporary directory. The
socket's name consists of a hash of the file's path and the process id. A request and its response
are one line of JSON each, with a version; then the connection is closed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import pwd
import select
import shlex
import socket
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from connect_runtime.base.errors import RetriableError
from connect_runtime.system import secure_file_access
from connect_runtime.system.secure_file_access import DirectoryNotPrivateError
from mm2 import exit_codes

SOCKET_PROTOCOL_VERSION = 2
LINE_BYTES_MAX = 16 * 1024 * 1024
"""Maximum length of a message: large enough for the status of thousands of partitions."""
REQUEST_READ_TIMEOUT_S = 2.0
_BACKLOG = 8


class ProcessSocketError(RetriableError):
    """Raised if no process could be queried; the message contains the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadRequest:
    """Request to reload the configuration. With `dry_run`, only the changes are reported."""

    dry_run: bool = False
    peer: str = field(default="", compare=False)
    """Client that sent the request, set by the receiver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest:
    """Request to explain how a topic, given by its source or mirror name, is replicated."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """Request for the status of all flows. The `detail` of the response contains a `FlowReport` for
    each flow, encoded as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestApiRequest:
    """Request for the address and credentials of the REST API of the process's flows."""

    peer: str = field(default="", compare=False)
    """Client that sent the request, set by the receiver."""


ProcessRequest = ReloadRequest | ExplainRequest | StatusRequest | RestApiRequest
_REQUEST_TYPES: Mapping[str, type[ProcessRequest]] = {
    "reload": ReloadRequest,
    "why": ExplainRequest,
    "status": StatusRequest,
    "api": RestApiRequest,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResponse:
    """Response of a process. `code` is an exit code; `lines` are the result if the code is 0,
    otherwise the error.

    `detail` is the result as JSON for programs, and may contain more than the lines.
    """

    code: int
    lines: tuple[str, ...]
    detail: Mapping[str, Any] = field(default_factory=dict)


def find_socket_directory(environ: Mapping[str, str] = os.environ) -> pathlib.Path:
    """Return the directory that contains this user's sockets: `$MM2_RUN_DIR`, else
    `$XDG_RUNTIME_DIR/mm2`, else `mm2-run-<uid>` in the temporary directory."""
    if environ.get("MM2_RUN_DIR"):
        return pathlib.Path(environ["MM2_RUN_DIR"])
    if environ.get("XDG_RUNTIME_DIR"):
        return pathlib.Path(environ["XDG_RUNTIME_DIR"]) / "mm2"
    return pathlib.Path(tempfile.gettempdir()) / f"mm2-run-{os.geteuid()}"


class ProcessSocket:
    """Listens for requests to this process. Raises `ProcessSocketError` if the socket cannot be
    created."""

    def __init__(self, file: pathlib.Path, *, folder: pathlib.Path) -> None:
        _create_socket_directory(folder)
        self.path = folder / f"{_make_name_prefix(file)}-{os.getpid()}.sock"
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self.path.unlink(missing_ok=True)
            self._listener.bind(str(self.path))
            self._listener.listen(_BACKLOG)
        except OSError as error:
            self._listener.close()
            raise ProcessSocketError(f"cannot listen at {self.path}: {error}") from error

    def serve_request(
        self, answer: Callable[[ProcessRequest], ProcessResponse], timeout_s: float
    ) -> None:
        """Wait up to `timeout_s` for a request, and respond to it."""
        ready, _, _ = select.select([self._listener], [], [], timeout_s)
        if not ready:
            return
        with contextlib.suppress(OSError):  # the client has disconnected
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(REQUEST_READ_TIMEOUT_S)
                question = _read_request(connection)
                found = question if isinstance(question, ProcessResponse) else answer(question)
                _write_message(connection, asdict(found))

    def close(self) -> None:
        self._listener.close()
        self.path.unlink(missing_ok=True)


def _read_request(connection: socket.socket) -> ProcessRequest | ProcessResponse:
    """Read a request; return an error response if the request is invalid."""
    try:
        asked = _read_message(connection)
        if asked.pop("version", None) != SOCKET_PROTOCOL_VERSION:
            text = (
                f"this process uses protocol version {SOCKET_PROTOCOL_VERSION}: use the same "
                "release of mm2"
            )
            return ProcessResponse(code=exit_codes.FAILED, lines=(text,))
        question = _REQUEST_TYPES[asked.pop("kind")](**asked)
    except (ValueError, KeyError, TypeError) as error:
        return ProcessResponse(code=exit_codes.FAILED, lines=(f"invalid request: {error}",))
    if isinstance(question, ReloadRequest | RestApiRequest):
        return replace(question, peer=_format_socket_peer(connection))
    return question


def _format_socket_peer(connection: socket.socket) -> str:
    """Describe the client as reported by the kernel, for example `root (uid 0, pid 17)`."""
    size = struct.calcsize("3i")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, uid, _ = struct.unpack("3i", found)
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid} (pid {pid})"
    return f"{name} (uid {uid}, pid {pid})"


def query_processes(
    file: pathlib.Path, request: ProcessRequest, *, folder: pathlib.Path, timeout_s: float
) -> dict[int, ProcessResponse]:
    """Query each process that runs the configuration file; return the responses by process id.

    Removes the sockets of processes that no longer exist. Raises `ProcessSocketError` if no process
    responds, or if another user could respond.
    """
    answers = _query_directory(file, request, folder=folder, timeout_s=timeout_s)
    if not answers:
        another = "specify the running process's file with --config FILE or MM2_CONFIG"
        if file.exists():
            start = f"mm2 run --config {shlex.quote(str(file))}"
            remedy = (
                f"start the process with {start}, run this command on the machine on which it "
                f"runs, or {another}"
            )
        else:
            remedy = f"the configuration file does not exist; {another}"
        raise ProcessSocketError(
            f"no process runs {file.absolute()} on this machine (no socket in {folder}): {remedy}"
        )
    return answers


def _query_directory(
    file: pathlib.Path, request: ProcessRequest, *, folder: pathlib.Path, timeout_s: float
) -> dict[int, ProcessResponse]:
    """Query each process that has a socket for the configuration file in the directory.

    The directory is opened, then checked and used through its descriptor, so that another user
    cannot replace it between the check and the use.
    """
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    try:
        _check_directory_owner(folder, uid=os.geteuid(), opened=opened)
        found = {
            pid: _query_process(pathlib.Path(f"/proc/self/fd/{opened}", name), request, timeout_s)
            for pid, name in _find_sockets(file, opened)
        }
    finally:
        os.close(opened)
    return {pid: answer for pid, answer in found.items() if answer is not None}


def _query_process(
    path: pathlib.Path, question: ProcessRequest, timeout_s: float
) -> ProcessResponse | None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
            kind = next(name for name, each in _REQUEST_TYPES.items() if isinstance(question, each))
            _write_message(
                connection, {"version": SOCKET_PROTOCOL_VERSION, "kind": kind, **asdict(question)}
            )
            found = _read_message(connection)
            return ProcessResponse(
                code=int(found["code"]),
                lines=tuple(map(str, found["lines"])),
                detail=dict(found.get("detail", {})),
            )
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return None
        except BlockingIOError:
            text = "the process is busy with other requests: try again"
            return ProcessResponse(code=exit_codes.UNREACHABLE, lines=(text,))
        except TimeoutError:
            text = f"no response within {timeout_s:g} s; see its log"
            return ProcessResponse(code=exit_codes.UNREACHABLE, lines=(text,))
        except (OSError, ValueError, KeyError, TypeError) as error:
            return ProcessResponse(code=exit_codes.FAILED, lines=(f"invalid response: {error}",))


def _find_sockets(file: pathlib.Path, folder: int) -> Iterator[tuple[int, str]]:
    """Yield (process id, socket name) for each process that has a socket for the configuration file
    in the directory. `folder` is the directory's open descriptor."""
    prefix, suffix = f"{_make_name_prefix(file)}-", ".sock"
    for name in sorted(os.listdir(folder)):
        pid = name.removeprefix(prefix).removesuffix(suffix)
        if name == f"{prefix}{pid}{suffix}" and pid.isdecimal():
            yield int(pid), name


def _make_name_prefix(file: pathlib.Path) -> str:
    """Return the common prefix of the names of the configuration file's sockets: a hash of the
    file's path. Symbolic links to directories are resolved. If the file itself is a symbolic link,
    it is not resolved, because Kubernetes changes the link's target when the configuration is
    updated."""
    where = file.parent.resolve() / file.name
    return hashlib.sha256(str(where).encode()).hexdigest()[:16]


def _create_socket_directory(where: pathlib.Path) -> None:
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_directory_owner(where, uid=os.geteuid(), ours=True)
    except OSError as error:
        raise ProcessSocketError(f"cannot create {where}: {error}") from error


def _check_directory_owner(
    where: pathlib.Path, *, uid: int, ours: bool = False, opened: int | None = None
) -> None:
    """Check that only the user `uid` could have created the sockets in the directory. `opened` is
    the directory's descriptor, if the directory is open.

    If `ours` is true, the directory must be owned by user `uid`. Otherwise root may also query a
    directory that belongs to the user that runs mm2, unless every user can create directories in
    its parent directory. Raises `ProcessSocketError` if the check fails.
    """
    try:
        secure_file_access.check_private_directory(
            where, uid=uid, root_may_use_foreign=not ours, opened=opened
        )
    except DirectoryNotPrivateError as error:
        raise ProcessSocketError(
            f"{error}, or set MM2_RUN_DIR to another directory for mm2 run and all mm2 commands: "
            "anyone with access to this directory could impersonate the mm2 process of user id "
            f"{uid}"
        ) from error


def _write_message(connection: socket.socket, message: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _read_message(connection: socket.socket) -> dict[str, Any]:
    data = b""
    while not data.endswith(b"\n"):
        part = connection.recv(65536)
        if not part or len(data) > LINE_BYTES_MAX:
            raise ValueError("the line is not terminated")
        data += part
    found = json.loads(data)
    if not isinstance(found, dict):
        raise TypeError("not a JSON object")
    return found
