"""`mm2 demo`: see it work on this machine, from nothing to proof."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from connect_runtime.base import amounts
from connect_runtime.system import clock, java, signals
from mm2.app import displays, exits, figures, narrator, noise, run_loop, terminal, version
from mm2.app.cli import run
from mm2.sandbox import artefacts

if TYPE_CHECKING:
    from mm2.app import demo, demo_move, node


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave clusters and mirror running until Ctrl-C.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=2, max=3_600),
    default=10.0,
    show_default=True,
    help="How long live traffic goes on.",
)
@click.option(
    "--records",
    type=click.IntRange(min=10, max=10_000_000),
    default=25_000,
    show_default=True,
    help="Records of each large topic before the mirror starts.",
)
@click.pass_context
def command(context: click.Context, *, keep: bool, seconds: float, records: int) -> int:
    """Mirror real traffic between two real Kafka clusters on this machine, prove it equal, and move
    a consumer group from one to the other.

    Nothing is left behind. Needs Java; the first time it downloads Kafka (60 MB).

    \b
    Examples:
      mm2 demo
      mm2 demo --seconds 60
      mm2 demo --keep             move nobody; look around afterwards, end with Ctrl-C
    """
    java.find()
    artefacts.jars()
    if _is_default(context, "log_level"):
        # What passes by itself is no part of the story; what does not is told at the end.
        logging.getLogger().setLevel(logging.ERROR)
    now = clock.SystemClock()
    with signals.StopSignals(exit_now=displays.exit_now) as stop, noise.to_file() as log_file:
        code = _run(now, stop, keep=keep, seconds=seconds, records=records)
        log_file.keep = code == exits.FAILED
    return code


def _run(
    now: clock.SystemClock,
    stop: signals.StopSignals,
    *,
    keep: bool,
    seconds: float,
    records: int,
) -> int:
    # Here and not above: what is wrong is told before Kafka's and Spark's libraries are loaded.
    from mm2.app import demo, demo_waits

    made = demo.Demo(
        demo.Options(seconds=seconds, records=records, moves=not keep),
        tell=narrator.Narrator(now),
        now=now,
        stop_signal=lambda: stop.signal_number,
    )
    try:
        result = made.run()
        click.echo()
        for line in lines(result):
            terminal.print_line(line)
        code = exits.DONE if result.good else exits.FAILED
        return _keep(made, now, stop) if keep else code
    except demo_waits.StoppedError as stopped:
        return 128 + stopped.number
    finally:
        made.close()


def lines(result: demo.Result) -> Iterator[str]:
    """What the demo has to show, for stdout."""
    found = result.comparison
    yield from str(found).splitlines()
    yield ""
    yield (
        f"records     {found.records:,} ({figures.size(found.size)} of keys and values) in "
        f"{amounts.counted(len({each.source.topic for each in found.partitions}), 'topic')}"
    )
    backlog = result.backlog
    yield (
        f"throughput  {figures.megabytes(backlog.size / backlog.seconds)} MB/s, "
        f"{figures.count(backlog.records / backlog.seconds)} records/s (compressed batches; "
        "both clusters share this machine)"
    )
    yield (
        f"latency     p50 {result.latencies.p50_ms:.1f} ms, p99 {result.latencies.p99_ms:.1f} ms "
        "from producer to consumer, of a trickle"
    )
    yield from (f"stopped     {each}" for each in result.stopped)
    if found.equal:
        yield "proof       every record equal: key, value, headers, timestamp, order"
    else:
        yield f"proof       DIFFERENT in {amounts.counted(len(found.differing), 'partition')}"
    if result.moved is not None:
        yield from _move_lines(result.moved)


def _move_lines(moved: demo_move.Moved) -> Iterator[str]:
    yield (
        f"failover    {amounts.counted(moved.before, 'record')} processed on {moved.origin}, "
        f"{moved.after:,} on {moved.destination}, {figures.duration(moved.seconds)} in all"
    )
    if moved.exact:
        yield f"            each of the {moved.sent:,} records sent was processed once"
    else:
        yield (
            f"            WRONG: of {moved.sent:,} records {moved.missing:,} were not processed, "
            f"{moved.read_again:,} were processed again"
        )


class _AlreadyRunning:
    """The mirror as the loop of `mm2 run` wants it; who started it stops it."""

    def __init__(self, made: node.Node) -> None:
        self.engine = made.engine
        self.statuses = made.statuses
        self._made = made

    @property
    def ended(self) -> bool:
        return self._made.ended

    @property
    def crashed(self) -> str:
        return self._made.crashed

    def start(self) -> None:
        """It has been."""

    def stop(self) -> None:
        """Later."""


def _keep(made: demo.Demo, now: clock.SystemClock, stop: signals.StopSignals) -> int:
    """Show the mirror as `mm2 run` does, until a signal comes."""
    from mm2.app import loss_watch, observing  # not above: they load Kafka's library

    made.keep_trickling()
    watch = loss_watch.LossWatch(made.mirror, open_source=loss_watch.open_source, clock=now)
    observed = observing.Observing(made.mirror, made.settings, clock=now, watch=watch)
    exporter, note = run.serve(
        made.settings.metrics, observed.source, port=None, beside=observed.served
    )
    for line in _how_to_look(made):
        terminal.print_line(line)
    around = run_loop.Surroundings(
        clock=now,
        display=displays.choose(table_wanted=True),
        metrics=observed.metrics,
        stop_signal=lambda: stop.signal_number,
        wait=run.waiting(stop, observed.beats.beat),
        notes=(f"mm2 {version.VERSION}{note}", "Ctrl-C ends the mirror and both clusters"),
    )
    try:
        ending = run_loop.RunLoop(_AlreadyRunning(made.mirror), run_loop.Goal(), around).run()
    finally:
        if exporter is not None:
            exporter.stop()
    for line in ending.errors:
        terminal.print_line(f"mm2: {line}", err=True)
    return ending.code


def _how_to_look(made: demo.Demo) -> Iterator[str]:
    jars = shlex.quote(f"{artefacts.jars()}/*")
    yield ""
    yield "Everything goes on until Ctrl-C, with 50 records/s to the topic trickle."
    for name, each in made.clusters.items():
        yield f"  {name:<10}{each.bootstrap}"
    yield f"  settings  {made.settings_file}, shown by: mm2 config show {made.settings_file}"
    yield "  read      the mirror of a topic, with Kafka's own consumer:"
    yield (
        f"    java -cp {jars} org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "
        f"{made.clusters['west'].bootstrap} --topic east.trickle"
    )
    yield ""


def _is_default(context: click.Context, option: str) -> bool:
    parent = context.parent
    return parent is None or parent.get_parameter_source(option) is (
        click.core.ParameterSource.DEFAULT
    )
