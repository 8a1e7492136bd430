"""`mm2 probe`: what the clusters can do, tried on them, and what delivery follows."""

from __future__ import annotations

import json
import os
import pathlib
import random

import click

from connect_runtime.system import clock as system_clock
from mm2.app import exits, terminal
from mm2.app.cli import config_file, flow_names, usual
from mm2.app.settings import load
from mm2.core import capabilities


@click.command("probe")
@config_file.argument
@click.option("--flow", "flow_name", metavar="FLOW", help="Only this flow.  [default: all]")
@usual.as_json
def command(*, file: pathlib.Path, flow_name: str | None, as_json: bool) -> int:
    """Try on the clusters of FILE (default: clusters.yaml) what delivery rests on.

    Writes a few records into mm2-probe.internal on each target: a topic of mm2's own.

    \b
    Examples:
      mm2 probe clusters.yaml
      mm2 probe clusters.yaml --flow 'east->west' --json
    """
    settings = load.load(file, environment=os.environ)
    chosen = (
        settings.flows
        if flow_name is None
        else (flow_names.find(settings, flow_name, hint="--flow"),)
    )
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import cluster_wait, connections, noise, probe

    clock = system_clock.SystemClock()
    with noise.to_file():
        for flow in chosen:
            cluster_wait.require(
                [
                    connections.source_access(settings, flow),
                    connections.target_access(settings, flow),
                ],
                timeout_s=probe.TIMEOUT_S,
                tell=lambda line: terminal.print_line(line, err=True),
                clock=clock,
            )
        found = [
            probe.probe(settings, flow, clock=clock, random=random.SystemRandom())
            for flow in chosen
        ]
    if as_json:
        flows = [each.as_json() for each in found]
        click.echo(json.dumps({"version": probe.JSON_VERSION, "flows": flows}, indent=2))
    else:
        for each in found:
            for line in each.lines():
                terminal.print_line(line)
    return exits.worst([_exit_code(each.verdict) for each in found])


def _exit_code(verdict: capabilities.Verdict) -> int:
    if verdict.delivery is not capabilities.Delivery.EXACTLY_ONCE:
        return exits.FAILED
    return exits.DONE if verdict.proven else exits.UNKNOWN
