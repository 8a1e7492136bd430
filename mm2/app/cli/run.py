"""`mm2 run`: starts the flows of a configuration, shows them, stops them in order."""

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

from connect_runtime.adapters.http import metrics_exporter
from connect_runtime.app import logs
from connect_runtime.app.settings import problems
from connect_runtime.base import request_origin, terminal_escape
from connect_runtime.ports import pages
from connect_runtime.system import clock, java, polling, signals, threads
from mm2.app import (
    displays,
    exits,
    noise,
    reloader,
    run_loop,
    run_socket,
    terminal,
    version,
)
from mm2.app.cli import byte_rate, config_file, flow_names
from mm2.app.settings import load
from mm2.app.settings import settings as app_settings

if TYPE_CHECKING:
    from mm2.app import cluster_watch, loss_watch

_WAKE_S = 0.05
_WATCH_STOP_S = 0.2
"""Who waits for a source that does not answer is left to itself."""

_OWN_ADDRESSES = request_origin.AllowedHosts()
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which flows of the file, and how they are run: see `flow_plan.Choice`."""

    names: tuple[str, ...]
    near: tuple[str, ...]
    throttle: int | None
    java_stopped: bool


def _choosing(function: Callable[..., int]) -> Callable[..., int]:
    """Options of a command that is given `chosen`."""

    @click.option(
        "--flow", "names", multiple=True, metavar="NAME", help="Only this flow; repeatable."
    )
    @click.option(
        "--clusters",
        "near",
        multiple=True,
        metavar="ALIAS",
        help="Only flows to this cluster, which is near; repeatable.",
    )
    @click.option(
        "--throttle", type=byte_rate.ByteRate(), help="Limit each flow to this rate, such as 20MB."
    )
    @click.option(
        "--java-stopped-cleanly",
        "java_stopped",
        is_flag=True,
        help="Skip waiting for in-flight writes of Java MirrorMaker 2. Use only if all its "
        "processes have exited.",
    )
    @functools.wraps(function)
    def with_chosen(
        *,
        names: tuple[str, ...],
        near: tuple[str, ...],
        throttle: int | None,
        java_stopped: bool,
        **others: object,
    ) -> int:
        chosen = Chosen(names=names, near=near, throttle=throttle, java_stopped=java_stopped)
        return function(chosen=chosen, **others)

    return with_chosen


@click.command("run")
@config_file.argument
@_choosing
@click.option("--until-caught-up", is_flag=True, help="End when all that is there now is copied.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Give --until-caught-up up after so long.",
)
@click.option("--no-table", is_flag=True, help="Log lines, on a terminal too.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65_535), help="Instead of the file's; 0: any free one."
)
def command(
    *,
    file: pathlib.Path,
    chosen: Chosen,
    until_caught_up: bool,
    timeout_s: float | None,
    no_table: bool,
    metrics_port: int | None,
) -> int:
    """Mirror what FILE says (default: clusters.yaml) until stopped.

    FILE may also be one of MirrorMaker 2: its name ends in .properties. SIGHUP or mm2 reload makes
    a running mm2 read it again.

    Ctrl-C or SIGTERM stops in order, a second one at once.

    \b
    Examples:
      mm2 run clusters.yaml
      mm2 run clusters.yaml --flow 'east->west' --throttle 20MB
      mm2 run clusters.yaml --until-caught-up --timeout 600
    """
    if timeout_s is not None and not until_caught_up:
        raise click.UsageError("--timeout goes with --until-caught-up")
    with (
        problems.consequence("nothing was started"),
        signals.StopSignals(exit_now=displays.exit_now) as stop,
        signals.ReloadSignal() as again,
    ):
        settings = _only(load.load(file, environment=os.environ), chosen.names)
        for line in settings.warning_lines():
            _log.warning("%s", line)
        if settings.spark.engine == "spark":
            java.find()
        goal = run_loop.Goal(until_caught_up=until_caught_up, timeout_s=timeout_s)
        with noise.to_file() as log_file:
            ending = _run(
                settings,
                goal,
                stop,
                reloading=_Reloading(file=file, names=chosen.names, asked=again.asked),
                chosen=chosen,
                table=not no_table,
                metrics_port=metrics_port,
            )
            log_file.keep = ending.why is run_loop.Why.CRASHED
    for line in ending.errors:
        terminal.print_line(f"mm2: {line}", err=True)
    for line in ending.results:
        terminal.print_line(line)
    return ending.code


def _run(
    settings: app_settings.Settings,
    goal: run_loop.Goal,
    stop: signals.StopSignals,
    *,
    reloading: _Reloading,
    chosen: Chosen,
    table: bool,
    metrics_port: int | None,
) -> run_loop.Ending:
    # Here and not above: wrong input is told before Kafka's and Spark's libraries are loaded.
    from mm2.app import cluster_watch, flow_plan, loss_watch, node, observing
    from mm2.app.ui import hosting

    choice = flow_plan.Choice(
        near=chosen.near,
        names=chosen.names,
        throttle=chosen.throttle or 0,
        java_stopped=chosen.java_stopped,
    )
    served: dict[str, pages.Make] = {}
    made = node.Node(settings, choice=choice, environment=os.environ, served=served)
    clusters = cluster_watch.ClusterWatch(made, clock=clock.SystemClock())
    made.unreachable = clusters.reason
    watch = loss_watch.LossWatch(
        made,
        open_source=loss_watch.open_source,
        clock=clock.SystemClock(),
        unreachable=clusters.unreachable,
    )
    observed = observing.Observing(made, settings, clock=clock.SystemClock(), watch=watch)
    page = hosting.StatusPage(made, watch)
    served.update({**observed.served, **page.served})
    exporter, note = serve(
        settings.metrics,
        observed.source,
        port=metrics_port,
        beside=served,
        hosts=flow_plan.hosts(settings, environment=os.environ),
    )
    if settings.spark.engine == "spark":
        _log.info("starting Spark at %s", settings.spark.master)
    around = run_loop.Surroundings(
        clock=clock.SystemClock(),
        display=displays.choose(
            table_wanted=table, figures=exporter is None or _log_format() != logs.JSON
        ),
        metrics=observed.metrics,
        stop_signal=lambda: stop.signal_number,
        wait=waiting(stop, observed.beats.beat),
        notes=(f"mm2 {version.VERSION}{note}",),
        unreachable=observed.unreachable,
    )
    try:
        with reloading.begun(made, watch, clusters), page.watched():
            return run_loop.RunLoop(made, goal, around).run()
    finally:
        if exporter is not None:
            exporter.stop()


def _log_format() -> str:
    """As `mm2 --log-format` says."""
    context = click.get_current_context(silent=True)
    return "" if context is None else str(context.find_root().params.get("log_format", ""))


def waiting(stop: signals.StopSignals, beat: Callable[[], object]) -> Callable[[float], object]:
    """For the main loop: to wait so many seconds, or until a signal comes; every time it comes
    round, `beat` is told."""

    def wait(timeout_s: float) -> None:
        beat()
        polling.until(
            lambda: stop.signal_number is not None, timeout_s=timeout_s, interval_s=_WAKE_S
        )

    return wait


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Reloading:
    """How the file is read again; `asked` is set by SIGHUP."""

    file: pathlib.Path
    names: tuple[str, ...]
    asked: signals.Flag

    @contextlib.contextmanager
    def begun(
        self,
        running: reloader.Running,
        watch: loss_watch.LossWatch,
        clusters: cluster_watch.ClusterWatch,
    ) -> Iterator[None]:
        """While entered, SIGHUP and commands are answered, sources and clusters are watched."""
        socket = None
        try:
            socket = run_socket.RunSocket(self.file, where=run_socket.folder())
        except run_socket.RunSocketError as error:
            _log.warning("%s; mm2 reload will not find this process, SIGHUP works", error)
        made = reloader.Reloader(
            running,
            self.load,
            hang_up=self.asked,
            socket=socket,
            reports=watch.reports,
            now=clock.SystemClock(),
        )
        owned = threads.Threads(on_unasked_end=_tell_unasked_end)
        owned.start("reload", made.run)
        watching = threads.Threads(on_unasked_end=_tell_blind)
        watching.start("losses", watch.run)
        watching.start("clusters", clusters.run)
        try:
            yield
        finally:
            owned.stop_all(1.0)
            watching.stop_all(_WATCH_STOP_S)
            if socket is not None:
                socket.close()

    def load(self) -> app_settings.Settings:
        """Raises `SettingsError`, also where the file no longer has a flow of `--flow`."""
        found = load.load(self.file, environment=os.environ)
        try:
            return _only(found, self.names)
        except click.ClickException as error:
            problem = problems.Problem(line=0, key="", text=error.format_message())
            raise problems.SettingsError(str(self.file), [problem]) from error


def _tell_blind(end: threads.UnaskedEnd) -> None:
    _log.error("%s are no longer watched: %r; start mm2 run again", end.name, end.error)


def _tell_unasked_end(end: threads.UnaskedEnd) -> None:
    _log.error("reloading does not work any more: %r; start mm2 run again", end.error)


def _only(settings: app_settings.Settings, names: tuple[str, ...]) -> app_settings.Settings:
    """The settings with only these flows; all of them when none is named."""
    if not names:
        return settings
    chosen = {name: flow_names.find(settings, name, hint="--flow") for name in names}
    return dataclasses.replace(settings, flows=tuple(chosen.values()))


def serve(
    settings: app_settings.MetricsSettings,
    source: metrics_exporter.Source,
    *,
    port: int | None,
    beside: pages.Pages | None = None,
    hosts: request_origin.AllowedHosts = _OWN_ADDRESSES,
) -> tuple[metrics_exporter.MetricsExporter | None, str]:
    """The exporter, None when there is none, and what to say about it in the table. It has the
    pages `beside`, too, those for people under the names of `hosts`. Raises `MetricsPortError`
    where metrics are required and cannot be served.
    """
    if not settings.enabled and port is None:
        return None, ""
    exporter = metrics_exporter.MetricsExporter(
        source,
        host=settings.host,
        port=settings.port if port is None else port,
        beside=beside or {},
        hosts=hosts,
    )
    try:
        exporter.start()
    except metrics_exporter.ExporterError as error:
        if settings.required:
            raise MetricsPortError(_port_error(error)) from error
        _log.warning(
            "%s: metrics, /health and the status page are not served; requests to this port may "
            "reach another process. Replication continues (metrics.required: false)",
            error,
        )
        return None, ", metrics and /health are not served"
    _log.info("metrics are at %s", exporter.url)
    return exporter, f", metrics at {exporter.url}"


class MetricsPortError(click.ClickException):
    """Metrics and `/health` cannot be served where they should be, so nothing is started: probes
    and Prometheus would ask whichever other process has the port."""

    exit_code = exits.BAD_INPUT

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(terminal_escape.escape(f"mm2: {self.format_message()}"), err=True, file=file)


def _port_error(error: metrics_exporter.ExporterError) -> str:
    in_use = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
    who = "another mm2 run on this machine may have it (ss -ltnp shows the process); " * in_use
    return (
        f"{error}; nothing was started: {who}set metrics.port (mm2.metrics.port in a properties "
        "file) or --metrics-port to a free port, 0 for any, or metrics.required: false to run "
        "without metrics and /health"
    )
