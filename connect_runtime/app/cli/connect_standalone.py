"""`connect-standalone`: a worker alone, with its connectors. Java: ConnectStandalone."""

from __future__ import annotations

import logging
import pathlib
import sys

from connect_runtime.api import errors
from connect_runtime.app import standalone
from connect_runtime.app.cli import command, exits, serving
from connect_runtime.app.settings import connector_files
from connect_runtime.app.settings import standalone as settings
from connect_runtime.system import process_end, signals

_LOG = logging.getLogger(__name__)


def _body(files: tuple[pathlib.Path, ...], stop: signals.StopSignals) -> int:
    given = settings.read(files[0])
    for each in given.warnings:
        _LOG.warning("%s", each)
    connectors, wrong = _connectors(files[1:])
    if wrong:
        return exits.NOT_STARTED
    return serving.serve(
        lambda: standalone.worker(given),
        stop,
        begin=lambda process: standalone.create(process, connectors),
    )


def _connectors(
    files: tuple[pathlib.Path, ...],
) -> tuple[list[connector_files.Connector], bool]:
    """Those that can be read, and whether others cannot: they are told of, all of them."""
    found: list[connector_files.Connector] = []
    for each in files:
        try:
            found.append(connector_files.read(each))
        except errors.ConfigError as error:
            _LOG.error("failed to create connector for %s", error)
    return found, len(found) < len(files)


COMMAND = command.ApacheCommand(
    "connect-standalone",
    _body,
    usage="ConnectStandalone worker.properties [connector1.properties connector2.json ...]",
    help_text="""Run a Kafka Connect worker alone, with the connectors that the other files hold.

    Files are Java's. A connector's holds properties with its name, or JSON: the configuration
    alone, or with name, config and initial_state as the REST API takes them. SIGTERM or Ctrl-C
    stops in order, a second one at once. The exit code is 1 for wrong arguments or a worker that
    ended by itself, 2 for wrong settings, 3 when it or a connector did not start, 130 or 143 when
    stopped by a signal.

    \b
    Examples:
      connect-standalone config/connect-standalone.properties config/connect-file-source.properties
      connect-standalone worker.properties source.json sink.json
    """,
)


def main() -> None:
    """The entry point: never returns."""
    process_end.end(command.run(COMMAND, sys.argv[1:]))


if __name__ == "__main__":
    main()
