"""The background process of `mm2 sandbox up`, which owns the brokers of a sandbox.

Started as `python -m mm2.sandbox.sandbox_supervisor FOLDER`. The supervisor detaches, starts the
clusters listed in `request.json`, writes its state to `state.json`, and waits for SIGTERM. The
brokers end when the supervisor ends, even if it is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from connect_runtime.system import system_clock
from mm2.sandbox import sandbox_cluster, sandbox_state
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.sandbox.sandbox_state import (
    RunningBroker,
    RunningCluster,
    RunningZooKeeper,
    SandboxFolder,
    SandboxState,
)

FIRST_BROKER_PORT = 19092
"""Preferred port of the first cluster's first broker. The preferred port of each following cluster
is 100 higher."""

_WATCH_INTERVAL_S = 1.0
_WAIT_FOREVER_S = float("inf")


class _StopSignalReceived(BaseException):
    """Raised when SIGTERM or SIGINT is received. Derived from `BaseException`, so that no `except
    Exception` catches it."""


def main(arguments: Sequence[str]) -> int:
    home = SandboxFolder(Path(arguments[0]))
    lock = home.try_lock(sandbox_state.SUPERVISOR_LOCK)
    if lock is None:
        raise SandboxError(
            f"another supervisor is already running in {home.folder}: stop it with "
            f"mm2 sandbox down --dir {home.folder}"
        )
    detached_pid = os.fork()
    if detached_pid:
        sandbox_state.write_lock_owner(
            lock, detached_pid
        )  # before the supervisor is ready: waiting commands need its process id
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _raise_stop_signal)
    _SandboxSupervisor(home).run()
    return 0


class _SandboxSupervisor:
    def __init__(self, home: SandboxFolder) -> None:
        self._home = home
        self._clusters: list[SandboxCluster] = []

    def run(self) -> None:
        try:
            self._home.write_state(SandboxState(phase="starting", pid=os.getpid()))
            self._start_clusters()
            ready = self._make_ready_state()
            for facts in ready.clusters:
                self._home.write_client_properties(facts)
            self._home.write_state(ready)
            _print_log_line(f"ready: {', '.join(each.name for each in self._clusters)}")
            self._watch_servers()
        except _StopSignalReceived:
            _print_log_line("received a stop signal")
        except SandboxError as error:
            _print_log_line(f"failed: {error}")
            self._home.write_state(SandboxState(phase="failed", pid=os.getpid(), error=str(error)))
            return
        finally:
            for each in self._clusters:
                each.close()
        self._home.delete_state()
        shutil.rmtree(self._home.clusters, ignore_errors=True)

    def _start_clusters(self) -> None:
        request = self._home.read_request()
        for index, name in enumerate(request.names):
            self._clusters.append(
                SandboxCluster(
                    name,
                    brokers=request.brokers,
                    settings=request.settings,
                    users=() if request.secure else None,
                    folder=self._home.clusters / name,
                    port=FIRST_BROKER_PORT + 100 * index,
                    kafka_version=request.kafka_version,
                    in_containers=request.in_containers,
                )
            )
        sandbox_cluster.start_clusters(self._clusters)

    def _make_ready_state(self) -> SandboxState:
        return SandboxState(
            phase="ready",
            pid=os.getpid(),
            clusters=tuple(_describe_cluster(each) for each in self._clusters),
        )

    def _watch_servers(self) -> None:
        """Log a message for each server that has ended, until a stop signal is received or the
        sandbox directory is removed.

        Without the directory, no command could stop the supervisor.
        """
        reported: set[tuple[str, str]] = set()

        def check_servers() -> bool:
            for each in self._clusters:
                for server in each.list_servers():
                    if not server.is_running and (each.name, server.name) not in reported:
                        reported.add((each.name, server.name))
                        _print_log_line(
                            f"{server.name} of {each.name} has ended; its log: {server.log_path}"
                        )
            return not self._home.clusters.exists()

        system_clock.wait_until(
            check_servers, timeout_s=_WAIT_FOREVER_S, interval_s=_WATCH_INTERVAL_S
        )


def _describe_cluster(each: SandboxCluster) -> RunningCluster:
    keeper = each.zookeeper
    return RunningCluster(
        name=each.name,
        kafka_version=each.release.version,
        properties=each.client_properties(),
        brokers=tuple(
            RunningBroker(
                node_id=node,
                address=each.addresses[node],
                preferred_port=each.preferred_ports[node],
                pid=broker.pid,
                log=str(broker.log_path),
            )
            for node, broker in each.brokers.items()
        ),
        zookeeper=None
        if keeper is None
        else RunningZooKeeper(pid=keeper.pid, log=str(keeper.log_path)),
    )


def _raise_stop_signal(number: int, frame: FrameType | None) -> None:
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)  # the shutdown is short and must not be interrupted
    raise _StopSignalReceived


def _print_log_line(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
