"""`mm2 status`: how the flows of a file stand."""

from __future__ import annotations

import json

import click

from mm2.app import exits
from mm2.app.cli import flow_options


@click.command("status")
@flow_options.asking
def command(*, asked: flow_options.Asked) -> int:
    """Say how the flows of FILE (default: clusters.yaml) stand.

    Each flow's state, since when and where it runs, its topics with their lag, what stands still
    and why, what the source deletes before it is copied, warnings and the last errors. A process
    that runs FILE on this machine is asked; where there is none, or it does not have all of a flow,
    the clusters are: the flow's map and Connect group on the target, the logs of the source.

    \b
    Examples:
      mm2 status
      watch mm2 status clusters.yaml --flow 'east->west'
      mm2 status --clusters --json
    """
    found = flow_options.found(asked)
    from mm2.app.reports import flow_report, show

    if asked.as_json:
        flows = [flow_report.as_json(each) | {"is_well": each.is_well} for each in found.flows]
        told = {"version": flow_report.JSON_VERSION, "flows": flows, "notes": list(found.notes)}
        click.echo(json.dumps(told, indent=2))
    else:
        for line in show.status(found):
            click.echo(line)
    return exits.DONE if all(each.is_well for each in found.flows) else exits.FAILED
