"""`mm2 failover`: what moving to the other cluster would cost, and doing it."""

from __future__ import annotations

import json
import os
import pathlib
import random
import threading
from dataclasses import dataclass
from typing import Any

import click

from connect_runtime.system import clock as system_clock
from mm2.app import exits
from mm2.app.cli import config_file, flow_names
from mm2.app.settings import load

_LOOKING_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for on the command line."""

    origin: str
    destination: str
    planned: bool
    groups: tuple[str, ...]
    accepted: tuple[str, ...]
    sets_back: bool
    execute: bool
    journal: pathlib.Path | None
    goes_on: bool
    settle_s: float
    wait_s: float
    file: pathlib.Path
    as_json: bool


@click.command("failover")
@click.option("--from", "origin", required=True, metavar="ALIAS", help="The cluster that is left.")
@click.option("--to", "destination", required=True, metavar="ALIAS", help="The one gone to.")
@click.option("--planned", is_flag=True, help="Both clusters serve, and nothing may be lost.")
@click.option("--group", "groups", multiple=True, metavar="G", help="Only this group; repeatable.")
@click.option(
    "--accept", "accepted", multiple=True, metavar="CODE", help="A finding that shall not forbid."
)
@click.option("--set-back", "sets_back", is_flag=True, help="Also set groups back that are ahead.")
@click.option("--execute", is_flag=True, help="Do it.")
@click.option(
    "--journal",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    help="Where to note what was done.  [default: failover-FROM-TO.jsonl]",
)
@click.option("--resume", "goes_on", is_flag=True, help="Go on with what the journal has begun.")
@click.option(
    "--settle",
    "settle_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="With --planned: how long both ends have to hold the same.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for what others do.",
)
@config_file.option("Where the flow is configured.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan, or the report, as JSON.")
def command(**given: Any) -> int:
    """Say what moving consumer groups from one cluster to the other would cost now.

    Nothing is changed without --execute. With it: the flow is stopped and its writers are fenced,
    the groups' positions are written on the other cluster and read back. Every step is noted in a
    journal, so that --resume goes on where a crash, or a step that failed, has left it. The exit
    code is 0 when the verdict is GO, also at a cost, and 1 when it is NO-GO or a step failed.

    \b
    Examples:
      mm2 failover --from east --to west
      mm2 failover --from east --to west --execute
      mm2 failover --from east --to west --planned --execute
      mm2 failover --from east --to west --resume
    """
    order = Order(**given)
    if order.execute and order.goes_on:
        raise click.UsageError("--execute begins a move, --resume goes on with one: say either")
    settings = load.load(order.file, environment=os.environ)
    flow = flow_names.find(settings, f"{order.origin}->{order.destination}", hint="--from, --to")
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import noise
    from mm2.app.failover import planning, show
    from mm2.app.looks import sides

    clock = system_clock.SystemClock()
    with (
        noise.to_file() as log_file,
        sides.Sides(settings, flow, purpose="failover", clock=clock) as both,
    ):
        if order.execute or order.goes_on:
            code = _move(order, settings, both)
            log_file.keep = False
            return code
        found = planning.make(
            _wanted(order), both, groups=order.groups, clock=clock, timeout_s=_LOOKING_S
        )
        log_file.keep = False
    properties = settings.clusters[order.destination].properties.shown()
    if order.as_json:
        click.echo(json.dumps(show.as_json(found, (), properties), indent=2))
    else:
        for line in show.lines(found, (), properties):
            click.echo(line)
    from mm2.core.failover import plan

    return exits.FAILED if found.verdict is plan.Verdict.NO_GO else exits.DONE


def _wanted(order: Order) -> Any:
    from mm2.core.failover import plan

    return plan.Wanted(
        origin=order.origin,
        destination=order.destination,
        kind=plan.Kind.PLANNED if order.planned else plan.Kind.EMERGENCY,
        sets_back=order.sets_back,
        accepted=frozenset(order.accepted),
    )


def _move(order: Order, settings: Any, both: Any) -> int:
    from mm2.app import connections, flow_plan
    from mm2.app.failover import journal_file, moving
    from mm2.core.failover import journal
    from mm2.pipeline import single_questions

    clock = system_clock.SystemClock()
    flow = both.flow
    plans = flow_plan.plans(settings, flow_plan.Choice(names=(flow.name,)), environment=os.environ)
    wire = connections.wire_settings(
        settings.clients_of(flow).producer, flow.target, client_id=f"mm2-{flow.name}-failover"
    )
    path = order.journal or pathlib.Path(f"failover-{order.origin}-{order.destination}.jsonl")
    begin = None
    if order.execute:
        begun = journal.Begun(wanted=_wanted(order), flow=flow.name)
        begin = journal.begun(begun, at_ms=clock.wall_ms())
    tools = moving.Tools(
        both=both,
        config_topic=plans[0].worker_props["config.storage.topic"],
        questions=lambda: single_questions.SingleQuestions(
            wire, clock=clock, random=random.SystemRandom()
        ),
        clock=clock,
        pause=threading.Event().wait,
        tell=lambda line: click.echo(line, err=order.as_json),
        groups=order.groups,
        settle_s=order.settle_s,
        wait_s=order.wait_s,
    )
    with journal_file.JournalFile(path, begin=begin) as file:
        begun_before = file.found.begun
        if begun_before is not None and begun_before.flow != flow.name:
            raise click.UsageError(f"{path} is the journal of another move: {begun_before.flow}")
        moving.Mover(file, tools).run()
        report = file.found.details[moving.Step.REPORT]
    if order.as_json:
        click.echo(json.dumps(dict(report), indent=2))
    else:
        click.echo(f"done: {dict(report)}; the journal is {path}")
    return exits.DONE
