"""A standalone Spark cluster on this machine, run from the pyspark package.

Each worker has a separate loopback address, starting at 127.0.0.1, so that Spark sees several
hosts. All processes of the Spark cluster end when this process ends. `secret` enables
authentication and encryption between master, workers and applications.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from connect_runtime.base import plurals
from connect_runtime.system import child_processes, java_installation, system_clock
from connect_runtime.system.child_processes import ChildProcess
from mm2.copier import process_private_directory
from mm2.copier.process_private_directory import RunDirectory
from mm2.copier.spark import jvm
from mm2.sandbox import broker_settings, port_reservation
from mm2.sandbox.port_reservation import PortReservation
from mm2.sandbox.sandbox_errors import SandboxError

_DAEMON_JVM_FLAGS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_DAEMON_MEMORY = "256m"
_MASTER_CLASS = "org.apache.spark.deploy.master.Master"
_WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
_FOLDER_PREFIX = "mm2-spark-cluster-"
_EXECUTOR_CLASS = b"ExecutorBackend"
_START_S = 120.0
_REQUEST_TIMEOUT_S = 2.0
_LOG_TAIL_CHARS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkClusterSpec:
    """Size of a Spark cluster; `cores` (task slots) and `memory` apply to each worker."""

    workers: int = 2
    cores: int = 4
    memory: str = "2g"
    secret: str | None = field(default=None, repr=False)


class SparkDaemon:
    """A Spark master or worker process."""

    def __init__(self, child: ChildProcess, *, host: str, log: Path) -> None:
        self._child = child
        self.host = host
        self.log = log

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def executor_pids(self) -> list[int]:
        """Return the process ids of the worker's executors."""
        return [
            pid for pid in list_child_pids(self.pid) if _EXECUTOR_CLASS in _read_command_line(pid)
        ]

    def kill(self) -> None:
        """Send SIGKILL to the worker and its executors, as if the machine lost power."""
        executors = self.executor_pids()
        self._child.send_signal(signal.SIGKILL)
        for pid in executors:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._child.kill()


class SparkCluster:
    """A Spark master and its workers. Not thread-safe."""

    def __init__(self, spec: SparkClusterSpec | None = None, *, folder: Path | None = None) -> None:
        self.spec = spec or SparkClusterSpec()
        self._own_folder: RunDirectory | None = None
        if folder is None:
            self._own_folder = process_private_directory.create_run_directory(_FOLDER_PREFIX)
            folder = self._own_folder.path
        self.folder = folder
        self._ports: list[PortReservation] = []
        self.master: SparkDaemon | None = None
        self.workers: list[SparkDaemon] = []
        self.url = ""
        self.state_url = ""

    def start(self) -> Self:
        """Start all processes and wait until the workers are registered. Raises `SandboxError` on
        timeout."""
        java_installation.find_java()
        port, web = self._reserve_port(), self._reserve_port()
        self.url = f"spark://127.0.0.1:{port}"
        self.state_url = f"http://127.0.0.1:{web}/json/"
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]
        self.master = self._start_daemon("master", _MASTER_CLASS, arguments)
        self._await_condition(lambda: self._fetch_master_state() is not None, "the master")
        for _ in range(self.spec.workers):
            self.launch_worker()
        self.await_workers(self.spec.workers)
        return self

    def launch_worker(self) -> SparkDaemon:
        """Start another worker on the next loopback address, without waiting until it is
        registered."""
        number = len(self.workers) + 1
        host = f"127.0.0.{number}"
        arguments = [
            *(
                "--host",
                host,
                "--port",
                str(self._reserve_port()),
                "--webui-port",
                str(self._reserve_port()),
            ),
            *("--cores", str(self.spec.cores), "--memory", self.spec.memory),
            *("--work-dir", str(self.folder / f"worker-{number}" / "work")),
            self.url,
        ]
        worker = self._start_daemon(f"worker-{number}", _WORKER_CLASS, arguments, host=host)
        self.workers.append(worker)
        return worker

    def await_workers(self, count: int) -> None:
        """Wait until `count` workers are registered and alive. Raises `SandboxError` on timeout."""
        self._await_condition(
            lambda: self.alive_workers() == count, plurals.format_count(count, "worker")
        )

    def alive_workers(self) -> int:
        """Return the number of workers that the master considers alive."""
        state = self._fetch_master_state()
        return 0 if state is None else int(str(state["aliveworkers"]))

    def close(self) -> None:
        """Kill all processes, and remove the directory unless the caller provided it."""
        for daemon in [*self.workers, *([self.master] if self.master else [])]:
            daemon.kill()
        for port in self._ports:
            port.release()
        if self._own_folder is not None:
            self._own_folder.remove_directory()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reserve_port(self) -> int:
        self._ports.append(port_reservation.reserve_port())
        return self._ports[-1].port

    def _start_daemon(
        self, name: str, main_class: str, arguments: list[str], *, host: str = "127.0.0.1"
    ) -> SparkDaemon:
        folder = self.folder / name
        folder.mkdir(parents=True)
        settings = folder / "spark.properties"
        settings.touch(mode=0o600)
        settings.write_text(broker_settings.render_properties(self._build_properties()))
        log = folder / "daemon.log"
        home = jvm.find_spark_home()
        argv = [str(home / "bin" / "spark-class"), main_class]
        with log.open("ab") as output:
            child = child_processes.start_process(
                [*argv, "--properties-file", str(settings), *arguments],
                output=output,
                env=_make_spark_environment(home, folder),
                cwd=folder,
            )
        return SparkDaemon(child, host=host, log=log)

    def _build_properties(self) -> dict[str, str]:
        if self.spec.secret is None:
            return {}
        return {
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.spec.secret,
            "spark.network.crypto.enabled": "true",
        }

    def _fetch_master_state(self) -> dict[str, object] | None:
        """Return the master's state as JSON, or None if the master does not respond."""
        try:
            with urllib.request.urlopen(self.state_url, timeout=_REQUEST_TIMEOUT_S) as answer:  # noqa: S310
                state: dict[str, object] = json.load(answer)
                return state
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def _await_condition(self, condition: Callable[[], bool], what: str) -> None:
        daemons = [*self.workers, *([self.master] if self.master else [])]
        system_clock.wait_until(
            lambda: condition() or not all(daemon.running for daemon in daemons),
            timeout_s=_START_S,
        )
        if not condition():
            logs = "\n".join(
                f"{daemon.log}: …{daemon.log.read_text(errors='replace')[-_LOG_TAIL_CHARS:]}"
                for daemon in daemons
            )
            raise SandboxError(
                f"cannot start the Spark cluster {self.url}: {what} not available after "
                f"{_START_S:.0f} s\n{logs}"
            )


def _make_spark_environment(home: Path, folder: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("SPARK_")},
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": _DAEMON_JVM_FLAGS,
    }


def list_child_pids(pid: int) -> list[int]:
    """Return the ids of a process's child processes."""
    with suppress(OSError):
        listed = Path(f"/proc/{pid}/task").iterdir()
        return sorted(
            int(child) for task in listed for child in (task / "children").read_text().split()
        )
    return []


def _read_command_line(pid: int) -> bytes:
    """Return the command line of a process; empty if the process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
