"""Options of commands that tell how flows stand, and what they ask for it."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from connect_runtime.base import deadline, errors
from connect_runtime.system import clock as system_clock
from mm2.app import run_socket, terminal
from mm2.app.cli import config_file, flow_names, usual
from mm2.app.settings import load
from mm2.app.settings import settings as app_settings
from mm2.core import flows


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`flow` None: all of the file. `clusters`: they are asked also where a process runs here."""

    file: pathlib.Path
    flow: str | None
    timeout_s: float
    as_json: bool
    clusters: bool = False


def asking_clusters(*, timeout_s: float) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """For a command that is given `asked`, and asks clusters alone; with the default timeout."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @config_file.argument
        @click.option("--flow", metavar="FLOW", help="Only this flow.  [default: all]")
        @usual.timeout(timeout_s, "How long a flow's clusters may take to answer.")
        @usual.as_json
        @functools.wraps(function)
        def with_asked(
            *,
            file: pathlib.Path,
            flow: str | None,
            timeout_s: float,
            as_json: bool,
            **others: Any,
        ) -> int:
            asked = Asked(file=file, flow=flow, timeout_s=timeout_s, as_json=as_json)
            return function(asked=asked, **others)

        return with_asked

    return decorate


def asking(function: Callable[..., int]) -> Callable[..., int]:
    """Of a command that is given `asked`, and asks whoever runs the flows first."""

    @asking_clusters(timeout_s=30.0)
    @click.option("--clusters", is_flag=True, help="Ask the clusters, also if a process runs here.")
    @functools.wraps(function)
    def with_clusters(*, asked: Asked, clusters: bool, **others: Any) -> int:
        return function(asked=dataclasses.replace(asked, clusters=clusters), **others)

    return with_clusters


def chosen(asked: Asked) -> tuple[app_settings.Settings, tuple[flows.Flow, ...]]:
    """The file, and those of its flows that are asked about. Raises `SettingsError` and
    `click.BadParameter`."""
    settings = load.load(asked.file, environment=os.environ)
    if asked.flow is None:
        return settings, tuple(settings.flows)
    return settings, (flow_names.find(settings, asked.flow, hint="--flow"),)


def found(asked: Asked) -> Any:
    """An `asking.Found`. Raises as `chosen`."""
    settings, wanted = chosen(asked)
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import noise
    from mm2.app.reports import asking

    with noise.to_file():
        return asking.ask(
            asked.file,
            wanted,
            clusters=clusters_of(settings, timeout_s=asked.timeout_s),
            processes=not asked.clusters,
            where=run_socket.folder(),
            timeout_s=asked.timeout_s,
            within_s=settings.watch.replicating_within_s,
        )


def _on_stderr(line: str) -> None:
    terminal.print_line(line, err=True)


def clusters_of(settings: app_settings.Settings, *, timeout_s: float) -> Callable[[Any], Any]:
    """What asks both clusters of a flow (`flows.Flow`), and gives its `FlowReport`.

    A flow takes `timeout_s` at most: half of it is for waiting until its clusters answer, so that
    a silent one leaves time to ask the other. Each cluster is waited for once, whatever came of it.
    """
    from mm2.app import cluster_wait, connections, flow_plan
    from mm2.app.reports import from_clusters
    from mm2.core import reachability

    plans = {
        each.name: each
        for each in flow_plan.plans(settings, flow_plan.EVERYTHING, environment=os.environ)
    }
    clock = system_clock.SystemClock()
    waited: list[tuple[Any, errors.ConnectError | None]] = []

    def failure_of(access: Any) -> errors.ConnectError | None:
        return next(failure for known, failure in waited if known == access)

    def look(flow: flows.Flow) -> Any:
        end = deadline.Deadline.after(timeout_s, now_s=clock.now_s())
        accesses = {
            reachability.Side.SOURCE: connections.source_access(settings, flow),
            reachability.Side.TARGET: connections.target_access(settings, flow),
        }
        new = [each for each in accesses.values() if all(each != known for known, _ in waited)]
        found = cluster_wait.wait(new, timeout_s=timeout_s / 2, tell=_on_stderr, clock=clock)
        waited.extend((each, found.get(each.name)) for each in new)
        return from_clusters.look(
            settings,
            flow,
            plans[flow.name],
            clock=clock,
            timeout_s=end.left_s(clock.now_s()),
            lost={
                side: cluster_wait.cause(each, failure)
                for side, each in accesses.items()
                if isinstance(failure := failure_of(each), errors.RetriableError)
            },
        )

    return look
