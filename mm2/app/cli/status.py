"""`mm2 status`: whether the flows of a file are healthy."""

from __future__ import annotations

import json

import click

from mm2.app import terminal
from mm2.app.cli import flow_options


@click.command("status")
@flow_options.asking
def command(*, asked: flow_options.Asked) -> int:
    """Show the status of the flows of FILE (default: clusters.yaml).

    For each flow: its state, whether it is healthy and if not why, where it runs, its topics with
    their lag, stopped partitions with the command that resolves each, what the source deletes
    before it is replicated, warnings and the last errors. A process that runs FILE on this machine
    is asked; where there is none, or it does not have all of a flow, the clusters are: the flow's
    offset map and Connect group on the target, the logs of the source.

    \b
    Examples:
      mm2 status
      watch mm2 status clusters.yaml --flow 'east->west'
      mm2 status --clusters --json
    """
    found = flow_options.found(asked)
    from mm2.app.reports import flow_report, flow_verdict, show

    within_s = found.within_s
    if asked.as_json:
        flows = [
            flow_report.as_json(each) | flow_verdict.as_json(each, within_s=within_s)
            for each in found.flows
        ]
        told = {"version": flow_report.JSON_VERSION, "flows": flows, "notes": list(found.notes)}
        click.echo(json.dumps(told, indent=2))
    else:
        for line in show.status(found):
            terminal.print_line(line)
    return flow_verdict.exit_code(found.flows, within_s=within_s)
