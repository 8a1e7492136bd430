"""Runs brokers in containers of Apache Kafka's official image, using testcontainers.

Containers share this machine's network and mount the cluster's directory under the same path, so
settings, addresses, logs and certificates are the same as for local brokers. Therefore the Docker
daemon must run on this machine. Testcontainers' reaper removes containers that outlive this
process. The reaper runs in a container with a separate image, and is disabled if
TESTCONTAINERS_RYUK_DISABLED is set.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from connect_runtime.base.errors import FatalError
from connect_runtime.system import system_clock
from mm2.sandbox.java_server_process import RunningProgram
from mm2.sandbox.kafka_releases import KafkaRelease
from mm2.sandbox.sandbox_errors import SandboxError

_KAFKA_SCRIPTS = "/opt/kafka/bin"
_CONTAINER_POLL_INTERVAL_S = 0.1
_KILL_S = 20.0
_LOG_TO_FILE = 'exec "$@" >>"$0" 2>&1'
_LOST_CONTAINER_STATUS = 255
_VIRTUAL_MACHINE_DAEMONS = frozenset({"Docker Desktop"})
_LOCAL_SOCKET_PREFIX = "http+docker://"
"""URL prefix that the Docker client reports for a daemon on a local socket."""


def find_image(release: KafkaRelease) -> str:
    """Return the container image of a Kafka release, such as `apache/kafka:4.3.1`.

    Raises `SandboxError` if Apache publishes no image for the release.
    """
    if release.zookeeper:
        raise SandboxError(
            f"Kafka {release.version} cannot run in a container because Apache publishes images "
            "only for 3.7 and later; omit --in-containers to run it on this machine"
        )
    return f"apache/kafka:{release.version}"


def check_docker_daemon() -> None:
    """Raise `SandboxError` with a remedy if containers cannot be started."""
    _connect_to_daemon().close()


def pull_image(name: str, *, report: Callable[[str], None] = lambda line: None) -> None:
    """Pull a container image if the Docker daemon does not have it. Raises `SandboxError` if the
    pull fails."""
    with closing(_connect_to_daemon()) as daemon:
        with suppress(Exception):  # see `_connect_to_daemon`
            daemon.images.get(name)
            return
        report(f"pulling the image {name} (a few hundred MB, only once)")
        try:
            daemon.images.pull(name)
        except Exception as error:  # see `_connect_to_daemon`
            raise SandboxError(
                f"the Docker daemon does not have the image {name} and cannot pull it "
                f"({_format_first_error_line(error)}): run docker pull {name}"
            ) from error


@dataclass(frozen=True, slots=True)
class ContainerRunner:
    """Runs each program in a separate container that mounts `folder` (an absolute path)."""

    image: str
    folder: Path
    features: Path | None = None

    def make_broker_command(self, settings: Path, *, flags: tuple[str, ...]) -> list[str]:
        return [*_make_environment(flags), f"{_KAFKA_SCRIPTS}/kafka-server-start.sh", str(settings)]

    def make_storage_tool_command(self, *arguments: str, flags: tuple[str, ...]) -> list[str]:
        return [*_make_environment(flags), f"{_KAFKA_SCRIPTS}/kafka-storage.sh", *arguments]

    def start(self, argv: Sequence[str], *, output: IO[bytes], cwd: Path) -> RunningProgram:
        folder = str(self.folder)
        container = (
            _import_testcontainers()
            .DockerContainer(self.image)
            .with_volume_mapping(folder, folder, "rw")
            .with_command(["-c", _LOG_TO_FILE, output.name, *argv])
            .with_kwargs(
                entrypoint=["/bin/sh"],
                network_mode="host",
                user=f"{os.getuid()}:{os.getgid()}",
                working_dir=str(cwd),
            )
        )
        try:
            container.start()
        except Exception as error:  # see `_connect_to_daemon`; remove the created container
            with suppress(Exception):
                container.stop()
            raise SandboxError(
                f"cannot start a container of {self.image}: {_format_first_error_line(error)}"
            ) from error
        return _ContainerProgram(container)


class _ContainerProgram:
    """A program running in its own container. The container is removed after the program has
    ended."""

    def __init__(self, container: Any) -> None:
        self._container = container
        self._status: int | None = None
        wrapped = container.get_wrapped_container()
        wrapped.reload()
        self.pid = int(wrapped.attrs["State"]["Pid"])

    def poll(self) -> int | None:
        if self._status is not None:
            return self._status
        wrapped = self._container.get_wrapped_container()
        try:
            wrapped.reload()
        except Exception as error:
            if not _is_container_gone(error):
                raise
            self._status = _LOST_CONTAINER_STATUS
            return self._status
        state = wrapped.attrs["State"]
        if state["Status"] in {"exited", "dead"}:
            self._status = int(state["ExitCode"])
            self._container.stop()
        return self._status

    def wait(self, timeout_s: float) -> int | None:
        system_clock.wait_until(
            lambda: self.poll() is not None,
            timeout_s=timeout_s,
            interval_s=min(timeout_s, _CONTAINER_POLL_INTERVAL_S),
        )
        return self._status

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            try:
                self._container.get_wrapped_container().kill(signal=number.name)
            except Exception:
                if self.poll() is None:
                    raise

    def kill(self) -> int:
        self.send_signal(signal.SIGKILL)
        status = self.wait(_KILL_S)
        if status is None:
            raise FatalError(
                f"container {self._container.get_container_id()} still exists {_KILL_S:.0f} s "
                "after SIGKILL"
            )
        return status


def _connect_to_daemon() -> Any:
    """Connect to the Docker daemon and return the client, which the caller must close."""
    library = _import_testcontainers()
    try:
        client = library.DockerClient().client
        system = str(client.info().get("OperatingSystem", ""))
    except Exception as error:  # requests, docker and urllib3 all raise their own
        raise SandboxError(
            f"the Docker daemon does not respond ({_format_first_error_line(error)}): start it, "
            "or omit --in-containers"
        ) from error
    if system in _VIRTUAL_MACHINE_DAEMONS or not client.api.base_url.startswith(
        _LOCAL_SOCKET_PREFIX
    ):
        client.close()
        raise SandboxError(
            f"the Docker daemon ({system}) runs on another machine and does not share this "
            "machine's network and directories: omit --in-containers"
        )
    return client


def _make_environment(flags: tuple[str, ...]) -> list[str]:
    """Return the `env` command that makes Kafka's scripts use the JVM flags `flags` instead of
    their default flags."""
    return [
        "env",
        f"KAFKA_HEAP_OPTS={' '.join(flags)}",
        "KAFKA_JVM_PERFORMANCE_OPTS=-Djava.awt.headless=true",
        "EXTRA_ARGS=",
        "LOG_DIR=/tmp",
    ]


def _is_container_gone(error: Exception) -> bool:
    return getattr(getattr(error, "response", None), "status_code", None) == 404


def _format_first_error_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _import_testcontainers() -> Any:
    """Import testcontainers, an optional dependency."""
    try:
        from testcontainers.core import container, docker_client
    except ImportError as error:
        raise SandboxError(
            "brokers in containers need testcontainers: pip install 'mm2[containers]'"
        ) from error

    class _TestcontainersClasses:
        DockerContainer = container.DockerContainer
        DockerClient = docker_client.DockerClient

    return _TestcontainersClasses
