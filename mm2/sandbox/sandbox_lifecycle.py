"""Starts, finds and stops the sandbox of a directory: `mm2 sandbox up`, `down` and `status`.

A sandbox is a supervisor process with its clusters. Commands communicate with the supervisor
through files (`mm2.sandbox.sandbox_state`) and signals.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from connect_runtime.system import child_processes, java_installation, system_clock
from mm2.sandbox import (
    containers,
    kafka_jars,
    kafka_releases,
    kafka_tools,
    sandbox_state,
    shell_variables,
    temporary_directories,
)
from mm2.sandbox.kafka_tools import ToolConnectionConfig
from mm2.sandbox.sandbox_errors import SandboxError, UnknownClusterError
from mm2.sandbox.sandbox_state import RunningCluster, SandboxFolder, SandboxRequest, SandboxState

_SANDBOX_START_TIMEOUT_S = 180.0
_SANDBOX_STOP_TIMEOUT_S = 20.0
_COMMAND_LOCK_TIMEOUT_S = 300.0
_PACKAGES_FOLDER = Path(__file__).parents[2]


def find_default_directory() -> Path:
    """Return the directory of this user's sandbox, which is used unless the user specifies another
    directory."""
    return temporary_directories.find_cache_folder() / "sandbox"


def start_sandbox(
    folder: Path, request: SandboxRequest, *, report: Callable[[str], None]
) -> tuple[SandboxState, bool]:
    """Start a supervisor with the requested clusters and wait until the clusters accept requests.

    Returns the sandbox state, and False if the clusters were already running. Raises `SandboxError`
    if a sandbox with different clusters is already running in the directory, or if the requested
    clusters do not start.
    """
    request.validate()
    release = kafka_releases.find_release(request.kafka_version)
    request = dataclasses.replace(request, kafka_version=release.version)
    home = SandboxFolder(folder.absolute())
    home.create()
    with _hold_command_lock(home):
        if home.is_supervisor_running():
            return _await_running_sandbox(home, request), False
        if request.in_containers:
            containers.check_docker_daemon()
            containers.pull_image(containers.find_image(release), report=report)
        else:
            java_installation.find_java()
            kafka_jars.ensure_jars(release.jars, report=report)
        _remove_sandbox_files(home)
        home.write_request(request)
        return _launch_supervisor(home), True


def stop_sandbox(folder: Path) -> bool:
    """Stop the sandbox in a directory and remove its data. Return False if no sandbox was running.

    Raises `SandboxError` if a process of the sandbox does not end.
    """
    home = _open_folder(folder)
    if not home.folder.is_dir():
        return False
    with _hold_command_lock(home):
        was_up = home.is_supervisor_running()
        if (
            was_up
            and not _end_supervisor(home, signal.SIGTERM)
            and not _end_supervisor(home, signal.SIGKILL)
        ):
            raise SandboxError(
                f"the supervisor of {home.folder}, process {home.read_supervisor_pid()}, still "
                f"exists {_SANDBOX_STOP_TIMEOUT_S:.0f} s after SIGKILL: run mm2 sandbox down again "
                "after the process has ended"
            )
        if not system_clock.wait_until(
            lambda: not find_processes(home), timeout_s=_SANDBOX_STOP_TIMEOUT_S
        ):
            left = ", ".join(str(pid) for pid in find_processes(home))
            raise SandboxError(f"processes {left} of {home.folder} did not end: kill them manually")
        _remove_sandbox_files(home)
    return was_up


def read_status(folder: Path) -> SandboxState | None:
    """Return the state reported by the sandbox in a directory, or None if no sandbox is running."""
    home = _open_folder(folder)
    return home.read_state() if home.is_supervisor_running() else None


def _open_folder(folder: Path) -> SandboxFolder:
    """Open the sandbox directory, which need not exist. Raises `SandboxError` if the directory is
    not private."""
    home = SandboxFolder(folder.absolute())
    home.check_directory_is_private()
    return home


def describe_ports_in_use(state: SandboxState) -> list[str]:
    """Return a sentence for each broker that could not use its preferred port."""
    return [
        f"port {broker.preferred_port} is in use: "
        + (
            cluster.name
            if len(cluster.brokers) == 1
            else f"broker {broker.node_id} of {cluster.name}"
        )
        + f" uses {broker.port} instead"
        for cluster in state.clusters
        for broker in cluster.brokers
        if broker.port != broker.preferred_port
    ]


def make_shell_variables(folder: Path, state: SandboxState) -> dict[str, str]:
    """Return the shell variables that `mm2 sandbox env` exports: bootstrap servers and client
    properties file of each cluster."""
    home = SandboxFolder(folder.absolute())
    found = {}
    for cluster in state.clusters:
        found[shell_variables.make_variable_name(cluster.name)] = cluster.bootstrap
        found[shell_variables.make_config_variable_name(cluster.name)] = str(
            home.get_client_properties_path(cluster.name)
        )
    return found


def make_kafka_command(
    folder: Path, tool: str, arguments: Sequence[str], *, cluster: str | None
) -> list[str]:
    """Return the command line of a Kafka tool for a cluster of the sandbox in a directory.

    `cluster` may be omitted if the sandbox has only one cluster. Raises `SandboxError` if the
    cluster or the tool is unknown.
    """
    target = None
    if kafka_tools.needs_cluster_options(tool, arguments):
        said = read_ready_state(folder)
        facts = _find_cluster(said, cluster)
        home = SandboxFolder(folder.absolute())
        target = ToolConnectionConfig(
            bootstrap=facts.bootstrap,
            config=home.get_client_properties_path(facts.name) if facts.is_secure else None,
        )
    return kafka_tools.make_tool_command(
        tool, arguments, target=target, jars=kafka_jars.ensure_jars()
    )


def read_ready_state(folder: Path) -> SandboxState:
    """Return the state of the running sandbox. Raises `SandboxError` if no sandbox is running or if
    it is not ready."""
    said = read_status(folder)
    if said is None:
        raise SandboxError(
            f"no sandbox is running in {folder}: start one with mm2 sandbox up east west"
        )
    if said.phase != "ready":
        raise SandboxError(f"the sandbox in {folder} is not ready: {said.phase}")
    return said


def _find_cluster(said: SandboxState, name: str | None) -> RunningCluster:
    names = [each.name for each in said.clusters]
    if name is None and len(names) == 1:
        name = names[0]
    for each in said.clusters:
        if each.name == name:
            return each
    known = " or ".join(f"--cluster {each}" for each in names)
    wrong = "no cluster specified" if name is None else f"there is no cluster {name!r}"
    raise UnknownClusterError(f"{wrong}: use {known}")


def find_processes(home: SandboxFolder) -> list[int]:
    """Return the ids of this user's processes whose command line contains the sandbox directory,
    such as brokers and the guard processes that kill the brokers when the supervisor ends."""
    marker = os.fsencode(home.clusters) + b"/"
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                own = entry.stat().st_uid == os.geteuid()
                if own and marker in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return sorted(found)


def _await_running_sandbox(home: SandboxFolder, request: SandboxRequest) -> SandboxState:
    """Check that the running sandbox has the requested clusters, and wait until the sandbox is
    ready."""
    running = home.read_request()
    if running != request:
        raise SandboxError(
            f"a sandbox with {_format_request(running)} is already running in {home.folder}, not "
            f"{_format_request(request)}: stop it (mm2 sandbox down), or use another --dir"
        )
    return _await_ready_sandbox(home)


def _launch_supervisor(home: SandboxFolder) -> SandboxState:
    """Start the supervisor, which detaches from this process, and wait until the clusters accept
    requests."""
    search_path = os.pathsep.join(
        filter(None, [str(_PACKAGES_FOLDER), os.environ.get("PYTHONPATH")])
    )
    try:
        with home.supervisor_log.open("wb") as log:
            subprocess.run(  # noqa: S603 - our own module
                child_processes.build_python_command(
                    "mm2.sandbox.sandbox_supervisor", str(home.folder)
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": search_path},
                cwd="/",
                start_new_session=True,
                timeout=_SANDBOX_START_TIMEOUT_S,
                check=True,
            )
        return _await_ready_sandbox(home)
    except (subprocess.SubprocessError, OSError) as error:
        raise SandboxError(
            f"cannot start the supervisor: {error}; its log: {home.supervisor_log}"
        ) from error
    except BaseException:
        if home.is_supervisor_running():
            _end_supervisor(home, signal.SIGTERM)
        raise


def _await_ready_sandbox(home: SandboxFolder) -> SandboxState:
    def has_start_finished() -> bool:
        said = home.read_state()
        return not home.is_supervisor_running() or (said is not None and said.phase != "starting")

    in_time = system_clock.wait_until(has_start_finished, timeout_s=_SANDBOX_START_TIMEOUT_S)
    said = home.read_state()
    if said is not None and said.phase == "ready" and home.is_supervisor_running():
        return said
    if said is not None and said.phase == "failed":
        raise SandboxError(said.error)
    what = "ended" if in_time else f"was not ready after {_SANDBOX_START_TIMEOUT_S:.0f} s"
    raise SandboxError(f"the supervisor {what}; its log: {home.supervisor_log}")


def _end_supervisor(home: SandboxFolder, number: signal.Signals) -> bool:
    """Send the supervisor a signal and wait until the process ends. Return False on timeout."""
    pid = home.read_supervisor_pid()
    with suppress(ProcessLookupError):
        os.kill(pid, number)
    return system_clock.wait_until(
        lambda: not home.is_supervisor_running() and not child_processes.is_process_alive(pid),
        timeout_s=_SANDBOX_STOP_TIMEOUT_S,
    )


def _remove_sandbox_files(home: SandboxFolder) -> None:
    """Remove the files of a sandbox that was not shut down properly."""
    home.delete_state()
    shutil.rmtree(home.clusters, ignore_errors=True)


@contextmanager
def _hold_command_lock(home: SandboxFolder) -> Iterator[None]:
    locks = []

    def try_take_lock() -> bool:
        lock = home.try_lock(sandbox_state.COMMAND_LOCK)
        if lock is not None:
            locks.append(lock)
        return lock is not None

    if not system_clock.wait_until(try_take_lock, timeout_s=_COMMAND_LOCK_TIMEOUT_S):
        raise SandboxError(
            f"another mm2 sandbox command has been running in {home.folder} for "
            f"{_COMMAND_LOCK_TIMEOUT_S:.0f} s: stop that command and try again"
        )
    with locks[0]:
        yield


def _format_request(request: SandboxRequest) -> str:
    words = [", ".join(request.names), f"{request.brokers} broker(s) each"]
    words += [f"Kafka {request.kafka_version}"]
    words += ["secure"] if request.secure else []
    words += ["in containers"] if request.in_containers else []
    words += [f"{key}={value}" for key, value in sorted(request.settings.items())]
    return f"[{'; '.join(words)}]"
