"""What `mm2 failover` and `mm2 failback` have in common: options, the plan, and doing it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from connect_runtime.base import amounts, errors
from connect_runtime.system import clock as system_clock
from mm2.app import exits, terminal
from mm2.app.cli import config_file, flow_names, usual
from mm2.app.settings import load

if TYPE_CHECKING:
    from mm2.app.failover import equipment, journal_file
    from mm2.app.settings import settings as app_settings
    from mm2.core.failover import orders, plan

F = TypeVar("F", bound=Callable[..., Any])

SETTLE_LEAST_S = 0.5
_SECURITY = ("bootstrap.servers", "security.protocol", "sasl.", "ssl.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for on the command line."""

    origin: str
    destination: str
    groups: tuple[str, ...]
    accepted: tuple[str, ...]
    sets_back: bool
    execute: bool
    journal: pathlib.Path | None
    goes_on: bool
    settle_s: float
    wait_s: float
    look_s: float
    file: pathlib.Path
    as_json: bool
    planned: bool = False
    lost: bool = False
    back: bool = False
    export: pathlib.Path | None = None
    yes: bool = False

    @property
    def verb(self) -> str:
        return "failback" if self.back else "failover"

    def check(self) -> None:
        """Raises `UsageError` for what does not go together."""
        if self.execute and self.goes_on:
            raise click.UsageError("--execute begins a move, --resume goes on with one: say either")
        if self.goes_on and self.journal is None:
            raise click.UsageError("--resume goes on with a journal: name it with --journal")
        if self.planned and self.lost:
            raise click.UsageError("--planned needs the cluster that --origin-lost gives up")
        from mm2.core.failover import codes

        if unknown := codes.mistaken(self.accepted):
            raise click.UsageError(
                f"--accept {unknown[0]}: no finding has this code; a plan prints the code of each "
                f"finding behind it, in brackets: one of {', '.join(sorted(codes.ALL))}"
            )


def options(command: F) -> F:
    """All that both commands take."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--from",
        "origin",
        required=True,
        metavar="ALIAS",
        help="The cluster that is left: where applications work now.",
    ),
    click.option("--to", "destination", required=True, metavar="ALIAS", help="The one they go to."),
    click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="G",
        help="Move this consumer group alone; repeatable.  [default: all that read what the flow "
        "mirrors]",
    ),
    click.option(
        "--accept",
        "accepted",
        multiple=True,
        metavar="CODE[:GROUP]",
        help="Go although this was found: its code, as the plan has it in brackets, of all groups "
        "or of one; repeatable.",
    ),
    click.option(
        "--set-back",
        "sets_back",
        is_flag=True,
        help="Also move groups back that have got further there: they read again.",
    ),
    click.option(
        "--execute",
        is_flag=True,
        help="Execute the plan if the verdict is GO. On a terminal you confirm by typing the name "
        "of the flow; scripts are not prompted.",
    ),
    click.option(
        "--yes", "-y", is_flag=True, help="Do not ask for confirmation, also on a terminal."
    ),
    click.option(
        "--journal",
        type=click.Path(path_type=pathlib.Path, dir_okay=False),
        help="Where to note what was done.  [default: a new file here, named after the move and "
        "the time]",
    ),
    click.option(
        "--resume",
        "goes_on",
        is_flag=True,
        help="Go on with the move that --journal FILE has begun. It was confirmed then, and is not "
        "asked about again.",
    ),
    usual.seconds(
        "--settle",
        "settle_s",
        60.0,
        text="How long both clusters have to hold the same before a planned move stops the flow.",
        allowed=click.FloatRange(min=SETTLE_LEAST_S),
    ),
    usual.seconds(
        "--wait",
        "wait_s",
        600.0,
        text="How long a step may wait for others before it fails: for groups to have no members, "
        "for all to be copied, for brokers to answer.",
        allowed=click.FloatRange(min=0),
    ),
    usual.seconds(
        "--look",
        "look_s",
        60.0,
        text="How long a look at both clusters may last. One that is left and has not answered "
        "for a sixth of it, 10 s at least, is taken for lost.",
        allowed=click.FloatRange(min=1),
    ),
    config_file.option("Where the flow is configured."),
    click.option("--json", "as_json", is_flag=True, help="Print the plan, or the report, as JSON."),
)


def run(order: Order) -> int:
    """The exit code: 0 for a verdict of GO, also at a cost, and when the move was done; 1 for a
    NO-GO."""
    order.check()
    settings = load.load(order.file, environment=os.environ)
    flow = flow_names.find(settings, f"{order.origin}->{order.destination}", hint="--from, --to")
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import cluster_wait, connections, noise
    from mm2.app.failover import equipment
    from mm2.app.looks import sides

    clock = system_clock.SystemClock()
    if not order.goes_on:  # without the cluster that applications move to there is no plan
        cluster_wait.require(
            [connections.target_access(settings, flow)],
            timeout_s=order.look_s,
            tell=lambda line: terminal.print_line(line, err=True),
            clock=clock,
        )
    with (
        noise.to_file(),
        sides.Sides(settings, flow, purpose=order.verb, clock=clock) as both,
    ):
        found = equipment.Equipment(
            settings=settings,
            both=both,
            clock=clock,
            patience=equipment.Patience(
                settle_s=order.settle_s, wait_s=order.wait_s, look_s=order.look_s
            ),
            lost=order.lost,
            tell=lambda line: terminal.print_line(line, err=True),
        )
        return _go_on(order, found) if order.goes_on else begin(order, found)


def begin(order: Order, found: equipment.Equipment) -> int:
    """The plan comes first, also where it is done: of a no-go no journal is left."""
    from mm2.core.failover import journal, verdicts

    wanted = _wanted(order)
    path = order.journal or _default_path(order, found.clock.wall_ms())
    planned, clusters = _plan(found, wanted, path)
    no_go = planned.verdict is verdicts.Verdict.NO_GO
    if no_go or not order.execute:
        export = "" if order.execute or _no_export(planned) else wanted.export
        _tell_plan(order, planned, found, export=export)
        if not order.as_json:
            click.echo()
            terminal.print_lines(_nothing_done(order, planned, no_go=no_go, exported=bool(export)))
        return exits.FAILED if no_go else exits.DONE
    for line in _lines(planned, found.settings):
        terminal.print_line(line, err=order.as_json)  # what programs read is the report
    if not order.yes and not _is_confirmed(order, planned):
        terminal.print_line(
            "not confirmed: this is not the name of the flow; nothing was changed", err=True
        )
        return exits.FAILED
    hooks = tuple(sorted(found.settings.hooks))
    begun = journal.Begun(wanted=wanted, flow=found.both.flow.name, hooks=hooks, clusters=clusters)
    begin = journal.begun(begun, at_ms=found.clock.wall_ms())
    return _move(order, found, path, begin=begin, planned=planned)


def _is_confirmed(order: Order, planned: plan.Plan) -> bool:
    """Asked of people alone: scripts have no terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    moved = sum(bool(each.write) for each in planned.groups)
    said = click.prompt(
        f"\nThis stops the flow {planned.flow} and moves "
        f"{amounts.counted(moved, 'consumer group')} to {order.destination}.\n"
        f"Type {planned.flow} to confirm",
        default="",
        show_default=False,
        err=order.as_json,
    )
    return str(said).strip() == planned.flow


def _nothing_done(order: Order, planned: plan.Plan, *, no_go: bool, exported: bool) -> str:
    """The last line of a plan: the way on. What was `exported` is not exported once more."""
    wanted = dataclasses.replace(planned.wanted, export="") if exported else planned.wanted
    if no_go:
        return (
            "nothing was changed. Mend what forbids it, or accept it by its code, and it counts as "
            "a cost: --accept CODE"
        )
    lost = ("--origin-lost",) if order.lost else ()
    said = f"nothing was changed. To do it: {wanted.to_do_it(*lost)}"
    if planned.wanted.planned or planned.silent or not planned.lag_records:
        return said
    return f"{said}\n{order.origin} answers: with --planned it is left when all is copied"


def _plan(
    found: equipment.Equipment, wanted: orders.Wanted, path: pathlib.Path
) -> tuple[plan.Plan, orders.Clusters]:
    """With what would stop its execution later; and between which clusters it is."""
    from mm2.core.failover import plan, readiness

    planned = found.planner.make(wanted)
    ready = found.beforehand().look(
        wanted,
        path,
        groups=[each.group for each in planned.groups if each.write],
        partitions=[each.partition for each in planned.mirrored if each.copied_to is not None],
        silent=bool(planned.silent),
    )
    return plan.with_more(planned, readiness.find(wanted, ready)), ready.clusters


def _go_on(order: Order, found: equipment.Equipment) -> int:
    assert order.journal is not None, "checked before"
    return _move(order, found, order.journal, begin=None)


def _move(
    order: Order,
    found: equipment.Equipment,
    path: pathlib.Path,
    *,
    begin: str | None,
    planned: plan.Plan | None = None,
) -> int:
    from mm2.app.failover import journal_file, moving

    def tell(line: str) -> None:
        terminal.print_line(line, err=order.as_json)

    tell(f"the journal is {path}")
    with journal_file.JournalFile(path, begin=begin) as file:
        if begin is None:
            now = Now(
                flow=found.both.flow.name,
                hooks=frozenset(found.settings.hooks),
                clusters=found.clusters(silent=_was_silent(file)),
            )
            check(order, file, now, now_ms=found.clock.wall_ms())
        with _a_failed_step(), contextlib.closing(found.tools(tell)) as about:
            moving.Mover(file, about, planned=planned).run()
        report = dict(file.found.details[moving.Step.REPORT])
    if order.as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        from mm2.app.failover import show_report

        for line in show_report.lines(report, file=str(order.file)):
            terminal.print_line(line)
        terminal.print_line(f"the journal is {path}")
    return exits.DONE


@contextlib.contextmanager
def _a_failed_step() -> Iterator[None]:
    """A cluster that is silent in the middle of a move ends it with FAILED: UNREACHABLE would say
    that nothing was done."""
    try:
        yield
    except errors.RetriableError as error:
        raise errors.FatalError(str(error)) from error


def _was_silent(file: journal_file.JournalFile) -> bool:
    """Did the cluster that is left not answer when the move was begun?"""
    begun = file.found.begun
    return begun is None or not begun.clusters.origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What the file and the clusters say when a move is gone on with."""

    flow: str
    hooks: frozenset[str]
    clusters: orders.Clusters


def check(order: Order, file: journal_file.JournalFile, now: Now, *, now_ms: int) -> None:
    """Against what was begun: `UsageError` for what contradicts it; more that is accepted is
    noted."""
    from mm2.core.failover import journal, orders

    begun = file.found.begun
    assert begun is not None, "the file was read"
    said = orders.contradictions(begun.wanted, _wanted(order))
    if begun.flow != now.flow:
        said.append(f"it is of the flow {begun.flow}")
    said += orders.others(begun.wanted, begun.clusters, now.clusters)
    missing = sorted(set(begun.hooks) - now.hooks)
    if missing:
        said.append(f"it has hooks that the file has no more: {', '.join(missing)}")
    if said:
        raise click.UsageError(f"{file.path} is the journal of another move: {'; '.join(said)}")
    more = set(order.accepted) - begun.wanted.accepted
    if more:
        file.append(journal.accepted(more, at_ms=now_ms))


def _wanted(order: Order) -> orders.Wanted:
    from mm2.core.failover import orders

    kind = orders.Kind.PLANNED if order.planned else orders.Kind.EMERGENCY
    return orders.Wanted(
        origin=order.origin,
        destination=order.destination,
        kind=orders.Kind.BACK if order.back else kind,
        sets_back=order.sets_back,
        accepted=frozenset(order.accepted),
        groups=frozenset(order.groups),
        export="" if order.export is None else os.path.abspath(order.export),
        file=str(order.file),
    )


def _tell_plan(
    order: Order, planned: plan.Plan, found: equipment.Equipment, *, export: str
) -> None:
    """`export`: a file that is written besides, "" for none."""
    from mm2.app.failover import show

    if order.as_json:
        hooks, properties = sorted(found.settings.hooks), _properties(planned, found.settings)
        whole = show.as_json(planned, hooks, properties)
        if export:
            whole["exported"] = {"file": export, "records": _export(found, planned)}
        click.echo(json.dumps(whole, indent=2))
        return
    for line in _lines(planned, found.settings):
        terminal.print_line(line)
    if export:
        records = amounts.counted(_export(found, planned), "record")
        terminal.print_line(
            f"{export} has what {order.destination} holds and {order.origin} never got: {records}"
        )


def _no_export(planned: plan.Plan) -> bool:
    """Is it told already that the file cannot be written?"""
    from mm2.core.failover import readiness

    return any(each.code == readiness.NO_EXPORT for each in planned.findings)


def _lines(planned: plan.Plan, settings: app_settings.Settings) -> Iterator[str]:
    from mm2.app.failover import show

    return show.lines(planned, sorted(settings.hooks), _properties(planned, settings))


def _properties(planned: plan.Plan, settings: app_settings.Settings) -> dict[str, str]:
    return client_properties(settings.clusters[planned.wanted.destination])


def _export(found: equipment.Equipment, planned: plan.Plan) -> int:
    from mm2.app.failover import exporting

    with contextlib.closing(found.tools(lambda _: None)) as about:
        return exporting.write(about, planned.wanted, move=f"{planned.flow} {planned.at_ms}")


def client_properties(cluster: app_settings.ClusterSettings) -> dict[str, str]:
    """What applications need to reach it, without secrets: not how mm2 itself works there."""
    return {
        name: value
        for name, value in cluster.properties.shown().items()
        if name.startswith(_SECURITY)
    }


def _default_path(order: Order, now_ms: int) -> pathlib.Path:
    moment = datetime.datetime.fromtimestamp(now_ms / 1000, tz=datetime.UTC)
    return pathlib.Path(
        f"{order.verb}-{order.origin}-{order.destination}-{moment:%Y%m%dT%H%M%SZ}.jsonl"
    )
