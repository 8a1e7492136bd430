"""One of two nodes of a dedicated group is killed: when does every partition move again?

Two nodes of one contestant share a flow under steady traffic; who runs which task is read in the
status topic. The second one is ended by SIGKILL, with all that it has started. From then on every
record that comes on the target is looked at (`standstill`), and at the end both logs are compared.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import confluent_kafka

from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import port_reservation
from mm2.sandbox.traffic.latency_probe import TrickleProducer
from tests.bench import contestants, figures, machine, standstill, topic_values
from tests.bench.contest import FailedError, Running
from tests.bench.contestants import Contestant, Flow, Mm2Properties
from tests.bench.places import Cleaner, Clusters, Place
from tests.bench.results import Recovery, Results
from tests.bench.rows import Recovering
from tests.bench.standstill import Standstill
from tests.support import kafka, task_lives

Say = Callable[[str], None]

_STAMP = struct.Struct(">Q")
_PER_PARTITION = 50.0
_TASKS = 4
_SOURCE_TASKS = [f"task-MirrorSourceConnector-{number}" for number in range(_TASKS)]
_BEGIN_S = 600.0
_PLACED_S = 5.0
_GRACE_S = 300.0
_COMPLETE_S = 120.0
_LOOK_EVERY_S = 1.0
_READ_S = 0.05
_ALIKE = {
    "{target}.scheduled.rebalance.max.delay.ms": "0",
    "{target}.session.timeout.ms": "10000",
    "{target}.heartbeat.interval.ms": "3000",
    "emit.heartbeats.enabled": "false",
}
_INTERNAL_REST = {"dedicated.mode.enable.internal.rest": "true"}
_SPREAD = {"tasks.max": str(_TASKS)}
# Java finds its plugins by their services and logs warnings alone: it is not its start that counts.
_JAVA = {"{target}.plugin.discovery": "service_load", "{source}.plugin.discovery": "service_load"}
_JAVA_FLAGS = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)
_CLOCK = SystemClock()

JAVA, OURS, OURS_INLINE = KEYS = ("java", "mm2", "mm2-inline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`key` as in `Recovery`; `delay_s` is the longest `scheduled.rebalance.max.delay`."""

    key: str
    delay_s: dict[str, float]


DEFAULTS = Setting(key="defaults", delay_s={JAVA: 300.0, OURS: 5.0, OURS_INLINE: 5.0})
EQUAL = Setting(key="equal", delay_s={JAVA: 0.0, OURS: 0.0, OURS_INLINE: 0.0})


def node_of(key: str, setting: Setting, port: int) -> Contestant:
    """Defaults: ours has a `clusters.yaml`. Equal: all have the same `mm2.properties`."""
    own = {"listeners": f"http://127.0.0.1:{port}"}
    given = _SPREAD | _INTERNAL_REST | _JAVA | own | (_ALIKE if setting is EQUAL else {})
    flags = (*contestants.JAVA_DEFAULTS.flags, *_JAVA_FLAGS)
    java = replace(contestants.JAVA_DEFAULTS, tuning=given, flags=flags)
    if key == JAVA:
        return java
    inline = key == OURS_INLINE
    if setting is EQUAL:
        return Mm2Properties(like=java, engine="inline" if inline else "spark")
    mine = contestants.MM2_INLINE if inline else contestants.MM2_RUN
    return replace(mine, flow_settings={"tasks.max": _TASKS})


def run(
    row: Recovering,
    *,
    keys: Sequence[str],
    rounds: int,
    measured: Results,
    folder: Path,
    say: Say,
    settings: Sequence[Setting] = (EQUAL, DEFAULTS),
) -> None:
    """All contestants with all settings, so many times; who begins changes from round to round."""
    with Clusters(Place()) as clusters:
        cleaners = [Cleaner(each) for each in clusters.both]
        for cleaner in cleaners:
            cleaner.keep_what_is_there()
        for number in range(1, rounds + 1):
            for setting in settings:
                for key in keys if number % 2 else reversed(keys):
                    here = folder / f"recovery-{key}-{setting.key}-{number}"
                    here.mkdir()
                    one = _Group(row, key, setting, clusters=clusters, folder=here)
                    found = one.run(number, say)
                    measured.add(found)
                    say(told(found))
                    for cleaner in cleaners:
                        cleaner.clean()


class _Group:
    """Two nodes of one contestant, and the flow that they share."""

    def __init__(
        self,
        row: Recovering,
        key: str,
        setting: Setting,
        *,
        clusters: Clusters,
        folder: Path,
    ) -> None:
        self._row = row
        self._key = key
        self._setting = setting
        self._folder = folder
        self._source = clusters.source.client_properties()
        self._target = clusters.target.client_properties()
        name = f"{key}-{setting.key}"
        self._topic = f"recovery-{name}"
        self._flow = Flow(
            source=f"a-{name}-{folder.name[-1]}",
            target=f"b-{name}-{folder.name[-1]}",
            source_properties=self._source,
            target_properties=self._target,
            topics=(self._topic,),
        )
        self._seen = Standstill(row.partitions)
        self._nodes: list[Running] = []
        self._load = 0.0

    def run(self, number: int, say: Say) -> Recovery:
        blank = Recovery(contestant=self._key, setting=self._setting.key, round=number)
        kafka.create_topic(self._source, self._topic, partitions=self._row.partitions)
        traffic = TrickleProducer(
            self._source,
            self._topic,
            partitions=self._row.partitions,
            per_second=_PER_PARTITION * self._row.partitions,
        )
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(traffic.stop_quietly)
                traffic.start()
                self._start(stack, "one")
                with self._reading() as reader:
                    self._until(reader, self._seen.moving, _BEGIN_S, "the first node to mirror")
                    self._start(stack, "two")
                    self._await_both(reader)
                    self._kill(reader)
                    traffic.stop()
                return self._judged(blank)
        except (FailedError, AssertionError, RuntimeError) as failed:
            for each in self._nodes:
                say(each.log_tail)
            return replace(blank, fault=str(failed).partition("\n")[0])

    # Steps

    def _start(self, stack: contextlib.ExitStack, name: str) -> None:
        port = port_reservation.reserve_port()
        stack.callback(port.release)
        folder = self._folder / name
        folder.mkdir()
        made = node_of(self._key, self._setting, port.port)
        self._nodes.append(stack.enter_context(Running(made, self._flow, folder)))

    def _await_both(self, reader: confluent_kafka.Consumer) -> None:
        """Both run something, for a while, and everything moves."""
        since_s: list[float] = []
        looked_s = 0.0

        def settled(now_s: float) -> bool:
            nonlocal looked_s
            if now_s - looked_s >= _LOOK_EVERY_S:
                looked_s = now_s
                if not self._is_spread() or not self._seen.moving(now_s):
                    since_s.clear()
                elif not since_s:
                    since_s.append(now_s)
            return bool(since_s) and now_s - since_s[0] >= _PLACED_S

        self._until(reader, settled, _BEGIN_S, "both nodes to share the tasks")

    def _is_spread(self) -> bool:
        name = f"mm2-status.{self._flow.source}.internal"
        if name not in kafka.topics(self._target):
            return False
        owners = task_lives.of(task_lives.read(self._target, name)).owners
        return standstill.spread_over(owners, _SOURCE_TASKS, 2)

    def _kill(self, reader: confluent_kafka.Consumer) -> None:
        self._load = machine.load()
        self._seen.killed_s = _CLOCK.now_s()
        self._nodes.pop().kill()
        limit_s = self._setting.delay_s[self._key] + _GRACE_S
        self._until(reader, self._seen.over, limit_s, "every partition to move again")

    def _judged(self, blank: Recovery) -> Recovery:
        """The other node goes on until everything is there; then nobody writes any more."""
        source = topic_values.read(self._source, self._topic)
        mirrored = self._flow.mirrored(self._topic)
        system_clock.wait_until(
            lambda: standstill.judge(source, topic_values.read(self._target, mirrored)).lost == 0,
            timeout_s=_COMPLETE_S,
            interval_s=_LOOK_EVERY_S,
        )
        for each in self._nodes:
            each.stop()
        found = standstill.judge(source, topic_values.read(self._target, mirrored))
        return replace(
            blank,
            load=self._load,
            fault=found.fault(doubles_allowed=self._key == JAVA),
            again_s=max(self._seen.again_s.values()),
            stood=len(self._seen.again_s),
            doubled=found.doubled,
        )

    # Reading the target

    @contextlib.contextmanager
    def _reading(self) -> Iterator[confluent_kafka.Consumer]:
        mirrored = self._flow.mirrored(self._topic)
        there = system_clock.wait_until(
            lambda: self._made(mirrored), timeout_s=_BEGIN_S, interval_s=_LOOK_EVERY_S / 4
        )
        if not there:
            raise self._nodes[0].failure(f"no topic {mirrored} after {_BEGIN_S:.0f} s")
        reader = confluent_kafka.Consumer(
            kafka.client_config(
                self._target,
                group_id="bench-recovery",
                enable_auto_commit=False,
                auto_offset_reset="error",
                fetch_wait_max_ms=50,
            )
        )
        try:
            reader.assign(
                [
                    confluent_kafka.TopicPartition(mirrored, each, 0)
                    for each in range(self._row.partitions)
                ]
            )
            yield reader
        finally:
            reader.close()

    def _made(self, topic: str) -> bool:
        self._nodes[0].check()
        return topic in kafka.topics(self._target)

    def _until(
        self,
        reader: confluent_kafka.Consumer,
        condition: Callable[[float], bool],
        limit_s: float,
        what: str,
    ) -> None:
        end_s = _CLOCK.now_s() + limit_s
        while not condition(now_s := _CLOCK.now_s()):
            if now_s > end_s:
                still = ", ".join(map(str, self._seen.still(now_s))) or "none"
                raise AssertionError(
                    f"waited {limit_s:.0f} s for {what}; partitions that stand still: {still}"
                )
            for each in self._nodes:
                each.check()
            self._read(reader)

    def _read(self, reader: confluent_kafka.Consumer) -> None:
        for message in reader.consume(500, timeout=_READ_S):
            error = message.error()
            if error is not None:
                if error.retriable():
                    continue
                raise RuntimeError(f"reading the mirror: {error}")
            value, partition = message.value(), message.partition()
            assert value is not None, "the sender always gives one"
            assert partition is not None
            self._seen.hear(partition, _STAMP.unpack_from(value)[0], _CLOCK.now_s())


def told(one: Recovery) -> str:
    """One line for people who wait."""
    head = f"round {one.round}, {one.contestant}, {one.setting}"
    if one.fault or one.again_s is None:
        return f"{head}: FAULT: {one.fault}"
    return (
        f"{head}: all move again {figures.number(one.again_s)} s after the kill, "
        f"{one.stood:.0f} stood still, {one.doubled:.0f} duplicated records"
    )
