"""Everything that was measured, by contestant, kept until the report. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.bench import figures

RELAY = "relay"
"""The floor's key as a contestant of throughput."""
ONE_HOP = "one-hop"
"""The floor's key as a contestant of latency: no mirror, read where it was written."""


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


@dataclass(slots=True)
class Results:
    """What the rounds brought, in the order they brought it."""

    copies: list[Copy] = field(default_factory=list)
    trickles: list[Trickle] = field(default_factory=list)

    def add(self, one: Copy | Trickle) -> None:
        if isinstance(one, Copy):
            self.copies.append(one)
        else:
            self.trickles.append(one)

    def of_copies(
        self, contestant: str, topic: str | None, pick: Callable[[Copy], float | None]
    ) -> figures.Spread | None:
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
    ) -> figures.Spread | None:
        return figures.spread(
            [
                value
                for each in self.trickles
                if each.contestant == contestant and not each.fault
                if (value := pick(each)) is not None
            ]
        )

    def faults(self) -> list[str]:
        """One line for each thing that went wrong."""
        runs: Sequence[Copy | Trickle] = [*self.copies, *self.trickles]
        return [
            f"{each.contestant}, round {each.round}, "
            f"{each.topic if isinstance(each, Copy) else 'latency'}: {each.fault}"
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
