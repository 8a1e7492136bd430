"""`mm2 demo`: replicates traffic between two local clusters and fails over a consumer group."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from connect_runtime.base import plurals
from connect_runtime.system import java_installation
from connect_runtime.system.signals import StopSignals
from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes, text_format, version
from mm2.cli import library_log_redirection, run, terminal_output
from mm2.node import terminal_flow_display
from mm2.node.node_main_loop import RunLoop, RunLoopDependencies, StopCondition
from mm2.sandbox import kafka_jars
from mm2.sandbox.scenarios.progress_printer import ProgressPrinter

if TYPE_CHECKING:
    from mm2.node.mm2_node import Mm2Node
    from mm2.sandbox.scenarios.replication_demo import Demo, DemoFailoverResult, DemoResult


@click.command("demo")
@click.option(
    "--keep", is_flag=True, help="Keep the clusters and the replication running until Ctrl-C."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=2, max=3_600),
    default=10.0,
    show_default=True,
    help="How long to produce live traffic.",
)
@click.option(
    "--records",
    type=click.IntRange(min=10, max=10_000_000),
    default=25_000,
    show_default=True,
    help="Records in each large topic before replication starts.",
)
@click.pass_context
def demo_command(context: click.Context, *, keep: bool, seconds: float, records: int) -> int:
    """Replicate live traffic between two local Kafka clusters, compare every record, and fail over
    a consumer group.

    The clusters require a login. All clusters and files are removed at the end. Needs
    Java; the first run downloads Kafka (60 MB).

    \b
    Examples:
      mm2 demo
      mm2 demo --seconds 60
      mm2 demo --keep             no failover; inspect the clusters, end with Ctrl-C
    """
    java_installation.find_java()
    kafka_jars.ensure_jars()
    if _is_option_default(context, "log_level"):
        # Transient warnings would interrupt the demo's output; errors are reported at the end.
        logging.getLogger().setLevel(logging.ERROR)
    now = SystemClock()
    with (
        StopSignals(exit_now=terminal_flow_display.exit_process_immediately) as stop,
        library_log_redirection.redirect_library_logs() as log_file,
    ):
        code = _run_demo(now, stop, keep=keep, seconds=seconds, records=records)
        log_file.keep = code == exit_codes.FAILED
    return code


def _run_demo(
    now: SystemClock,
    stop: StopSignals,
    *,
    keep: bool,
    seconds: float,
    records: int,
) -> int:
    # Imported here so that errors are reported before Kafka's and Spark's libraries are loaded.
    from mm2.sandbox.scenarios.replication_demo import Demo, DemoOptions, StopSignalError

    demo = Demo(
        DemoOptions(seconds=seconds, records=records, with_failover=not keep),
        progress=ProgressPrinter(now),
        now=now,
        stop_signal=lambda: stop.signal_number,
    )
    try:
        result = demo.run()
        click.echo()
        for line in format_demo_result(result):
            terminal_output.print_line(line)
        code = exit_codes.DONE if result.is_successful else exit_codes.FAILED
        return _display_flows_until_signal(demo, now, stop) if keep else code
    except StopSignalError as stopped:
        return 128 + stopped.number
    finally:
        demo.close()


def format_demo_result(result: DemoResult) -> Iterator[str]:
    """Format the demo's results as lines of text: comparison, throughput, latency, failover."""
    found = result.comparison
    yield from str(found).splitlines()
    yield ""
    yield (
        f"records     {found.records:,} ({text_format.format_size(found.size)} "
        "of keys and "
        "values) in "
        f"{plurals.format_count(len({each.source.topic for each in found.partitions}), 'topic')}"
    )
    backlog = result.backlog
    yield (
        "throughput  "
        f"{text_format.format_megabytes(backlog.size / backlog.seconds)} MB/s, "
        f"{text_format.format_count(backlog.records / backlog.seconds)} "
        "records/s (compressed "
        "batches; "
        "both clusters share this machine)"
    )
    yield (
        f"latency     p50 {result.latencies.p50_ms:.1f} ms, p99 {result.latencies.p99_ms:.1f} ms "
        "from producer to consumer, at a low rate"
    )
    yield from (f"halted      {each}" for each in result.halted_partitions)
    if found.is_equal:
        yield "proof       all records equal: key, value, headers, timestamp, order"
    else:
        yield (
            "proof       DIFFERENT in "
            f"{plurals.format_count(len(found.differing_partitions), 'partition')}"
        )
    if result.failover is not None:
        yield from _format_failover_result(result.failover)


def _format_failover_result(moved: DemoFailoverResult) -> Iterator[str]:
    yield (
        f"failover    {plurals.format_count(moved.before, 'record')} processed on "
        f"{moved.origin}, "
        f"{moved.after:,} on {moved.destination}, "
        f"{text_format.format_duration(moved.seconds)} in "
        "total"
    )
    if moved.is_exactly_once:
        yield f"            each of the {moved.sent:,} records sent was processed once"
    else:
        yield (
            f"            WRONG: of {moved.sent:,} records {moved.missing:,} were not processed, "
            f"{moved.reread:,} were processed again"
        )


class _RunningNodeAdapter:
    """Adapter that lets the main loop of `mm2 run` display a node that is already running. The demo
    starts and stops the node."""

    def __init__(self, node: Mm2Node) -> None:
        self.engine = node.engine
        self.statuses = node.statuses
        self._node = node

    @property
    def has_ended(self) -> bool:
        return self._node.has_ended

    @property
    def crash_reason(self) -> str:
        return self._node.crash_reason

    def start(self) -> None:
        """Do nothing, because the node is already running."""

    def stop(self) -> None:
        """Do nothing, because the demo stops the node."""


def _display_flows_until_signal(demo: Demo, now: SystemClock, stop: StopSignals) -> int:
    """Display the flows as `mm2 run` does, until a stop signal is received."""
    from mm2.node.metrics_and_health import NodeTelemetry
    from mm2.status import retention_risk_monitor  # loads Kafka's client library
    from mm2.status.retention_risk_monitor import RetentionWatch

    demo.start_trickle_producer()
    watch = RetentionWatch(
        demo.replication_node, open_source=retention_risk_monitor.open_retention_reader, clock=now
    )
    observed = NodeTelemetry(demo.replication_node, demo.settings, clock=now, watch=watch)
    exporter, note = run.start_metrics_exporter(
        demo.settings.metrics, observed.source, port=None, beside=observed.pages
    )
    for line in _list_inspection_commands(demo):
        terminal_output.print_line(line)
    around = RunLoopDependencies(
        clock=now,
        display=terminal_flow_display.choose_display(table_wanted=True),
        metrics=observed.metrics,
        stop_signal=lambda: stop.signal_number,
        wait=run.make_signal_waiter(stop, observed.heartbeat.record_iteration),
        notes=(f"mm2 {version.VERSION}{note}", "Ctrl-C stops the replication and both clusters"),
    )
    try:
        ending = RunLoop(_RunningNodeAdapter(demo.replication_node), StopCondition(), around).run()
    finally:
        if exporter is not None:
            exporter.stop()
    for line in ending.errors:
        terminal_output.print_line(f"mm2: {line}", err=True)
    return ending.code


def _list_inspection_commands(demo: Demo) -> Iterator[str]:
    jars = shlex.quote(f"{kafka_jars.ensure_jars()}/*")
    yield ""
    yield "Running until Ctrl-C, with 50 records/s to the topic trickle."
    for name, each in demo.clusters.items():
        yield f"  {name:<10}{each.bootstrap}"
    yield f"  settings  {demo.settings_file}; to show them: mm2 config show {demo.settings_file}"
    yield "  read      a mirror topic with Kafka's console consumer:"
    yield (
        f"    java -cp {jars} org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "
        f"{demo.clusters['west'].bootstrap} --topic east.trickle --command-config "
        f"{shlex.quote(str(demo.get_client_properties_path('west')))}"
    )
    yield ""


def _is_option_default(context: click.Context, option: str) -> bool:
    parent = context.parent
    return parent is None or parent.get_parameter_source(option) is (
        click.core.ParameterSource.DEFAULT
    )
