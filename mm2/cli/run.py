"""`mm2 run`: runs the flows of a configuration, displays them and shuts them down gracefully.

SIGHUP and `mm2 reload` make the process read its configuration file again. Kafka's and Spark's
libraries are loaded only after the input was validated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import logging
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

import click

from connect_runtime.app import log_format
from connect_runtime.base import terminal_escape
from connect_runtime.base.host_and_origin_rules import AllowedHosts
from connect_runtime.config import config_errors
from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from connect_runtime.metrics_server.exporter import ExporterError, MetricsExporter, MetricsSource
from connect_runtime.rest.http_pages import PageRenderer, PagesByPath
from connect_runtime.system import java_installation, system_clock
from connect_runtime.system.signals import ReloadSignal, SignalFlag, StopSignals
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes, version
from mm2.cli import library_log_redirection, options, terminal_output
from mm2.cli.options import ByteRateType
from mm2.config import config_loader
from mm2.config.mm2_settings import MetricsEndpointSettings, Mm2Settings
from mm2.node import terminal_flow_display
from mm2.node.config_reload import ConfigReloader, ReloadableNode
from mm2.node.node_main_loop import (
    ExitReason,
    RunLoop,
    RunLoopDependencies,
    RunResult,
    StopCondition,
)
from mm2.status import process_socket
from mm2.status.process_socket import ProcessSocket, ProcessSocketError

if TYPE_CHECKING:
    from mm2.clusters.reachability_monitor import ReachabilityMonitor
    from mm2.status.retention_risk_monitor import RetentionWatch


_SIGNAL_POLL_INTERVAL_S = 0.05
_WATCHER_STOP_TIMEOUT_S = 0.2
"""How long to wait for watcher threads at shutdown, in seconds. A thread that waits for an
unreachable source is abandoned."""

_LOOPBACK_HOSTS = AllowedHosts()
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FlowSelectionOptions:
    """Command-line options that select flows; see `flow_connector_configs.FlowSelection`."""

    names: tuple[str, ...]
    near: tuple[str, ...]
    throttle: int | None
    java_stopped: bool


def _add_flow_selection_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options of `FlowSelectionOptions` to a command, which receives them as `chosen`."""

    @click.option(
        "--flow", "names", multiple=True, metavar="NAME", help="Only this flow; repeatable."
    )
    @click.option(
        "--clusters",
        "near",
        multiple=True,
        metavar="ALIAS",
        help="Only flows to this target cluster; repeatable.",
    )
    @click.option(
        "--throttle", type=ByteRateType(), help="Limit each flow to this rate, such as 20MB."
    )
    @click.option(
        "--java-stopped-cleanly",
        "java_stopped",
        is_flag=True,
        help="Skip waiting for in-flight writes of Java MirrorMaker 2. Use only if all its "
        "processes have exited.",
    )
    @functools.wraps(function)
    def run_command_with_flow_selection(
        *,
        names: tuple[str, ...],
        near: tuple[str, ...],
        throttle: int | None,
        java_stopped: bool,
        **others: object,
    ) -> int:
        chosen = FlowSelectionOptions(
            names=names, near=near, throttle=throttle, java_stopped=java_stopped
        )
        return function(chosen=chosen, **others)

    return run_command_with_flow_selection


@click.command("run")
@options.config_argument
@_add_flow_selection_options
@click.option(
    "--until-caught-up",
    is_flag=True,
    help="Replicate the records that exist on the sources at the start, then exit.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time limit for --until-caught-up.",
)
@click.option(
    "--no-table", is_flag=True, help="Print log lines instead of a live table on a terminal."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    help="Port of the metrics endpoint, instead of the port in the file; 0: any free port.",
)
def run_command(
    *,
    file: pathlib.Path,
    chosen: FlowSelectionOptions,
    until_caught_up: bool,
    timeout_s: float | None,
    no_table: bool,
    metrics_port: int | None,
) -> int:
    """Run the flows of FILE (default: clusters.yaml) until stopped.

    FILE may also be a configuration of MirrorMaker 2, if its name ends in .properties. SIGHUP or
    mm2 reload makes a running mm2 read FILE again.

    Ctrl-C or SIGTERM shuts down gracefully; a second signal exits at once.

    \b
    Examples:
      mm2 run clusters.yaml
      mm2 run clusters.yaml --flow 'east->west' --throttle 20MB
      mm2 run clusters.yaml --until-caught-up --timeout 600
    """
    if timeout_s is not None and not until_caught_up:
        raise click.UsageError("--timeout needs --until-caught-up")
    with (
        config_errors.add_consequence_to_settings_error("nothing was started"),
        StopSignals(exit_now=terminal_flow_display.exit_process_immediately) as stop,
        ReloadSignal() as again,
    ):
        settings = _select_flows(
            config_loader.load_config_file(file, environment=os.environ), chosen.names
        )
        for line in settings.format_warnings():
            _log.warning("%s", line)
        if settings.spark.engine == "spark":
            java_installation.find_java()
        goal = StopCondition(until_caught_up=until_caught_up, timeout_s=timeout_s)
        with library_log_redirection.redirect_library_logs() as log_file:
            ending = _run_flows(
                settings,
                goal,
                stop,
                reloading=_ConfigReloader(
                    file=file, names=chosen.names, reload_requested=again.reload_requested
                ),
                chosen=chosen,
                table=not no_table,
                metrics_port=metrics_port,
            )
            log_file.keep = ending.reason is ExitReason.CRASHED
        _log.info("mm2 has stopped")
    for line in ending.errors:
        terminal_output.print_line(f"mm2: {line}", err=True)
    for line in ending.results:
        terminal_output.print_line(line)
    return ending.code


def _run_flows(
    settings: Mm2Settings,
    goal: StopCondition,
    stop: StopSignals,
    *,
    reloading: _ConfigReloader,
    chosen: FlowSelectionOptions,
    table: bool,
    metrics_port: int | None,
) -> RunResult:
    # Imported here: invalid input is reported before Kafka's and Spark's libraries are loaded.
    from mm2.clusters.reachability_monitor import ReachabilityMonitor
    from mm2.config import flow_connector_configs
    from mm2.config.flow_connector_configs import FlowSelection
    from mm2.node.metrics_and_health import NodeTelemetry
    from mm2.node.mm2_node import Mm2Node
    from mm2.status import retention_risk_monitor
    from mm2.status.retention_risk_monitor import RetentionWatch
    from mm2.ui.status_page import StatusPage

    choice = FlowSelection(
        target_aliases=chosen.near,
        names=chosen.names,
        throttle=chosen.throttle or 0,
        java_stopped=chosen.java_stopped,
    )
    served: dict[str, PageRenderer] = {}
    made = Mm2Node(settings, selection=choice, environment=os.environ, pages=served)
    clusters = ReachabilityMonitor(made, clock=SystemClock())
    made.explain_unreachable = clusters.get_unreachable_reason
    watch = RetentionWatch(
        made,
        open_source=retention_risk_monitor.open_retention_reader,
        clock=SystemClock(),
        unreachable=clusters.list_unreachable_clusters,
    )
    observed = NodeTelemetry(made, settings, clock=SystemClock(), watch=watch)
    page = StatusPage(made, watch)
    served.update({**observed.pages, **page.pages})
    exporter, note = start_metrics_exporter(
        settings.metrics,
        observed.source,
        port=metrics_port,
        beside=served,
        hosts=flow_connector_configs.derive_status_page_hosts(settings, environment=os.environ),
    )
    if settings.spark.engine == "spark":
        _log.info("starting Spark at %s", settings.spark.master)
    around = RunLoopDependencies(
        clock=SystemClock(),
        display=terminal_flow_display.choose_display(
            table_wanted=table,
            log_figures=exporter is None or _get_log_format() != log_format.JSON_FORMAT,
        ),
        metrics=observed.metrics,
        stop_signal=lambda: stop.signal_number,
        wait=make_signal_waiter(stop, observed.heartbeat.record_iteration),
        notes=(f"mm2 {version.VERSION}{note}",),
        unreachable=observed.describe_unreachable_clusters,
    )
    try:
        with reloading.run_background_threads(made, watch, clusters), page.record_chart_points():
            return RunLoop(made, goal, around).run()
    finally:
        if exporter is not None:
            exporter.stop()


def _get_log_format() -> str:
    """Return the value of `mm2 --log-format`."""
    context = click.get_current_context(silent=True)
    return "" if context is None else str(context.find_root().params.get("log_format", ""))


def make_signal_waiter(stop: StopSignals, beat: Callable[[], object]) -> Callable[[float], object]:
    """Create the wait function of the main loop.

    The function calls `beat`, which records that the main loop is alive, then waits for the given
    number of seconds or until a stop signal.
    """

    def wait_for_signal(timeout_s: float) -> None:
        beat()
        system_clock.wait_until(
            lambda: stop.signal_number is not None,
            timeout_s=timeout_s,
            interval_s=_SIGNAL_POLL_INTERVAL_S,
        )

    return wait_for_signal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ConfigReloader:
    """Reloads the configuration file on SIGHUP, or when `mm2 reload` requests it."""

    file: pathlib.Path
    names: tuple[str, ...]
    reload_requested: SignalFlag
    """Flag that the signal handler of SIGHUP sets."""

    @contextlib.contextmanager
    def run_background_threads(
        self,
        running: ReloadableNode,
        watch: RetentionWatch,
        clusters: ReachabilityMonitor,
    ) -> Iterator[None]:
        """Run background threads inside a `with` block.

        The threads handle SIGHUP and `mm2` commands, and monitor retention and the reachability of
        the clusters.
        """
        socket = None
        try:
            socket = ProcessSocket(self.file, folder=process_socket.find_socket_directory())
        except ProcessSocketError as error:
            _log.warning(
                "%s; mm2 reload cannot reach this process: reload it with SIGHUP instead", error
            )
        made = ConfigReloader(
            running,
            self.load_settings,
            reload_signal=self.reload_requested,
            socket=socket,
            reports=watch.build_reports,
            clock=SystemClock(),
        )
        owned = ThreadGroup(on_unexpected_end=_log_reload_thread_death)
        owned.start("reload", made.run)
        watching = ThreadGroup(on_unexpected_end=_log_file_watcher_death)
        watching.start("losses", watch.run)
        watching.start("clusters", clusters.run)
        try:
            yield
        finally:
            owned.stop_all(1.0)
            watching.stop_all(_WATCHER_STOP_TIMEOUT_S)
            if socket is not None:
                socket.close()

    def load_settings(self) -> Mm2Settings:
        """Read the settings from the configuration file again.

        Raises `SettingsError` if the file is invalid or no longer contains a flow that `--flow`
        names.
        """
        found = config_loader.load_config_file(self.file, environment=os.environ)
        try:
            return _select_flows(found, self.names)
        except click.ClickException as error:
            problem = ConfigProblem(line=0, key="", text=error.format_message())
            raise SettingsError(str(self.file), [problem]) from error


def _log_file_watcher_death(end: UnexpectedThreadEnd) -> None:
    _log.error("the thread that monitors %s failed: %r; restart mm2 run", end.name, end.error)


def _log_reload_thread_death(end: UnexpectedThreadEnd) -> None:
    _log.error(
        "the reload thread failed: %r; to apply configuration changes, restart mm2 run", end.error
    )


def _select_flows(settings: Mm2Settings, names: tuple[str, ...]) -> Mm2Settings:
    """Return the settings with only the named flows, or with all flows if `names` is empty."""
    if not names:
        return settings
    chosen = {name: options.find_flow(settings, name, hint="--flow") for name in names}
    return dataclasses.replace(settings, flows=tuple(chosen.values()))


def start_metrics_exporter(
    settings: MetricsEndpointSettings,
    source: MetricsSource,
    *,
    port: int | None,
    beside: PagesByPath | None = None,
    hosts: AllowedHosts = _LOOPBACK_HOSTS,
) -> tuple[MetricsExporter | None, str]:
    """Start the metrics endpoint. Return the exporter and a note for the live table; the exporter
    is None if the endpoint could not be started.

    The endpoint also serves the additional pages `beside`. It serves browser pages only to requests
    that use a host name in `hosts`. Raises `MetricsPortError` if `metrics.required` is true and the
    port cannot be opened.
    """
    if not settings.enabled and port is None:
        return None, ""
    exporter = MetricsExporter(
        source,
        host=settings.host,
        port=settings.port if port is None else port,
        pages=beside or {},
        hosts=hosts,
    )
    try:
        exporter.start()
    except ExporterError as error:
        if settings.required:
            raise MetricsPortError(_describe_port_error(error)) from error
        _log.warning(
            "%s: metrics, /health and the status page are not served; requests to this port may "
            "reach another process. Replication continues (metrics.required: false)",
            error,
        )
        return None, ", metrics and /health are not served"
    _log.info("serving metrics at %s, and the status page at /ui on the same port", exporter.url)
    return exporter, f", metrics at {exporter.url}"


class MetricsPortError(click.ClickException):
    """Raised if the port for metrics and `/health` cannot be opened.

    Nothing is started in this case, because probes and Prometheus would query the process that uses
    the port. The exit code is not that of an invalid configuration: the port may be free at the
    next attempt, and the service manager does not restart mm2 after an invalid configuration.
    """

    exit_code = exit_codes.FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(
            terminal_escape.escape_unprintable(f"mm2: {self.format_message()}"), err=True, file=file
        )


def _describe_port_error(error: ExporterError) -> str:
    in_use = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
    who = "another mm2 run may be using it (ss -ltnp shows the process); " * in_use
    return (
        f"{error}; nothing was started: {who}set metrics.port (mm2.metrics.port in a properties "
        "file) or --metrics-port to a free port, 0 for any, or metrics.required: false to run "
        "without metrics and /health"
    )
