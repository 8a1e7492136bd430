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
from connect_runtime.system import java
from connect_runtime.system.clock import SystemClock
from mm2 import exit_codes, text_format
from mm2.cli import options, terminal
from mm2.config import config_loader
from mm2.node import drill_report

if TYPE_CHECKING:
    from mm2.sandbox.scenarios.failover_drill import DrillResult


@click.command("drill")
@click.option(
    "--from", "origin", required=True, metavar="ALIAS", help="The cluster that would be left."
)
@click.option(
    "--to", "destination", required=True, metavar="ALIAS", help="The one that would be gone to."
)
@click.option("--planned", is_flag=True, help="Leave it in order, instead of killing it.")
@options.config_option("Where the flow is configured.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    *, origin: str, destination: str, planned: bool, file: pathlib.Path, as_json: bool
) -> int:
    """Rehearse a failover between two Kafka clusters on this machine, and measure it.

    The flow runs with the settings of the file, on a topic of the drill's own: an application
    writes, another works in a consumer group, the first cluster is killed (or left as planned), and
    the group goes on at the second one. Your clusters are not touched, and no hook is run: the
    time that people, DNS and your applications take comes on top. Needs Java; the first time it
    downloads Kafka (60 MB). What came of it is noted in the file that drill.report names, if any.
    Whatever went wrong is printed as FAILED: something that arrived was passed over, more was read
    again than the report of the move allows, or a planned move lost or repeated a record.

    \b
    RTO         time from the end of the first cluster until the group worked again
    RPO         records that were written and never crossed
    read again  records that the group worked on twice

    \b
    Examples:
      mm2 drill --from east --to west
      mm2 drill --from east --to west --planned
    """
    java.find_java()
    settings = config_loader.load(file, environment=os.environ)
    flow = options.find_flow(settings, f"{origin}->{destination}", hint="--from, --to")
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.cli import library_logs
    from mm2.failover.move_request import MoveKind
    from mm2.sandbox.scenarios.failover_drill import Drill

    logging.getLogger().setLevel(logging.ERROR)
    kind = MoveKind.PLANNED if planned else MoveKind.EMERGENCY
    with library_logs.redirect_library_logs():
        made = Drill(
            settings,
            flow,
            kind,
            clock=SystemClock(),
            tell=lambda line: terminal.print_line(line, err=as_json),
        )
        try:
            result = made.run()
        finally:
            made.close()
    _print_result(result, as_json=as_json)
    if settings.watch.drill_report is not None:
        drill_report.record_drill(
            settings.watch.drill_report,
            flow.name,
            result.as_json(),
            passed=result.good,
            at_ms=SystemClock().wall_ms(),
        )
    return exit_codes.DONE if result.good else exit_codes.FAILED


def _print_result(result: DrillResult, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.as_json(), indent=2))
    else:
        for line in format_result(result):
            terminal.print_line(line)


def format_result(result: DrillResult) -> Iterator[str]:
    """What was measured, for people."""
    yield ""
    yield f"RTO          {text_format.format_duration(result.rto_s)} until the group worked again"
    yield f"             {text_format.format_duration(result.all_s)} until it had read what it had not"
    yield f"RPO          {plurals.format_count(result.lost, 'record')} of {result.sent:,} lost"
    yield f"read again   {plurals.format_count(result.read_again, 'record')}"
    yield f"             the report said: {result.report['read_again']}"
    yield f"processed    {result.before:,} before, {result.after:,} after"
    for each in result.failures:
        yield f"FAILED       {each}"
