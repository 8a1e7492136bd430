"""`mm2 drill`: rehearses a failover on local test clusters with the user's own flow."""

from __future__ import annotations

import json
import logging
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from connect_runtime.base import plurals
from connect_runtime.system import java_installation
from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes, text_format
from mm2.cli import options, terminal_output
from mm2.config import config_loader
from mm2.node import drill_report

if TYPE_CHECKING:
    from mm2.sandbox.scenarios.failover_drill import DrillResult


@click.command("drill")
@click.option(
    "--from",
    "origin",
    required=True,
    metavar="ALIAS",
    help=("Cluster that the consumer group moves from."),
)
@click.option(
    "--to",
    "destination",
    required=True,
    metavar="ALIAS",
    help="Cluster that the consumer group moves to.",
)
@click.option(
    "--planned", is_flag=True, help="Rehearse a planned failover instead of killing the origin."
)
@options.config_option("Configuration file that defines the flow.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def drill_command(
    *, origin: str, destination: str, planned: bool, file: pathlib.Path, as_json: bool
) -> int:
    """Rehearse a failover between two local Kafka clusters and measure RTO and RPO.

    Starts two test clusters on this machine and runs the flow with your settings on a test topic,
    with a producer and a consumer group. The first cluster is killed, and the group continues on
    the second. With --planned, the first cluster is not killed: the group moves in a planned
    failover. Your clusters are not contacted and no hooks run. The time that operators, DNS and
    applications need is not included.

    Needs Java; the first run downloads Kafka (60 MB). The result is recorded in the file that
    drill.report names, if it is set.

    A FAILED line reports that replicated records were skipped, that more records were re-read than
    the failover report allows, or that a planned failover lost or repeated records.

    \b
    RTO         time from the loss of the first cluster until the group processed records again
    RPO         records that were written and never replicated
    re-read     records that the group processed twice

    \b
    Examples:
      mm2 drill --from east --to west
      mm2 drill --from east --to west --planned
    """
    java_installation.find_java()
    settings = config_loader.load_config_file(file, environment=os.environ)
    flow = options.find_flow(settings, f"{origin}->{destination}", hint="--from, --to")
    # Imported here so that invalid input is reported before Kafka's client library is loaded.
    from mm2.cli import library_log_redirection
    from mm2.failover.failover_request import FailoverKind
    from mm2.sandbox.scenarios.failover_drill import Drill

    logging.getLogger().setLevel(logging.ERROR)
    kind = FailoverKind.PLANNED if planned else FailoverKind.EMERGENCY
    with library_log_redirection.redirect_library_logs():
        made = Drill(
            settings,
            flow,
            kind,
            clock=SystemClock(),
            report_step=lambda line: terminal_output.print_line(line, err=as_json),
        )
        try:
            result = made.run()
        finally:
            made.close()
    _print_drill_result(result, as_json=as_json)
    if settings.health.drill_report is not None:
        drill_report.record_drill_result(
            settings.health.drill_report,
            flow.name,
            result.as_json(),
            passed=result.is_successful,
            at_ms=SystemClock().wall_ms(),
        )
    return exit_codes.DONE if result.is_successful else exit_codes.FAILED


def _print_drill_result(result: DrillResult, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.as_json(), indent=2))
    else:
        for line in format_drill_result(result):
            terminal_output.print_line(line)


def format_drill_result(result: DrillResult) -> Iterator[str]:
    """Format the drill's measurements and failures as lines of text."""
    yield ""
    yield (
        f"RTO          {text_format.format_duration(result.rto_s)} until the "
        "group processed "
        "records again"
    )
    yield (
        f"             {text_format.format_duration(result.all_s)} until the group had caught up"
    )
    yield f"RPO          {plurals.format_count(result.lost, 'record')} of {result.sent:,} lost"
    yield f"re-read      {plurals.format_count(result.reread, 'record')}"
    yield f"             failover report: {result.report['reread']}"
    yield f"processed    {result.before:,} records before, {result.after:,} after the failover"
    for each in result.failures:
        yield f"FAILED       {each}"
