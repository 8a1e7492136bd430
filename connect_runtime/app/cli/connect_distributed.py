"""`connect-distributed`: a worker of a group. Java: ConnectDistributed."""

from __future__ import annotations

import logging
import pathlib
import sys

from connect_runtime.app import distributed
from connect_runtime.app.cli import command, serving
from connect_runtime.app.settings import distributed as settings
from connect_runtime.system import process_end, signals

_LOG = logging.getLogger(__name__)


def _body(files: tuple[pathlib.Path, ...], stop: signals.StopSignals) -> int:
    given = settings.read(files[0])
    for each in given.warnings:
        _LOG.warning("%s", each)
    if len(files) > 1:
        _LOG.warning("%s is not read: connectors are made through the REST API", files[1])
    return serving.serve(lambda: distributed.worker(given), stop)


COMMAND = command.ApacheCommand(
    "connect-distributed",
    _body,
    usage="ConnectDistributed worker.properties",
    help_text="""Run a Kafka Connect worker that shares connectors with the others of its group.

    The file is Java's. SIGTERM or Ctrl-C stops in order, a second one at once. The exit code is 1
    for wrong arguments or a worker that ended by itself, 2 for wrong settings, 3 when it did not
    start, 130 or 143 when stopped by a signal.

    \b
    Examples:
      connect-distributed config/connect-distributed.properties
      connect-distributed --log-format json --log-level WARN worker.properties
    """,
)


def main() -> None:
    """The entry point: never returns."""
    process_end.end(command.run(COMMAND, sys.argv[1:]))


if __name__ == "__main__":
    main()
