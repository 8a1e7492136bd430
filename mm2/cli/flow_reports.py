"""Collects the flow reports that `mm2 status`, `lag`, `incidents` and `why` print.

Reports come from the process on this machine that runs the flows. If no such process is running, or
with `--clusters`, they are read from both clusters. This module also defines the options that these
commands share.
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

from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.system.system_clock import SystemClock
from mm2.cli import options, terminal_output
from mm2.config import config_loader
from mm2.config.mm2_settings import Mm2Settings
from mm2.status import process_socket
from mm2.topics.flow_config import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuery:
    """Command-line options of a command that reports on flows."""

    file: pathlib.Path
    flow: str | None
    """Name of the flow to report on; None for all flows of the file."""
    timeout_s: float
    as_json: bool
    clusters: bool = False
    """True to read the status from the clusters even if a local process runs the flows."""


def cluster_query_options(
    *, timeout_s: float
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorate a command that always reads its data from the flows' clusters. Adds the options of
    the command, and passes their values as a `ReportQuery`."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @options.config_argument
        @click.option("--flow", metavar="FLOW", help="Only this flow.  [default: all]")
        @options.timeout_option(timeout_s, "How long to wait for a flow's clusters.")
        @options.json_option
        @functools.wraps(function)
        def run_command_with_query(
            *,
            file: pathlib.Path,
            flow: str | None,
            timeout_s: float,
            as_json: bool,
            **others: Any,
        ) -> int:
            query = ReportQuery(file=file, flow=flow, timeout_s=timeout_s, as_json=as_json)
            return function(query=query, **others)

        return run_command_with_query

    return decorate


def report_query_options(function: Callable[..., int]) -> Callable[..., int]:
    """Decorate a command that gets its data from the process on this machine that runs the flows,
    or from the clusters. Adds the options of the command, including `--clusters`, and passes their
    values as a `ReportQuery`."""

    @cluster_query_options(timeout_s=30.0)
    @click.option(
        "--clusters",
        is_flag=True,
        help=("Read the data from the clusters even if a process on this machine runs the flows."),
    )
    @functools.wraps(function)
    def run_command_with_clusters_flag(*, query: ReportQuery, clusters: bool, **others: Any) -> int:
        return function(query=dataclasses.replace(query, clusters=clusters), **others)

    return run_command_with_clusters_flag


def load_selected_flows(query: ReportQuery) -> tuple[Mm2Settings, tuple[Flow, ...]]:
    """Load the configuration file and select the queried flows.

    Raises `SettingsError` for an invalid file and `click.BadParameter` for an unknown flow.
    """
    settings = config_loader.load_config_file(query.file, environment=os.environ)
    if query.flow is None:
        return settings, tuple(settings.flows)
    return settings, (options.find_flow(settings, query.flow, hint="--flow"),)


def collect_flow_reports(query: ReportQuery) -> Any:
    """Collect the `StatusQueryResult` of the queried flows.

    Raises `SettingsError` for an invalid file and `click.BadParameter` for an unknown flow.
    """
    settings, wanted = load_selected_flows(query)
    # Imported here so that invalid input is reported before Kafka's client library is loaded.
    from mm2.cli import library_log_redirection
    from mm2.status import status_query

    with library_log_redirection.redirect_library_logs():
        return status_query.collect_status(
            query.file,
            wanted,
            clusters=make_flow_report_collector(settings, timeout_s=query.timeout_s),
            processes=not query.clusters,
            where=process_socket.find_socket_directory(),
            timeout_s=query.timeout_s,
            within_s=settings.health.replicating_within_s,
        )


def _print_to_stderr(line: str) -> None:
    terminal_output.print_line(line, err=True)


def make_flow_report_collector(settings: Mm2Settings, *, timeout_s: float) -> Callable[[Any], Any]:
    """Return a function that reads both clusters of a `Flow` and returns its `FlowReport`.

    Reading a flow takes at most `timeout_s`. At most half of this time is spent waiting for the
    clusters to respond, so that one cluster can still be read if the other is unreachable. Each
    cluster's reachability is checked only once.
    """
    from mm2.clusters import flow_kafka_clients, reachability_probe
    from mm2.config import flow_connector_configs
    from mm2.status import status_from_clusters
    from mm2.unreachable_cluster import ClusterSide

    plans = {
        each.name: each
        for each in flow_connector_configs.plan_flows(
            settings, flow_connector_configs.ALL_FLOWS, environment=os.environ
        )
    }
    clock = SystemClock()
    attempts: list[tuple[Any, ConnectError | None]] = []

    def get_cluster_failure(access: Any) -> ConnectError | None:
        return next(failure for known, failure in attempts if known == access)

    def collect_flow_report(flow: Flow) -> Any:
        end = Deadline.after(timeout_s, now_s=clock.now_s())
        accesses = {
            ClusterSide.SOURCE: flow_kafka_clients.build_source_admin_connection_settings(
                settings, flow
            ),
            ClusterSide.TARGET: flow_kafka_clients.build_target_admin_connection_settings(
                settings, flow
            ),
        }
        new = [each for each in accesses.values() if all(each != known for known, _ in attempts)]
        found = reachability_probe.wait_for_clusters(
            new, timeout_s=timeout_s / 2, print_line=_print_to_stderr, clock=clock
        )
        attempts.extend((each, found.get(each.name)) for each in new)
        return status_from_clusters.collect_report(
            settings,
            flow,
            plans[flow.name],
            clock=clock,
            timeout_s=end.remaining_s(clock.now_s()),
            lost={
                side: reachability_probe.describe_failure_cause(each, failure)
                for side, each in accesses.items()
                if isinstance(failure := get_cluster_failure(each), RetriableError)
            },
        )

    return collect_flow_report
