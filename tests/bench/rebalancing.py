"""Workers of a Connect cluster come and go, ours and Java's in turns: what do its tasks notice?

Of three workers, the first stays and leads; the third is added, the second is killed and comes
back, the third is bounced (SIGTERM, and started again). Everything is as it comes but: a status
topic with the broker's times, no topics made by tasks, and Java logs warnings alone and finds its
plugins by their services. What counts is seen in the status topic and at the group coordinator
(`group_watch`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import java_server_process
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.bench import figures, group_watch, results, task_runs
from tests.bench.group_watch import Watch
from tests.bench.results import Rebalance, Results
from tests.bench.rows import Rebalancing
from tests.bench.task_runs import Item, Outcome
from tests.support import connect_workers, idle_source
from tests.support.connect_workers import Group, Kind

Say = Callable[[str], None]

JAVA, OURS = Kind.JAVA, Kind.OURS
_QUIET_S = 4.0  # longer than members wait between heartbeats
_DEADLINE_S = 300.0
_CLOCK = SystemClock()
# At its usual level Java writes some hundred lines for each task that it starts.
_JAVA_FLAGS = ("-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
# The first two of a group begin together: none is made to run everything alone.
_BROKER = {"group.initial.rebalance.delay.ms": "10000"}
_SETTINGS = {
    "topic.creation.enable": "false",
    "offset.flush.interval.ms": "60000",
}


class Change(enum.Enum):
    """In this order, on one group."""

    ADD = "add"
    KILL = "kill"
    BOUNCE = "bounce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`delay_ms` is `scheduled.rebalance.max.delay.ms`."""

    protocol: str
    delay_ms: int


def settings(row: Rebalancing) -> tuple[Setting, ...]:
    """Both protocols without a delay, and what is the default with one."""
    return (
        Setting(protocol="eager", delay_ms=0),
        Setting(protocol="sessioned", delay_ms=0),
        Setting(protocol="sessioned", delay_ms=row.default_delay_ms),
    )


def run(
    row: Rebalancing,
    *,
    rounds: int,
    measured: Results,
    folder: Path,
    say: Say,
    kinds: Sequence[Kind] = (JAVA, OURS),
) -> None:
    """All settings of all kinds, so many times; who begins changes from round to round."""
    with SandboxCluster(
        "bench-connect", settings=_BROKER, jvm=java_server_process.BENCH_JVM_FLAGS
    ) as broker:
        for number in range(1, rounds + 1):
            for setting in settings(row):
                for kind in kinds if number % 2 else reversed(kinds):
                    group_id = f"{kind.value}-{setting.protocol}-{setting.delay_ms}-{number}"
                    here = folder / group_id
                    here.mkdir()
                    one = _Group(
                        row,
                        kind,
                        setting,
                        client=broker.client_properties(),
                        folder=here,
                        say=say,
                    )
                    for each in one.run(group_id, number):
                        measured.add(each)
                        say(told(each))


@dataclass(slots=True)
class _Running:
    """What is there, and what ran where when last everything ran."""

    workers: Group
    watch: Watch
    runs: Mapping[Item, str] = field(default_factory=dict)


class _Group:
    """One group of one kind, with one setting."""

    def __init__(
        self,
        row: Rebalancing,
        kind: Kind,
        setting: Setting,
        *,
        client: Mapping[str, str],
        folder: Path,
        say: Say,
    ) -> None:
        self._row = row
        self._kind = kind
        self._setting = setting
        self._client = client
        self._folder = folder
        self._say = say
        self._connectors = [f"c{number}" for number in range(row.connectors)]
        self._expected = frozenset(
            Item(name, task) for name in self._connectors for task in (None, *range(row.tasks_each))
        )

    def run(self, group_id: str, number: int) -> Iterator[Rebalance]:
        """One result for each change; after one that failed nothing more is tried."""
        topic = connect_workers.storage(group_id)["status.storage.topic"]
        group_watch.make_topic(self._client, topic)
        workers = Group(
            self._client,
            group_id,
            folder=self._folder,
            settings={
                **_SETTINGS,
                "connect.protocol": self._setting.protocol,
                "scheduled.rebalance.max.delay.ms": str(self._setting.delay_ms),
            },
            flags=(self._row.java_heap, *_JAVA_FLAGS),
        )
        with workers, Watch(self._client, group_id, topic=topic) as watch:
            running = _Running(workers, watch)
            for change in Change:
                blank = Rebalance(
                    contestant=results.CONNECT_OF[self._kind.value],
                    round=number,
                    tasks=self._row.tasks,
                    protocol=self._setting.protocol,
                    delay_ms=self._setting.delay_ms,
                    change=change.value,
                )
                try:
                    if change is Change.ADD:
                        self._prepare(running)
                    yield self._measured(running, change, blank)
                    if change is Change.KILL:
                        self._come_back(running)
                except (AssertionError, RuntimeError) as failed:
                    self._say(f"{failed}\n{workers.log_texts()}")
                    yield replace(blank, fault=str(failed).partition("\n")[0])
                    break

    # Steps

    def _prepare(self, running: _Running) -> None:
        """All connectors, on two workers; the first leads.

        They are made by a worker of before: each new one stops all tasks of an eager group.
        """
        before = {"connect.protocol": "sessioned"}
        maker = running.workers.start("maker", self._kind, before)
        for name in self._connectors:
            maker.configure(name, idle_source.config(tasks=self._row.tasks_each))
        self._settle(running, ["maker"])
        maker.stop()
        running.watch.begin()
        one, two, _ = (running.workers.add(name, self._kind) for name in ("one", "two", "three"))
        one.launch()
        self._until(running, lambda: running.watch.members == 1, "the first worker to join")
        for each in (two.launch(), one):
            each.await_ready()
        self._settle(running, ["one", "two"], gone={maker.address: 0})

    def _measured(self, running: _Running, change: Change, blank: Rebalance) -> Rebalance:
        running.watch.begin()
        generation = running.watch.generation
        two, three = running.workers["two"], running.workers["three"]
        gone: dict[str, int] = {}
        joined: list[str] = []
        stay = ["one", "two", "three"]
        match change:
            case Change.ADD:
                three.launch()
                joined = [three.address]
            case Change.KILL:
                two.sigkill()
                stay.remove("two")
                self._until(running, lambda: running.watch.noticed_ms is not None, "noticed")
                gone[two.address] = _noticed(running)
            case Change.BOUNCE:
                three.sigterm()
                self._until(running, lambda: not three.runs_process, "the worker's end")
                gone[three.address] = _CLOCK.wall_ms()
                three.launch()
                joined = [three.address]
        done = self._settle(running, stay, gone=gone, joined=joined, generation=generation)
        loads = done.loads([running.workers[each].address for each in stay]).values()
        return replace(
            blank,
            fault=done.fault(),
            all_run_s=done.all_run_ms / 1000,
            downtime_s=done.downtime_ms / 1000,
            stopped=len(done.stopped),
            unneeded=len(done.unneeded),
            uneven=max(loads) - min(loads),
            rounds=done.rounds,
        )

    def _come_back(self, running: _Running) -> None:
        running.watch.begin()
        running.workers["two"].launch()
        gone = {running.workers["two"].address: 0}
        self._settle(running, ["one", "two", "three"], gone=gone)

    # Looking on

    def _settle(
        self,
        running: _Running,
        stay: Sequence[str],
        *,
        gone: Mapping[str, int] | None = None,
        joined: Sequence[str] = (),
        generation: int = 0,
    ) -> Outcome:
        """Until everything runs, on all of those that stay, and all is quiet."""
        addresses = [running.workers[each].address for each in stay]
        found: list[Outcome] = []

        def settled() -> bool:
            if running.watch.quiet_s < _QUIET_S or running.watch.noticed_ms is None:
                return False
            change = task_runs.Change(
                notice_ms=_noticed(running),
                generation=generation,
                gone=gone or {},
                joined=joined,
            )
            done = task_runs.follow(
                running.runs, running.watch.said, change, expected=self._expected
            )
            found[:] = [done]
            return not done.missing and min(done.loads(addresses).values()) > 0

        def seen() -> str:
            if not found:
                return "it is not quiet"
            return f"{found[0].fault()}; tasks: {found[0].loads(addresses)}"

        self._until(running, settled, "everything to run", seen=seen)
        running.runs = found[0].runs
        return found[0]

    def _until(
        self,
        running: _Running,
        condition: Callable[[], bool],
        what: str,
        *,
        seen: Callable[[], str] = lambda: "",
    ) -> None:
        # The longer the delay the longer a lost task rests, and members join again after it.
        deadline_s = _DEADLINE_S + 2 * self._setting.delay_ms / 1000
        end_s = _CLOCK.now_s() + deadline_s
        while not condition():
            if _CLOCK.now_s() > end_s:
                raise AssertionError(f"waited {deadline_s:.0f} s for {what}: {seen()}")
            running.watch.look()


def _noticed(running: _Running) -> int:
    assert running.watch.noticed_ms is not None
    return running.watch.noticed_ms


def told(one: Rebalance) -> str:
    """One line for people who wait."""
    head = f"round {one.round}, {one.contestant}, {one.protocol}, {one.delay_ms} ms, {one.change}"
    if one.fault:
        return f"{head}: FAULT: {one.fault}"
    assert one.all_run_s is not None
    assert one.downtime_s is not None
    return (
        f"{head}: all run after {figures.number(one.all_run_s)} s, down for "
        f"{figures.number(one.downtime_s)} s together, {one.stopped:.0f} stopped, "
        f"{one.unneeded:.0f} without need, {one.rounds:.0f} rounds, uneven by {one.uneven:.0f}"
    )
