"""Everything that was measured, by contestant, kept until the report. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from tests.bench import figures
from tests.bench.figures import Spread

RELAY = "relay"
"""The floor's key as a contestant of throughput."""
ONE_HOP = "one-hop"
"""The floor's key as a contestant of latency: no mirror, read where it was written."""

CONNECT_OF: Mapping[str, str] = {"java": "java-connect", "ours": "connect-runtime"}
"""The keys of whole Connect workers as contestants, by the value of `connect_workers.Kind`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One contestant mirrored one workload once; None where something could not be measured.

    `fault` is what it got wrong or why it failed, "" when its copy had exactly the source's
    records. The figures of a faulty copy do not count.
    """

    contestant: str
    topic: str
    round: int
    fault: str = ""
    bytes_s: float | None = None
    records_s: float | None = None
    cpu_steady_s_per_gb: float | None = None
    cpu_total_s_per_gb: float | None = None
    first_s: float | None = None
    peak_bytes: float | None = None
    others_cores: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trickle:
    """Latency of one contestant in one round, in ms."""

    contestant: str
    round: int
    fault: str = ""
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One change to a group of Connect workers; see `task_runs.Outcome` for the figures.

    `change` is add, kill or bounce; `delay_ms` is `scheduled.rebalance.max.delay.ms`. `stopped`,
    `unneeded`: how many tasks. `uneven`: how many more tasks the busiest worker has at the end than
    the idlest.
    """

    contestant: str
    round: int
    tasks: int
    protocol: str
    delay_ms: int
    change: str
    fault: str = ""
    all_run_s: float | None = None
    downtime_s: float | None = None
    stopped: float | None = None
    unneeded: float | None = None
    uneven: float | None = None
    rounds: float | None = None

    @property
    def setting(self) -> tuple[int, str, int]:
        """What it may be compared with."""
        return self.tasks, self.protocol, self.delay_ms


START_KINDS = ("cold", "warm")
"""Nothing is there yet; everything is, but for records that have come meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """From a process's start to the first record on the target, and to one in every partition.

    `cpu_s`: CPU-seconds that all of its processes had used by then. `load`: the machine's.
    """

    contestant: str
    kind: str
    round: int
    fault: str = ""
    first_s: float | None = None
    all_s: float | None = None
    cpu_s: float | None = None
    load: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One of two nodes was killed. `again_s`: until all partitions moved again, and went on.

    `stood`: how many stood still meanwhile; `doubled`: records that came more than once; `load`:
    the machine's.
    """

    contestant: str
    setting: str
    round: int
    fault: str = ""
    again_s: float | None = None
    stood: float | None = None
    doubled: float | None = None
    load: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Many groups were followed. `first_s`: from the process's start until all had checkpoints.

    All but a few were moved: `moved_s` until their checkpoints were there, `synced_s` until they
    stood on the target; `one_s`: until one that was moved by itself did. `idle_cpu_s`: CPU-seconds
    a minute while none moved, `moved_cpu_s`: those of moving all.
    """

    contestant: str
    round: int
    groups: int
    partitions: int
    fault: str = ""
    first_s: float | None = None
    moved_s: float | None = None
    synced_s: float | None = None
    one_s: float | None = None
    idle_cpu_s: float | None = None
    moved_cpu_s: float | None = None
    peak_bytes: float | None = None
    load: float | None = None

    @property
    def setting(self) -> tuple[int, int]:
        """What it may be compared with."""
        return self.groups, self.partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Rereading:
    """How many records each group of one kind of traffic would read again, by its checkpoint.

    `untold`: groups without a checkpoint, which begin anew.
    """

    contestant: str
    case: str
    round: int
    fault: str = ""
    groups: float | None = None
    untold: float | None = None
    median: float | None = None
    most: float | None = None
    total: float | None = None


BY_TOPIC, BY_PARTITION, BY_JAVA = "by topic", "by partition", "by Java's names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraping:
    """One scrape of a node. `path` is one of the three above; `took_s` until all of it was there.

    `cpu_s`: what one costs the node. `to_without`: how much was copied in a window that began with
    it, to one without a scrape beside it.
    """

    path: str
    round: int
    partitions: int
    contestant: str = "mm2"
    fault: str = ""
    while_copying: bool = False
    took_s: float | None = None
    cpu_s: float | None = None
    bytes: float | None = None
    to_without: float | None = None
    load: float | None = None


Run: TypeAlias = Copy | Trickle | Rebalance | Start | Recovery | Following | Rereading | Scraping
_One = TypeVar("_One", Start, Recovery, Following, Rereading, Scraping)


@dataclass(slots=True)
class Results:
    """What the rounds brought, in the order they brought it."""

    copies: list[Copy] = field(default_factory=list)
    trickles: list[Trickle] = field(default_factory=list)
    rebalances: list[Rebalance] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    followings: list[Following] = field(default_factory=list)
    rereadings: list[Rereading] = field(default_factory=list)
    scrapings: list[Scraping] = field(default_factory=list)

    def add(self, one: Run) -> None:
        match one:
            case Copy():
                self.copies.append(one)
            case Trickle():
                self.trickles.append(one)
            case Rebalance():
                self.rebalances.append(one)
            case Start():
                self.starts.append(one)
            case Recovery():
                self.recoveries.append(one)
            case Following():
                self.followings.append(one)
            case Rereading():
                self.rereadings.append(one)
            case Scraping():
                self.scrapings.append(one)

    def of_copies(
        self, contestant: str, topic: str | None, pick: Callable[[Copy], float | None]
    ) -> Spread | None:
        """One figure of one contestant over the rounds; over all workloads when `topic` is None."""
        return figures.spread(
            [
                value
                for each in self.copies
                if each.contestant == contestant and topic in {None, each.topic} and not each.fault
                if (value := pick(each)) is not None
            ]
        )

    def of_trickles(
        self, contestant: str, pick: Callable[[Trickle], float | None]
    ) -> Spread | None:
        return figures.spread(
            [
                value
                for each in self.trickles
                if each.contestant == contestant and not each.fault
                if (value := pick(each)) is not None
            ]
        )

    def of_rebalances(
        self,
        contestant: str,
        setting: tuple[int, str, int],
        change: str,
        *,
        pick: Callable[[Rebalance], float | None],
    ) -> Spread | None:
        return figures.spread(
            [
                value
                for each in self.rebalances
                if (each.contestant, each.setting, each.change) == (contestant, setting, change)
                if not each.fault and (value := pick(each)) is not None
            ]
        )

    def of_starts(
        self, contestant: str, kind: str, pick: Callable[[Start], float | None]
    ) -> Spread | None:
        mine = [each for each in self.starts if (each.contestant, each.kind) == (contestant, kind)]
        return _spread(mine, pick)

    def of_recoveries(
        self, contestant: str, setting: str, pick: Callable[[Recovery], float | None]
    ) -> Spread | None:
        return _spread(
            [
                each
                for each in self.recoveries
                if (each.contestant, each.setting) == (contestant, setting)
            ],
            pick,
        )

    def of_followings(
        self, contestant: str, setting: tuple[int, int], pick: Callable[[Following], float | None]
    ) -> Spread | None:
        return _spread(
            [
                each
                for each in self.followings
                if (each.contestant, each.setting) == (contestant, setting)
            ],
            pick,
        )

    def of_rereadings(
        self, contestant: str, case: str, pick: Callable[[Rereading], float | None]
    ) -> Spread | None:
        return _spread(
            [
                each
                for each in self.rereadings
                if (each.contestant, each.case) == (contestant, case)
            ],
            pick,
        )

    def of_scrapings(
        self, path: str, pick: Callable[[Scraping], float | None], *, while_copying: bool = False
    ) -> Spread | None:
        chosen = (path, while_copying)
        mine = [each for each in self.scrapings if (each.path, each.while_copying) == chosen]
        return _spread(mine, pick)

    def faults(self) -> list[str]:
        """One line for each thing that went wrong."""
        runs: Sequence[Run] = [
            *self.copies,
            *self.trickles,
            *self.rebalances,
            *self.starts,
            *self.recoveries,
            *self.followings,
            *self.rereadings,
            *self.scrapings,
        ]
        return [
            f"{each.contestant}, round {each.round}, {_what(each)}: {each.fault}"
            for each in runs
            if each.fault
        ]

    def faulty(self, contestant: str, topic: str) -> bool:
        return any(
            each.fault
            for each in self.copies
            if each.contestant == contestant and each.topic == topic
        )

    def others_cores_max(self) -> float:
        return max((each.others_cores for each in self.copies), default=0.0)


def _spread(runs: Sequence[_One], pick: Callable[[_One], float | None]) -> Spread | None:
    return figures.spread(
        [value for each in runs if not each.fault and (value := pick(each)) is not None]
    )


def _what(run: Run) -> str:
    match run:
        case Copy():
            return run.topic
        case Trickle():
            return "latency"
        case Rebalance():
            return f"{run.change} of {run.tasks} tasks, {run.protocol}, {run.delay_ms} ms delay"
        case Start():
            return f"{run.kind} start"
        case Recovery():
            return f"recovery, {run.setting} settings"
        case Following():
            return f"{run.groups} groups of {run.partitions} partitions"
        case Rereading():
            return f"read again, {run.case}"
        case Scraping():
            return f"scraped {run.path}"
