"""Files shared by `mm2 sandbox up` and its supervisor: the requested clusters and the supervisor's
state.

Both are versioned JSON files in the sandbox directory, readable only by their owner because they
contain passwords. The supervisor holds a lock on a third file while it is running. This lock, not a
process id, determines whether a sandbox is running.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from connect_runtime.system import secure_file_access
from mm2.sandbox import broker_settings, containers, kafka_releases, shell_variables
from mm2.sandbox.sandbox_errors import SandboxError

VERSION = 4
_CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

SandboxPhase = Literal["starting", "ready", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRequest:
    """Requested clusters and their settings. `settings` apply to every broker of every cluster.

    `kafka_version` is a full or short version, as accepted by `kafka_releases.find_release`.
    """

    names: tuple[str, ...]
    brokers: int = 1
    secure: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    kafka_version: str = kafka_releases.NEWEST_RELEASE.version
    in_containers: bool = False

    def validate(self) -> None:
        """Raise `SandboxError` if the request is invalid."""
        for name in self.names:
            if not _CLUSTER_NAME.fullmatch(name):
                raise SandboxError(
                    f"invalid cluster name {name!r}: only letters, digits, - and _ are allowed, "
                    "at most 64 characters"
                )
        if not self.names or len(set(self.names)) != len(self.names):
            raise SandboxError("name each cluster once: mm2 sandbox up east west")
        shell_variables.check_cluster_names(self.names)
        if self.brokers not in {1, 3}:
            raise SandboxError(f"a cluster has 1 or 3 brokers, not {self.brokers}")
        release = kafka_releases.find_release(self.kafka_version)
        if self.secure and release.zookeeper:
            raise SandboxError(
                f"Kafka {release.version} cannot be secure: its ZooKeeper requires no login, so "
                "every local user could replace the passwords and ACLs of the cluster; start a "
                "newer release with --secure, or start this release without it on a machine that "
                "you do not share with other users"
            )
        if self.in_containers:
            containers.find_image(release)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBroker:
    """A running broker; `preferred_port` is the port that the broker uses if the port is free."""

    node_id: int
    address: str
    preferred_port: int
    pid: int
    log: str

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningZooKeeper:
    pid: int
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCluster:
    """A running cluster; `properties` are the Java client properties for connecting to the
    cluster."""

    name: str
    kafka_version: str
    properties: Mapping[str, str] = field(repr=False)
    brokers: tuple[RunningBroker, ...]
    zookeeper: RunningZooKeeper | None = None

    @property
    def bootstrap(self) -> str:
        return self.properties["bootstrap.servers"]

    @property
    def is_secure(self) -> bool:
        """True if clients need more than the bootstrap servers to connect."""
        return self.properties["security.protocol"] != "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxState:
    """Sandbox state reported by a supervisor; `error` is the error message in the phase `failed`,
    otherwise empty."""

    phase: SandboxPhase
    pid: int
    clusters: tuple[RunningCluster, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class SandboxFolder:
    """The directory of a sandbox and the files in it."""

    folder: Path

    @property
    def clusters(self) -> Path:
        return self.folder / "clusters"

    @property
    def supervisor_log(self) -> Path:
        return self.folder / "supervisor.log"

    def get_client_properties_path(self, cluster: str) -> Path:
        """Return the path of the Java client properties file of a cluster.

        The file is outside the brokers' directories, so that programs that use the file are not
        mistaken for processes of the sandbox.
        """
        return self.folder / f"{cluster}{_CLIENT_PROPERTIES}"

    def create(self) -> None:
        """Create the sandbox directory. Raises `SandboxError` if the directory exists and is not
        private."""
        try:
            secure_file_access.ensure_private_directory(self.folder)
        except OSError as error:
            raise SandboxError(f"cannot use the sandbox directory: {error}") from error

    def check_directory_is_private(self) -> None:
        """Raise `SandboxError` if the directory exists and is not private.

        Commands kill the processes and connect to the addresses that the directory's files contain,
        so no other user may be able to change these files.
        """
        try:
            secure_file_access.check_private_directory(self.folder, uid=os.geteuid())
        except FileNotFoundError:
            return
        except OSError as error:
            raise SandboxError(f"cannot use the sandbox directory: {error}") from error

    def write_request(self, request: SandboxRequest) -> None:
        _write_json(self._request_path, asdict(request))

    def read_request(self) -> SandboxRequest:
        fields = _read_json(self._request_path)
        return SandboxRequest(**{**fields, "names": tuple(fields["names"])})

    def write_state(self, state: SandboxState) -> None:
        _write_json(self._state_path, asdict(state))

    def read_state(self) -> SandboxState | None:
        """Return the last state that a supervisor wrote, even if that supervisor has ended, or None
        if no state was written."""
        try:
            fields = _read_json(self._state_path)
        except FileNotFoundError:
            return None
        clusters = tuple(
            RunningCluster(
                name=cluster["name"],
                kafka_version=cluster["kafka_version"],
                properties=cluster["properties"],
                brokers=tuple(RunningBroker(**broker) for broker in cluster["brokers"]),
                zookeeper=cluster["zookeeper"] and RunningZooKeeper(**cluster["zookeeper"]),
            )
            for cluster in fields.pop("clusters")
        )
        return SandboxState(**fields, clusters=clusters)

    def write_client_properties(self, cluster: RunningCluster) -> None:
        path = self.get_client_properties_path(cluster.name)
        path.touch(mode=0o600)
        path.write_text(broker_settings.render_properties(cluster.properties))

    def delete_state(self) -> None:
        for path in (self._state_path, *self.folder.glob(f"*{_CLIENT_PROPERTIES}")):
            path.unlink(missing_ok=True)

    def try_lock(self, name: str) -> IO[bytes] | None:
        """Lock a file in the sandbox directory and write this process's id to the file. Return None
        if the file is already locked.

        The lock is held until the returned file is closed or this process ends.
        """
        (self.folder / name).touch(mode=0o600)
        handle = (self.folder / name).open("r+b", buffering=0)
        try:
            fcntl.flock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            return None
        write_lock_owner(handle, os.getpid())
        return handle

    def is_supervisor_running(self) -> bool:
        if not (self.folder / SUPERVISOR_LOCK).exists():
            return False
        with (self.folder / SUPERVISOR_LOCK).open() as handle:
            try:
                fcntl.flock(handle.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def read_supervisor_pid(self) -> int:
        """Return the process id of the running supervisor."""
        return int((self.folder / SUPERVISOR_LOCK).read_text())

    @property
    def _request_path(self) -> Path:
        return self.folder / "request.json"

    @property
    def _state_path(self) -> Path:
        return self.folder / "state.json"


SUPERVISOR_LOCK = "supervisor.lock"
COMMAND_LOCK = "command.lock"
_CLIENT_PROPERTIES = ".client.properties"


def write_lock_owner(lock: IO[bytes], pid: int) -> None:
    """Write the lock owner's process id atomically, so that readers never see a partial id."""
    os.pwrite(lock.fileno(), f"{pid:<20}".encode(), 0)


def _write_json(path: Path, fields: Mapping[str, Any]) -> None:
    partial = path.with_name(path.name + ".new")
    partial.touch(mode=0o600)
    partial.write_text(json.dumps({"version": VERSION, **fields}))
    partial.replace(path)


def _read_json(path: Path) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(path.read_text())
    version = fields.pop("version", None)
    if version != VERSION:
        raise SandboxError(
            f"{path} has version {version}, but this mm2 writes {VERSION}: stop that sandbox with "
            "the mm2 that started it, or remove the directory"
        )
    return fields
