"""`mm2 run` as users start it: a process of its own, its settings file, its log, its figures."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from connect_runtime.herder import requests_to_other_workers
from connect_runtime.herder.requests_to_other_workers import PeerRequest
from connect_runtime.rest.rest_client import RestClient
from connect_runtime.system import child_processes
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import port_reservation
from mm2.status import process_socket
from mm2.status.process_socket import RestApiRequest
from tests.support import eventually
from tests.support.kafka import Properties

ROOT = Path(__file__).parents[2]
CLOCK = SystemClock()
FLOW = "east->west"
COMMAND = (sys.executable, "-m", "mm2.cli.main")
START_S = 90.0
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def settings(
    east: Properties,
    west: Properties,
    *,
    topics: Sequence[str] | str = ".*",
    spark: Mapping[str, Any] | None = None,
    **flow: Any,
) -> dict[str, Any]:
    """Settings of one flow east->west; `flow` keys with `_` for `.`.

    No heartbeats are mirrored: others may have left some on a shared cluster.
    """
    usual = {"replication.factor": 1, "heartbeats.replication.enabled": False}
    keys = usual | {key.replace("_", "."): value for key, value in flow.items()}
    return {
        "clusters": {"east": dict(east), "west": dict(west)},
        "flows": [{"from": "east", "to": "west", "topics": topics, **keys}],
        "spark": dict(spark or {}),
    }


class Mirror:
    """One running `mm2 run`; `arguments` are its options. Ends with the test's process.

    Metrics are served at a port of its own, whatever the settings say.
    """

    def __init__(
        self,
        folder: Path,
        given: Mapping[str, Any] | str,
        *arguments: str,
        name: str = "run",
        suffix: str = ".yaml",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.settings_path = folder / f"{name}{suffix}"
        self.settings_path.touch(mode=0o600)
        text = given if isinstance(given, str) else json.dumps(given, indent=1)
        self.settings_path.write_text(text)
        self._port = port_reservation.reserve_port()
        self._frozen: list[int] = []
        self.log_path = folder / f"{name}.log"
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        argv = [*COMMAND, "run", str(self.settings_path), "--metrics-port", str(self._port.port)]
        with self.log_path.open("ab") as output:
            self._child = child_processes.start_process(
                [*argv, *arguments],
                output=output,
                env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
                cwd=ROOT,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def metrics_address(self) -> str:
        return f"127.0.0.1:{self._port.port}"

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    @property
    def log(self) -> str:
        """What this process has printed so far."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """The exit status; `AssertionError` with the log's end when it still runs."""
        status = self._child.wait(timeout_s)
        assert status is not None, f"still running after {timeout_s} s\n{self.tail}"
        return status

    def stop(self, timeout_s: float = 30.0) -> int:
        """Ctrl-C's quiet sister: SIGTERM, and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def freeze(self) -> None:
        """The whole node, as if its machine stood still: its copies with it."""
        self._frozen = freeze(self.pid)

    def thaw(self) -> None:
        send(signal.SIGCONT, self._frozen)
        self._frozen = []

    def kill(self) -> None:
        """SIGKILL to the process and all that it started."""
        family = descendants(self.pid)
        self.signal(signal.SIGCONT)
        self._child.kill()
        send(signal.SIGKILL, family)

    @property
    def tail(self) -> str:
        return self.log[-6000:]

    def await_log(self, pattern: str, deadline_s: float = START_S) -> re.Match[str]:
        """Wait until the log holds a match."""

        def found() -> re.Match[str] | None:
            match = re.search(pattern, self.log)
            assert match or self.running, "mm2 run has ended"
            return match

        match = eventually.eventually(
            found, deadline_s, lambda: f"the log has {pattern!r}; it ends with\n{self.tail}"
        )
        assert match is not None
        return match

    # What an operator asks of it over REST

    def pause_connector(self, connector: str, *, flow: str = FLOW) -> None:
        self._ask(flow, "PUT", requests_to_other_workers.build_connector_path(connector, "pause"))

    def stop_connector(self, connector: str, *, flow: str = FLOW) -> None:
        self._ask(flow, "PUT", requests_to_other_workers.build_connector_path(connector, "stop"))

    def connector_config(self, connector: str, *, flow: str = FLOW) -> dict[str, str]:
        """What the connector of the running flow was configured with."""
        found: Mapping[str, str] = self._ask(
            flow, "GET", requests_to_other_workers.build_connector_path(connector, "config")
        )
        return dict(found)

    def _ask(self, flow: str, method: str, path: str) -> Any:
        asked = process_socket.query_processes(
            self.settings_path,
            RestApiRequest(),
            folder=process_socket.find_socket_directory(),
            timeout_s=20.0,
        )
        (api,) = (each.detail for each in asked.values())
        pair = base64.b64encode(f"{api['user']}:{api['password']}".encode()).decode()
        said = RestClient(timeout_s=20.0).send_and_wait(
            PeerRequest(
                url=f"{api['url']}{api['flows'][flow]}",
                method=method,
                path=path,
                authorization=f"Basic {pair}",
            )
        )
        return said.value

    # Figures

    def metrics(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Every sample that its metrics port shows, by name; empty while it does not respond."""
        try:
            address = f"http://127.0.0.1:{self._port.port}/metrics"
            with urllib.request.urlopen(address, timeout=5.0) as answer:
                text = answer.read().decode()
        except (urllib.error.URLError, OSError):
            return {}
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for line in text.splitlines():
            match = _SAMPLE.match(line)
            if match:
                labels = dict(_LABEL.findall(match[2] or ""))
                found.setdefault(match[1], []).append((labels, float(match[3])))
        return found

    def figure(self, metric: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels; -1 when there is none."""
        found = [
            value for has, value in self.metrics().get(metric, []) if labels.items() <= has.items()
        ]
        return sum(found) if found else -1.0

    def await_figure(self, metric: str, value: float, deadline_s: float = START_S) -> None:
        """Wait until a metric's samples come to that sum."""
        eventually.eventually(
            lambda: self.figure(metric) == value,
            deadline_s,
            lambda: f"{metric} {self.figure(metric)}, not {value}\n{self.tail}",
        )

    def records(self, **labels: str) -> float:
        return self.figure("mm2_replicated_records_total", **labels)

    def stopped(self) -> set[tuple[str, str]]:
        """(topic, cause) of all that stands still."""
        found = self.metrics().get("mm2_halted_partitions", [])
        return {(labels["topic"], labels["reason"]) for labels, value in found if value}

    def await_stopped(self, topic: str, cause: str, deadline_s: float = START_S) -> None:
        eventually.eventually(
            lambda: (topic, cause) in self.stopped(),
            deadline_s,
            lambda: f"{topic} stands still ({cause}): {self.stopped()}\n{self.tail}",
        )

    def await_records(self, count: float, deadline_s: float = START_S, **labels: str) -> None:
        eventually.eventually(
            lambda: self.records(**labels) >= count or not self.running,
            deadline_s,
            lambda: f"{count} records; it has {self.records(**labels)}\n{self.tail}",
        )
        assert self.running, self.tail

    # Its processes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.running:
            self.kill()
        self._port.release()
        if error is not None:
            error.add_note(f"mm2 run's log ends with:\n{self.tail}")


def mm2(*arguments: str | Path, timeout_s: float = 100.0) -> subprocess.CompletedProcess[str]:
    """Any other command line of mm2, to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def run_to_end(
    folder: Path,
    given: Mapping[str, Any] | str,
    *arguments: str,
    name: str = "catch-up",
    timeout_s: float = 110.0,
) -> tuple[int, str]:
    """`mm2 run` until it ends by itself: exit status and what it printed."""
    with Mirror(folder, given, *arguments, name=name) as mirror:
        return mirror.wait(timeout_s), mirror.log


def catch_up(folder: Path, given: Mapping[str, Any], *, timeout_s: float = 100.0) -> str:
    """Run until all that the source holds is copied, and insist that it is."""
    status, log = run_to_end(
        folder,
        given,
        "--until-caught-up",
        "--timeout",
        str(int(timeout_s)),
        timeout_s=timeout_s + 10.0,
    )
    assert status == 0, f"exit status {status}\n{log[-6000:]}"
    return log


# The processes behind a run: mm2 -> Spark's JVM -> Spark's Python daemon -> copies


def descendants(pid: int) -> list[int]:
    """All processes that stem from `pid`, parents before children."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        mine = _children(waiting.pop())
        found.extend(mine)
        waiting.extend(mine)
    return found


def freeze(pid: int) -> list[int]:
    """SIGSTOP to the process and all that stems from it, also what one of them starts meanwhile;
    returns them all."""
    frozen: list[int] = []
    while found := [each for each in (pid, *descendants(pid)) if each not in frozen]:
        send(signal.SIGSTOP, found)
        frozen += found
    return frozen


def send(number: signal.Signals, targets: Iterable[int]) -> None:
    """To those that are still there."""
    for each in targets:
        with suppress(ProcessLookupError):
            os.kill(each, number)


def driver_jvm(pid: int) -> int | None:
    return next((each for each in _children(pid) if "SparkSubmit" in _command(each)), None)


def python_daemons(pid: int) -> list[int]:
    """Spark's Python daemons below `pid` (a run in local mode, or an executor)."""
    return [each for each in descendants(pid) if _is_daemon(each) and not _is_daemon(_parent(each))]


def copy_processes(pid: int) -> list[int]:
    """Python workers that hold connections to brokers, which idle ones do not."""
    workers = [child for daemon in python_daemons(pid) for child in _children(daemon)]
    return sorted(each for each in workers if tcp_connections(each))


def _is_daemon(pid: int) -> bool:
    command = _command(pid)
    return "pyspark_daemon" in command or "pyspark.daemon" in command


def tcp_connections(pid: int) -> int:
    """Connections to 127.0.0.1 that the process holds."""
    inodes = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                inodes.add(entry.readlink().name)
    held = {name[8:-1] for name in inodes if name.startswith("socket:[")}
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
        return sum(line.split()[9] in held for line in lines)
    return 0


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        listed: list[int] = []
        for task in tasks:
            with suppress(OSError):
                listed += [int(child) for child in (task / "children").read_text().split()]
        return [child for child in sorted(listed) if child_processes.is_process_alive(child)]
    return []


def _parent(pid: int) -> int:
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])
    return 0


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""
