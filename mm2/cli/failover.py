"""`mm2 failover` and `mm2 failback`: plan moving consumer groups to the other cluster, and do it.

Without `--execute` the plan is printed and nothing changes. The exit code is 0 for the verdict
GO, also at a cost, and after a completed move; 1 for NO-GO.
"""

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

from connect_runtime.base import plurals
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.system.clock import SystemClock
from mm2 import exit_codes
from mm2.cli import options, terminal
from mm2.config import config_loader

if TYPE_CHECKING:
    from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
    from mm2.failover.journal_file import JournalFile
    from mm2.failover.move_plan import MovePlan
    from mm2.failover.move_request import ClusterIds, MoveRequest
    from mm2.failover.wiring import MoveWiring


F = TypeVar("F", bound=Callable[..., Any])

MIN_SETTLE_S = 0.5
_APPLICATION_PROPERTIES = ("bootstrap.servers", "security.protocol", "sasl.", "ssl.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOptions:
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
        from mm2.failover import plan_findings

        if unknown := plan_findings.find_unknown_codes(self.accepted):
            raise click.UsageError(
                f"--accept {unknown[0]}: no finding has this code; a plan prints the code of each "
                "finding behind it, in brackets: one of "
                f"{', '.join(sorted(plan_findings.ALL_CODES))}"
            )


def add_move_options(command: F) -> F:
    """All that both commands take."""
    for option in reversed(_MOVE_OPTIONS):
        command = option(command)
    return command


_MOVE_OPTIONS: tuple[Callable[[Any], Any], ...] = (
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
    options.seconds_option(
        "--settle",
        "settle_s",
        60.0,
        text="How long both clusters have to hold the same before a planned move stops the flow.",
        allowed=click.FloatRange(min=MIN_SETTLE_S),
    ),
    options.seconds_option(
        "--wait",
        "wait_s",
        600.0,
        text="How long a step may wait for others before it fails: for groups to have no members, "
        "for all to be copied, for brokers to answer.",
        allowed=click.FloatRange(min=0),
    ),
    options.seconds_option(
        "--look",
        "look_s",
        60.0,
        text="How long a look at both clusters may last. One that is left and has not answered "
        "for a sixth of it, 10 s at least, is taken for lost.",
        allowed=click.FloatRange(min=1),
    ),
    options.config_option("Where the flow is configured."),
    click.option("--json", "as_json", is_flag=True, help="Print the plan, or the report, as JSON."),
)


def run_move(order: MoveOptions) -> int:
    """The exit code: 0 for a verdict of GO, also at a cost, and when the move was done; 1 for a
    NO-GO."""
    order.check()
    settings = config_loader.load(order.file, environment=os.environ)
    flow = options.find_flow(settings, f"{order.origin}->{order.destination}", hint="--from, --to")
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.cli import library_logs
    from mm2.clusters import cluster_clients, reachability_probe
    from mm2.clusters.flow_pair import FlowPair
    from mm2.failover.wiring import MoveTimeouts, MoveWiring

    clock = SystemClock()
    if not order.goes_on:  # without the cluster that applications move to there is no plan
        reachability_probe.require_clusters(
            [cluster_clients.build_target_access(settings, flow)],
            timeout_s=order.look_s,
            tell=lambda line: terminal.print_line(line, err=True),
            clock=clock,
        )
    with (
        library_logs.redirect_library_logs(),
        FlowPair(settings, flow, purpose=order.verb, clock=clock) as both,
    ):
        found = MoveWiring(
            settings=settings,
            both=both,
            clock=clock,
            patience=MoveTimeouts(
                settle_s=order.settle_s, wait_s=order.wait_s, look_s=order.look_s
            ),
            lost=order.lost,
            tell=lambda line: terminal.print_line(line, err=True),
        )
        return _resume_move(order, found) if order.goes_on else begin_move(order, found)


def begin_move(order: MoveOptions, found: MoveWiring) -> int:
    """The plan comes first, also where it is done: of a no-go no journal is left."""
    from mm2.failover import journal
    from mm2.failover.journal import MoveIdentity
    from mm2.failover.plan_findings import PlanVerdict

    wanted = _build_request(order)
    path = order.journal or _default_journal_path(order, found.clock.wall_ms())
    planned, clusters = _plan_move(found, wanted, path)
    no_go = planned.verdict is PlanVerdict.NO_GO
    if no_go or not order.execute:
        export = "" if order.execute or _has_export_problem(planned) else wanted.export
        _print_plan(order, planned, found, export=export)
        if not order.as_json:
            click.echo()
            terminal.print_lines(
                _describe_next_step(order, planned, no_go=no_go, exported=bool(export))
            )
        return exit_codes.FAILED if no_go else exit_codes.DONE
    for line in _format_plan(planned, found.settings):
        terminal.print_line(line, err=order.as_json)  # what programs read is the report
    if not order.yes and not _is_confirmed(order, planned):
        terminal.print_line(
            "not confirmed: this is not the name of the flow; nothing was changed", err=True
        )
        return exit_codes.FAILED
    hooks = tuple(sorted(found.settings.hooks))
    begun = MoveIdentity(wanted=wanted, flow=found.both.flow.name, hooks=hooks, clusters=clusters)
    begin = journal.encode_begun(begun, at_ms=found.clock.wall_ms())
    return _execute_move(order, found, path, begin=begin, planned=planned)


def _is_confirmed(order: MoveOptions, planned: MovePlan) -> bool:
    """Asked of people alone: scripts have no terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    moved = sum(bool(each.write) for each in planned.groups)
    said = click.prompt(
        f"\nThis stops the flow {planned.flow} and moves "
        f"{plurals.format_count(moved, 'consumer group')} to {order.destination}.\n"
        f"Type {planned.flow} to confirm",
        default="",
        show_default=False,
        err=order.as_json,
    )
    return str(said).strip() == planned.flow


def _describe_next_step(
    order: MoveOptions, planned: MovePlan, *, no_go: bool, exported: bool
) -> str:
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


def _plan_move(
    found: MoveWiring, wanted: MoveRequest, path: pathlib.Path
) -> tuple[MovePlan, ClusterIds]:
    """With what would stop its execution later; and between which clusters it is."""
    from mm2.failover import move_plan, readiness

    planned = found.planner.make(wanted)
    ready = found.beforehand().look(
        wanted,
        path,
        groups=[each.group for each in planned.groups if each.write],
        partitions=[each.partition for each in planned.mirrored if each.copied_to is not None],
        silent=bool(planned.silent),
    )
    return move_plan.add_findings(planned, readiness.check_readiness(wanted, ready)), ready.clusters


def _resume_move(order: MoveOptions, found: MoveWiring) -> int:
    assert order.journal is not None, "checked before"
    return _execute_move(order, found, order.journal, begin=None)


def _execute_move(
    order: MoveOptions,
    found: MoveWiring,
    path: pathlib.Path,
    *,
    begin: str | None,
    planned: MovePlan | None = None,
) -> int:
    from mm2.failover.journal_file import JournalFile
    from mm2.failover.move_executor import MoveExecutor
    from mm2.failover.move_steps import MoveStep

    def tell(line: str) -> None:
        terminal.print_line(line, err=order.as_json)

    tell(f"the journal is {path}")
    with JournalFile(path, begin=begin) as file:
        if begin is None:
            now = CurrentSetup(
                flow=found.both.flow.name,
                hooks=frozenset(found.settings.hooks),
                clusters=found.clusters(silent=_was_origin_unreachable(file)),
            )
            check_resumable(order, file, now, now_ms=found.clock.wall_ms())
        with _unreachable_as_failure(), contextlib.closing(found.tools(tell)) as about:
            MoveExecutor(file, about, planned=planned).run()
        report = dict(file.found.details[MoveStep.REPORT])
    if order.as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        from mm2.failover import move_report

        for line in move_report.format_report(report, file=str(order.file)):
            terminal.print_line(line)
        terminal.print_line(f"the journal is {path}")
    return exit_codes.DONE


@contextlib.contextmanager
def _unreachable_as_failure() -> Iterator[None]:
    """A cluster that is silent in the middle of a move ends it with FAILED: UNREACHABLE would say
    that nothing was done."""
    try:
        yield
    except RetriableError as error:
        raise FatalError(str(error)) from error


def _was_origin_unreachable(file: JournalFile) -> bool:
    """Did the cluster that is left not answer when the move was begun?"""
    begun = file.found.begun
    return begun is None or not begun.clusters.origin


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentSetup:
    """What the file and the clusters say when a move is gone on with."""

    flow: str
    hooks: frozenset[str]
    clusters: ClusterIds


def check_resumable(
    order: MoveOptions, file: JournalFile, now: CurrentSetup, *, now_ms: int
) -> None:
    """Against what was begun: `UsageError` for what contradicts it; more that is accepted is
    noted."""
    from mm2.failover import journal, move_request

    begun = file.found.begun
    assert begun is not None, "the file was read"
    said = move_request.describe_contradictions(begun.wanted, _build_request(order))
    if begun.flow != now.flow:
        said.append(f"it is of the flow {begun.flow}")
    said += move_request.describe_changed_clusters(begun.wanted, begun.clusters, now.clusters)
    missing = sorted(set(begun.hooks) - now.hooks)
    if missing:
        said.append(f"it has hooks that the file has no more: {', '.join(missing)}")
    if said:
        raise click.UsageError(f"{file.path} is the journal of another move: {'; '.join(said)}")
    more = set(order.accepted) - begun.wanted.accepted
    if more:
        file.append(journal.encode_accepted(more, at_ms=now_ms))


def _build_request(order: MoveOptions) -> MoveRequest:
    from mm2.failover.move_request import MoveKind, MoveRequest

    kind = MoveKind.PLANNED if order.planned else MoveKind.EMERGENCY
    return MoveRequest(
        origin=order.origin,
        destination=order.destination,
        kind=MoveKind.BACK if order.back else kind,
        sets_back=order.sets_back,
        accepted=frozenset(order.accepted),
        groups=frozenset(order.groups),
        export="" if order.export is None else os.path.abspath(order.export),
        file=str(order.file),
    )


def _print_plan(order: MoveOptions, planned: MovePlan, found: MoveWiring, *, export: str) -> None:
    """`export`: a file that is written besides, "" for none."""
    from mm2.failover import plan_output

    if order.as_json:
        hooks, properties = (
            sorted(found.settings.hooks),
            _destination_properties(planned, found.settings),
        )
        whole = plan_output.plan_to_json(planned, hooks, properties)
        if export:
            whole["exported"] = {"file": export, "records": _export_records(found, planned)}
        click.echo(json.dumps(whole, indent=2))
        return
    for line in _format_plan(planned, found.settings):
        terminal.print_line(line)
    if export:
        records = plurals.format_count(_export_records(found, planned), "record")
        terminal.print_line(
            f"{export} has what {order.destination} holds and {order.origin} never got: {records}"
        )


def _has_export_problem(planned: MovePlan) -> bool:
    """Is it told already that the file cannot be written?"""
    from mm2.failover import readiness

    return any(each.code == readiness.NO_EXPORT_CODE for each in planned.findings)


def _format_plan(planned: MovePlan, settings: Mm2Settings) -> Iterator[str]:
    from mm2.failover import plan_output

    return plan_output.format_plan(
        planned, sorted(settings.hooks), _destination_properties(planned, settings)
    )


def _destination_properties(planned: MovePlan, settings: Mm2Settings) -> dict[str, str]:
    return list_client_properties(settings.clusters[planned.wanted.destination])


def _export_records(found: MoveWiring, planned: MovePlan) -> int:
    from mm2.failover import move_executor

    with contextlib.closing(found.tools(lambda _: None)) as about:
        return move_executor.export_unreplicated(
            about, planned.wanted, move=f"{planned.flow} {planned.at_ms}"
        )


def list_client_properties(cluster: ClusterSettings) -> dict[str, str]:
    """What applications need to reach it, without secrets: not how mm2 itself works there."""
    return {
        name: value
        for name, value in cluster.properties.shown().items()
        if name.startswith(_APPLICATION_PROPERTIES)
    }


def _default_journal_path(order: MoveOptions, now_ms: int) -> pathlib.Path:
    moment = datetime.datetime.fromtimestamp(now_ms / 1000, tz=datetime.UTC)
    return pathlib.Path(
        f"{order.verb}-{order.origin}-{order.destination}-{moment:%Y%m%dT%H%M%SZ}.jsonl"
    )


@click.command("failover")
@add_move_options
@click.option(
    "--planned",
    is_flag=True,
    help="Both clusters serve and nothing may be lost: wait until groups have no members and all "
    "is copied.",
)
@click.option(
    "--origin-lost",
    "lost",
    is_flag=True,
    help="The cluster that is left is dead: ask it nothing, and go by the last checkpoints.",
)
def failover_command(**given: Any) -> int:
    """Say what moving consumer groups from one cluster to the other would cost now.

    Nothing is changed without --execute: it prints how far the mirror is behind, where each group
    goes on, what that costs, the steps, and a verdict: GO, also "AT A COST", or NO-GO with what
    forbids it. With --execute the flow is stopped for good and its writers are fenced, the groups'
    positions are written on the other cluster and read back. Applications are yours to stop and to
    start, or your hooks'. Every step is noted in a journal, so that --resume goes on where a crash,
    or a step that failed, has left it. Only consumer groups are moved: share groups (KIP-932) and
    streams groups (KIP-1071) are listed, and the verdict is NO-GO until --accept names them.

    On a terminal --execute asks for the name of the flow before anything is changed; --yes skips
    that, and scripts, hooks and --resume are never asked.

    Without --planned the cluster that is left counts as lost, or as good as: what it holds and the
    mirror lacks is not waited for, but counted.

    \b
    COMMITTED, GOES-ON-AT, NOW-AT  a group's offset here, its place there, where it stands there
    BASIS                          what COMMITTED is: committed now, or a checkpoint with its age
    READ-AGAIN                     records that it reads twice, at most: "0 to N" from a
                                   checkpoint on, "unknown" where no bound can be proven
    MISSING                        records that it has read and that are not there, at most;
                                   "unknown" or ">= N" from a checkpoint on
    UNREAD                         offsets from its place there to the end: records, and markers

    \b
    Examples:
      mm2 failover --from east --to west
      mm2 failover --from east --to west --execute
      mm2 failover --from east --to west --origin-lost --execute
      mm2 failover --from east --to west --planned --execute
      mm2 failover --from east --to west --accept group-active:billing --execute
      mm2 failover --from east --to west --resume --journal FILE
    """
    return run_move(MoveOptions(**given))


@click.command("failback")
@add_move_options
@click.option(
    "--export",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    help="First write the records that never left the cluster gone back to into this new file, "
    "as JSON lines. Without --execute, too, and nothing else is done then.",
)
def failback_command(**given: Any) -> int:
    """Say what going back to a cluster that was left would cost, and do it.

    --from is where applications work now, --to the cluster that was left before. The flow FROM->TO
    has to be in the file, and to run: it brings back what was written meanwhile. First the records
    are counted that the cluster gone back to holds and the other one never got: groups that go back
    read them now. Then it is a planned move: both clusters serve, producers and consumers are
    stopped, both ends agree, groups move. Nothing is changed without --execute. Codes, columns and
    the confirmation on a terminal are those of mm2 failover.

    \b
    Examples:
      mm2 failback --from west --to east
      mm2 failback --from west --to east --export left.jsonl
      mm2 failback --from west --to east --execute
      mm2 failback --from west --to east --resume --journal FILE
    """
    return run_move(MoveOptions(**given, back=True))
