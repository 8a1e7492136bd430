"""Starts, finds and ends the sandbox that lives in a folder: what `mm2 sandbox` does.

A sandbox is a supervisor process with its clusters; commands talk to it by files (`state.py`) and
signals.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from connect_runtime.system import java, polling, processes
from mm2.sandbox import (
    artefacts,
    containers,
    failures,
    folders,
    kafka_tools,
    releases,
    shell_variables,
    state,
)

_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 20.0
_COMMAND_TIMEOUT_S = 300.0
_PACKAGES = Path(__file__).parents[2]


def default_folder() -> Path:
    """Where the sandbox of this user lives unless another folder is named."""
    return folders.cache() / "sandbox"


def up(
    folder: Path, request: state.Request, *, report: Callable[[str], None]
) -> tuple[state.State, bool]:
    """Start the clusters asked for; returns when they serve, leaving one supervisor process.

    The second value is False when they were up already. Raises `SandboxError` when others are up,
    or when they do not start.
    """
    request.check()
    release = releases.find(request.kafka_version)
    request = dataclasses.replace(request, kafka_version=release.version)
    home = state.Home(folder.absolute())
    home.make()
    with _one_command_at_a_time(home):
        if home.supervisor_lives():
            return _join(home, request), False
        if request.in_containers:
            containers.check()
            containers.fetch(containers.image(release), report=report)
        else:
            java.find()
            artefacts.jars(release.artefacts, report=report)
        _clean(home)
        home.write_request(request)
        return _launch(home), True


def down(folder: Path) -> bool:
    """End the sandbox in a folder and remove its data; False when none was up.

    Raises `SandboxError` when a process of it is still there afterwards.
    """
    home = state.Home(folder.absolute())
    if not home.folder.is_dir():
        return False
    with _one_command_at_a_time(home):
        was_up = home.supervisor_lives()
        if was_up and not _ended(home, signal.SIGTERM) and not _ended(home, signal.SIGKILL):
            raise failures.SandboxError(
                f"the supervisor of {home.folder}, process {home.supervisor_pid()}, did not end "
                f"{_STOP_TIMEOUT_S:.0f} s after SIGKILL"
            )
        if not polling.until(lambda: not processes_of(home), timeout_s=_STOP_TIMEOUT_S):
            left = ", ".join(str(pid) for pid in processes_of(home))
            raise failures.SandboxError(f"processes {left} of {home.folder} did not end: kill them")
        _clean(home)
    return was_up


def status(folder: Path) -> state.State | None:
    """What the sandbox in a folder says of itself; None when none is up."""
    home = state.Home(folder.absolute())
    return home.read_state() if home.supervisor_lives() else None


def ports_in_use(said: state.State) -> list[str]:
    """A sentence for each broker that does not listen at its usual port."""
    return [
        f"port {broker.preferred_port} is in use: "
        + (
            cluster.name
            if len(cluster.brokers) == 1
            else f"broker {broker.node_id} of {cluster.name}"
        )
        + f" uses {broker.port} instead"
        for cluster in said.clusters
        for broker in cluster.brokers
        if broker.port != broker.preferred_port
    ]


def variables(folder: Path, said: state.State) -> dict[str, str]:
    """The shell variables of `mm2 sandbox env`; see `shell_variables.py`."""
    home = state.Home(folder.absolute())
    found = {}
    for cluster in said.clusters:
        found[shell_variables.name(cluster.name)] = cluster.bootstrap
        found[shell_variables.config_name(cluster.name)] = str(home.client_properties(cluster.name))
    return found


def kafka_command(
    folder: Path, tool: str, arguments: Sequence[str], *, cluster: str | None
) -> list[str]:
    """The command line of one of Kafka's tools, for a cluster of the sandbox in a folder.

    Without `cluster` it is the only one there is. Raises `SandboxError`.
    """
    target = None
    if kafka_tools.needs_target(tool, arguments):
        said = require_ready(folder)
        facts = _find_cluster(said, cluster)
        home = state.Home(folder.absolute())
        target = kafka_tools.Target(
            bootstrap=facts.bootstrap,
            config=home.client_properties(facts.name) if facts.secure else None,
        )
    return kafka_tools.command(tool, arguments, target=target, jars=artefacts.jars())


def require_ready(folder: Path) -> state.State:
    """The state of the sandbox in a folder; raises `SandboxError` when none serves."""
    said = status(folder)
    if said is None:
        raise failures.SandboxError(
            f"no sandbox is up in {folder}: start one with mm2 sandbox up east west"
        )
    if said.phase != "ready":
        raise failures.SandboxError(f"the sandbox in {folder} is {said.phase}")
    return said


def _find_cluster(said: state.State, name: str | None) -> state.ClusterFacts:
    names = [each.name for each in said.clusters]
    if name is None and len(names) == 1:
        name = names[0]
    for each in said.clusters:
        if each.name == name:
            return each
    known = " or ".join(f"--cluster {each}" for each in names)
    wrong = "which cluster?" if name is None else f"there is no cluster {name!r}:"
    raise failures.UnknownClusterError(f"{wrong} say {known}")


def processes_of(home: state.Home) -> list[int]:
    """The processes that have the sandbox's folder in their command line: brokers, guards."""
    marker = os.fsencode(home.clusters) + b"/"
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if marker in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return sorted(found)


def _join(home: state.Home, request: state.Request) -> state.State:
    """What is up is what was asked for: wait until it serves (another `up` may have just begun)."""
    running = home.read_request()
    if running != request:
        raise failures.SandboxError(
            f"a sandbox with {_described(running)} is already up in {home.folder}, "
            f"not {_described(request)}: end it first (mm2 sandbox down), or use another --dir"
        )
    return _await(home)


def _launch(home: state.Home) -> state.State:
    """Start the supervisor; it detaches, so the process that we start ends at once."""
    search_path = os.pathsep.join(filter(None, [str(_PACKAGES), os.environ.get("PYTHONPATH")]))
    try:
        with home.supervisor_log.open("wb") as log:
            subprocess.run(  # noqa: S603 - our own module
                [sys.executable, "-m", "mm2.sandbox.supervisor", str(home.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": search_path},
                cwd="/",
                start_new_session=True,
                timeout=_START_TIMEOUT_S,
                check=True,
            )
        return _await(home)
    except (subprocess.SubprocessError, OSError) as error:
        raise failures.SandboxError(
            f"starting the supervisor: {error}; its log: {home.supervisor_log}"
        ) from error
    except BaseException:
        if home.supervisor_lives():
            _ended(home, signal.SIGTERM)
        raise


def _await(home: state.Home) -> state.State:
    def settled() -> bool:
        said = home.read_state()
        return not home.supervisor_lives() or (said is not None and said.phase != "starting")

    in_time = polling.until(settled, timeout_s=_START_TIMEOUT_S)
    said = home.read_state()
    if said is not None and said.phase == "ready" and home.supervisor_lives():
        return said
    if said is not None and said.phase == "failed":
        raise failures.SandboxError(said.error)
    what = "ended" if in_time else f"was not ready after {_START_TIMEOUT_S:.0f} s"
    raise failures.SandboxError(f"the supervisor {what}; its log: {home.supervisor_log}")


def _ended(home: state.Home, number: signal.Signals) -> bool:
    """Send the supervisor a signal and wait for its end."""
    pid = home.supervisor_pid()
    with suppress(ProcessLookupError):
        os.kill(pid, number)
    return polling.until(
        lambda: not home.supervisor_lives() and not processes.alive(pid),
        timeout_s=_STOP_TIMEOUT_S,
    )


def _clean(home: state.Home) -> None:
    """Remove what a sandbox left that ended in disorder."""
    home.forget_state()
    shutil.rmtree(home.clusters, ignore_errors=True)


@contextmanager
def _one_command_at_a_time(home: state.Home) -> Iterator[None]:
    locks = []

    def locked() -> bool:
        lock = home.take_lock(state.COMMAND_LOCK)
        if lock is not None:
            locks.append(lock)
        return lock is not None

    if not polling.until(locked, timeout_s=_COMMAND_TIMEOUT_S):
        raise failures.SandboxError(
            f"another mm2 sandbox command has been busy in {home.folder} for "
            f"{_COMMAND_TIMEOUT_S:.0f} s: end it and try again"
        )
    with locks[0]:
        yield


def _described(request: state.Request) -> str:
    words = [", ".join(request.names), f"{request.brokers} broker(s) each"]
    words += [f"Kafka {request.kafka_version}"]
    words += ["secure"] if request.secure else []
    words += ["in containers"] if request.in_containers else []
    words += [f"{key}={value}" for key, value in sorted(request.settings.items())]
    return f"[{'; '.join(words)}]"
