"""Implements `connect-standalone`: builds and runs a worker without a group, with connectors from
files.

Java: ConnectStandalone.
"""

from __future__ import annotations

import logging
import pathlib
import sys
from collections.abc import Callable, Sequence

from connect_runtime.api.errors import ConfigError
from connect_runtime.app import command_line, standalone_settings
from connect_runtime.app.command_line import ConnectWorkerCommand
from connect_runtime.app.standalone_settings import ConnectorFile, StandaloneSettings
from connect_runtime.app.worker_assembly import WorkerGroupDeps, WorkerMode
from connect_runtime.app.worker_process import WorkerProcess
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder.herder_requests import PutConnector, RequestRefused
from connect_runtime.herder.standalone_group import StandaloneGroup
from connect_runtime.herder.worker_group_interface import WorkerGroup
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.storage.memory_and_offset_file_logs import MemoryLog, OffsetFileLog
from connect_runtime.system import process_start_and_exit
from connect_runtime.system.signals import StopSignals
from connect_runtime.system.system_clock import SystemClock

CREATE_CONNECTOR_TIMEOUT_S = 60.0
"""Timeout of the request that validates and creates one connector."""


def build_worker(settings: StandaloneSettings) -> WorkerProcess:
    """Build a standalone worker without starting it.

    Raises `FatalError` if the Kafka client library rejects the settings.
    """

    def build_standalone_group(around: WorkerGroupDeps) -> WorkerGroup:
        return StandaloneGroup(around.url, around.configs.snapshot, clock=SystemClock())

    def build_worker_mode(on_broken: Callable[[str], None]) -> WorkerMode:
        return WorkerMode(
            settings=settings,
            config=settings.config,
            config_log=MemoryLog("configurations in memory"),
            status_log=MemoryLog("statuses in memory"),
            offset_log=OffsetFileLog(settings.offset_file, on_broken=on_broken),
            fenced_writer=None,
            admin=TopicAdmin(settings.access, client_id="connect-admin", clock=SystemClock()),
            make_group=build_standalone_group,
            connect_protocol=ConnectProtocol.COMPATIBLE,
            has_peers=False,
            check_startup=lambda _: None,
        )

    return WorkerProcess(build_worker_mode)


def create_connectors(process: WorkerProcess, connectors: Sequence[ConnectorFile]) -> None:
    """Create connectors on a started worker, one after the other.

    Raises `FatalError` if a connector is rejected or is not created in time. The message contains
    the connector's name and the reason. Later connectors are not created.
    """
    assert process.core.herder is not None
    for each in connectors:
        request = PutConnector(
            connector=each.name,
            config=each.config,
            target_state=each.target_state,
            replace=False,
        )
        what = f"creating connector {each.name}"
        try:
            reply = process.core.herder.submit_request(request).result(CREATE_CONNECTOR_TIMEOUT_S)
        except TimeoutError:
            raise FatalError(f"{what}: no result within {CREATE_CONNECTOR_TIMEOUT_S:g} s") from None
        except ConnectError as error:
            raise FatalError(f"{what}: {error}") from error
        if isinstance(reply, RequestRefused):
            raise FatalError(f"{what}: {reply.message}")


_LOG = logging.getLogger(__name__)


def _run_standalone_worker(files: tuple[pathlib.Path, ...], stop: StopSignals) -> int:
    given = standalone_settings.read_settings(files[0])
    for each in given.warnings:
        _LOG.warning("%s", each)
    connectors, wrong = _read_connector_files(files[1:])
    if wrong:
        return command_line.EXIT_NOT_STARTED
    return command_line.run_worker_until_stopped(
        lambda: build_worker(given),
        stop,
        after_start=lambda process: create_connectors(process, connectors),
    )


def _read_connector_files(
    files: tuple[pathlib.Path, ...],
) -> tuple[list[ConnectorFile], bool]:
    """Read the connector files and log each file that cannot be read. Return the parsed files, and
    whether any file could not be read."""
    found: list[ConnectorFile] = []
    for each in files:
        try:
            found.append(standalone_settings.read_connector_file(each))
        except ConfigError as error:
            _LOG.error("failed to create connector for %s", error)
    return found, len(found) < len(files)


COMMAND = ConnectWorkerCommand(
    "connect-standalone",
    _run_standalone_worker,
    usage="ConnectStandalone worker.properties [connector1.properties connector2.json ...]",
    help_text="""Run a standalone Kafka Connect worker with the connectors in the other files.

    All files have the same format as in Apache Kafka. A connector file is a properties file with
    the key name, or a JSON file: either only the configuration, or an object with name, config and
    initial_state as in the REST API.

    SIGTERM or Ctrl-C stops the worker gracefully, a second signal immediately. Exit codes: 1 wrong
    arguments, or the worker failed; 2 invalid settings; 3 the worker or a connector did not start;
    130 or 143 stopped by a signal.

    \b
    Examples:
      connect-standalone config/connect-standalone.properties config/connect-file-source.properties
      connect-standalone worker.properties source.json sink.json
    """,
)


def main() -> None:
    """Run `connect-standalone` and exit the process with its exit code."""
    process_start_and_exit.exit_process(command_line.run_command(COMMAND, sys.argv[1:]))


if __name__ == "__main__":
    main()
