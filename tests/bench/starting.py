"""From a process's start to the first record on the target, and to one in every partition.

Cold: neither the mirror's topics nor anything of the contestant is there. Warm: it was stopped in
order, everything is there, and records have come meanwhile. Records are counted in the broker's own
log, by batch headers (`log_counts`): markers are none. Then both logs are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from connect_runtime.system import java_installation, system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.copier.spark import jvm
from mm2.copier.spark.jvm import ClassArchive
from tests.bench import (
    contestants,
    figures,
    log_counts,
    machine,
    producing,
    results,
    standstill,
    topic_values,
)
from tests.bench.contest import FailedError, Running
from tests.bench.contestants import Contestant, Flow
from tests.bench.places import Cleaner, Clusters, Place
from tests.bench.results import Results, Start
from tests.bench.rows import Starting
from tests.support import kafka
from tests.support.kafka import Outgoing

Say = Callable[[str], None]

_POLL_S = 0.02
_EACH = 50
_CLOCK = SystemClock()


def run(
    row: Starting,
    *,
    who: Sequence[Contestant],
    rounds: int,
    measured: Results,
    folder: Path,
    say: Say,
) -> None:
    """Everybody once each round, cold and then warm; who begins changes from round to round."""
    with Clusters(Place()) as clusters:
        cleaners = [Cleaner(each) for each in clusters.both]
        for cleaner in cleaners:
            cleaner.keep_what_is_there()
        if contestants.MM2_RUN in who:
            _await_archive(row, clusters, folder)
        for number in range(1, rounds + 1):
            shift = (number - 1) % len(who)
            for contestant in [*who[shift:], *who[:shift]]:
                for cleaner in cleaners:
                    cleaner.clean()
                    cleaner.settle()
                one = _Starts(row, contestant, clusters, folder=folder, number=number)
                for found in one.run(say):
                    measured.add(found)
                    say(told(found))


def _await_archive(row: Starting, clusters: Clusters, folder: Path) -> None:
    """The first run of half a minute on a machine lets Spark start sooner from then on; what is
    measured are the others. Where none can be made it is measured without."""
    archive = ClassArchive(java_installation.find_java().banner, jvm.find_spark_home())
    if not archive.needs_creation:
        return
    name = kafka.create_topic(clusters.source.client_properties(), "start-archive")
    flow = Flow(
        source="a-archive",
        target="b-archive",
        source_properties=clusters.source.client_properties(),
        target_properties=clusters.target.client_properties(),
        topics=(name,),
    )
    with Running(contestants.MM2_RUN, flow, folder):
        system_clock.wait_until(
            lambda: not archive.needs_creation, timeout_s=row.limit_s, interval_s=0.5
        )


class _Starts:
    """One contestant, started cold and warm."""

    def __init__(
        self,
        row: Starting,
        contestant: Contestant,
        clusters: Clusters,
        *,
        folder: Path,
        number: int,
    ) -> None:
        self._row = row
        self._contestant = contestant
        self._number = number
        self._source = clusters.source.client_properties()
        self._target = clusters.target.client_properties()
        self._data = producing.data_folder(clusters.target)
        self._folder = folder / f"start-{contestant.key}-{number}"
        self._topic = f"start-{contestant.key}-{number}"
        self._flow = Flow(
            source=f"a-{self._topic}",
            target=f"b-{self._topic}",
            source_properties=self._source,
            target_properties=self._target,
            topics=(self._topic,),
        )
        self._sent = 0

    def run(self, say: Say) -> list[Start]:
        self._folder.mkdir()
        kafka.create_topic(self._source, self._topic, partitions=self._row.partitions)
        found: list[Start] = []
        for kind in results.START_KINDS:
            blank = Start(contestant=self._contestant.key, kind=kind, round=self._number)
            try:
                found.append(self._one(blank))
            except FailedError as failed:
                say(failed.log)
                return [*found, replace(blank, fault=str(failed))]
        return found

    def _one(self, blank: Start) -> Start:
        self._send()
        before = self._there()
        load = machine.load()
        with Running(self._contestant, self._flow, self._folder) as running:
            first_s = self._await(running, "a record", lambda now: now != before)
            all_s = self._await(
                running,
                "a record in every partition",
                lambda now: all(now[each] > before[each] for each in now),
            )
            cpu_s = running.tree.cpu_s()
            self._await(
                running, "every record", lambda now: all(now[each] >= self._sent for each in now)
            )
        judged = standstill.judge(
            topic_values.read(self._source, self._topic),
            topic_values.read(self._target, self._flow.mirrored(self._topic)),
        )
        return replace(
            blank,
            fault=judged.fault(doubles_allowed=False),
            first_s=first_s,
            all_s=all_s,
            cpu_s=cpu_s,
            load=load,
        )

    def _send(self) -> None:
        kafka.produce(
            self._source,
            self._topic,
            [
                Outgoing(value=b"%d" % (self._sent + number), partition=partition)
                for number in range(_EACH)
                for partition in range(self._row.partitions)
            ],
        )
        self._sent += _EACH

    def _there(self) -> dict[int, int]:
        name = self._flow.mirrored(self._topic)
        counts = log_counts.topic(self._data, name, partitions=self._row.partitions)
        return {number: each.records for number, each in counts.items()}

    def _await(
        self, running: Running, what: str, condition: Callable[[dict[int, int]], bool]
    ) -> float:
        """Seconds since the start. Raises `FailedError`."""

        def holds() -> bool:
            running.check()
            return condition(self._there())

        if not system_clock.wait_until(holds, timeout_s=self._row.limit_s, interval_s=_POLL_S):
            raise running.failure(
                f"no sign of {what} within {self._row.limit_s:.0f} s: {self._there()}"
            )
        return _CLOCK.now_s() - running.started_s


def told(one: Start) -> str:
    """One line for people who wait."""
    head = f"round {one.round}, {one.contestant}, {one.kind} start"
    if one.fault or one.first_s is None or one.all_s is None:
        return f"{head}: FAULT: {one.fault}"
    return (
        f"{head}: first record after {figures.number(one.first_s)} s, "
        f"in every partition after {figures.number(one.all_s)} s, "
        f"{figures.number(one.cpu_s or 0.0)} CPU-s"
    )
