"""What the commands have in common: options, usage, log lines, the way to their exit codes."""

from __future__ import annotations

import io
import logging
import pathlib
import signal
from collections.abc import Callable

import click

from connect_runtime.app import logs
from connect_runtime.app.cli import exits
from connect_runtime.app.settings import problems
from connect_runtime.base import terminal_escape
from connect_runtime.builtin import version
from connect_runtime.system import log_levels, signals

_LOG = logging.getLogger(__name__)
_TALKATIVE = ("httpx",)
"""They tell of every request at INFO; those of other workers are in the access log."""

Body = Callable[[tuple[pathlib.Path, ...], signals.StopSignals], int]


class ApacheCommand(click.Command):
    """Shows `usage`, which is Java's, in place of click's own."""

    def __init__(self, name: str, body: Body, *, usage: str, help_text: str) -> None:
        super().__init__(
            name,
            params=[
                click.Argument(["files"], nargs=-1, type=click.Path(path_type=pathlib.Path)),
                click.Option(
                    ["--help", "help_wanted"], is_flag=True, help="Show this; exit code 1."
                ),
                click.Option(
                    ["--log-format"],
                    type=click.Choice(logs.FORMATS),
                    default=logs.TEXT,
                    show_default=True,
                    help="How log lines look; they go to stderr.",
                ),
                click.Option(
                    ["--log-level"],
                    type=click.Choice(list(log_levels.LEVELS), case_sensitive=False),
                    default="INFO",
                    show_default=True,
                    help="The least important lines to log.",
                ),
            ],
            callback=self._called,
            help=help_text,
            add_help_option=False,
        )
        self._body = body
        self._usage = usage

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"Usage: {self._usage}\n")

    def _called(
        self,
        *,
        files: tuple[pathlib.Path, ...],
        help_wanted: bool,
        log_format: str,
        log_level: str,
    ) -> int:
        if help_wanted or not files:
            click.echo(click.get_current_context().get_help(), err=not help_wanted)
            return exits.USAGE
        logs.configure(log_format, level=log_levels.LEVELS[log_level.upper()])
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.WARNING)
        with signals.StopSignals() as stop:
            _LOG.info("%s, in Python, as of Kafka Connect %s", self.name, version.KAFKA)
            return self._body(files, stop)


def run(command: click.Command, arguments: list[str]) -> int:
    """One command's exit code; what is known to go wrong is told without a trace."""
    try:
        code = command.main(args=arguments, prog_name=command.name, standalone_mode=False)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        click.echo(terminal_escape.escape_lines(shown.getvalue()), err=True, nl=False)
        return exits.USAGE
    except problems.SettingsError as error:
        error.consequence = "nothing was started"
        click.echo(terminal_escape.escape_lines(str(error)), err=True)
        return exits.BAD_SETTINGS
    except (click.Abort, KeyboardInterrupt):
        return exits.SIGNALLED + signal.SIGINT
    except Exception:  # noqa: BLE001 - the last resort: told with its trace, and the process ends
        _LOG.exception("stopping due to error")
        return exits.BAD_SETTINGS
    assert isinstance(code, int), code
    return code
