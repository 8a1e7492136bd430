"""`mm2 drill`: a failover rehearsed on this machine, with the user's own flow."""

from __future__ import annotations

import json
import logging
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from connect_runtime.base import amounts
from connect_runtime.system import clock as system_clock
from connect_runtime.system import java
from mm2.app import drill_report, exits, figures, terminal
from mm2.app.cli import config_file, flow_names
from mm2.app.settings import load

if TYPE_CHECKING:
    from mm2.app.failover import drill


@click.command("drill")
@click.option(
    "--from", "origin", required=True, metavar="ALIAS", help="The cluster that would be left."
)
@click.option(
    "--to", "destination", required=True, metavar="ALIAS", help="The one that would be gone to."
)
@click.option("--planned", is_flag=True, help="Leave it in order, instead of killing it.")
@config_file.option("Where the flow is configured.")
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
    java.find()
    settings = load.load(file, environment=os.environ)
    flow = flow_names.find(settings, f"{origin}->{destination}", hint="--from, --to")
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import noise
    from mm2.app.failover import drill
    from mm2.core.failover import orders

    logging.getLogger().setLevel(logging.ERROR)
    kind = orders.Kind.PLANNED if planned else orders.Kind.EMERGENCY
    with noise.to_file():
        made = drill.Drill(
            settings,
            flow,
            kind,
            clock=system_clock.SystemClock(),
            tell=lambda line: terminal.print_line(line, err=as_json),
        )
        try:
            result = made.run()
        finally:
            made.close()
    _tell(result, as_json=as_json)
    if settings.watch.drill_report is not None:
        drill_report.note(
            settings.watch.drill_report,
            flow.name,
            result.as_json(),
            passed=result.good,
            at_ms=system_clock.SystemClock().wall_ms(),
        )
    return exits.DONE if result.good else exits.FAILED


def _tell(result: drill.Result, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.as_json(), indent=2))
    else:
        for line in lines(result):
            terminal.print_line(line)


def lines(result: drill.Result) -> Iterator[str]:
    """What was measured, for people."""
    yield ""
    yield f"RTO          {figures.duration(result.rto_s)} until the group worked again"
    yield f"             {figures.duration(result.all_s)} until it had read what it had not"
    yield f"RPO          {amounts.counted(result.lost, 'record')} of {result.sent:,} lost"
    yield f"read again   {amounts.counted(result.read_again, 'record')}"
    yield f"             the report said: {result.report['read_again']}"
    yield f"processed    {result.before:,} before, {result.after:,} after"
    for each in result.failures:
        yield f"FAILED       {each}"
