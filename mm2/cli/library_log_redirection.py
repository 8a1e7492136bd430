"""Redirects the logs of librdkafka and py4j to a temporary file while a command runs.

The file is in a private directory (mode 0700). It is removed when the command ends, but kept after
a crash and at log level debug.
"""

from __future__ import annotations

import contextlib
import logging
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import click

from connect_runtime.app.log_format import TextFormatter
from connect_runtime.base.errors import ConnectError
from mm2.copier import process_private_directory

NOISY_LOGGERS = ("librdkafka", "py4j")
MAX_KEPT_LOGS = 5
"""Maximum number of library logs that are kept after failed runs. Each run removes the oldest
ones."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LibraryLogFile:
    """Temporary log file of librdkafka and py4j."""

    path: pathlib.Path
    keep: bool = False
    """True to keep the file when the command ends, unless the file is empty."""


@contextlib.contextmanager
def redirect_library_logs() -> Iterator[LibraryLogFile]:
    """Redirect the libraries' logs to a temporary file inside a `with` block.

    The file is removed at the end, but kept if `LibraryLogFile.keep` is set, after a crash, and at
    log level debug. A kept file is removed once `MAX_KEPT_LOGS` newer files exist.
    """
    folder = process_private_directory.create_run_directory("mm2-log-", keep_count=MAX_KEPT_LOGS)
    made = LibraryLogFile(folder.path / "libraries.log")
    attach_library_log(made.path)
    quiet = _RootLogFilter()
    handlers = list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(quiet)
    crashed = True
    try:
        yield made
        crashed = False
    except (ConnectError, click.ClickException, click.Abort, KeyboardInterrupt):
        crashed = False
        raise
    finally:
        for handler in handlers:
            handler.removeFilter(quiet)
        _detach_library_log()
        kept = made.keep or crashed or logging.getLogger().isEnabledFor(logging.DEBUG)
        if kept and made.path.stat().st_size:
            _log.info("log of the Kafka and Spark libraries: %s", made.path)
            folder.keep_for_inspection()
        else:
            folder.remove_directory()


def attach_library_log(file: pathlib.Path) -> None:
    """Send all log records of `NOISY_LOGGERS`, including warnings and errors, only to `file`.

    Raises `OSError` if the file cannot be opened.
    """
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(TextFormatter())
    for name in NOISY_LOGGERS:
        logger = logging.getLogger(name)
        for old in list(logger.handlers):
            logger.removeHandler(old)
            old.close()
        logger.addHandler(handler)
        logger.propagate = False


class _RootLogFilter(logging.Filter):
    """Redirects log records of the root logger to the library log. py4j logs tracebacks to the root
    logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != "root":
            return True
        logging.getLogger(NOISY_LOGGERS[0]).handle(record)
        return False


def _detach_library_log() -> None:
    for name in NOISY_LOGGERS:
        logger = logging.getLogger(name)
        logger.propagate = True
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            handler.close()
