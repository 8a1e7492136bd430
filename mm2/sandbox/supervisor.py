"""The one process that `mm2 sandbox up` leaves behind: it owns the brokers of a sandbox.

Started as `python -m mm2.sandbox.supervisor FOLDER`. It detaches, starts what `request.json` asks
for, says so in `state.json`, and waits for SIGTERM. Brokers die with it, however it ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from connect_runtime.system import polling
from mm2.sandbox import cluster, failures, state

FIRST_PORT = 19092
"""Where the first broker of the first cluster listens if it can; the next cluster 100 further."""

_LOOK_EVERY_S = 1.0
_FOREVER_S = float("inf")


class _Stopped(BaseException):
    """SIGTERM or SIGINT came. Not an `Exception`: nothing but `main` may catch it."""


def main(arguments: Sequence[str]) -> int:
    home = state.Home(Path(arguments[0]))
    lock = home.take_lock(state.SUPERVISOR_LOCK)
    if lock is None:
        raise failures.SandboxError(f"another supervisor already runs in {home.folder}")
    detached_pid = os.fork()
    if detached_pid:
        state.note_pid(lock, detached_pid)  # now, so that whoever waits for us finds the right one
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    _Supervisor(home).run()
    return 0


class _Supervisor:
    def __init__(self, home: state.Home) -> None:
        self._home = home
        self._clusters: list[cluster.Cluster] = []

    def run(self) -> None:
        try:
            self._home.write_state(state.State(phase="starting", pid=os.getpid()))
            self._start()
            ready = self._ready()
            for facts in ready.clusters:
                self._home.write_client_properties(facts)
            self._home.write_state(ready)
            _log(f"ready: {', '.join(each.name for each in self._clusters)}")
            self._watch()
        except _Stopped:
            _log("asked to stop")
        except failures.SandboxError as error:
            _log(f"failed: {error}")
            self._home.write_state(state.State(phase="failed", pid=os.getpid(), error=str(error)))
            return
        finally:
            for each in self._clusters:
                each.close()
        self._home.forget_state()
        shutil.rmtree(self._home.clusters, ignore_errors=True)

    def _start(self) -> None:
        request = self._home.read_request()
        for index, name in enumerate(request.names):
            self._clusters.append(
                cluster.Cluster(
                    name,
                    brokers=request.brokers,
                    settings=request.settings,
                    users=() if request.secure else None,
                    folder=self._home.clusters / name,
                    port=FIRST_PORT + 100 * index,
                    kafka_version=request.kafka_version,
                    in_containers=request.in_containers,
                )
            )
        cluster.start_all(self._clusters)

    def _ready(self) -> state.State:
        return state.State(
            phase="ready",
            pid=os.getpid(),
            clusters=tuple(_facts(each) for each in self._clusters),
        )

    def _watch(self) -> None:
        """Until a signal comes, or somebody has removed our folder: then nobody could stop us."""
        reported: set[tuple[str, str]] = set()

        def look() -> bool:
            for each in self._clusters:
                for server in each.servers():
                    if not server.running and (each.name, server.name) not in reported:
                        reported.add((each.name, server.name))
                        _log(f"{server.name} of {each.name} has ended; its log: {server.log_path}")
            return not self._home.clusters.exists()

        polling.until(look, timeout_s=_FOREVER_S, interval_s=_LOOK_EVERY_S)


def _facts(each: cluster.Cluster) -> state.ClusterFacts:
    keeper = each.zookeeper
    return state.ClusterFacts(
        name=each.name,
        kafka_version=each.release.version,
        properties=each.client_properties(),
        brokers=tuple(
            state.BrokerFacts(
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
        else state.ZooKeeperFacts(pid=keeper.pid, log=str(keeper.log_path)),
    )


def _stop(number: int, frame: FrameType | None) -> None:
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)  # what follows is short and must not be cut
    raise _Stopped


def _log(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
