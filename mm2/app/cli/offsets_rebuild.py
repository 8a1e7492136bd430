"""`mm2 offsets rebuild`: the map of a flow made anew from both logs."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from connect_runtime.system import clock as system_clock
from mm2.app import exits, terminal
from mm2.app.cli import config_file, flow_names, usual
from mm2.app.settings import load
from mm2.app.settings import settings as app_settings
from mm2.core.configs import engine_settings

if TYPE_CHECKING:
    from mm2.app.looks import sides
    from mm2.app.offsets import rebuilding
    from mm2.connectors.share import flow_ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """In which way logs are compared, as it was asked on the command line."""

    engine: engine_settings.EngineSettings
    timeout_s: float
    memory_gb: float
    all_differ: bool


@click.command("rebuild")
@click.option("--topic", "topics", multiple=True, metavar="T", help="Only this; repeatable.")
@click.option("--flow", metavar="FLOW", help="Of this flow.  [default: the only one of the file]")
@config_file.option("Where the flow is configured.")
@click.option("--dry-run", is_flag=True, help="Compare the logs, and write nothing.")
@click.option(
    "--engine",
    type=click.Choice([engine_settings.SPARK, engine_settings.INLINE]),
    help="Where the logs are compared.  [default: as the file says]",
)
@usual.timeout(3600.0, "How long it may take.")
@click.option(
    "--all-differ",
    is_flag=True,
    help="No two records of a partition were ever alike in time, key, value and headers: more is "
    "sure then, of compacted topics above all.",
)
@click.option(
    "--memory-gb",
    type=click.FloatRange(min=0, min_open=True),
    default=4.0,
    show_default=True,
    metavar="GB",
    help="What all processes that compare may take together; up to eight share it.",
)
@usual.as_json
def command(
    *,
    topics: tuple[str, ...],
    flow: str | None,
    file: pathlib.Path,
    dry_run: bool,
    engine: str | None,
    as_json: bool,
    **comparing: Any,
) -> int:
    """Make the map of offsets anew where it is lost, or before where it begins.

    Both logs are read and compared, record by record. Where nothing is known of a partition that
    was copied, the flow has to be stopped, and goes on from there when it is started again. What
    MirrorMaker 2 of Java had copied before a take-over is added while the flow runs. What cannot be
    told apart gets a bound, never a guess.

    \b
    Examples:
      mm2 offsets rebuild
      mm2 offsets rebuild --flow 'east->west' --topic orders --dry-run
      mm2 offsets rebuild --engine inline --json
    """
    settings = load.load(file, environment=os.environ)
    chosen = flow_names.find_or_only(settings, flow, hint="--flow")
    spark = settings.spark
    if engine is not None:
        spark = dataclasses.replace(spark, engine=engine)
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import connections, noise
    from mm2.app.looks import sides
    from mm2.app.offsets import rebuilding, show_rebuilt

    clock = system_clock.SystemClock()
    with (
        noise.to_file(),
        sides.Sides(settings, chosen, purpose="rebuild", clock=clock) as both,
    ):
        client_id = f"mm2-{chosen.name}-rebuild"
        ledger = connections.ledger(settings, chosen, client_id=client_id, clock=clock)
        how = How(**comparing, engine=spark)
        tools = _tools(settings, both, ledger, how=how, quiet=as_json)
        run = rebuilding.Rebuilding(tools, writes=not dry_run)
        try:
            run.run(topics)
        finally:
            ledger.close(1.0)
    found = list(run.found.values())
    if as_json:
        click.echo(json.dumps(show_rebuilt.as_json(chosen.name, found), indent=2))
    else:
        for line in show_rebuilt.lines(found):
            terminal.print_line(line)
    return exits.DONE if all(each.is_well for each in found) else exits.FAILED


def _tools(
    settings: app_settings.Settings,
    both: sides.Sides,
    ledger: flow_ledger.FlowLedger,
    *,
    how: How,
    quiet: bool,
) -> rebuilding.Tools:
    from mm2.app import connections
    from mm2.app.looks import mirrors
    from mm2.app.offsets import linking, rebuilding
    from mm2.core.copy import messages, record_transforms
    from mm2.pipeline import single_questions

    clock, flow = system_clock.SystemClock(), both.flow
    clients = settings.clients_of(flow)
    client_id = f"mm2-{flow.name}-rebuild"
    plan = linking.plan(settings, flow)
    wire = connections.wire_settings(clients.producer, flow.target, client_id=client_id)
    reaching = messages.Configure(
        flow=flow.name,
        task=0,
        owner=b"",
        source=connections.copy_access(clients.consumer, flow.source, client_id=client_id),
        target=connections.copy_access(clients.producer, flow.target, client_id=client_id),
        partitions=(),
        budget_bytes=0,
        transforms=record_transforms.settings(plan.source),
    )
    return rebuilding.Tools(
        both=both,
        ledger=ledger,
        questions=lambda: single_questions.SingleQuestions(
            wire, clock=clock, random=random.SystemRandom()
        ),
        reaching=reaching,
        worker_props=plan.worker_props,
        engine=how.engine,
        opposite=lambda: mirrors.read_map(both.source, flow.target, rebuilding.LOOK_S),
        clock=clock,
        pause=threading.Event().wait,
        tell=lambda line: terminal.print_line(line, err=True) if not quiet else None,
        timeout_s=how.timeout_s,
        memory_bytes=int(how.memory_gb * 10**9),
        all_differ=how.all_differ,
    )
