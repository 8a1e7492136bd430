"""`mm2 failover`: what moving to the other cluster would cost."""

from __future__ import annotations

import json
import os
import pathlib

import click

from connect_runtime.system import clock as system_clock
from mm2.app import exits
from mm2.app.cli import flow_names
from mm2.app.settings import load

_LOOKING_S = 60.0


@click.command("failover")
@click.option("--from", "origin", required=True, metavar="ALIAS", help="The cluster that is left.")
@click.option("--to", "destination", required=True, metavar="ALIAS", help="The one gone to.")
@click.option("--planned", is_flag=True, help="Both clusters serve, and nothing may be lost.")
@click.option("--group", "groups", multiple=True, metavar="G", help="Only this group; repeatable.")
@click.option(
    "--accept", "accepted", multiple=True, metavar="CODE", help="A finding that shall not forbid."
)
@click.option("--set-back", "sets_back", is_flag=True, help="Also set groups back that are ahead.")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    default=pathlib.Path("clusters.yaml"),
    show_default=True,
    help="Where the flow is configured.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(
    *,
    origin: str,
    destination: str,
    planned: bool,
    groups: tuple[str, ...],
    accepted: tuple[str, ...],
    sets_back: bool,
    file: pathlib.Path,
    as_json: bool,
) -> int:
    """Say what moving consumer groups from one cluster to the other would cost now.

    Nothing is changed. The exit code is 0 when the verdict is GO, also at a cost, and 1 when it is
    NO-GO.

    \b
    Examples:
      mm2 failover --from east --to west
      mm2 failover --from east --to west --planned --json
    """
    settings = load.load(file, environment=os.environ)
    flow = flow_names.find(settings, f"{origin}->{destination}", hint="--from, --to")
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import noise
    from mm2.app.failover import planning, show
    from mm2.app.looks import sides
    from mm2.core.failover import plan

    wanted = plan.Wanted(
        origin=origin,
        destination=destination,
        kind=plan.Kind.PLANNED if planned else plan.Kind.EMERGENCY,
        sets_back=sets_back,
        accepted=frozenset(accepted),
    )
    clock = system_clock.SystemClock()
    with (
        noise.to_file() as log_file,
        sides.Sides(settings, flow, purpose="failover", clock=clock) as both,
    ):
        found = planning.make(wanted, both, groups=groups, clock=clock, timeout_s=_LOOKING_S)
        log_file.keep = False
    properties = settings.clusters[destination].properties.shown()
    if as_json:
        click.echo(json.dumps(show.as_json(found, (), properties), indent=2))
    else:
        for line in show.lines(found, (), properties):
            click.echo(line)
    return exits.FAILED if found.verdict is plan.Verdict.NO_GO else exits.DONE
