"""The command `mm2`: finds the subcommand, sets up logging, turns errors into exit codes.

Subcommands are imported when they are called: `mm2 --version` and shell completion stay quick,
and a command that needs no Kafka client works where none is installed. A subcommand returns its
exit code, or None for 0.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import click

from connect_runtime.app import logs
from connect_runtime.base import errors
from connect_runtime.system import process_end, process_start
from mm2.app import exits, version


@dataclass(frozen=True, slots=True)
class Subcommand:
    """Where a subcommand lives; `summary` is its line in `mm2 --help`."""

    module: str
    attribute: str
    summary: str


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "check": Subcommand("mm2.app.cli.check", "command", "Look whether a file would work here."),
    "completion": Subcommand("mm2.app.cli.completion", "command", "Print a shell's completion."),
    "config": Subcommand("mm2.app.cli.config", "group", "Check, show, convert a configuration."),
    "demo": Subcommand("mm2.app.cli.demo", "command", "See it work on this machine."),
    "docs": Subcommand("mm2.app.cli.docs", "command", "Print the reference of this release."),
    "drill": Subcommand("mm2.app.cli.drill", "command", "Rehearse a failover on this machine."),
    "failback": Subcommand("mm2.app.cli.failback", "command", "Go back to the cluster left."),
    "failover": Subcommand("mm2.app.cli.failover", "command", "What moving to the other costs."),
    "offsets": Subcommand("mm2.app.cli.offsets", "group", "What offsets are on the other side."),
    "lag": Subcommand("mm2.app.cli.lag", "command", "How far flows are behind."),
    "pause": Subcommand("mm2.app.cli.flow_commands", "pause", "Let a running flow copy nothing."),
    "probe": Subcommand("mm2.app.cli.probe", "command", "Try what the clusters can do."),
    "reload": Subcommand("mm2.app.cli.reload", "command", "Let a running mm2 read its file again."),
    "restart": Subcommand("mm2.app.cli.flow_commands", "restart", "Restart a running flow."),
    "resume": Subcommand("mm2.app.cli.resume", "command", "Go on after a pause, or a stop."),
    "receipts": Subcommand("mm2.app.cli.receipts", "command", "List what was lost or doubled."),
    "run": Subcommand("mm2.app.cli.run", "command", "Mirror what a configuration says."),
    "status": Subcommand("mm2.app.cli.status", "command", "How flows stand."),
    "throttle": Subcommand("mm2.app.cli.flow_commands", "throttle", "Slow a running flow down."),
    "why": Subcommand("mm2.app.cli.why", "command", "Say how a topic is copied, and why so."),
    "sandbox": Subcommand("mm2.app.cli.sandbox", "group", "Real Kafka clusters on this machine."),
}


_TALKATIVE = ("httpx", "connect_runtime")
"""They tell of every request, and of all that a Connect worker does, at INFO: `mm2 run` says what
comes of it. At the level debug they are heard."""


class LazyGroup(click.Group):
    """A group whose members are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = SUBCOMMANDS.get(cmd_name)
        if found is None:
            return None
        command = getattr(importlib.import_module(found.module), found.attribute)
        assert isinstance(command, click.Command), found
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUBCOMMANDS[name].summary) for name in sorted(SUBCOMMANDS)])


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"mm2 {version.VERSION}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--log-format",
    type=click.Choice(logs.FORMATS),
    default=logs.TEXT,
    show_default=True,
    help="How log lines look; they go to stderr.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least important lines to log.",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli(*, log_format: str, log_level: str) -> None:
    """Mirror topics between Apache Kafka clusters.

    \b
    Examples:
      mm2 sandbox up east west          two clusters on this machine, to try things out
      mm2 config check clusters.yaml    every mistake at once, before anything starts
      mm2 config show clusters.yaml     what is in force, defaults included
      mm2 run clusters.yaml             mirror until stopped
    """
    logs.configure(log_format, level=logging.getLevelNamesMapping()[log_level.upper()])
    if log_level != "debug":
        quiet = contextlib.ExitStack()
        for each in map(logging.getLogger, _TALKATIVE):
            quiet.callback(each.setLevel, each.level)
            each.setLevel(logging.WARNING)
        click.get_current_context().call_on_close(quiet.close)


def main() -> NoReturn:
    """The entry point: never returns."""
    process_start.begin()
    process_end.end(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; errors that we know are told in one line."""
    try:
        code = cli.main(args=arguments, prog_name="mm2", standalone_mode=False)
        with contextlib.suppress(AttributeError):  # started with stdout closed, there is none
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return exits.INTERRUPTED
    except errors.ConnectError as error:
        return _tell(error)
    except BrokenPipeError:
        # Whoever read our output is gone; Python must not complain about it at its end, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.FAILED
    return code if isinstance(code, int) else exits.DONE


def _tell(error: errors.ConnectError) -> int:
    from connect_runtime.app.settings import problems

    if isinstance(error, problems.SettingsError):
        click.echo(str(error), err=True)
        return exits.BAD_INPUT
    click.echo(f"mm2: {error}", err=True)
    return exits.FAILED


if __name__ == "__main__":
    main()
