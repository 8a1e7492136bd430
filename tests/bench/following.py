"""Thousands of consumer groups are followed: how soon the target knows, and what that costs.

All groups have offsets in all partitions of one topic, written by AlterConsumerGroupOffsets. Both
contestants get the same `mm2.properties`, with rounds of a few seconds.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock
from tests.bench import figures, log_counts, machine, producing, rows
from tests.bench.contest import FailedError, Running
from tests.bench.contestants import Contestant, Flow, JavaMirrorMaker, Mm2Properties
from tests.bench.places import Clusters, Place
from tests.bench.results import Following, Results
from tests.support import kafka
from tests.support.kafka import Outgoing, Properties

Say = Callable[[str], None]

INTERVAL_S = 5
_TUNING = {
    "emit.checkpoints.interval.seconds": str(INTERVAL_S),
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": str(INTERVAL_S),
    "emit.heartbeats.enabled": "false",
}
JAVA = JavaMirrorMaker(key="java", title="Java MirrorMaker 2", tuning=_TUNING)
OURS = Mm2Properties(like=JAVA, engine="inline")
WHO: tuple[Contestant, ...] = (JAVA, OURS)

_TOPIC = "followed"
_FIRST = 10
_LONE = 3
_SAMPLE = 50
_AT_ONCE = 200
_ANSWER_S = 60.0
_IDLE_S = 30.0
_QUIET_S = 15.0
_LOOK_EVERY_S = 0.5
_LAG_MAX = 101
"""A sync of Java's may be so far behind what it has copied."""
_UPSTREAM = struct.Struct(">hq")
_CLOCK = SystemClock()


def run(
    row: rows.Following,
    *,
    who: Sequence[Contestant] = WHO,
    rounds: int,
    measured: Results,
    folder: Path,
    say: Say,
) -> None:
    """Everybody once each round, on clusters of its own; who begins changes."""
    for number in range(1, rounds + 1):
        shift = (number - 1) % len(who)
        for contestant in [*who[shift:], *who[:shift]]:
            where = folder / f"groups-{contestant.key}-{number}"
            where.mkdir()
            with Clusters(Place()) as clusters:
                found = _Follow(row, contestant, clusters, folder=where, number=number).run(say)
            measured.add(found)
            say(told(found))


class _Follow:
    """One contestant follows all groups."""

    def __init__(
        self,
        row: rows.Following,
        contestant: Contestant,
        clusters: Clusters,
        *,
        folder: Path,
        number: int,
    ) -> None:
        self._row = row
        self._contestant = contestant
        self._clusters = clusters
        self._source = clusters.source.client_properties()
        self._target = clusters.target.client_properties()
        self._at_source = kafka.admin_client(self._source)
        self._at_target = kafka.admin_client(self._target)
        self._folder = folder
        self._number = number
        self._groups = [f"group-{each:05}" for each in range(row.groups)]
        self._flow = Flow(
            source="a",
            target="b",
            source_properties=self._source,
            target_properties=self._target,
            topics=(_TOPIC,),
        )
        self._mirror = self._flow.mirrored(_TOPIC)
        self._sent = 0

    def run(self, say: Say) -> Following:
        row = self._row
        blank = Following(
            contestant=self._contestant.key,
            round=self._number,
            groups=row.groups,
            partitions=row.partitions,
            load=machine.load(),
        )
        kafka.create_topic(self._source, _TOPIC, partitions=row.partitions)
        self._send(200)
        commit(self._at_source, self._groups, _TOPIC, partitions=row.partitions, offset=_FIRST)
        say(f"{row.groups} groups are there")
        try:
            with Running(self._contestant, self._flow, self._folder) as running:
                return self._measured(running, blank, say)
        except FailedError as failed:
            say(failed.log)
            return dataclasses.replace(blank, fault=str(failed))

    def _measured(self, running: Running, blank: Following, say: Say) -> Following:
        seen = Published(self._target, f"{self._flow.source}.checkpoints.internal")
        most, lone = self._groups[:-_LONE], self._groups[-_LONE:]
        partitions = self._row.partitions
        try:
            self._await_checkpoints(running, seen, _FIRST, len(self._groups) * partitions)
            first_s = _CLOCK.now_s() - running.started_s
            self._await_on_target(running, self._sample(self._groups), at_least=1)
            say(f"all checkpoints after {first_s:.1f} s")
            idle_cpu_s = self._idle(running)
            self._send(300)
            self._await(running, "all records", self._mirrored)
            system_clock.wait_until(lambda: False, timeout_s=_QUIET_S, interval_s=_QUIET_S)
            cpu_s = running.tree.cpu_s()
            commit(self._at_source, most, _TOPIC, partitions=partitions, offset=self._sent)
            moved_at_s = _CLOCK.now_s()
            self._await_checkpoints(running, seen, self._sent, len(most) * partitions)
            moved_s = _CLOCK.now_s() - moved_at_s
            behind = max(1, self._sent - _LAG_MAX)
            self._await_on_target(running, self._sample(most), at_least=behind)
            synced_s = _CLOCK.now_s() - moved_at_s
            moved_cpu_s = running.tree.cpu_s() - cpu_s
            say(f"all moved: checkpoints {moved_s:.1f} s, groups {synced_s:.1f} s")
            one_s = [self._one(running, each, at_least=behind) for each in lone]
            running.note_memory()
        finally:
            seen.close()
        return dataclasses.replace(
            blank,
            fault=self._fault(),
            first_s=first_s,
            moved_s=moved_s,
            synced_s=synced_s,
            one_s=sorted(one_s)[len(one_s) // 2],
            idle_cpu_s=idle_cpu_s,
            moved_cpu_s=moved_cpu_s,
            peak_bytes=float(running.peak_bytes),
        )

    def _idle(self, running: Running) -> float:
        """CPU-seconds a minute while no group moves."""
        system_clock.wait_until(lambda: False, timeout_s=_QUIET_S, interval_s=_QUIET_S)
        before, at_s = running.tree.cpu_s(), _CLOCK.now_s()
        system_clock.wait_until(lambda: False, timeout_s=_IDLE_S, interval_s=_IDLE_S)
        return (running.tree.cpu_s() - before) * 60.0 / (_CLOCK.now_s() - at_s)

    def _one(self, running: Running, group: str, *, at_least: int) -> float:
        commit(self._at_source, [group], _TOPIC, partitions=self._row.partitions, offset=self._sent)
        moved_at_s = _CLOCK.now_s()
        self._await_on_target(running, [group], at_least=at_least)
        return _CLOCK.now_s() - moved_at_s

    def _send(self, each: int) -> None:
        """So many records to every partition."""
        self._sent += each
        kafka.produce(
            self._source,
            _TOPIC,
            [
                Outgoing(value=b"%d" % number, partition=partition)
                for number in range(each)
                for partition in range(self._row.partitions)
            ],
        )

    def _mirrored(self) -> bool:
        data = producing.data_folder(self._clusters.target)
        counts = log_counts.topic(data, self._mirror, partitions=self._row.partitions)
        return all(each.records >= self._sent for each in counts.values())

    def _sample(self, groups: Sequence[str]) -> list[str]:
        step = max(1, len(groups) // _SAMPLE)
        return [*groups[::step], groups[-1]]

    def _await_on_target(self, running: Running, groups: Sequence[str], *, at_least: int) -> None:
        """Whoever is there is asked about no more."""
        left = set(groups)

        def all_there() -> bool:
            for group, offsets in committed(self._at_target, left, self._mirror).items():
                if len(offsets) == self._row.partitions and min(offsets) >= at_least:
                    left.discard(group)
            return not left

        self._await(running, "groups on the target", all_there)

    def _await_checkpoints(
        self, running: Running, seen: Published, offset: int, wanted: int
    ) -> None:
        try:
            self._await(running, "all checkpoints", lambda: seen.count(offset) >= wanted)
        except FailedError as failed:
            raise FailedError(
                f"{failed}: {seen.count(offset):,} of {wanted:,} were there", failed.log
            ) from failed

    def _fault(self) -> str:
        """Of groups on the target, all of which have read all records: nobody may be missing or
        behind its partition's end, and ours read nothing again (markers only add to offsets)."""
        least = max(1, self._sent - (0 if self._contestant is OURS else _LAG_MAX))
        most = max(
            kafka.offsets(self._target, self._mirror, each)[1]
            for each in range(self._row.partitions)
        )
        for some in _chunks(self._groups):
            for group, offsets in committed(self._at_target, some, self._mirror).items():
                fits = all(least <= each <= most for each in offsets)
                if len(offsets) != self._row.partitions or not fits:
                    return f"{group} is at {sorted(set(offsets))}, not at {least} to {most}"
        return ""

    def _await(self, running: Running, what: str, condition: Callable[[], bool]) -> None:
        """Raises `FailedError`."""
        look_s = _CLOCK.now_s()

        def holds() -> bool:
            nonlocal look_s
            running.check()
            if _CLOCK.now_s() >= look_s:
                running.note_memory()
                look_s = _CLOCK.now_s() + 1.0
            return condition()

        limit_s = self._row.limit_s
        if not system_clock.wait_until(holds, timeout_s=limit_s, interval_s=_LOOK_EVERY_S):
            raise running.failure(f"no sign of {what} within {limit_s:.0f} s")


class Published:
    """The checkpoints topic, read on: for how many places of groups a checkpoint of an offset of
    the source was written. Other threads of the library fetch; little is done of each record."""

    def __init__(self, client: Properties, topic: str) -> None:
        self._found: dict[int, set[bytes]] = {}
        self._topic = topic
        self._assigned = False
        self._client = client
        config = kafka.client_config(client, group_id="bench-published", enable_auto_commit=False)
        self._consumer = confluent_kafka.Consumer(config)

    def count(self, upstream: int) -> int:
        if not self._assigned:
            if self._topic not in kafka.topics(self._client):
                return 0
            beginning = confluent_kafka.OFFSET_BEGINNING
            self._consumer.assign([confluent_kafka.TopicPartition(self._topic, 0, beginning)])
            self._assigned = True
        while messages := self._consumer.consume(10_000, timeout=0.2):
            for each in messages:
                key, value = each.key(), each.value()
                if each.error() is None and key and value:
                    (_, at) = _UPSTREAM.unpack_from(value)
                    self._found.setdefault(at, set()).add(key)
        return len(self._found.get(upstream, ()))

    def close(self) -> None:
        self._consumer.close()


def commit(
    administrator: library.AdminClient,
    groups: Collection[str],
    topic: str,
    *,
    partitions: int,
    offset: int,
) -> None:
    """By AlterConsumerGroupOffsets; returns when all are acknowledged."""
    where = [confluent_kafka.TopicPartition(topic, each, offset) for each in range(partitions)]
    for some in _chunks(groups):
        waiting = [
            administrator.alter_consumer_group_offsets(
                [confluent_kafka.ConsumerGroupTopicPartitions(each, where)],
                request_timeout=_ANSWER_S,
            )[each]
            for each in some
        ]
        for each in waiting:
            for place in each.result(_ANSWER_S).topic_partitions:
                if place.error is not None:
                    raise confluent_kafka.KafkaException(place.error)


def committed(
    administrator: library.AdminClient, groups: Collection[str], topic: str
) -> dict[str, list[int]]:
    """Each group's offsets in partitions of the topic where it has any."""
    waiting = {
        each: administrator.list_consumer_group_offsets(
            [confluent_kafka.ConsumerGroupTopicPartitions(each)], request_timeout=_ANSWER_S
        )[each]
        for each in groups
    }
    return {
        group: [
            place.offset
            for place in each.result(_ANSWER_S).topic_partitions
            if place.topic == topic and place.offset >= 0
        ]
        for group, each in waiting.items()
    }


def _chunks(names: Iterable[str]) -> list[list[str]]:
    listed = list(names)
    return [listed[at : at + _AT_ONCE] for at in range(0, len(listed), _AT_ONCE)]


def told(one: Following) -> str:
    """One line for people who wait."""
    head = f"round {one.round}, {one.contestant}, {one.groups} groups of {one.partitions}"
    if one.fault or one.one_s is None or one.synced_s is None:
        return f"{head}: FAULT: {one.fault}"
    return (
        f"{head}: one after {figures.number(one.one_s)} s, all after "
        f"{figures.number(one.synced_s)} s, {figures.number(one.idle_cpu_s or 0.0)} CPU-s a minute "
        f"idle, {figures.number((one.peak_bytes or 0.0) / 1e6)} MB"
    )
