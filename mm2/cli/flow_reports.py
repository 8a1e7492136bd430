"""Collects the reports that `mm2 status`, `lag`, `incidents` and `why` print, and their options.

A process on this machine that runs the flows is asked first; flows without one, or all with
`--clusters`, are read from both clusters.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.timing import Deadline
from connect_runtime.system.clock import SystemClock
from mm2.cli import options, terminal
from mm2.config import config_loader
from mm2.config.mm2_settings import Mm2Settings
from mm2.status import process_socket
from mm2.topics.flow_config import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuery:
    """`flow` None: all of the file. `clusters`: they are asked also where a process runs here."""

    file: pathlib.Path
    flow: str | None
    timeout_s: float
    as_json: bool
    clusters: bool = False


def cluster_query_options(
    *, timeout_s: float
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """For a command that is given `asked`, and asks clusters alone; with the default timeout."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @options.config_argument
        @click.option("--flow", metavar="FLOW", help="Only this flow.  [default: all]")
        @options.timeout_option(timeout_s, "How long a flow's clusters may take to answer.")
        @options.json_option
        @functools.wraps(function)
        def with_asked(
            *,
            file: pathlib.Path,
            flow: str | None,
            timeout_s: float,
            as_json: bool,
            **others: Any,
        ) -> int:
            asked = ReportQuery(file=file, flow=flow, timeout_s=timeout_s, as_json=as_json)
            return function(asked=asked, **others)

        return with_asked

    return decorate


def report_query_options(function: Callable[..., int]) -> Callable[..., int]:
    """Of a command that is given `asked`, and asks whoever runs the flows first."""

    @cluster_query_options(timeout_s=30.0)
    @click.option("--clusters", is_flag=True, help="Ask the clusters, also if a process runs here.")
    @functools.wraps(function)
    def with_clusters(*, asked: ReportQuery, clusters: bool, **others: Any) -> int:
        return function(asked=dataclasses.replace(asked, clusters=clusters), **others)

    return with_clusters


def load_selected_flows(asked: ReportQuery) -> tuple[Mm2Settings, tuple[Flow, ...]]:
    """The file, and those of its flows that are asked about. Raises `SettingsError` and
    `click.BadParameter`."""
    settings = config_loader.load(asked.file, environment=os.environ)
    if asked.flow is None:
        return settings, tuple(settings.flows)
    return settings, (options.find_flow(settings, asked.flow, hint="--flow"),)


def collect_reports(asked: ReportQuery) -> Any:
    """An `report_query_options.Found`. Raises as `load_selected_flows`."""
    settings, wanted = load_selected_flows(asked)
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.cli import library_logs
    from mm2.status import status_query

    with library_logs.redirect_library_logs():
        return status_query.collect_status(
            asked.file,
            wanted,
            clusters=make_cluster_collector(settings, timeout_s=asked.timeout_s),
            processes=not asked.clusters,
            where=process_socket.find_socket_folder(),
            timeout_s=asked.timeout_s,
            within_s=settings.watch.replicating_within_s,
        )


def _print_to_stderr(line: str) -> None:
    terminal.print_line(line, err=True)


def make_cluster_collector(settings: Mm2Settings, *, timeout_s: float) -> Callable[[Any], Any]:
    """What asks both clusters of a flow (`Flow`), and gives its `FlowReport`.

    A flow takes `timeout_s` at most: half of it is for waiting until its clusters answer, so that
    a silent one leaves time to ask the other. Each cluster is waited for once, whatever came of it.
    """
    from mm2.clusters import cluster_clients, reachability_probe
    from mm2.config import flow_plan
    from mm2.reachability import ClusterSide
    from mm2.status import status_from_clusters

    plans = {
        each.name: each
        for each in flow_plan.plan_flows(settings, flow_plan.ALL_FLOWS, environment=os.environ)
    }
    clock = SystemClock()
    waited: list[tuple[Any, ConnectError | None]] = []

    def failure_of(access: Any) -> ConnectError | None:
        return next(failure for known, failure in waited if known == access)

    def look(flow: Flow) -> Any:
        end = Deadline.after(timeout_s, now_s=clock.now_s())
        accesses = {
            ClusterSide.SOURCE: cluster_clients.build_source_access(settings, flow),
            ClusterSide.TARGET: cluster_clients.build_target_access(settings, flow),
        }
        new = [each for each in accesses.values() if all(each != known for known, _ in waited)]
        found = reachability_probe.wait_for_clusters(
            new, timeout_s=timeout_s / 2, tell=_print_to_stderr, clock=clock
        )
        waited.extend((each, found.get(each.name)) for each in new)
        return status_from_clusters.collect_report(
            settings,
            flow,
            plans[flow.name],
            clock=clock,
            timeout_s=end.left_s(clock.now_s()),
            lost={
                side: reachability_probe.describe_cause(each, failure)
                for side, each in accesses.items()
                if isinstance(failure := failure_of(each), RetriableError)
            },
        )

    return look
