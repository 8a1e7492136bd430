"""`mm2 failover` and `mm2 failback`: plan and execute moving consumer groups to the other cluster.

Without `--execute`, the plan is printed and nothing changes. The exit code is 0 after a completed
failover or failback, and for the verdicts GO and GO, AT A COST. It is 1 for NO-GO.
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
from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes
from mm2.cli import options, terminal_output
from mm2.config import config_loader

if TYPE_CHECKING:
    from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
    from mm2.failover.failover_components import FailoverComponentFactory
    from mm2.failover.failover_journal_file import JournalFile
    from mm2.failover.failover_plan import FailoverPlan
    from mm2.failover.failover_request import ClusterIds, FailoverRequest


F = TypeVar("F", bound=Callable[..., Any])

MIN_QUIESCENCE_S = 0.5
_APPLICATION_PROPERTIES = ("bootstrap.servers", "security.protocol", "sasl.", "ssl.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """Command-line options of `mm2 failover` and `mm2 failback`."""

    origin: str
    destination: str
    groups: tuple[str, ...]
    """Consumer groups to move; empty to move all groups."""
    accepted: tuple[str, ...]
    """Codes of findings (problems in the plan) that the user accepted. Accepted findings do not
    block the execution of the plan."""
    rewind: bool
    execute: bool
    journal: pathlib.Path | None
    resume: bool
    quiescence_s: float
    wait_s: float
    snapshot_timeout_s: float
    file: pathlib.Path
    as_json: bool
    planned: bool = False
    origin_lost: bool = False
    is_failback: bool = False
    export: pathlib.Path | None = None
    yes: bool = False

    @property
    def command_name(self) -> str:
        return "failback" if self.is_failback else "failover"

    def validate(self) -> None:
        """Raise `UsageError` if options contradict each other or a finding code is unknown."""
        if self.execute and self.resume:
            raise click.UsageError(
                "--execute starts a new failover or failback, --resume continues an earlier one: "
                "use only one"
            )
        if self.resume and self.journal is None:
            raise click.UsageError(
                "--resume needs the journal of the failover or failback to continue: "
                "add --journal FILE"
            )
        if self.planned and self.origin_lost:
            raise click.UsageError(
                "--planned needs the origin cluster, but --origin-lost does not contact it: "
                "use only one"
            )
        from mm2.failover import plan_findings

        if unknown := plan_findings.find_unknown_codes(self.accepted):
            raise click.UsageError(
                f"--accept {unknown[0]}: unknown finding code. The plan prints the code of each "
                f"finding in brackets. Known codes: {', '.join(sorted(plan_findings.ALL_CODES))}"
            )


def add_failover_options(command: F) -> F:
    """Add the options that `failover` and `failback` share."""
    for option in reversed(_MOVE_OPTIONS):
        command = option(command)
    return command


_MOVE_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--from",
        "origin",
        required=True,
        metavar="ALIAS",
        help="Origin: the cluster that applications use now.",
    ),
    click.option(
        "--to",
        "destination",
        required=True,
        metavar="ALIAS",
        help="Destination: the cluster that applications will use.",
    ),
    click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="G",
        help="Move only this consumer group; repeatable.  [default: all groups that consume "
        "replicated topics]",
    ),
    click.option(
        "--accept",
        "accepted",
        multiple=True,
        metavar="CODE[:GROUP]",
        help=(
            "Accept the finding with this code, for all groups or for one group. The plan prints "
            "the codes in brackets. Repeatable."
        ),
    ),
    click.option(
        "--rewind",
        "rewind",
        is_flag=True,
        help=(
            "Also rewind a group that is already ahead of the translated offset on the "
            "destination: the group reprocesses records."
        ),
    ),
    click.option(
        "--execute",
        is_flag=True,
        help=(
            "Execute the plan if the verdict is GO. On a terminal you confirm by typing the "
            "flow's name; scripts are not prompted."
        ),
    ),
    click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation on a terminal."),
    click.option(
        "--journal",
        type=click.Path(path_type=pathlib.Path, dir_okay=False),
        help=(
            "Journal file that records every step.  [default: a new file in the current directory, "
            "named after the command, the clusters and the time]"
        ),
    ),
    click.option(
        "--resume",
        "resume",
        is_flag=True,
        help="Continue the interrupted failover or failback of --journal FILE, without asking for "
        "confirmation again.",
    ),
    options.seconds_option(
        "--quiescence",
        "quiescence_s",
        60.0,
        text=(
            "How long both clusters must have equal end offsets that do not change, before a "
            "planned failover or a failback stops the flow."
        ),
        allowed=click.FloatRange(min=MIN_QUIESCENCE_S),
    ),
    options.seconds_option(
        "--wait",
        "wait_s",
        600.0,
        text=(
            "How long a step may wait before it fails: for groups to have no members, for "
            "replication to catch up, for brokers to respond."
        ),
        allowed=click.FloatRange(min=0),
    ),
    options.seconds_option(
        "--snapshot-timeout",
        "snapshot_timeout_s",
        60.0,
        text=(
            "Timeout for inspecting both clusters. The origin is considered lost if it does not "
            "respond within one sixth of the timeout (at least 10 s)."
        ),
        allowed=click.FloatRange(min=1),
    ),
    options.config_option("Configuration file that defines the flow."),
    click.option("--json", "as_json", is_flag=True, help="Print the plan, or the report, as JSON."),
)


def run_failover(order: FailoverOptions) -> int:
    """Plan, execute or resume a failover or failback of consumer groups, and return the exit code.

    The exit code is 0 if the failover or failback completed, or if the verdict is GO or GO, AT A
    COST. It is 1 for NO-GO.
    """
    order.validate()
    settings = config_loader.load_config_file(order.file, environment=os.environ)
    flow = options.find_flow(settings, f"{order.origin}->{order.destination}", hint="--from, --to")
    # Imported here so that invalid input is reported before Kafka's client library is loaded.
    from mm2.cli import library_log_redirection
    from mm2.clusters import flow_kafka_clients, reachability_probe
    from mm2.clusters.flow_cluster_pair import FlowPair
    from mm2.failover.failover_components import FailoverComponentFactory, FailoverTimeouts

    clock = SystemClock()
    if not order.resume:  # a plan needs the destination cluster
        reachability_probe.require_reachable_clusters(
            [flow_kafka_clients.build_target_admin_connection_settings(settings, flow)],
            timeout_s=order.snapshot_timeout_s,
            print_line=lambda line: terminal_output.print_line(line, err=True),
            clock=clock,
        )
    with (
        library_log_redirection.redirect_library_logs(),
        FlowPair(settings, flow, purpose=order.command_name, clock=clock) as both,
    ):
        found = FailoverComponentFactory(
            settings=settings,
            pair=both,
            clock=clock,
            timeouts=FailoverTimeouts(
                quiescence_s=order.quiescence_s,
                wait_s=order.wait_s,
                snapshot_s=order.snapshot_timeout_s,
            ),
            lost=order.origin_lost,
            report_progress=lambda line: terminal_output.print_line(line, err=True),
        )
        return (
            _resume_failover(order, found)
            if order.resume
            else plan_and_execute_failover(order, found)
        )


def plan_and_execute_failover(order: FailoverOptions, found: FailoverComponentFactory) -> int:
    """Print the plan of a failover or failback. With `--execute` and a verdict other than NO-GO,
    ask for confirmation and execute the plan.

    The journal is created only after the confirmation.
    """
    from mm2.failover import failover_journal
    from mm2.failover.failover_journal import FailoverIdentity
    from mm2.failover.plan_findings import PlanVerdict

    wanted = _build_failover_request(order)
    path = order.journal or _build_default_journal_path(order, found.clock.wall_ms())
    planned, clusters = _plan_failover(found, wanted, path)
    no_go = planned.verdict is PlanVerdict.NO_GO
    if no_go or not order.execute:
        export = "" if order.execute or _has_export_problem(planned) else wanted.export
        _print_plan(order, planned, found, export=export)
        if not order.as_json:
            click.echo()
            terminal_output.print_lines(
                _describe_next_step(order, planned, no_go=no_go, exported=bool(export))
            )
        return exit_codes.FAILED if no_go else exit_codes.DONE
    for line in _format_plan(planned, found.settings):
        terminal_output.print_line(line, err=order.as_json)  # what programs read is the report
    if not order.yes and not _confirm_with_flow_name(order, planned):
        terminal_output.print_line(
            "not confirmed: the text does not match the flow's name; nothing was changed",
            err=True,
        )
        return exit_codes.FAILED
    hooks = tuple(sorted(found.settings.hooks))
    begun = FailoverIdentity(
        request=wanted, flow=found.pair.flow.name, hooks=hooks, clusters=clusters
    )
    begin = failover_journal.encode_begun_entry(begun, at_ms=found.clock.wall_ms())
    return _execute_failover(order, found, path, begin=begin, planned=planned)


def _confirm_with_flow_name(order: FailoverOptions, planned: FailoverPlan) -> bool:
    """Ask the user to type the flow's name, and return True if it matches. Without a terminal,
    return True without a prompt."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    moved = sum(bool(each.offsets_to_write) for each in planned.groups)
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
    order: FailoverOptions, planned: FailoverPlan, *, no_go: bool, exported: bool
) -> str:
    """Return the last line of a printed plan: the command to run next.

    The command omits `--export` if the file was already written (`exported`).
    """
    wanted = dataclasses.replace(planned.request, export="") if exported else planned.request
    if no_go:
        return (
            "nothing was changed. Fix the blocking findings, or accept each finding as a cost "
            "with --accept CODE"
        )
    lost_option = ("--origin-lost",) if order.origin_lost else ()
    said = f"nothing was changed. To execute the plan: {wanted.build_execute_command(*lost_option)}"
    if planned.request.is_planned or planned.origin_error or not planned.lag_records:
        return said
    return (
        f"{said}\n{order.origin} is reachable: with --planned, the failover waits until all "
        "records are replicated"
    )


def _plan_failover(
    found: FailoverComponentFactory, wanted: FailoverRequest, path: pathlib.Path
) -> tuple[FailoverPlan, ClusterIds]:
    """Build the plan of a failover or failback, with findings: problems that block its execution,
    and warnings. Return the plan and the ids of both clusters."""
    from mm2.failover import failover_plan, readiness

    planned = found.planner.build_plan(wanted)
    ready = found.build_readiness_checks().collect_readiness(
        wanted,
        path,
        groups=[each.group for each in planned.groups if each.offsets_to_write],
        partitions=[each.partition for each in planned.mirrored if each.copied_to is not None],
        silent=bool(planned.origin_error),
    )
    return failover_plan.add_findings(
        planned, readiness.check_readiness(wanted, ready)
    ), ready.clusters


def _resume_failover(order: FailoverOptions, found: FailoverComponentFactory) -> int:
    assert order.journal is not None, "checked before"
    return _execute_failover(order, found, order.journal, begin=None)


def _execute_failover(
    order: FailoverOptions,
    found: FailoverComponentFactory,
    path: pathlib.Path,
    *,
    begin: str | None,
    planned: FailoverPlan | None = None,
) -> int:
    from mm2.failover.failover_executor import FailoverExecutor
    from mm2.failover.failover_journal_file import JournalFile
    from mm2.failover.failover_steps import FailoverStep

    def print_progress(line: str) -> None:
        terminal_output.print_line(line, err=order.as_json)

    print_progress(f"journal: {path}")
    with JournalFile(path, begin=begin) as file:
        if begin is None:
            now = ResumedFailoverSettings(
                flow=found.pair.flow.name,
                hooks=frozenset(found.settings.hooks),
                clusters=found.fetch_cluster_ids(silent=_was_origin_unreachable(file)),
            )
            check_journal_matches_failover(order, file, now, now_ms=found.clock.wall_ms())
        with (
            _convert_retriable_errors(),
            contextlib.closing(found.build_context(print_progress)) as about,
        ):
            FailoverExecutor(file, about, plan=planned).run_remaining_steps()
        report = dict(file.journal.details[FailoverStep.REPORT])
    if order.as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        from mm2.failover import failover_report

        for line in failover_report.format_report(report, file=str(order.file)):
            terminal_output.print_line(line)
        terminal_output.print_line(f"journal: {path}")
    return exit_codes.DONE


@contextlib.contextmanager
def _convert_retriable_errors() -> Iterator[None]:
    """Convert `RetriableError` to `FatalError` inside a `with` block.

    If a cluster becomes unreachable while a plan is executed, the exit code is therefore FAILED.
    The exit code UNREACHABLE would mean that nothing was changed.
    """
    try:
        yield
    except RetriableError as error:
        raise FatalError(str(error)) from error


def _was_origin_unreachable(file: JournalFile) -> bool:
    """Return True if the origin cluster did not respond when the failover began."""
    begun = file.journal.identity
    return begun is None or not begun.clusters.origin


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedFailoverSettings:
    """Flow, hooks and cluster ids with which a failover or failback is resumed. They are compared
    with the journal."""

    flow: str
    hooks: frozenset[str]
    clusters: ClusterIds


def check_journal_matches_failover(
    order: FailoverOptions, file: JournalFile, now: ResumedFailoverSettings, *, now_ms: int
) -> None:
    """Check that the journal belongs to the failover or failback to be resumed.

    Raises `UsageError` if options, flow, hooks or cluster ids differ. Newly accepted finding codes
    are appended to the journal.
    """
    from mm2.failover import failover_journal, failover_request

    begun = file.journal.identity
    assert begun is not None, "the file was read"
    said = failover_request.describe_contradictions(begun.request, _build_failover_request(order))
    if begun.flow != now.flow:
        said.append(f"its flow is {begun.flow}")
    said += failover_request.describe_changed_clusters(begun.request, begun.clusters, now.clusters)
    missing = sorted(set(begun.hooks) - now.hooks)
    if missing:
        said.append(
            "the journal lists hooks that the configuration no longer contains: "
            f"{', '.join(missing)}"
        )
    if said:
        raise click.UsageError(
            f"{file.path} is the journal of another failover or failback: {'; '.join(said)}"
        )
    more = set(order.accepted) - begun.request.accepted
    if more:
        file.append_entry(failover_journal.encode_accepted_entry(more, at_ms=now_ms))


def _build_failover_request(order: FailoverOptions) -> FailoverRequest:
    from mm2.failover.failover_request import FailoverKind, FailoverRequest

    kind = FailoverKind.PLANNED if order.planned else FailoverKind.EMERGENCY
    return FailoverRequest(
        origin=order.origin,
        destination=order.destination,
        kind=FailoverKind.BACK if order.is_failback else kind,
        rewind=order.rewind,
        accepted=frozenset(order.accepted),
        groups=frozenset(order.groups),
        export="" if order.export is None else os.path.abspath(order.export),
        file=str(order.file),
    )


def _print_plan(
    order: FailoverOptions, planned: FailoverPlan, found: FailoverComponentFactory, *, export: str
) -> None:
    """Print the plan. If `export` is the name of a file (not empty), also write the unreplicated
    records to this file."""
    from mm2.failover import plan_output

    if order.as_json:
        hooks, properties = (
            sorted(found.settings.hooks),
            _build_destination_properties(planned, found.settings),
        )
        whole = plan_output.plan_to_json(planned, hooks, properties)
        if export:
            whole["exported"] = {
                "file": export,
                "records": _export_unreplicated_records(found, planned),
            }
        click.echo(json.dumps(whole, indent=2))
        return
    for line in _format_plan(planned, found.settings):
        terminal_output.print_line(line)
    if export:
        records = plurals.format_count(_export_unreplicated_records(found, planned), "record")
        terminal_output.print_line(
            f"exported to {export}: {records} of {order.destination} that were never replicated "
            f"to {order.origin}"
        )


def _has_export_problem(planned: FailoverPlan) -> bool:
    """Return True if a finding of the plan already reports that the export file cannot be
    written."""
    from mm2.failover import readiness

    return any(each.code == readiness.NO_EXPORT_CODE for each in planned.findings)


def _format_plan(planned: FailoverPlan, settings: Mm2Settings) -> Iterator[str]:
    from mm2.failover import plan_output

    return plan_output.format_plan(
        planned, sorted(settings.hooks), _build_destination_properties(planned, settings)
    )


def _build_destination_properties(planned: FailoverPlan, settings: Mm2Settings) -> dict[str, str]:
    return list_client_properties(settings.clusters[planned.request.destination])


def _export_unreplicated_records(found: FailoverComponentFactory, planned: FailoverPlan) -> int:
    from mm2.failover import failover_executor

    with contextlib.closing(found.build_context(lambda _: None)) as about:
        return failover_executor.export_unreplicated_records(
            about, planned.request, move=f"{planned.flow} {planned.at_ms}"
        )


def list_client_properties(cluster: ClusterSettings) -> dict[str, str]:
    """Return the connection and security properties that applications need for a cluster, without
    secrets."""
    return {
        name: value
        for name, value in cluster.properties.redact_secrets().items()
        if name.startswith(_APPLICATION_PROPERTIES)
    }


def _build_default_journal_path(order: FailoverOptions, now_ms: int) -> pathlib.Path:
    moment = datetime.datetime.fromtimestamp(now_ms / 1000, tz=datetime.UTC)
    return pathlib.Path(
        f"{order.command_name}-{order.origin}-{order.destination}-{moment:%Y%m%dT%H%M%SZ}.jsonl"
    )


@click.command("failover")
@add_failover_options
@click.option(
    "--planned",
    is_flag=True,
    help="Lose no records: wait until the groups have no members and all records are replicated. "
    "Both clusters must be up.",
)
@click.option(
    "--origin-lost",
    "origin_lost",
    is_flag=True,
    help="The origin cluster is down: do not contact it, and use the last checkpoints.",
)
def failover_command(**given: Any) -> int:
    """Plan or execute a failover of consumer groups from one cluster to the other.

    Without --execute nothing changes. The plan shows the replication lag, the offset of each
    group on the destination, how many records are lost or re-read, the steps, and a verdict: GO,
    or GO, AT A COST, or NO-GO with the findings that block the failover.

    With --execute the flow is stopped until mm2 resume and its writers are fenced; the translated
    offsets of the groups are committed on the destination and verified. You, or hooks in the
    configuration, stop and start the applications. A journal records every step: after a crash or
    a failed step, continue with --resume.

    Only consumer groups are moved. Share groups (KIP-932) and streams groups (KIP-1071) are listed,
    and the verdict is NO-GO until you --accept them.

    On a terminal, --execute asks you to type the name of the flow; --yes skips the question.
    Scripts, hooks and --resume are never prompted.

    Without --planned the failover does not wait for replication to catch up: records that exist
    only on the origin are lost.

    \b
    COMMITTED       the group's offset on the origin
    BASIS           source of COMMITTED: a commit read now, or a checkpoint and its age
    RESUMES-AT      the translated offset, where the group resumes on the destination
    CURRENT-OFFSET  the group's current offset on the destination
    RE-READS        upper bound of the records that the group re-reads; "0 to N" if the
                    basis is a checkpoint, "unknown" if there is no upper bound
    MISSING         records that the group has read and the destination lacks;
                    "unknown" or ">= N" if the basis is a checkpoint
    UNREAD          offsets (records and markers) from RESUMES-AT to the log end

    \b
    Examples:
      mm2 failover --from east --to west
      mm2 failover --from east --to west --execute
      mm2 failover --from east --to west --origin-lost --execute
      mm2 failover --from east --to west --planned --execute
      mm2 failover --from east --to west --accept group-active:billing --execute
      mm2 failover --from east --to west --resume --journal FILE
    """
    return run_failover(FailoverOptions(**given))


@click.command("failback")
@add_failover_options
@click.option(
    "--export",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    help=(
        "Before the failback, write all records of --to that were never replicated to --from, as "
        "JSON lines, to this new file. Without --execute, only this file is written."
    ),
)
def failback_command(**given: Any) -> int:
    """Plan or execute a failback of consumer groups to the cluster that mm2 failover left.

    --from is the cluster that applications use now, --to the original cluster. The flow FROM->TO
    must be configured and running: it replicates the records that were written since the failover.

    First, mm2 counts records of --to that were never replicated to --from: groups read them after
    the failback. The remaining steps are those of a planned failover: producers and consumers are
    stopped, mm2 waits until both clusters are in sync, and the groups are moved. Both clusters must
    be up. Without --execute nothing changes. For the finding codes, the columns and the
    confirmation, see mm2 failover.

    \b
    Examples:
      mm2 failback --from west --to east
      mm2 failback --from west --to east --export left.jsonl
      mm2 failback --from west --to east --execute
      mm2 failback --from west --to east --resume --journal FILE
    """
    return run_failover(FailoverOptions(**given, is_failback=True))
