"""`mm2 status` and `mm2 lag`: health of the flows and replication lag of each topic."""

from __future__ import annotations

import json
from typing import Any

import click

from mm2 import exit_codes
from mm2.cli import flow_reports, terminal_output
from mm2.cli.flow_reports import ReportQuery


@click.command("status")
@flow_reports.report_query_options
def status_command(*, query: ReportQuery) -> int:
    """Show the status of the flows of FILE (default: clusters.yaml).

    For each flow: state, health and its reasons, the nodes that run it, topics with their lag,
    halted partitions with the command that resolves each, topics at risk of data loss by retention,
    warnings and recent errors.

    The process on this machine that runs FILE reports the status. If there is none, or it does not
    run all tasks of a flow, the status is read from the clusters: the flow's offset map and Connect
    group on the target, the log end offsets on the source.

    \b
    Examples:
      mm2 status
      watch mm2 status clusters.yaml --flow 'east->west'
      mm2 status --clusters --json
    """
    found = flow_reports.collect_flow_reports(query)
    from mm2.status import replication_health, status_document, status_tables

    within_s = found.within_s
    if query.as_json:
        flows = [
            status_document.report_to_json(each)
            | replication_health.health_to_json(each, within_s=within_s)
            for each in found.flows
        ]
        told = {
            "version": status_document.STATUS_JSON_VERSION,
            "flows": flows,
            "notes": list(found.notes),
        }
        click.echo(json.dumps(told, indent=2))
    else:
        for line in status_tables.render_status(found):
            terminal_output.print_line(line)
    return replication_health.find_exit_code(found.flows, within_s=within_s)


@click.command("lag")
@flow_reports.report_query_options
@click.option("--topic", metavar="TOPIC", help="Only this source topic or mirror topic.")
@click.option("--partitions", is_flag=True, help="Also show each partition.")
@click.option(
    "--max-records",
    type=click.IntRange(min=0),
    metavar="N",
    help="Exit with 1 if the lag of a flow exceeds N records.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0),
    metavar="S",
    help="Exit with 1 if the lag of a flow exceeds S seconds.",
)
def lag_command(
    *,
    query: ReportQuery,
    topic: str | None,
    partitions: bool,
    max_records: int | None,
    max_seconds: float | None,
) -> int:
    """Show the replication lag of each topic of FILE (default: clusters.yaml).

    LAG is the source's last stable offset minus the next offset to replicate: an upper bound if
    the log has gaps. LAG-TIME is the age of the oldest unreplicated record, 0 if there is none.
    TIME-TO-LOSS is the time until retention deletes that record, if replication makes no progress.
    `>` marks a sum that omits partitions with unknown lag. As in mm2 status, the lag is read from
    the process on this machine that runs FILE, otherwise from the clusters.

    \b
    Examples:
      mm2 lag
      mm2 lag clusters.yaml --topic orders --partitions
      mm2 lag --max-seconds 60 --json
    """
    found = flow_reports.collect_flow_reports(query)
    from mm2.status import status_document, status_tables

    if topic is not None:
        found = status_tables.select_topic_partitions(found, topic)
        if not any(each.partitions for each in found.flows):
            raise click.BadParameter(f"no flow replicates {topic!r}", param_hint="--topic")
    if query.as_json:
        told = {
            "version": status_document.STATUS_JSON_VERSION,
            "flows": [_flow_lag_as_json(each) for each in found.flows],
            "notes": list(found.notes),
        }
        click.echo(json.dumps(told, indent=2))
    else:
        for line in status_tables.render_lag(found, partitions=partitions or topic is not None):
            terminal_output.print_line(line)
    return exit_codes.combine_exit_codes(
        [
            _choose_lag_exit_code(each, max_records=max_records, max_seconds=max_seconds)
            for each in found.flows
        ]
    )


def _flow_lag_as_json(report: Any) -> dict[str, Any]:
    from mm2.status import status_document

    whole = status_document.report_to_json(report)
    of_flow = status_document.sum_lag(report.partitions, report.at_ms)
    names = ("flow", "seen_by", "at_ms", "state")
    topics = []
    for name, parts in status_document.group_partitions_by_topic(report.partitions).items():
        of_all = status_document.sum_lag(parts, report.at_ms)
        topics.append(
            {"topic": name, "mirror": parts[0].mirror, **status_document.lag_to_json(of_all)}
        )
    return {
        **{name: whole[name] for name in names},
        **status_document.lag_to_json(of_flow),
        "topics": topics,
        "partitions": whole["partitions"],
    }


def _choose_lag_exit_code(
    report: Any, *, max_records: int | None, max_seconds: float | None
) -> int:
    """Return the exit code for the lag of a flow.

    An unreachable cluster counts as a problem, not as unknown lag, because nothing is replicated
    while the cluster is unreachable.
    """
    from mm2.status import status_document
    from mm2.status.status_document import ReportedFlowState

    if report.state is ReportedFlowState.UNKNOWN:
        return exit_codes.UNREACHABLE
    if any(not each.broker for each in report.unreachable):
        return exit_codes.FAILED
    if not report.partitions or report.partitions_on_other_nodes:
        return exit_codes.UNKNOWN
    found = status_document.sum_lag(report.partitions, report.at_ms)
    records, ms = found.records or 0, found.ms or 0
    if max_records is not None and records > max_records:
        return exit_codes.FAILED
    if max_seconds is not None and ms > max_seconds * 1000:
        return exit_codes.FAILED
    known = found.complete and (found.age_complete or max_seconds is None)
    return exit_codes.DONE if known else exit_codes.UNKNOWN
