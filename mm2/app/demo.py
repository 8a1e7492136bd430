"""What `mm2 demo` does: two clusters, traffic of every kind, the mirror, the proof, and a failover.

A composition root: it wires the sandbox to a node. All that it starts ends with it; a signal
is noticed within a second or two wherever it is, and at once when it comes twice.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.base import amounts, clock, ids
from mm2.app import demo_move, demo_waits, figures, narrator, node
from mm2.app.settings import load
from mm2.app.settings import settings as app_settings
from mm2.connectors import flow_status
from mm2.sandbox import cluster, comparison, log_reader, proof
from mm2.sandbox.traffic import mix, topics, trickle

SOURCE, TARGET = "east", "west"
FIRST_PORTS = {SOURCE: 19_092, TARGET: 19_192}
TRICKLE = topics.Topic(name="trickle", partitions=2)
TRICKLE_PER_SECOND = 200
STOP_S = 10.0

_SETTINGS = """\
clusters:
  {source}:
    bootstrap.servers: {source_servers}
  {target}:
    bootstrap.servers: {target_servers}

defaults:
  tasks.max: 2
  replication.factor: -1    # one broker each: what it is set to

flows:
  - from: {source}
    to: {target}
    topics: .*

metrics:
  required: false           # where another mm2 run has the port
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`seconds` of live traffic; `records` of a large kind in the backlog, of about 1 KB. `moves`:
    a consumer group is moved in the end, which stops the mirror."""

    seconds: float = 10.0
    records: int = 25_000
    moves: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What was copied between two looks at the flow, `seconds` apart.

    `size` is bytes of record batches, compressed as they are stored.
    """

    records: int
    size: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`stopped`: partitions that the mirror gave up, with the reason."""

    comparison: comparison.Comparison
    backlog: Throughput
    latencies: trickle.Latencies
    stopped: tuple[str, ...]
    moved: demo_move.Moved | None

    @property
    def good(self) -> bool:
        return self.comparison.equal and (self.moved is None or self.moved.exact)


class Demo:
    """Runs once, on one thread; `close` ends everything, however far it came."""

    def __init__(
        self,
        options: Options,
        *,
        tell: narrator.Narrator,
        now: clock.Clock,
        stop_signal: Callable[[], int | None],
    ) -> None:
        self._options = options
        self._tell = tell
        self._clock = now
        self._waits = demo_waits.Waits(
            now, stop_signal, flow=self._flow, crashed=lambda: self.mirror.crashed
        )
        self._open = ExitStack()
        self._folder = Path(
            self._open.enter_context(tempfile.TemporaryDirectory(prefix="mm2-demo-"))
        )
        self.clusters = {
            name: cluster.Cluster(name, port=port) for name, port in FIRST_PORTS.items()
        }
        for each in self.clusters.values():
            self._open.callback(each.close)
        self._mirror: node.Node | None = None

    @property
    def settings_file(self) -> Path:
        return self._folder / "clusters.yaml"

    @property
    def mirror(self) -> node.Node:
        """Once `run` has started it."""
        assert self._mirror is not None
        return self._mirror

    @property
    def settings(self) -> app_settings.Settings:
        """What the mirror runs with."""
        return load.load(self.settings_file, environment=os.environ)

    def close(self) -> None:
        """End everything."""
        self._tell.now("stopping the mirror and the clusters")
        self._open.close()
        self._tell.close()

    def run(self) -> Result:
        """All of it. Raises `ConnectError`, or `demo_waits.StoppedError` when a signal came."""
        self._start_clusters()
        traffic, steady = self._send_backlog()
        started_s = self._clock.now_s()
        self._start_mirror()
        backlog = self._copy_backlog(traffic, started_s)
        latencies = self._live(traffic, steady)
        stopped = self._catch_up(traffic)
        return Result(
            comparison=self._prove(traffic),
            backlog=backlog,
            latencies=latencies,
            stopped=stopped,
            moved=self._fail_over() if self._options.moves else None,
        )

    def keep_trickling(self) -> trickle.Trickle:
        """A little traffic that goes on until `close`."""
        steady = self._trickle(per_second=50)
        steady.start()
        self._open.callback(steady.end)
        return steady

    # The steps

    def _start_clusters(self) -> None:
        self._now("starting two Kafka clusters")
        cluster.start_all(list(self.clusters.values()))
        where = " and ".join(f"{name} at {each.bootstrap}" for name, each in self.clusters.items())
        self._step(f"two Kafka clusters are up: {where}")

    def _send_backlog(self) -> tuple[mix.Mix, trickle.Trickle]:
        traffic = mix.Mix(self._properties(SOURCE), records=self._options.records)
        self._open.callback(traffic.close)
        traffic.create_topics([TRICKLE, demo_move.ORDERS])
        traffic.send_backlog(lambda kind: self._now(f"sending to {SOURCE}: {kind}"))
        topics = amounts.counted(len(traffic.topic_names), "topic")
        self._step(
            f"real clients have filled {topics} of {SOURCE}: every codec, "
            "transactions, Java, headers, nulls, old records, 1 byte to 5 MB"
        )
        return traffic, self._trickle(per_second=TRICKLE_PER_SECOND)

    def _start_mirror(self) -> None:
        self.settings_file.write_text(
            _SETTINGS.format(
                source=SOURCE,
                target=TARGET,
                source_servers=self.clusters[SOURCE].bootstrap,
                target_servers=self.clusters[TARGET].bootstrap,
            )
            + demo_move.hooks(self._folder)
        )
        self._now("starting the mirror: Spark first")
        self._mirror = node.Node(self.settings, environment=os.environ)
        self._open.callback(self._mirror.stop, STOP_S)
        self._mirror.start()

    def _copy_backlog(self, traffic: mix.Mix, started_s: float) -> Throughput:
        """Timed from the last look that saw nothing copied to the first that saw all of it."""
        ends = self._ends(traffic)
        total = sum(ends.values())
        idle_s = started_s

        def copied() -> bool:
            nonlocal idle_s
            done = sum(self._copied(ends).values())
            if done == 0:
                idle_s = self._clock.now_s()
                self._now("Spark starts the copies, which take their partitions over")
            else:
                self._now(f"copying the backlog: {min(100, 100 * done // total)} %")
            return self._reached(ends)

        self._waits.until(copied, "copying the backlog")
        partitions = self._flow().partitions
        found = Throughput(
            records=sum(each.records for each in partitions),
            size=sum(each.bytes for each in partitions),
            seconds=max(demo_waits.LOOK_S, self._clock.now_s() - idle_s),
        )
        self._step(
            f"the mirror began to copy {figures.duration(idle_s - started_s)} after its start and "
            f"had all {figures.size(found.size)} after another {figures.duration(found.seconds)}"
        )
        return found

    def _live(self, traffic: mix.Mix, steady: trickle.Trickle) -> trickle.Latencies:
        """Half of the time with all kinds of traffic, half with the trickle alone, measured.

        The clients of all that traffic would take the cores that are to be measured.
        """
        probe = trickle.LatencyProbe(
            self._properties(TARGET), self._remote(TRICKLE.name), partitions=TRICKLE.partitions
        )
        self._open.callback(probe.end)
        self._open.callback(steady.end)
        probe.start()
        steady.start()
        traffic.start()
        self._waits.until(lambda: probe.count > 0, "waiting for the first record of the trickle")
        self._go_on("traffic of every kind goes on")
        traffic.stop()
        probe.measure()
        self._go_on(f"a trickle of {TRICKLE_PER_SECOND} records/s goes on")
        latencies = probe.latencies
        steady.stop()
        probe.stop()
        self._step(f"live traffic for {figures.duration(self._options.seconds)} has ended")
        return latencies

    def _go_on(self, what: str) -> None:
        """For half of the time."""
        until_s = self._clock.now_s() + self._options.seconds / 2

        def over() -> bool:
            left_s = until_s - self._clock.now_s()
            self._now(f"{what}: {max(0.0, left_s):.0f} s more")
            return left_s <= 0

        self._waits.until(over, what)

    def _catch_up(self, traffic: mix.Mix) -> tuple[str, ...]:
        ends = self._ends(traffic)
        self._now("waiting until the rest is copied")
        self._waits.until(lambda: self._reached(ends), "copying the last records")
        return tuple(
            f"{each.partition}: {each.reason}" for each in self._flow().partitions if each.stopped
        )

    def _prove(self, traffic: mix.Mix) -> comparison.Comparison:
        names = self._topics(traffic)
        done = 0

        def report(part: comparison.PartitionComparison) -> None:
            nonlocal done
            done += 1
            so_far = amounts.counted(done, "partition")
            self._now(f"an ordinary consumer compares both sides: {so_far}, {part.source}")

        self._now("an ordinary consumer compares both sides")
        found = proof.compare(
            self._properties(SOURCE),
            self._properties(TARGET),
            {name: self._remote(name) for name in names},
            report=report,
        )
        partitions = amounts.counted(len(found.partitions), "partition")
        self._step(f"an ordinary consumer compared {partitions} on both sides, record by record")
        return found

    def _fail_over(self) -> demo_move.Moved:
        """A consumer group works at the source and is moved to the target."""
        group = demo_move.GROUP
        move = demo_move.Move(
            self._folder,
            self._properties(SOURCE),
            self._properties(TARGET),
            mirror=self._remote(demo_move.ORDERS.name),
            wait=self._waits.in_time,
            now_s=self._clock.now_s,
        )
        self._open.callback(move.close)
        self._now(f"a consumer group, {group}, begins to work on {SOURCE}")
        move.work()
        self._step(f"applications write to {SOURCE} and read there, in the consumer group {group}")
        self._now(f"mm2 failover --from {SOURCE} --to {TARGET} --planned --execute")
        moved = move.run(self.settings_file, origin=SOURCE, destination=TARGET)
        self._step(
            f"mm2 failover has moved {group} to {TARGET}, where it goes on: "
            f"{figures.duration(moved.seconds)}"
        )
        return moved

    # What the steps ask

    def _properties(self, name: str) -> Mapping[str, str]:
        return self.clusters[name].client_properties()

    def _topics(self, traffic: mix.Mix) -> list[str]:
        return [*traffic.topic_names, TRICKLE.name]

    def _remote(self, topic: str) -> str:
        return self.settings.flows[0].remote_topic(topic)

    def _trickle(self, *, per_second: float) -> trickle.Trickle:
        return trickle.Trickle(
            self._properties(SOURCE),
            TRICKLE.name,
            partitions=TRICKLE.partitions,
            per_second=per_second,
        )

    def _ends(self, traffic: mix.Mix) -> dict[ids.TopicPartition, int]:
        """Last stable offsets at the source, of what is not empty."""
        with log_reader.LogReader(self._properties(SOURCE), alias=SOURCE) as reader:
            places = [
                ids.TopicPartition(name, number)
                for name in self._topics(traffic)
                for number in range(reader.partitions(name))
            ]
            ends = {place: reader.bounds(place)[1] for place in places}
        return {place: end for place, end in ends.items() if end > 0}

    def _flow(self) -> flow_status.FlowStatus:
        return self.mirror.statuses()[0]

    def _copied(self, ends: Mapping[ids.TopicPartition, int]) -> dict[ids.TopicPartition, int]:
        """How far each partition is copied; a stopped one counts as done: the proof will tell."""
        return {
            each.partition: ends[each.partition] if each.stopped else max(0, each.copied_to)
            for each in self._flow().partitions
            if each.partition in ends
        }

    def _reached(self, ends: Mapping[ids.TopicPartition, int]) -> bool:
        copied = self._copied(ends)
        return all(copied.get(place, 0) >= end for place, end in ends.items())

    def _step(self, text: str) -> None:
        self._waits.raise_if_stopped()
        self._tell.step(text)

    def _now(self, text: str) -> None:
        self._waits.raise_if_stopped()
        self._tell.now(text)
