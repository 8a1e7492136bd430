"""The command `mm2`: finds the subcommand, configures logging, turns errors into exit codes.

Subcommands are imported when they are called, so that `mm2 --version` and shell completion are
fast, and commands that need no Kafka client work without one. A subcommand returns its exit code,
or None for 0.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import click

from connect_runtime.app import log_format as app_log_format
from connect_runtime.base.errors import ConnectError
from connect_runtime.system import process_start_and_exit
from mm2 import exit_codes, version
from mm2.cli import terminal_output


@dataclass(frozen=True, slots=True)
class Subcommand:
    """Import location and help line of a subcommand."""

    module: str
    attribute: str
    """Name of the click command in the module."""
    summary: str


COMMAND_SECTIONS: Mapping[str, Mapping[str, Subcommand]] = {
    "Configure": {
        "config": Subcommand(
            "mm2.cli.config", "config_group", "Validate, show or convert a configuration file."
        ),
        "check": Subcommand(
            "mm2.cli.check",
            "check_command",
            "Preflight: network, authentication, ACLs and settings.",
        ),
        "probe": Subcommand(
            "mm2.cli.probe", "probe_command", "Test whether exactly-once delivery is possible."
        ),
    },
    "Run": {
        "run": Subcommand("mm2.cli.run", "run_command", "Run the configured flows."),
        "reload": Subcommand(
            "mm2.cli.reload", "reload_command", "Apply a changed configuration to a running mm2."
        ),
        "pause": Subcommand(
            "mm2.cli.flow_control", "pause_command", "Pause a flow or one of its topics."
        ),
        "resume": Subcommand(
            "mm2.cli.flow_control", "resume_command", "Resume a paused or stopped flow or topic."
        ),
        "restart": Subcommand(
            "mm2.cli.flow_control", "restart_command", "Restart a flow's connectors and tasks."
        ),
        "throttle": Subcommand(
            "mm2.cli.flow_control", "throttle_command", "Limit the rate of a flow or topic."
        ),
        "topic": Subcommand(
            "mm2.cli.topic", "topic_group", "Reset a halted topic to another source position."
        ),
    },
    "Observe": {
        "status": Subcommand("mm2.cli.status", "status_command", "Show the status of all flows."),
        "lag": Subcommand(
            "mm2.cli.status", "lag_command", "Show replication lag and the time to data loss."
        ),
        "why": Subcommand(
            "mm2.cli.why", "why_command", "Explain how a topic is replicated, or why not."
        ),
        "incidents": Subcommand(
            "mm2.cli.incidents",
            "incidents_command",
            "List losses, duplicates and operators' actions.",
        ),
    },
    "Fail over": {
        "failover": Subcommand(
            "mm2.cli.failover", "failover_command", "Plan or execute a failover of consumer groups."
        ),
        "failback": Subcommand(
            "mm2.cli.failover", "failback_command", "Fail back to the original cluster."
        ),
        "drill": Subcommand(
            "mm2.cli.drill", "drill_command", "Rehearse a failover on local test clusters."
        ),
        "offsets": Subcommand(
            "mm2.cli.offsets", "offsets_group", "Translate offsets, repair the offset map."
        ),
    },
    "Learn": {
        "sandbox": Subcommand(
            "mm2.cli.sandbox", "sandbox_group", "Run local Kafka clusters for testing."
        ),
        "demo": Subcommand(
            "mm2.cli.demo", "demo_command", "Watch replication and failover on local clusters."
        ),
        "docs": Subcommand(
            "mm2.cli.docs", "docs_command", "Print the reference: keys, metrics, exit codes."
        ),
        "completion": Subcommand(
            "mm2.cli.completion", "completion_command", "Print the completion script of a shell."
        ),
    },
}
"""Commands in the order of `mm2 --help`, grouped by heading."""

SUBCOMMANDS: Mapping[str, Subcommand] = {
    name: each for section in COMMAND_SECTIONS.values() for name, each in section.items()
}


_VERBOSE_LOGGERS = ("httpx", "connect_runtime")
"""Loggers of requests and of the steps of a Connect worker. Their INFO messages are suppressed
unless the log level is debug."""


class LazyCommandGroup(click.Group):
    """A click group that imports a subcommand only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = SUBCOMMANDS.get(cmd_name)
        if found is None:
            return None
        command = getattr(importlib.import_module(found.module), found.attribute)
        assert isinstance(command, click.Command), found
        _add_exit_codes_to_help(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(
                error.command_name, possibilities=SUBCOMMANDS, ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, SUBCOMMANDS))
        for heading, section in COMMAND_SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{name:<{width}}", each.summary) for name, each in section.items()]
                )


def _add_exit_codes_to_help(command: click.Command, name: str) -> None:
    """Append the exit codes to the help of a command, or of each command of a group."""
    if isinstance(command, click.Group):
        for each, member in command.commands.items():
            _add_exit_codes_to_help(member, f"{name} {each}")
    elif name in exit_codes.COMMAND_EXIT_CODES:
        command.epilog = f"\b\n{exit_codes.format_exit_codes_help(name)}"


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        terminal_output.print_line(f"mm2 {version.VERSION}")
        ctx.exit()


@click.group(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--log-format",
    type=click.Choice(app_log_format.FORMATS),
    default=app_log_format.TEXT_FORMAT,
    show_default=True,
    help="Format of the log, which is written to stderr.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Lowest level to log.",
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
    """Replicate topics and consumer group offsets between Apache Kafka clusters.

    Commands read clusters.yaml in the current directory, unless --config FILE or MM2_CONFIG names
    another file. Exit codes: 0 done, 1 problem, 2 bad input, 3 unknown, 4 unreachable (mm2 docs
    exit-codes).

    \b
    Examples:
      mm2 sandbox up east west          start two local Kafka clusters to try mm2
      mm2 config check clusters.yaml    list every mistake in the configuration
      mm2 run clusters.yaml             replicate until stopped
      mm2 status                        show the status of all flows
    """
    app_log_format.configure_logging(
        log_format, level=logging.getLevelNamesMapping()[log_level.upper()]
    )
    if log_level != "debug":
        quiet = contextlib.ExitStack()
        for each in map(logging.getLogger, _VERBOSE_LOGGERS):
            quiet.callback(each.setLevel, each.level)
            each.setLevel(logging.WARNING)
        click.get_current_context().call_on_close(quiet.close)


def main() -> NoReturn:
    """Run the command `mm2` and exit with the subcommand's exit code."""
    process_start_and_exit.prevent_test_imports()
    _escape_unencodable_output()
    process_start_and_exit.exit_process(run_command(sys.argv[1:]))


def _escape_unencodable_output() -> None:
    """Escape characters in the output that the terminal's encoding does not support. Topic and
    group names may contain any character, and an unprintable name must not abort a failover."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def run_command(arguments: list[str]) -> int:
    """Run a command and return its exit code. A `ConnectError` is printed as one line."""
    try:
        code = cli.main(args=arguments, prog_name="mm2", standalone_mode=False)
        with contextlib.suppress(AttributeError):  # stdout is None if it was closed at the start
            sys.stdout.flush()
    except click.ClickException as error:
        terminal_output.print_usage_error(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    except ConnectError as error:
        return _report_connect_error(error)
    except BrokenPipeError:
        # The reader of stdout has exited; keep Python from reporting it again at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.FAILED
    return code if isinstance(code, int) else exit_codes.DONE


def _report_connect_error(error: ConnectError) -> int:
    from connect_runtime.config.config_errors import SettingsError

    if isinstance(error, SettingsError):
        terminal_output.print_lines(str(error), err=True)
        return exit_codes.BAD_INPUT
    terminal_output.print_line(f"mm2: {error}", err=True)
    from mm2.cli import unreachable_error_check  # loads the Kafka protocol codec

    return (
        exit_codes.UNREACHABLE
        if unreachable_error_check.is_unreachable_error(error)
        else exit_codes.FAILED
    )


if __name__ == "__main__":
    main()
