"""`mm2 check`: would what a file asks for work here, and if not, what is to be mended."""

from __future__ import annotations

import json
import os
import pathlib
import random

import click

from connect_runtime.app.settings import problems
from connect_runtime.system import clock as system_clock
from mm2.app import exits, terminal
from mm2.app.cli import config_file, flow_names, usual
from mm2.app.settings import load
from mm2.core.preflight import findings


@click.command("check")
@config_file.argument
@click.option("--flow", "flow_name", metavar="FLOW", help="Only this flow.  [default: all]")
@usual.as_json
@usual.timeout(10.0, "How long a cluster may take for one answer.")
def command(*, file: pathlib.Path, flow_name: str | None, as_json: bool, timeout_s: float) -> int:
    """Preflight: verify DNS, network, TLS, authentication, ACLs, topics and settings of both
    clusters of every flow, and Spark's slots, without replicating anything.

    Lists all problems at once, each with its consequence and the command that fixes it or shows
    more. `mm2 config check` validates the file alone, without connecting to a cluster.

    \b
    Examples:
      mm2 check clusters.yaml
      mm2 check clusters.yaml --flow 'east->west' --json
    """
    with problems.consequence("no cluster was asked"):
        settings = load.load(file, environment=os.environ)
    for line in settings.warning_lines():
        terminal.print_line(f"warning: {line}", err=True)
    names = [] if flow_name is None else [flow_names.find(settings, flow_name, hint="--flow").name]
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import noise
    from mm2.app.preflight import check, show

    with noise.to_file():
        report = check.Check(
            settings,
            names,
            environment=os.environ,
            clock=system_clock.SystemClock(),
            random=random.SystemRandom(),
            timeout_s=timeout_s,
        ).run()
    if as_json:
        click.echo(json.dumps(show.as_json(report, str(file)), indent=2))
    else:
        for line in show.lines(report):
            terminal.print_line(line)
    if report.reaches_none_of(settings.clusters):
        return exits.UNREACHABLE
    return exits.FAILED if report.verdict is findings.Result.FAILED else exits.DONE
