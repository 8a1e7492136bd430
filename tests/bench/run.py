"""`make bench`: this product and Java MirrorMaker 2, in turns, on the same brokers and data.

Prints Markdown tables to stdout and what is going on to stderr. Exit code 1 when a contestant
failed, lost or doubled records; that a figure falls short of what was expected is said, no more.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from connect_runtime.system import clock
from mm2.sandbox import cluster
from tests.bench import (
    contest,
    contestants,
    latency,
    log_counts,
    machine,
    places,
    process_tree,
    relay,
    report,
    results,
    throughput,
    workloads,
)
from tests.support import eventually, kafka

PER_SECOND = 500.0
_MIRROR_TOPIC_S = 60.0

_CLOCK = clock.SystemClock()
_STARTED_S = _CLOCK.now_s()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`latency_s` 0: latency is not measured. Nor is it in the `warm_up_s` before.

    `json_path` gets every figure as soon as it is there.
    """

    megabytes: int
    rounds: int
    latency_s: float
    contestants: Sequence[contestants.Contestant]
    warm_up_s: float = 5.0
    json_path: Path | None = None


class Benchmark:
    """Two running clusters and what happens on them. `folder` gets settings files and logs."""

    def __init__(
        self, options: Options, source: cluster.Cluster, target: cluster.Cluster, folder: Path
    ) -> None:
        self.measured = results.Results()
        self.produced: list[workloads.Produced] = []
        self._options = options
        self._source = source
        self._target = target
        self._folder = folder
        both = (source, target)
        self._cleaners = [places.Cleaner(each) for each in both]
        self._brokers = [process_tree.ProcessTree(each.brokers[1].pid) for each in both]
        self._runs = 0

    def run(self) -> None:
        """Produce once, then all rounds."""
        for workload in workloads.of_size(self._options.megabytes):
            _say(f"producing {workload.records:,} records of {workload.record_bytes} B")
            self.produced.append(workloads.produce(workload, self._source))
        for cleaner in self._cleaners:
            cleaner.keep_what_is_there()
        for number in range(1, self._options.rounds + 1):
            self._round(number)

    def _round(self, number: int) -> None:
        """Everybody once with each workload; who begins changes from round to round."""
        everybody = self._options.contestants
        shift = (number - 1) % len(everybody)
        *earlier, last = self.produced
        for produced in earlier:
            self._relay(produced.workload, number)
            for contestant in [*everybody[shift:], *everybody[:shift]]:
                self._mirror(contestant, produced, number)
        self._relay(last.workload, number)
        for contestant in [*everybody[shift:], *everybody[:shift]]:
            # Latency is that of a process which has copied something: Java is warm by then.
            self._mirror(contestant, last, number, latency_s=self._options.latency_s)
        if self._options.latency_s:
            self._one_hop(number)

    # One run

    def _mirror(
        self,
        contestant: contestants.Contestant,
        produced: workloads.Produced,
        number: int,
        *,
        latency_s: float = 0.0,
    ) -> None:
        self._clean()
        self._runs += 1
        trickle = f"trickle{self._runs}"
        topics = (produced.workload.topic, *([trickle] if latency_s else []))
        if latency_s:
            self._make_topic(trickle)
        copied = results.Copy(
            contestant=contestant.key, topic=produced.workload.topic, round=number
        )
        with contest.Running(contestant, self._flow(topics), self._folder) as running:
            watch = throughput.Watch(running, produced, target=self._target, brokers=self._brokers)
            try:
                copied = _measured(copied, watch.measure())
                if latency_s:
                    mirrored = running.flow.mirrored(trickle)
                    self._trickle(contestant.key, number, topic=trickle, mirrored=mirrored)
            except contest.FailedError as failed:
                copied = replace(copied, fault=str(failed))
                _say(failed.log)
        # Counted when nobody writes any more: what was doubled at the end is seen, too.
        fault = copied.fault or log_counts.verdict(produced.records, watch.counted())
        copied = replace(copied, fault=fault, peak_bytes=running.peak_bytes)
        self._note(copied)

    def _trickle(self, key: str, number: int, *, topic: str, mirrored: str) -> None:
        """Latency at a steady rate; a failure is a fault of the contestant's."""
        taken = results.Trickle(contestant=key, round=number)
        target = self._source if mirrored == topic else self._target
        try:
            eventually.eventually(
                lambda: mirrored in kafka.topics(target.client_properties()),
                _MIRROR_TOPIC_S,
                f"topic {mirrored} is there",
            )
            measured = latency.measure(
                latency.Way(
                    source=self._source.client_properties(),
                    target=target.client_properties(),
                    topic=topic,
                    mirrored=mirrored,
                ),
                seconds=self._options.latency_s,
                warm_up_s=self._options.warm_up_s,
                per_second=PER_SECOND,
            )
        except (RuntimeError, AssertionError) as failed:
            taken = replace(taken, fault=str(failed))
        else:
            taken = replace(
                taken,
                fault=f"{measured.lost:,} records never came" if measured.lost else "",
                p50_ms=measured.p50_ms,
                p99_ms=measured.p99_ms,
                p999_ms=measured.p999_ms,
            )
        self._note(taken)

    # The floors

    def _relay(self, workload: workloads.Workload, number: int) -> None:
        self._clean()
        relayed = relay.measure(workloads.data_folder(self._source), workload.topic)
        cpu_s_per_gb = relayed.cpu_s / (workload.size / 1e9)
        copied = results.Copy(
            contestant=results.RELAY,
            topic=workload.topic,
            round=number,
            bytes_s=workload.size / relayed.took_s,
            records_s=workload.records / relayed.took_s,
            cpu_steady_s_per_gb=cpu_s_per_gb,
            peak_bytes=relayed.memory_bytes,
        )
        self._note(copied)

    def _one_hop(self, number: int) -> None:
        self._clean()
        topic = f"onehop{number}"
        self._make_topic(topic)
        self._trickle(results.ONE_HOP, number, topic=topic, mirrored=topic)

    # Around a run

    def _note(self, one: results.Copy | results.Trickle) -> None:
        self.measured.add(one)
        _say(_told(one))
        if self._options.json_path is not None:
            self._options.json_path.write_text(self.measured.to_json())

    def _flow(self, topics: tuple[str, ...]) -> contestants.Flow:
        return contestants.Flow(
            source=f"east{self._runs}",
            target=f"west{self._runs}",
            source_properties=self._source.client_properties(),
            target_properties=self._target.client_properties(),
            topics=topics,
        )

    def _make_topic(self, name: str) -> None:
        kafka.create_topic(self._source.client_properties(), name, partitions=workloads.PARTITIONS)

    def _clean(self) -> None:
        for cleaner in self._cleaners:
            cleaner.clean()
        for cleaner in self._cleaners:
            if not cleaner.settle():
                _say("a broker is still busy with what was before")


def _measured(copied: results.Copy, figures: throughput.Throughput) -> results.Copy:
    return replace(
        copied,
        bytes_s=figures.bytes_s,
        records_s=figures.records_s,
        cpu_steady_s_per_gb=figures.cpu_steady_s_per_gb,
        cpu_total_s_per_gb=figures.cpu_total_s_per_gb,
        first_s=figures.first_s,
        others_cores=figures.others_cores,
    )


def _told(one: results.Copy | results.Trickle) -> str:
    """One line for people who wait."""
    head = f"round {one.round}, {one.contestant}"
    if one.fault:
        return f"{head}: FAULT: {one.fault}"
    if isinstance(one, results.Trickle):
        return f"{head}: p50 {one.p50_ms:.2f} ms, p99 {one.p99_ms:.2f} ms, p99.9 {one.p999_ms:.2f}"
    said = [
        f"{value:.4g} {unit}"
        for value, unit in (
            (one.bytes_s and one.bytes_s / 1e6, "MB/s"),
            (one.cpu_steady_s_per_gb, "CPU-s/GB steady"),
            (one.cpu_total_s_per_gb, "from start"),
            (one.first_s, "s to the first record"),
            (one.peak_bytes and one.peak_bytes / 1e6, "MB memory"),
            (one.others_cores, "cores used by others"),
        )
        if value is not None
    ]
    return f"{head}, {one.topic}: {', '.join(said)}"


def _say(line: str) -> None:
    click.echo(f"[{_CLOCK.now_s() - _STARTED_S:6.1f} s] {line}", err=True)


def run(options: Options, folder: Path) -> tuple[report.Setting, results.Results]:
    """The whole benchmark on two clusters of its own."""
    source, target = places.make("bench-east"), places.make("bench-west")
    try:
        cluster.start_all([source, target])
        benchmark = Benchmark(options, source, target, folder)
        benchmark.run()
    finally:
        source.close()
        target.close()
    keys = [each.key for each in options.contestants]
    ours = contestants.MM2_RUN.key
    setting = report.Setting(
        machine=machine.line(),
        versions=machine.versions(),
        rounds=options.rounds,
        produced=benchmark.produced,
        contestants=options.contestants,
        ours=ours,
        rivals=[key for key in keys if key != ours and ours in keys],
        latency_s=options.latency_s,
        per_second=PER_SECOND,
    )
    return setting, benchmark.measured


@click.command()
@click.option(
    "--mb",
    "megabytes",
    type=click.IntRange(1, 20_000),
    default=1_000,
    show_default=True,
    help="MB of 1 KB records; three tenths of that in records of 100 B come on top.",
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
    "--readme",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Write the tables into this file, too, between its markers.",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write every single figure there.",
)
def main(
    *,
    megabytes: int,
    rounds: int,
    latency_s: float,
    keys: tuple[str, ...],
    readme: Path | None,
    json_path: Path | None,
) -> None:
    """Measure mm2 and Java MirrorMaker 2 side by side.

    \b
    To try it out (a few minutes):
      python -m tests.bench.run --mb 100 --rounds 1 --latency 5
    """
    chosen = [each for each in contestants.ALL if not keys or each.key in keys]
    if readme is not None:
        report.insert(readme.read_text(), "")  # that it has no markers is better known now
    if machine.load() > 0.5:
        _say(f"the machine is busy (load {machine.load():.1f}): the figures will be worth little")
    with tempfile.TemporaryDirectory(prefix="mm2-bench-") as name:
        options = Options(
            megabytes=megabytes,
            rounds=rounds,
            latency_s=latency_s,
            contestants=chosen,
            json_path=json_path,
        )
        setting, measured = run(options, Path(name))
    text = report.render(setting, measured)
    click.echo(text)
    if readme is not None:
        readme.write_text(report.insert(readme.read_text(), text))
    sys.exit(1 if measured.faults() else 0)


if __name__ == "__main__":
    main()
