"""One row of the benchmark: each contestant mirrors each workload, in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench import latency, log_counts, producing, relay, results, workloads
from tests.bench.contest import FailedError, Running
from tests.bench.contestants import Contestant, Flow
from tests.bench.latency import Way
from tests.bench.places import Cleaner, Clusters
from tests.bench.results import Copy, Results, Trickle
from tests.bench.rows import AnyRow, Row
from tests.bench.throughput import Throughput, Watch
from tests.bench.workloads import Produced
from tests.support import eventually, kafka

Say = Callable[[str], None]

PER_SECOND = 500.0
_MIRROR_TOPIC_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`latency_s` 0: latency is not measured. Nor is it in the `warm_up_s` before."""

    rows: Sequence[AnyRow]
    rounds: int
    latency_s: float
    contestants: Sequence[Contestant]
    warm_up_s: float = 5.0


class Benchmark:
    """One row on its two running clusters. `folder` gets settings files and logs."""

    def __init__(
        self,
        options: Options,
        clusters: Clusters,
        *,
        measured: Results,
        folder: Path,
        say: Say,
    ) -> None:
        self.produced: list[Produced] = []
        self._measured = measured
        self._options = options
        self._clusters = clusters
        self._folder = folder
        self._say = say
        self._cleaners = [Cleaner(each) for each in clusters.both]
        self._runs = 0

    def run(self, row: Row) -> None:
        """Produce once, then all rounds."""
        for workload in row.workloads:
            self._say(f"producing {workload.records:,} records of {workload.record_bytes} B")
            self.produced.append(producing.produce(workload, self._clusters.source))
        for cleaner in self._cleaners:
            cleaner.keep_what_is_there()
        for number in range(1, self._options.rounds + 1):
            self._round(number, latency_s=self._options.latency_s if row.latency else 0.0)

    def _round(self, number: int, *, latency_s: float) -> None:
        """Everybody once with each workload; who begins changes from round to round."""
        everybody = self._options.contestants
        shift = (number - 1) % len(everybody)
        for produced in self.produced:
            if produced.workload.floor:
                self._relay(produced, number)
            # Latency is that of a process which has copied something: Java is warm by then.
            last = produced is self.produced[-1]
            for contestant in [*everybody[shift:], *everybody[:shift]]:
                self._mirror(contestant, produced, number, latency_s=latency_s if last else 0.0)
        if latency_s:
            self._one_hop(number)

    # One run

    def _mirror(
        self,
        contestant: Contestant,
        produced: Produced,
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
        copied = Copy(contestant=contestant.key, topic=produced.workload.topic, round=number)
        with Running(
            contestant,
            self._flow(topics),
            self._folder,
            one_core=produced.workload.one_core,
        ) as running:
            watch = Watch(
                running,
                produced,
                target=self._clusters.target,
                brokers=self._clusters.brokers,
            )
            try:
                copied = _measured(copied, watch.measure())
                if latency_s:
                    mirrored = running.flow.mirrored(trickle)
                    self._trickle(contestant.key, number, topic=trickle, mirrored=mirrored)
            except FailedError as failed:
                copied = replace(copied, fault=str(failed))
                self._say(failed.log)
        # Counted when nobody writes any more: what was doubled at the end is seen, too.
        fault = copied.fault or log_counts.verdict(produced.records, watch.counted())
        copied = replace(copied, fault=fault, peak_bytes=running.peak_bytes)
        self._note(copied)

    def _trickle(self, key: str, number: int, *, topic: str, mirrored: str) -> None:
        """Latency at a steady rate; a failure is a fault of the contestant's."""
        taken = Trickle(contestant=key, round=number)
        clusters = self._clusters
        target = clusters.source if mirrored == topic else clusters.target
        try:
            eventually.eventually(
                lambda: mirrored in kafka.topics(target.client_properties()),
                _MIRROR_TOPIC_S,
                f"topic {mirrored} is there",
            )
            measured = latency.measure(
                Way(
                    source=clusters.source.client_properties(),
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

    def _relay(self, produced: Produced, number: int) -> None:
        self._clean()
        workload = produced.workload
        data = producing.data_folder(self._clusters.source)
        relayed = relay.measure(data, workload.topic, partitions=workload.partitions)
        cpu_s_per_gb = relayed.cpu_s / (produced.size / 1e9)
        copied = Copy(
            contestant=results.RELAY,
            topic=workload.topic,
            round=number,
            bytes_s=produced.size / relayed.took_s,
            records_s=produced.count / relayed.took_s,
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

    def _note(self, one: Copy | Trickle) -> None:
        self._measured.add(one)
        self._say(_told(one))

    def _flow(self, topics: tuple[str, ...]) -> Flow:
        return Flow(
            source=f"east{self._runs}",
            target=f"west{self._runs}",
            source_properties=self._clusters.source_properties,
            target_properties=self._clusters.target_properties,
            topics=topics,
            replication=self._clusters.place.replication,
        )

    def _make_topic(self, name: str) -> None:
        source = self._clusters.source.client_properties()
        kafka.create_topic(source, name, partitions=workloads.PARTITIONS)

    def _clean(self) -> None:
        for cleaner in self._cleaners:
            cleaner.clean()
        for cleaner in self._cleaners:
            if not cleaner.settle():
                self._say("a broker is still busy with what was before")


def _measured(copied: Copy, figures: Throughput) -> Copy:
    return replace(
        copied,
        bytes_s=figures.bytes_s,
        records_s=figures.records_s,
        cpu_steady_s_per_gb=figures.cpu_steady_s_per_gb,
        cpu_total_s_per_gb=figures.cpu_total_s_per_gb,
        first_s=figures.first_s,
        others_cores=figures.others_cores,
    )


def _told(one: Copy | Trickle) -> str:
    """One line for people who wait."""
    head = f"round {one.round}, {one.contestant}"
    if one.fault:
        return f"{head}: FAULT: {one.fault}"
    if isinstance(one, Trickle):
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
