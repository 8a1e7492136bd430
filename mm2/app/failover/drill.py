"""The whole story on two clusters of this machine, with the user's own flow: applications work,
one cluster is lost or left as planned, the group goes on on the other one. It states what it took.

A composition root: all that it starts ends with it. Nothing reaches the user's clusters, and no
hook of the user's is run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from connect_runtime.adapters.config import properties_source
from connect_runtime.base import amounts, errors, ids
from connect_runtime.base import clock as base_clock
from connect_runtime.system import polling, processes, threads
from mm2.app.failover import drill_file, equipment, journal_file, moving
from mm2.app.looks import sides
from mm2.app.settings import load
from mm2.app.settings import settings as app_settings
from mm2.core import flows
from mm2.core.failover import journal, orders, plan, verdicts
from mm2.sandbox import clients, cluster, log_reader
from mm2.sandbox.traffic import applications, topics

PARTITIONS = 2
WORKED = 500
"""So many records are processed before the cluster is left."""
START_S = 180.0
SETTLE_S = 1.0
LOOK_S = 0.1
LATER = 1_000_000_000
"""The first number of what is written on the other cluster."""
SAID_CHARS = 4_000
QUIET_S = 2.0
UNREAD_S = 1.0
"""So long the flow goes on behind the group's back before the cluster is lost, so that there is
something left to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`rto_s`: from the loss of the cluster, or the stop of its producers, until the group has
    processed its first record on the other one; `all_s`: until it had seen all. `lost` records were
    acknowledged by the cluster left and are nowhere else; `read_again` were processed twice;
    `skipped` are those of the lost that had arrived, and that the group passed over.
    `report` is what the move itself has told."""

    kind: orders.Kind
    sent: int
    before: int
    after: int
    lost: int
    skipped: int
    read_again: int
    rto_s: float
    all_s: float
    report: Mapping[str, Any]

    @property
    def failures(self) -> list[str]:
        """What went wrong, in words: something that arrived is missing, more was read again than
        the move's report allows, or a planned move lost or repeated something."""
        found = []
        if self.skipped:
            records = amounts.counted(self.skipped, "record")
            found.append(f"the group skipped {records} that had been replicated")
        bound = self.report["read_again_max"]
        if bound is not None and self.read_again > bound:
            again = amounts.counted(self.read_again, "record", "were")
            found.append(f"{again} read again, but the report says at most {bound:,}")
        if self.kind is not orders.Kind.EMERGENCY:
            if self.lost:
                lost = amounts.counted(self.lost, "record", "were")
                found.append(f"{lost} lost, though the move was planned")
            if self.read_again:
                again = amounts.counted(self.read_again, "record", "were")
                found.append(f"{again} read again, though the move was planned")
        return found

    @property
    def good(self) -> bool:
        return not self.failures

    def as_json(self) -> dict[str, Any]:
        """`read_again_max` and `failures` beside what was measured."""
        found = dataclasses.asdict(self)
        return {
            "version": 1,
            **found,
            "kind": self.kind.value,
            "read_again_max": self.report["read_again_max"],
            "failures": self.failures,
            "report": dict(self.report),
        }


def skipped(arrived: Collection[int], before: Collection[int], after: Collection[int]) -> set[int]:
    """What stood on the mirror when nobody could write there any more, and was never processed."""
    return {number for number in arrived if number < LATER}.difference(before, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class _People:
    """Who writes and reads on either cluster; each reading one is a member of the group."""

    writing: applications.Writing
    reading: applications.Reading
    writing_there: applications.Writing
    reading_there: applications.Reading


class _FirstSeen:
    """When a group has processed its first record, whatever else goes on: `at_s`."""

    def __init__(self, reading: applications.Reading, clock: base_clock.Clock) -> None:
        self.at_s: float | None = None
        self._reading = reading
        self._clock = clock
        self._threads = threads.Threads(on_unasked_end=lambda _: None)  # it ends by itself

    def __enter__(self) -> Self:
        self._threads.start("first record", self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.stop_all(START_S)

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_S / 4):
            if self._reading.processed:
                self.at_s = self._clock.now_s()
                return


class Drill:
    """Runs once, on one thread; `close` ends everything, however far it came."""

    def __init__(
        self,
        settings: app_settings.Settings,
        flow: flows.Flow,
        kind: orders.Kind,
        *,
        clock: base_clock.Clock,
        tell: Callable[[str], object],
    ) -> None:
        self._settings = settings
        self._flow = flow
        self._kind = kind
        self._clock = clock
        self._tell = tell
        self._open = contextlib.ExitStack()
        self._folder = Path(
            self._open.enter_context(tempfile.TemporaryDirectory(prefix="mm2-drill-"))
        )
        self._ends = (flow.source, flow.target)
        self._child: processes.Child | None = None
        self._clusters = [cluster.Cluster(alias) for alias in self._ends]
        for each in self._clusters:
            self._open.callback(each.close)

    def close(self) -> None:
        self._open.close()

    def run(self) -> Result:
        """Raises `ConnectError`."""
        self._tell("starting two clusters on this machine")
        cluster.start_all(self._clusters)
        people = self._people()
        people.writing.start()
        people.reading.start()
        path = self._mirror()
        settings = load.load(path, environment=os.environ)
        (flow,) = (each for each in settings.flows if each.name == self._flow.name)
        both = self._open.enter_context(
            sides.Sides(settings, flow, purpose="drill", clock=self._clock)
        )
        found = equipment.Equipment(
            settings=settings,
            both=both,
            clock=self._clock,
            patience=equipment.Patience(settle_s=SETTLE_S),
        )
        self._tell("waiting until applications work and the flow has caught up with them")
        self._until(
            lambda: len(people.reading.processed) >= WORKED and self._ready(found),
            "the group can be moved",
        )
        return self._move(found, people)

    def _people(self) -> _People:
        """On the other cluster the group reads the mirror, and what is written there later."""
        topic, group = drill_file.TOPIC, drill_file.GROUP
        mirror = self._flow.remote_topic(topic)
        here, there = (each.client_properties() for each in self._clusters)
        for properties in (here, there) if mirror != topic else (here,):
            made = clients.Clients(properties, alias=group)
            topics.create(made, [topics.Topic(name=topic, partitions=PARTITIONS)])
            applications.begin(properties, group, topic, partitions=PARTITIONS)
        people = _People(
            writing=applications.Writing(here, topic, partitions=PARTITIONS),
            reading=applications.Reading(here, group, topic),
            writing_there=applications.Writing(there, topic, partitions=PARTITIONS, first=LATER),
            reading_there=applications.Reading(there, group, *dict.fromkeys((mirror, topic))),
        )
        for each in (people.writing, people.reading, people.writing_there, people.reading_there):
            self._open.callback(each.end)
        return people

    def _mirror(self) -> Path:
        """`mm2 run` of the user's flow, as a process of its own; its file."""
        flat = self._settings.flat
        here, there = (each.bootstrap for each in self._clusters)
        props = drill_file.sandboxed(flat.resolve(flat.props), self._ends, (here, there))
        path = self._folder / "drill.properties"
        path.touch(mode=0o600)
        lines = (properties_source.render(key, value) for key, value in props.items())
        path.write_text("\n".join(lines) + "\n", encoding="iso-8859-1")
        said = self._open.enter_context((self._folder / "run.log").open("wb"))
        command = [sys.executable, "-m", "mm2.app.cli.main", "run", str(path)]
        self._tell("starting the flow with the settings of the file")
        child = processes.start([*command, "--metrics-port", "0"], output=said)
        self._open.callback(child.kill)
        self._child = child
        return path

    def _ready(self, found: equipment.Equipment) -> bool:
        """Could the group be moved now, also if the cluster were lost?"""
        lost = self._kind is orders.Kind.EMERGENCY
        planner = dataclasses.replace(found, lost=lost).planner
        try:
            made = planner.make(self._wanted(orders.Kind.EMERGENCY))
        except errors.ConnectError:
            return False
        return self._has_all(made) and made.verdict is not verdicts.Verdict.NO_GO

    def _has_all(self, made: plan.Plan) -> bool:
        places = {each.partition for group in made.groups for each in group.partitions}
        wanted = {ids.TopicPartition(drill_file.TOPIC, number) for number in range(PARTITIONS)}
        copied = {each.partition for each in made.mirrored if each.copied_to}
        return wanted <= places and wanted <= copied

    def _wanted(self, kind: orders.Kind) -> orders.Wanted:
        origin, destination = self._ends
        return orders.Wanted(origin=origin, destination=destination, kind=kind)

    def _move(self, found: equipment.Equipment, people: _People) -> Result:
        left_s = self._clock.now_s()

        def told(line: str) -> None:
            nonlocal left_s
            self._tell(line)
            if line.startswith("stop-producers: no hook"):
                left_s = self._clock.now_s()
                people.writing.stop()
            elif line.startswith("stop-consumers: no hook"):
                people.reading.stop()
            elif line.startswith("start-consumers: no hook"):
                people.reading_there.start()
            elif line.startswith("start-producers: no hook"):
                people.writing_there.start()

        if self._kind is orders.Kind.EMERGENCY:
            people.reading.cut_off = True
            people.reading.stop()
            polling.until(lambda: False, timeout_s=UNREAD_S)
            self._tell(f"killing the brokers of {self._flow.source}")
            left_s = self._clock.now_s()
            self._clusters[0].kill()
        with _FirstSeen(people.reading_there, self._clock) as first:
            report = self._execute(found, told)
            self._child = None  # the flow has ended its work
            for each in (people.reading_there, people.writing_there):
                if not each.running:
                    each.start()
            self._until(lambda: first.at_s is not None, "the group goes on")
        assert first.at_s is not None, "it was waited for"
        return self._result(report, people, left_s=left_s, rto_s=first.at_s - left_s)

    def _arrived(self) -> list[int]:
        """What stands on the mirror, which nobody can write to any more."""
        mirror = self._flow.remote_topic(drill_file.TOPIC)
        properties = self._clusters[1].client_properties()
        with log_reader.LogReader(properties, alias=self._flow.target) as reader:
            return [
                int(value or b"")
                for number in range(PARTITIONS)
                for chunk in reader.read(ids.TopicPartition(mirror, number))
                for _, value, *_ in chunk.contents
            ]

    def _result(
        self, report: Mapping[str, Any], people: _People, *, left_s: float, rto_s: float
    ) -> Result:
        before, after = people.reading.processed, people.reading_there.processed
        self._until(lambda: any(each >= LATER for each in after), "it has read what came before")
        if self._kind is orders.Kind.PLANNED:
            sent = people.writing.sent
            self._until(lambda: sent <= {*before, *after}, "it has read all")
        all_s = self._clock.now_s() - left_s
        people.writing_there.stop()
        self._until(lambda: people.writing_there.sent <= set(after), "it has read all")
        self._until_quiet(after)
        people.reading_there.stop()
        mine = [each for each in after if each < LATER]
        return Result(
            kind=self._kind,
            sent=len(people.writing.sent),
            before=len(before),
            after=len(mine),
            lost=len(people.writing.sent - {*before, *mine}),
            skipped=len(skipped(self._arrived(), before, mine)),
            read_again=len(before) + len(mine) - len({*before, *mine}),
            rto_s=rto_s,
            all_s=all_s,
            report=report,
        )

    def _until_quiet(self, processed: Sequence[int]) -> None:
        """What was lost nobody waits for: the group is done when nothing more comes."""
        more = True
        while more:
            count = len(processed)
            polling.until(lambda: False, timeout_s=QUIET_S)
            more = len(processed) > count

    def _execute(
        self, found: equipment.Equipment, tell: Callable[[str], None]
    ) -> Mapping[str, Any]:
        about = journal.Begun(wanted=self._wanted(self._kind), flow=self._flow.name)
        begin = journal.begun(about, at_ms=self._clock.wall_ms())
        with journal_file.JournalFile(self._folder / "journal.jsonl", begin=begin) as file:
            with contextlib.closing(found.tools(tell)) as made:
                moving.Mover(file, made).run()
            report: Mapping[str, Any] = file.found.details[moving.Step.REPORT]
        return report

    def _until(self, done: Callable[[], bool], what: str) -> None:
        """Raises `FatalError` when it takes too long, or when the flow's process has ended."""
        end_s = self._clock.now_s() + START_S
        while not done():
            ended = None if self._child is None else self._child.poll()
            if ended is not None or self._clock.now_s() > end_s:
                said = (self._folder / "run.log").read_text(errors="replace")[-SAID_CHARS:]
                why = f"not within {START_S:g} s" if ended is None else f"mm2 run ended ({ended})"
                raise errors.FatalError(f"waiting until {what}: {why}; mm2 run said: {said}")
            polling.until(lambda: False, timeout_s=LOOK_S)
