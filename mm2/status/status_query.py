"""Collects the status of flows. Queries the local processes that run the configuration file first,
then the clusters.

The clusters are queried only for a flow for which the responses of the processes do not contain all
partitions.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mm2 import exit_codes
from mm2.status import process_socket, status_document
from mm2.status.process_socket import ProcessSocketError, StatusRequest
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState, TaskReport
from mm2.topics.flow_config import Flow
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

_UNKNOWN = ReportedFlowState.UNKNOWN
ReportFromClusters = Callable[[Flow], FlowReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusQueryResult:
    """Collected status of all requested flows, with notes."""

    flows: tuple[FlowReport, ...]
    notes: tuple[str, ...] = ()
    """Reasons why a local process was not queried or did not respond."""
    within_s: float
    """Value of `health.replicating.within.seconds` in the configuration file."""


def collect_status(
    file: pathlib.Path,
    wanted: Sequence[Flow],
    *,
    clusters: ReportFromClusters,
    processes: bool = True,
    where: pathlib.Path,
    timeout_s: float,
    within_s: float,
) -> StatusQueryResult:
    """Collect the status of the `wanted` flows of `file`, in the given order.

    If `processes` is false, the local processes are not queried, and the status is read only from
    the clusters.
    """
    told: list[FlowReport] = []
    notes: list[str] = []
    if processes:
        told, notes = _query_processes(file, where=where, timeout_s=timeout_s)
    found = []
    for flow in wanted:
        mine = [each for each in told if each.flow == flow.name]
        if mine and are_reports_complete(mine):
            found.append(merge_reports(mine))
        else:
            found.append(merge_reports([*mine, clusters(flow)]))
    return StatusQueryResult(flows=tuple(found), notes=tuple(notes), within_s=within_s)


def _query_processes(
    file: pathlib.Path, *, where: pathlib.Path, timeout_s: float
) -> tuple[list[FlowReport], list[str]]:
    try:
        answers = process_socket.query_processes(
            file, StatusRequest(), folder=where, timeout_s=timeout_s
        )
    except ProcessSocketError as error:
        return [], [str(error).partition(":")[0]]
    found: list[FlowReport] = []
    notes: list[str] = []
    for process, answer in answers.items():
        if answer.code != exit_codes.DONE:
            notes.append(f"process {process}: {'; '.join(answer.lines)}")
            continue
        try:
            if answer.detail["version"] != status_document.STATUS_JSON_VERSION:
                raise ValueError(f"version {answer.detail['version']}")  # noqa: TRY301 - one exit
            found += [status_document.parse_report(each) for each in answer.detail["flows"]]
        except (KeyError, TypeError, ValueError) as error:
            notes.append(f"process {process} runs another release of mm2: {error}")
    return found, notes


def are_reports_complete(reports: Sequence[FlowReport]) -> bool:
    """Return True if the clusters do not have to be queried for a flow.

    This is the case if the reports of the flow together contain all of its partitions. It is also
    the case if the target does not respond, because the clusters could then not be read.
    """
    if any(each.find_unreachable_cluster(ClusterSide.TARGET) for each in reports):
        return True
    known = {(each.topic, each.partition) for one in reports for each in one.partitions}
    if not known and all(each.state is not ReportedFlowState.RUNNING for each in reports):
        return False  # a flow that is stopped, or has not started, assigns no partitions
    return any(
        len(each.partitions) + each.partitions_on_other_nodes <= len(known) for each in reports
    )


def merge_reports(reports: Sequence[FlowReport]) -> FlowReport:
    """Merge several reports of the same flow into one. Fields that cannot be combined are taken
    from the first report with the state RUNNING, or from the first report if no report has this
    state."""
    first = next((each for each in reports if each.state is ReportedFlowState.RUNNING), reports[0])
    if len(reports) == 1:
        return first
    partitions: dict[tuple[str, int], PartitionReport] = {}
    tasks: dict[int, TaskReport] = {}
    for one in reports:
        for each in one.partitions:
            partitions.setdefault((each.topic, each.partition), each)
        for task in one.tasks:
            known = tasks.get(task.number)
            if known is None or known.restarts is None:
                tasks[task.number] = task
    problems = sorted(
        (each for one in reports for each in one.problems),
        key=lambda each: -(each.at_ms or 0),
    )
    return dataclasses.replace(
        first,
        seen_by=tuple(dict.fromkeys(each for one in reports for each in one.seen_by)),
        nodes=tuple(sorted({each for one in reports for each in one.nodes})),
        tasks=tuple(tasks[number] for number in sorted(tasks)),
        partitions=tuple(partitions[place] for place in sorted(partitions)),
        partitions_on_other_nodes=max(
            0, first.partitions_on_other_nodes - len(partitions) + len(first.partitions)
        ),
        other_nodes_error=next((each.reason for each in reports if each.state is _UNKNOWN), ""),
        problems=tuple(dict.fromkeys(problems)),
        warnings=tuple(dict.fromkeys(each for one in reports for each in one.warnings)),
        connector_failures=tuple(
            dict.fromkeys(each for one in reports for each in one.connector_failures)
        ),
        unreachable=_merge_unreachable_clusters(reports),
        activity=max(
            (one.activity for one in reports if one.activity is not None),
            key=lambda each: each.at_ms,
            default=None,
        ),
    )


def _merge_unreachable_clusters(
    reports: Sequence[FlowReport],
) -> tuple[UnreachableCluster, ...]:
    """Merge the unreachable clusters and brokers of several reports. Each keeps its earliest known
    start of the outage."""
    found = sorted(
        (each for one in reports for each in one.unreachable),
        key=lambda each: float("inf") if each.since_ms is None else each.since_ms,
    )
    first: dict[tuple[object, ...], UnreachableCluster] = {}
    for each in found:
        first.setdefault((each.side, each.cluster, each.broker), each)
    return tuple(first.values())
