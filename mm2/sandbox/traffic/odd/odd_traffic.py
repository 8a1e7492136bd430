"""Odd topics: everything that a log may hold and ordinary traffic does not show.

    written = odd_traffic.write(east.client_properties(), kafka_version="4.3.1")
    proof.compare(east…, west…, {each.name: "east." + each.name for each in written})

Content is repeatable by its seed, but for the times that brokers give. When `write` returns, every
oddity has been seen in the log: the cleaner has run, the formats are as old as they should be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from random import Random

from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from connect_runtime.system import clock as system_clock
from connect_runtime.system import polling
from mm2.sandbox import clients, failures, log_reader
from mm2.sandbox.traffic import topics
from mm2.sandbox.traffic.odd import anatomy, catalogue, raw_log, settings
from mm2.sandbox.traffic.odd import desk as desks

Report = Callable[[str], None]

_CLEANED_S = 90.0
_LOOK_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One topic, written and looked at. `records`: what readers of committed data see.

    `restamped`: a mirror keeps the timestamps that readers see, not their type.
    """

    name: str
    records: int
    restamped: bool


def write(
    to: clients.Properties,
    *,
    kafka_version: str,
    seed: int = 1,
    size: desks.Size = desks.Size.QUICK,
    prefix: str = "odd-",
    only: Collection[str] = (),
    report: Report = lambda _: None,
    now: base_clock.Clock | None = None,
) -> tuple[Written, ...]:
    """Create all odd topics that a cluster of this version can hold (or `only` these), fill them.

    `report` hears what comes next. Raises `SandboxError` when an oddity does not show.
    """
    clock = now or system_clock.SystemClock()
    version = _release(kafka_version)
    chosen = [one for one in catalogue.of_release(version) if not only or one.name in only]
    unknown = set(only) - {one.name for one in chosen}
    if unknown:
        raise failures.SandboxError(f"Kafka {kafka_version} has no odd topics {sorted(unknown)}")
    at = clients.Clients(to, alias="source")
    topics.create(
        at,
        [
            topics.Topic(
                name=prefix + one.name,
                partitions=one.partitions,
                config=catalogue.config_of(one, version),
            )
            for one in chosen
        ],
    )
    changes = settings.Settings(at)
    with raw_log.RawLog(to) as raw, log_reader.LogReader(to, alias="source") as reader:
        raw.want(prefix + one.name for one in chosen)
        writer = _Writer(at, changes, raw=raw, reader=reader, clock=clock)
        changes.change_brokers(settings.EAGER_CLEANER)
        try:
            for one in chosen:
                report(one.describe)
                writer.fill(one, prefix + one.name, rng=Random(f"{seed} {one.name}"), size=size)  # noqa: S311
            return tuple(writer.finish(one, prefix + one.name) for one in chosen)
        finally:
            changes.change_brokers(dict.fromkeys(settings.EAGER_CLEANER))


class _Writer:
    def __init__(
        self,
        at: clients.Clients,
        changes: settings.Settings,
        *,
        raw: raw_log.RawLog,
        reader: log_reader.LogReader,
        clock: base_clock.Clock,
    ) -> None:
        self._clients = at
        self._changes = changes
        self._raw = raw
        self._reader = reader
        self._clock = clock
        self._now_ms = clock.wall_ms()
        self._written: dict[str, int] = {}

    def fill(self, one: catalogue.OddTopic, name: str, *, rng: Random, size: desks.Size) -> None:
        desk = desks.Desk(
            clients=self._clients,
            changes=self._changes,
            raw=self._raw,
            name=name,
            partitions=one.partitions,
            rng=rng,
            now_ms=self._now_ms,
            clock=self._clock,
            size=size,
        )
        one.write(desk)
        self._written[name] = desk.written
        if one.afterwards:
            self._changes.change_topic(name, dict.fromkeys(one.afterwards))

    def finish(self, one: catalogue.OddTopic, name: str) -> Written:
        """Wait for the cleaner where it has to run, and look whether all is as it should be."""
        partitions = [ids.TopicPartition(name, number) for number in range(one.partitions)]
        if one.cleaned and not polling.until(
            lambda: all(map(self._is_cleaned, partitions)),
            timeout_s=_CLEANED_S,
            interval_s=_LOOK_S,
        ):
            raise failures.SandboxError(
                f"{name}: the cleaner has not left one record of each key in {_CLEANED_S:.0f} s"
            )
        seen = self._look(partitions)
        missing = {each.value for each in one.seen if not seen.oddities[each]}
        missing |= {f"codec {each}" for each in one.codecs if not seen.codecs[each]}
        if missing:
            raise failures.SandboxError(f"{name} should hold {sorted(missing)}; it holds {seen}")
        return Written(
            name=name,
            records=self._visible(partitions) if one.cleaned else self._written[name],
            restamped=one.restamped,
        )

    def _is_cleaned(self, partition: ids.TopicPartition) -> bool:
        found = list(self._keys(partition))
        return len(found) == len(set(found))

    def _visible(self, partitions: Collection[ids.TopicPartition]) -> int:
        return sum(sum(1 for _ in self._keys(each)) for each in partitions)

    def _keys(self, partition: ids.TopicPartition) -> Iterator[bytes | None]:
        for chunk in self._reader.read(partition):
            yield from (key for key, *_ in chunk.contents)

    def _look(self, partitions: Collection[ids.TopicPartition]) -> anatomy.Anatomy:
        found = anatomy.Anatomy()
        for each in partitions:
            found.begin_log()
            found.add(self._raw.read(each))
        return found


def _release(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)
