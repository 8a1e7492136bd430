"""`mm2 incidents`: lists incident records (losses, skips, duplicates) and operators' actions.

The records are stored on each flow's target cluster. The flows need not be running.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.system.supervised_threads import ThreadPool
from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes, text_format
from mm2.cli import flow_reports, terminal_output
from mm2.cli.flow_reports import ReportQuery
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind, OffsetRange
from mm2.topics.flow_config import Flow

if TYPE_CHECKING:
    from mm2.clusters.incident_log import UnreadableIncident
    from mm2.config.mm2_settings import Mm2Settings


JSON_VERSION = 1
_KIND_NAMES = [each.value for each in IncidentKind]
_OPERATOR_ACTION = IncidentKind.OPERATOR_ACTION
_COLUMNS = ("AT", "FLOW", "TOPIC", "PARTITION", "KIND", "SOURCE", "MIRROR", "DETAIL")
_TIMEOUT_SLACK_S = 2.0
"""Extra time after the deadline, in seconds, in which a client may report its timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentQueryResult:
    """Incidents of a flow, read from its target cluster."""

    flow: Flow
    incidents: Sequence[Incident] = ()
    unreadable: Sequence[UnreadableIncident] = ()
    """Incident records that this release cannot decode."""
    error: ConnectError | None = None
    """Reason why the target cluster could not be read; None if it was read."""


@click.command("incidents")
@flow_reports.cluster_query_options(timeout_s=10.0)
@click.option("--topic", metavar="TOPIC", help="Only this source topic.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(_KIND_NAMES),
    metavar="KIND",
    help=f"Only incidents of this kind; repeatable: {', '.join(_KIND_NAMES)}.",
)
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit with 1 if any incident or unreadable record is listed. "
    f"{_OPERATOR_ACTION.value} counts only if --kind selects it.",
)
def incidents_command(
    *,
    query: ReportQuery,
    topic: str | None,
    kinds: tuple[str, ...],
    exit_code: bool,
) -> int:
    """List the incidents of all flows, oldest first.

    An incident is a durable record, stored on the target cluster, of data that was lost or skipped
    or may be duplicated. SOURCE and MIRROR are the affected offset ranges [from,to).

    Incidents of kind operator-action record who paused, resumed, stopped, restarted, throttled,
    reloaded or reconfigured a flow or topic. Only the latest of each such action is kept.

    A record that this release cannot read is listed as "unreadable", regardless of --topic
    and --kind, because it may report a loss. A newer release may be able to read it.

    The flows need not run: all targets are read in parallel. A target that cannot be read is
    reported on stderr.

    \b
    Examples:
      mm2 incidents
      mm2 incidents --topic orders --kind source-gone
      mm2 incidents --kind operator-action
      mm2 incidents --json --exit-code
    """
    settings, wanted = flow_reports.load_selected_flows(query)
    # Imported here so that invalid input is reported before Kafka's client library is loaded.
    from mm2.cli import library_log_redirection

    with library_log_redirection.redirect_library_logs():
        answers = _read_all_incidents(settings, wanted, timeout_s=query.timeout_s)
    found = sorted(
        (
            (each.flow.name, one)
            for each in answers
            for one in each.incidents
            if (topic is None or one.topic == topic) and (not kinds or one.kind.value in kinds)
        ),
        key=lambda each: each[1].at_ms,
    )
    if query.as_json:
        _print_incidents_json(found, answers)
    else:
        _print_incident_table(found, answers)
    for each in answers:
        if each.error is not None:
            where = f"the incidents of {each.flow.name} on {each.flow.target}"
            reason = str(each.error).removeprefix(f"{each.flow.target}: ")
            terminal_output.print_line(f"mm2: cannot read {where}: {reason}", err=True)
    counted = any(each.unreadable for each in answers) or any(
        one.kind is not _OPERATOR_ACTION or _OPERATOR_ACTION.value in kinds for _, one in found
    )
    of_found = exit_codes.FAILED if counted and exit_code else exit_codes.DONE
    return exit_codes.combine_exit_codes(
        [of_found if each.error is None else exit_codes.UNREACHABLE for each in answers]
    )


def _read_all_incidents(
    settings: Mm2Settings, wanted: Sequence[Flow], *, timeout_s: float
) -> list[IncidentQueryResult]:
    """Read the incidents from all targets in parallel within `timeout_s`. At most half of this time
    is spent waiting for the targets to respond."""
    from mm2.clusters import flow_kafka_clients, incident_log, reachability_probe
    from mm2.clusters.flow_cluster_pair import FlowPair

    clock = SystemClock()

    def read_flow_incidents(flow: Flow) -> IncidentQueryResult:
        try:
            reachability_probe.require_reachable_clusters(
                [flow_kafka_clients.build_target_admin_connection_settings(settings, flow)],
                timeout_s=timeout_s / 2,
                print_line=lambda line: terminal_output.print_line(line, err=True),
                clock=clock,
            )
            with FlowPair(settings, flow, purpose="incidents", clock=clock) as both:
                found = incident_log.read_incidents(both.target, flow.source, timeout_s=timeout_s)
        except ConnectError as error:
            return IncidentQueryResult(flow=flow, error=error)
        return IncidentQueryResult(
            flow=flow, incidents=found.incidents, unreadable=found.unreadable
        )

    threads = ThreadPool("incidents", threads_max=len(wanted), waiting_max=len(wanted))
    calls = [
        (flow, threads.submit(functools.partial(read_flow_incidents, flow))) for flow in wanted
    ]
    futures.wait([call for _, call in calls], timeout=timeout_s + _TIMEOUT_SLACK_S)
    late = RetriableError(f"no response within {timeout_s:g} s")
    return [
        call.result() if call.done() else IncidentQueryResult(flow=flow, error=late)
        for flow, call in calls
    ]


def _print_incident_table(
    found: Sequence[tuple[str, Incident]], answers: Sequence[IncidentQueryResult]
) -> None:
    read = [each.flow.name for each in answers if each.error is None]
    rows = [_format_incident_row(name, one) for name, one in found]
    rows += [
        _format_unreadable_row(each.flow.name, one) for each in answers for one in each.unreadable
    ]
    if rows:
        for line in text_format.format_columns(_COLUMNS, rows):
            terminal_output.print_line(line)
    elif len(read) == len(answers):
        terminal_output.print_line("no incidents")
    elif read:
        terminal_output.print_line(f"no incidents of {', '.join(read)}")


def _print_incidents_json(
    found: Sequence[tuple[str, Incident]], answers: Sequence[IncidentQueryResult]
) -> None:
    failed = [
        {"flow": each.flow.name, "cluster": each.flow.target, "error": str(each.error)}
        for each in answers
        if each.error is not None
    ]
    told = [_incident_as_json(name, one) for name, one in found]
    unreadable = [
        {
            "flow": each.flow.name,
            "cluster": each.flow.target,
            "topic": one.topic,
            "offset": one.offset,
            "error": one.reason,
        }
        for each in answers
        for one in each.unreadable
    ]
    whole = {
        "version": JSON_VERSION,
        "incidents": told,
        "unreadable": unreadable,
        "errors": failed,
    }
    click.echo(json.dumps(whole, indent=2))


def _format_incident_row(flow: str, one: Incident) -> tuple[str, ...]:

    return (
        text_format.format_time(one.at_ms),
        flow,
        one.topic or "-",
        "-" if one.partition == incident_records.NO_PARTITION else str(one.partition),
        one.kind.value,
        _format_offset_range(one.source),
        _format_offset_range(one.target),
        one.detail,
    )


def _format_unreadable_row(flow: str, one: UnreadableIncident) -> tuple[str, ...]:
    where = f"offset {one.offset} of {one.topic}: {one.reason}"
    return ("-", flow, "-", "-", "unreadable", "-", "-", where)


def _format_offset_range(offsets: OffsetRange | None) -> str:
    return "-" if offsets is None else f"[{offsets[0]},{offsets[1]})"


def _incident_as_json(flow: str, one: Incident) -> dict[str, Any]:
    return {
        "flow": flow,
        "topic": one.topic or None,
        "partition": None if one.partition == incident_records.NO_PARTITION else one.partition,
        "kind": one.kind.value,
        "source": one.source,
        "target": one.target,
        "at_ms": one.at_ms,
        "detail": one.detail,
        "id": one.id,
    }
