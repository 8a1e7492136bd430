"""`make bench`: this product and Java MirrorMaker 2, in turns, on the same brokers and data.

Prints Markdown tables to stdout and what is going on to stderr. Exit code 1 when a contestant
failed, lost or doubled records or tasks; that a figure falls short of what was expected is said,
no more.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from connect_runtime.system.system_clock import SystemClock
from tests.bench import (
    benchmark,
    contestants,
    following,
    machine,
    rebalancing,
    recorded,
    recovery,
    report,
    rereading,
    rows,
    scraping,
    starting,
)
from tests.bench.benchmark import Benchmark, Options, Say
from tests.bench.contestants import Contestant
from tests.bench.places import Clusters
from tests.bench.recorded import Recorded
from tests.bench.results import Results
from tests.bench.rows import (
    AnyRow,
    Following,
    Rebalancing,
    Recovering,
    Rereading,
    Row,
    Scraping,
    Starting,
)
from tests.bench.workloads import Produced

_CLOCK = SystemClock()
_STARTED_S = _CLOCK.now_s()


def _say(line: str) -> None:
    click.echo(f"[{_CLOCK.now_s() - _STARTED_S:6.1f} s] {line}", err=True)


def run(options: Options, folder: Path, json_path: Path | None = None) -> Recorded:
    """The chosen rows, each on two clusters of its own; the file has what is measured at once."""
    measured = Results()
    produced: list[Produced] = []
    whole = Recorded(
        setting=recorded.setting_of(
            options.contestants,
            machine=machine.line(),
            versions=machine.versions(),
            rounds=options.rounds,
            latency_s=options.latency_s,
            per_second=benchmark.PER_SECOND,
            produced=produced,
        ),
        measured=measured,
    )

    def say(line: str) -> None:
        """Whatever was measured was just told: long rows are ended by impatient people."""
        _say(line)
        if json_path is not None:
            json_path.write_text(whole.to_json())

    for row in options.rows:
        say(f"row {row.key}: {row.describe}")
        produced += _measure(row, options, measured, folder=folder, say=say)
        say(f"row {row.key} is done")
    return whole


def _measure(
    row: AnyRow,
    options: Options,
    measured: Results,
    *,
    folder: Path,
    say: Say,
) -> list[Produced]:
    rounds = options.rounds
    match row:
        case Row():
            with Clusters(row.place) as clusters:
                one = Benchmark(options, clusters, measured=measured, folder=folder, say=say)
                one.run(row)
            return one.produced
        case Rebalancing():
            rebalancing.run(row, rounds=rounds, measured=measured, folder=folder, say=say)
        case Starting():
            who = _with_inline(options)
            starting.run(row, who=who, rounds=rounds, measured=measured, folder=folder, say=say)
        case Recovering():
            # A group's node has one tuning only: what the setting says.
            keys = [each.key for each in _with_inline(options) if each.key in recovery.KEYS]
            recovery.run(row, keys=keys, rounds=rounds, measured=measured, folder=folder, say=say)
        case Following():
            following.run(row, rounds=rounds, measured=measured, folder=folder, say=say)
        case Rereading():
            rereading.run(row, rounds=rounds, measured=measured, folder=folder, say=say)
        case Scraping():
            scraping.run(row, rounds=rounds, measured=measured, folder=folder, say=say)
    return []


def _with_inline(options: Options) -> list[Contestant]:
    """Who copies without Spark is one more contestant where life and not speed is measured."""
    ours = contestants.MM2_RUN in options.contestants
    return [*options.contestants, *([contestants.MM2_INLINE] if ours else [])]


@click.command()
@click.option(
    "--mb",
    "megabytes",
    type=click.IntRange(1, 20_000),
    default=1_000,
    show_default=True,
    help="MB of 1 KB records in the first row; the others are in proportion.",
)
@click.option(
    "--row",
    "row_keys",
    multiple=True,
    help="Repeatable; all without it: " + ", ".join(row.key for row in rows.every(1)) + ".",
)
@click.option("--rounds", type=click.IntRange(1, 20), default=3, show_default=True)
@click.option(
    "--latency",
    "latency_s",
    type=click.FloatRange(0, 600),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="For each contestant and round; 0: none.",
)
@click.option(
    "--only",
    "keys",
    multiple=True,
    type=click.Choice([each.key for each in contestants.ALL]),
    help="Repeatable.",
)
@click.option(
    "--full",
    is_flag=True,
    envvar="FULL",
    help="900 tasks instead of 300 in the row of Connect groups, with the default delay.",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write every single figure there; tests.bench.tables makes one report of several.",
)
def main(
    *,
    megabytes: int,
    rounds: int,
    latency_s: float,
    keys: tuple[str, ...],
    row_keys: tuple[str, ...],
    full: bool,
    json_path: Path | None,
) -> None:
    """Measure mm2 and Java MirrorMaker 2 side by side.

    \b
    To try it out (a few minutes), and one row alone:
      python -m tests.bench.run --mb 100 --rounds 1 --latency 5 --row main
      python -m tests.bench.run --row tiny
      FULL=1 python -m tests.bench.run --row rebalance --rounds 1
    """
    try:
        chosen_rows = rows.chosen(rows.every(megabytes, full=full), row_keys)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--row") from None
    chosen = [each for each in contestants.ALL if not keys or each.key in keys]
    if machine.load() > 0.5:
        _say(f"the machine is busy (load {machine.load():.1f}): the figures will be worth little")
    with tempfile.TemporaryDirectory(prefix="mm2-bench-") as name:
        options = Options(
            rows=chosen_rows,
            rounds=rounds,
            latency_s=latency_s,
            contestants=chosen,
        )
        done = run(options, Path(name), json_path)
    click.echo(report.render(done.setting, done.measured))
    sys.exit(1 if done.measured.faults() else 0)


if __name__ == "__main__":
    main()
