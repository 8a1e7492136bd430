"""What a schedule may meet: which faults, how often, and how slow the network is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.model.delivery.events import Events

DAY_S = 86_400.0


@dataclass(slots=True, kw_only=True)
class Weather:
    """Switches of one schedule. Probabilities are per message unless they say otherwise.

    `picky`: the target refuses some batches of several records, `largest`: and those of more bytes.
    `two_way`: another flow leads back, into the same source.
    `unfenced`: there is no right to the transactional id, or with `rights_change` not always.
    `verified`: brokers ask the coordinator before they begin a transaction (they do since 3.6).
    `java`: what MirrorMaker 2 would find is written ("told"), or it takes turns with us ("turns"),
    where `uncommitted` it copies what is not committed, too, and with `overlaps` both may run.
    `undescribed`: the target refuses DescribeProducers until somebody grants it; `late_stable`: it
    tells the last stable offset a moment late.
    `large`: producers compress many records into a batch, and the target forces that all are
    opened; of those `part_records` are read at once (0: as many as ever), and where `filtered`
    whole parts may be left out. `pauses`: copies are paused for a while. `no_room`: the opened
    batches of other partitions use up the budget for a while.
    `crowded`: other partitions fill the answer to a read; `damaged`: a read brings other bits.
    """

    timestamps: str = "fresh"  # or: old, mixed, none
    always_transactional: bool = False
    identical: bool = False
    shared: bool = False
    two_way: bool = False
    start: str = "earliest"
    source_transactions: bool = True
    source_retention: bool = False
    source_truncation: bool = False
    source_elections: bool = False
    target_retention: bool = False
    clean_elections: bool = False
    unclean_elections: bool = False
    restarts: bool = False
    refusals: bool = False
    requests: bool = False
    compaction: bool = False
    appended: bool = False
    filtered: bool = False
    picky: bool = False
    largest: int = 1 << 30
    joins: bool = True
    unfenced: bool = False
    rights_change: bool = False
    crashes: bool = True
    freezes: bool = True
    days: bool = False
    few_epochs: bool = False
    id_expiry_s: float = 7 * DAY_S
    verified: bool = True
    undescribed: bool = False
    late_stable: bool = False
    crowded: float = 0.0
    damaged: float = 0.0
    lost: float = 0.01
    slow: float = 0.05
    stuck: float = 0.01
    round_trip_s: float = 0.01
    batches: int = 30
    owners: int = 3
    java: str = ""
    uncommitted: bool = False
    overlaps: bool = False
    large: bool = False
    part_records: int = 0
    pauses: bool = False
    no_room: bool = False


def draw(random: Random) -> Weather:
    """A mixture in which every switch is on in a good part of all schedules."""

    def some(share: float) -> bool:
        return random.random() < share

    days, identical = some(0.25), some(0.1)
    return Weather(
        timestamps=random.choices(("fresh", "old", "mixed", "none"), (65, 15, 15, 5))[0],
        always_transactional=some(0.05),
        identical=identical,
        shared=some(0.1),
        start=random.choices(("earliest", "latest", "timestamp"), (80, 10, 10))[0],
        source_transactions=some(0.6),
        source_retention=some(0.15),
        source_truncation=some(0.1),
        target_retention=some(0.1),
        clean_elections=some(0.4),
        unclean_elections=some(0.3),
        restarts=some(0.3),
        refusals=some(0.3),
        requests=some(0.08),
        compaction=some(0.15) and not identical,
        appended=some(0.1),
        filtered=some(0.1) and not identical,
        picky=some(0.1),
        largest=random.choice((95, 150)) if some(0.15) else 1 << 30,
        joins=some(0.8),
        crashes=some(0.8),
        freezes=some(0.8),
        days=days,
        few_epochs=some(0.03),
        id_expiry_s=random.choice((7 * DAY_S, 1.5 * DAY_S)) if days else 7 * DAY_S,
        lost=random.choice((0.0, 0.01, 0.04)),
        slow=random.choice((0.02, 0.1)),
        stuck=random.choice((0.0, 0.01, 0.02)),
        round_trip_s=random.choice((0.01, 0.01, 0.2)),
        batches=random.randint(8, 45),
        unfenced=some(0.06),
        source_elections=some(0.3),
        rights_change=some(0.5),
        verified=some(0.8),
        crowded=0.05 * some(0.3),
        damaged=0.03 * some(0.2),
        java="told" if some(0.5) else "",
    )


def java_turns(random: Random) -> Weather:
    """Java and ours take turns, where no loss can be but theirs."""
    found = dataclasses.replace(
        draw(random),
        java="turns",
        timestamps=random.choice(("fresh", "fresh", "mixed")),
        source_retention=False,
        source_truncation=False,
        target_retention=False,
        unclean_elections=False,
        requests=False,
        compaction=False,
        filtered=False,
        identical=False,
        days=False,
        start="earliest",
        few_epochs=False,
        two_way=False,
        uncommitted=random.random() < 0.4,
        overlaps=random.random() < 0.2,
        stuck=random.choice((0.0, 0.01)),
    )
    found.overlaps = found.overlaps and not found.shared
    return found


def in_parts(random: Random) -> Weather:
    """Batches that must be opened are read in several parts, and much happens amid these."""
    found = dataclasses.replace(
        draw(random),
        large=True,
        part_records=random.choice((1, 2, 3)),
        pauses=True,
        no_room=random.random() < 0.5,
        filtered=random.random() < 0.7,
        always_transactional=random.random() < 0.2,
        identical=False,
        java="",
    )
    found.largest = random.choice((300, 1 << 30))
    # Where all before an open transaction is cleaned away, takes are tried for as long as it is.
    found.compaction = found.compaction and not found.days
    return found


def with_some(**settled: Any) -> Callable[[Random], Weather]:
    """The same mixture, but for what is settled."""

    def drawn(random: Random) -> Weather:
        found = dataclasses.replace(draw(random), **settled)
        if found.identical:
            found.compaction = found.filtered = False
        return found

    return drawn


class Network:
    """Delays of messages; calm once `calm` is set."""

    def __init__(self, world: Events, weather: Weather) -> None:
        self._random = world.random
        self._weather = weather
        self.calm = False

    def delay_s(self) -> float:
        random = self._random
        drawn = random.random()
        if self.calm:
            return 0.0005 + 0.004 * drawn
        weather = self._weather
        if drawn < weather.stuck:
            if weather.days and random.random() < 0.3:
                return random.uniform(3600.0, 2.5 * DAY_S)
            return random.uniform(2.0, 60.0)
        if drawn < weather.stuck + weather.slow:
            return random.uniform(0.02, 2.0)
        return 0.0005 + weather.round_trip_s * drawn

    def loses(self) -> bool:
        return not self.calm and self._random.random() < self._weather.lost
