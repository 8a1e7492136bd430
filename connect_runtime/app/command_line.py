"""Implements the options, exit codes and main loop of `connect-distributed` and
`connect-standalone`.

Exit codes are the same as in Java's commands. After a signal the code is 128 plus the signal
number, as in shells and the JVM. Java: AbstractConnectCli.
"""

from __future__ import annotations

import io
import logging
import pathlib
import signal
from collections.abc import Callable
from typing import Protocol, TypeVar

import click

from connect_runtime.app import log_format as app_log_format
from connect_runtime.base import terminal_escape
from connect_runtime.base.errors import ConnectError
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.plugins import compatible_kafka_version
from connect_runtime.rest.rest_server import RestServerError
from connect_runtime.system import log_levels
from connect_runtime.system.signals import StopSignals
from connect_runtime.system.supervised_threads import (
    StoppableThread,
    ThreadGroup,
    UnexpectedThreadEnd,
)

EXIT_DONE = 0
EXIT_USAGE = 1
"""Exit code for wrong arguments or --help."""
EXIT_WORKER_ENDED = 1
"""Exit code after the worker failed while it was running."""
EXIT_BAD_SETTINGS = 2
EXIT_NOT_STARTED = 3
"""Exit code if the worker, or a connector given on the command line, could not be started."""
EXIT_SIGNAL_BASE = 128


_LOG = logging.getLogger(__name__)
_POLL_INTERVAL_S = 0.1
_INTERRUPTED_START_TIMEOUT_S = 5.0
"""Maximum time for the worker's start to complete after a signal. A worker whose start completes
is stopped cleanly; otherwise the start is abandoned."""


class RunnableWorker(Protocol):
    """A worker that `run_worker_until_stopped` can start, wait for and stop."""

    @property
    def failure(self) -> str | None:
        """Reason why the worker failed; None if it has not failed."""

    def start(self) -> None:
        """Start the worker. Raises `ConnectError` if the start fails; nothing is left running in
        this case."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for up to `timeout_s` for the worker to fail; return True if it has failed."""

    def stop(self) -> None:
        """Stop the worker within a bounded time. Idempotent."""


R = TypeVar("R", bound=RunnableWorker)


def run_worker_until_stopped(
    build_worker: Callable[[], R],
    stop: StopSignals,
    *,
    after_start: Callable[[R], None] | None = None,
) -> int:
    """Build a worker, run it until a signal or a failure, and return the exit code.

    `after_start` is called with the started worker and may raise `ConnectError`. `stop` is the
    context manager that handles signals; the caller must already have entered it. The first signal
    stops the worker cleanly. If the worker is still starting, for example because no broker
    responds, the start has `_INTERRUPTED_START_TIMEOUT_S` to complete and is then abandoned.
    """
    try:
        made = build_worker()
    except ConnectError as error:
        _LOG.error("stopping due to error: %s", error)
        return EXIT_BAD_SETTINGS
    _LOG.info("Kafka Connect starting")
    starting = ThreadGroup(on_unexpected_end=_ignore_thread_death).start(
        "start", lambda _: made.start()
    )
    if not _wait_for_start(starting, stop):
        _LOG.warning(
            "interrupted while starting: the worker's start did not complete soon after the signal"
            " and was abandoned"
        )
        return EXIT_SIGNAL_BASE + (stop.signal_number or 0)
    try:
        code = _get_start_exit_code(starting.failure)
        if not code and after_start is not None and not stop.stop_requested.is_set():
            code = _run_after_start_callback(made, after_start)
        return code or _wait_for_signal_or_failure(made, stop)
    finally:
        _LOG.info("Kafka Connect stopping")
        made.stop()
        _LOG.info("Kafka Connect stopped")


def _ignore_thread_death(_: UnexpectedThreadEnd) -> None:
    """Do nothing if the thread that starts the worker fails: `run_worker_until_stopped` checks the
    thread's failure itself."""


def _wait_for_start(starting: StoppableThread, stop: StopSignals) -> bool:
    """Wait until the worker's start has succeeded or failed, but at most
    `_INTERRUPTED_START_TIMEOUT_S` after a signal. Return False on timeout."""
    while not starting.join(_POLL_INTERVAL_S):
        if stop.stop_requested.is_set():
            return starting.join(_INTERRUPTED_START_TIMEOUT_S)
    return True


def _get_start_exit_code(failure: BaseException | None) -> int:
    """Return the exit code for the result of the worker's start; 0 if the start succeeded."""
    match failure:
        case None:
            _LOG.info("Kafka Connect started")
            return EXIT_DONE
        case RestServerError():
            _LOG.error("stopping due to error: %s", failure)
            return EXIT_BAD_SETTINGS
        case ConnectError():
            _LOG.error("failed to start Connect: %s", failure)
            return EXIT_NOT_STARTED
    raise failure


def _run_after_start_callback(made: R, begin: Callable[[R], None]) -> int:
    try:
        begin(made)
    except ConnectError as error:
        _LOG.error("stopping after connector error: %s", error)
        return EXIT_NOT_STARTED
    return EXIT_DONE


def _wait_for_signal_or_failure(made: RunnableWorker, stop: StopSignals) -> int:
    while not stop.stop_requested.is_set():
        if made.wait(_POLL_INTERVAL_S):
            if made.failure is None:
                return EXIT_DONE
            _LOG.error("the worker failed: %s", made.failure)
            return EXIT_WORKER_ENDED
    number = stop.signal_number
    assert number is not None
    _LOG.info(
        "%s: stopping cleanly; repeat the signal to stop immediately", signal.Signals(number).name
    )
    return EXIT_SIGNAL_BASE + number


_VERBOSE_LOGGERS = ("httpx",)
"""Loggers that are limited to WARNING, because they log every HTTP request at INFO. The access log
of the receiving worker already contains these requests."""

CommandBody = Callable[[tuple[pathlib.Path, ...], StopSignals], int]


class ConnectWorkerCommand(click.Command):
    """A click command that shows Java's `usage` text."""

    def __init__(self, name: str, body: CommandBody, *, usage: str, help_text: str) -> None:
        super().__init__(
            name,
            params=[
                click.Argument(["files"], nargs=-1, type=click.Path(path_type=pathlib.Path)),
                click.Option(
                    ["--help", "help_wanted"], is_flag=True, help="Show this message (exit code 1)."
                ),
                click.Option(
                    ["--log-format"],
                    type=click.Choice(app_log_format.FORMATS),
                    default=app_log_format.TEXT_FORMAT,
                    show_default=True,
                    help="Format of log lines, which are written to stderr.",
                ),
                click.Option(
                    ["--log-level"],
                    type=click.Choice(list(log_levels.LEVELS), case_sensitive=False),
                    default="INFO",
                    show_default=True,
                    help="Minimum level of log lines.",
                ),
            ],
            callback=self._run_worker_command,
            help=help_text,
            add_help_option=False,
        )
        self._body = body
        self._usage = usage

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"Usage: {self._usage}\n")

    def _run_worker_command(
        self,
        *,
        files: tuple[pathlib.Path, ...],
        help_wanted: bool,
        log_format: str,
        log_level: str,
    ) -> int:
        if help_wanted or not files:
            click.echo(click.get_current_context().get_help(), err=not help_wanted)
            return EXIT_USAGE
        app_log_format.configure_logging(log_format, level=log_levels.LEVELS[log_level.upper()])
        for name in _VERBOSE_LOGGERS:
            logging.getLogger(name).setLevel(logging.WARNING)
        with StopSignals() as stop:
            _LOG.info(
                "%s (Python), compatible with Kafka Connect %s",
                self.name,
                compatible_kafka_version.KAFKA_VERSION,
            )
            return self._body(files, stop)


def run_command(command: click.Command, arguments: list[str]) -> int:
    """Run a command and return its exit code. Expected errors, such as wrong arguments and invalid
    settings, are printed to stderr without a stack trace."""
    try:
        code = command.main(args=arguments, prog_name=command.name, standalone_mode=False)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        click.echo(
            terminal_escape.escape_unprintable_except_newlines(shown.getvalue()), err=True, nl=False
        )
        return EXIT_USAGE
    except SettingsError as error:
        error.consequence = "nothing was started"
        click.echo(terminal_escape.escape_unprintable_except_newlines(str(error)), err=True)
        return EXIT_BAD_SETTINGS
    except (click.Abort, KeyboardInterrupt):
        return EXIT_SIGNAL_BASE + signal.SIGINT
    except Exception:  # noqa: BLE001 - unexpected: logged with its stack trace, the process exits
        _LOG.exception("stopping due to error")
        return EXIT_BAD_SETTINGS
    assert isinstance(code, int), code
    return code
