"""`mm2 demo`: two clusters, traffic of every kind, replication, verification, and a failover.

Runs a replication node between two sandbox clusters. All processes that the demo starts end when
the demo ends. The first SIGINT or SIGTERM stops the demo within about two seconds, a second signal
immediately. The clusters require a login, because every client of a broker without authentication
can read the files of the user who runs the broker.

At the end, a running consumer group is moved to the other cluster with `mm2 failover` and hooks
that stop the applications. A hook is a shell command that creates a file in a directory and waits
in that directory for the response; it ends when the directory is removed.
"""

from __future__ import annotations

import collections
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system import child_processes, system_clock
from connect_runtime.system.child_processes import ChildProcess
from mm2 import text_format
from mm2.config import config_loader
from mm2.config.mm2_settings import Mm2Settings
from mm2.connectors.status_registry import FlowState, FlowStatus
from mm2.node.mm2_node import Mm2Node
from mm2.sandbox import java_server_process, replication_proof, sandbox_cluster
from mm2.sandbox.log_comparison import PartitionComparison, TopicsComparison
from mm2.sandbox.partition_reader import ConsumerLogReader
from mm2.sandbox.sandbox_clients import ClientProperties, SandboxClients
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.scenarios.progress_printer import ProgressPrinter
from mm2.sandbox.traffic import simulated_applications, topic_creation
from mm2.sandbox.traffic.latency_probe import LatencyPercentiles, LatencyProbe, TrickleProducer
from mm2.sandbox.traffic.simulated_applications import GroupConsumer, NumberProducer
from mm2.sandbox.traffic.topic_creation import TrafficTopic
from mm2.sandbox.traffic.traffic_mix import TrafficMix

STALL_TIMEOUT_S = 90.0
WAIT_POLL_INTERVAL_S = 0.1


class DemoFailedError(FatalError):
    """The demo failed and cannot continue."""


class StopSignalError(Exception):
    """The demo was stopped by a signal. This is not a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.number = number


class DemoWaiter:
    """Waits for conditions. On failure, raises an error with the flow's state, or with the received
    stop signal."""

    def __init__(
        self,
        now: Clock,
        stop_signal: Callable[[], int | None],
        *,
        flow: Callable[[], FlowStatus],
        crashed: Callable[[], str],
    ) -> None:
        self._clock = now
        self._stop_signal = stop_signal
        self._flow = flow
        self._crashed = crashed

    def raise_if_stopped(self) -> None:
        """Raise `StopSignalError` if a stop signal was received."""
        number = self._stop_signal()
        if number is not None:
            raise StopSignalError(number)

    def wait_with_progress(self, done: Callable[[], bool], activity: str) -> None:
        """Wait until `done` returns True. Raises `DemoFailedError` if the flow fails or makes no
        progress."""
        # Only states not seen before count as progress: restarting copy processes do not.
        seen: set[object] = set()
        news_s = self._clock.now_s()
        while not done():
            self._check_flow_health()
            standing = self._get_progress_state()
            if standing not in seen:
                seen.add(standing)
                news_s = self._clock.now_s()
            elif self._clock.now_s() - news_s > STALL_TIMEOUT_S:
                raise DemoFailedError(
                    f"{activity}: no progress for {STALL_TIMEOUT_S:.0f} s: {self._describe_state()}"
                )
            self._wait_poll_interval()
        self._check_flow_health()

    def wait_with_timeout(self, done: Callable[[], bool], activity: str) -> None:
        """Wait until `done` returns True, regardless of the flow's state. Raises `DemoFailedError`
        on timeout."""
        end_s = self._clock.now_s() + STALL_TIMEOUT_S
        while not done():
            self.raise_if_stopped()
            if self._clock.now_s() > end_s:
                raise DemoFailedError(
                    f"{activity}: not finished within {STALL_TIMEOUT_S:.0f} s: "
                    f"{self._describe_state()}"
                )
            self._wait_poll_interval()

    def _wait_poll_interval(self) -> None:
        system_clock.wait_until(
            lambda: self._stop_signal() is not None, timeout_s=WAIT_POLL_INTERVAL_S
        )

    def _check_flow_health(self) -> None:
        self.raise_if_stopped()
        flow = self._flow()
        if self._crashed() or flow.state is FlowState.FAILED:
            raise DemoFailedError(f"replication has failed: {self._crashed() or flow.reason}")

    def _get_progress_state(self) -> object:
        flow = self._flow()
        return (
            flow.state,
            tuple(each.state for each in flow.tasks),
            frozenset(each.phase for each in flow.partitions),
            sum(each.copied_to for each in flow.partitions),
        )

    def _describe_state(self) -> str:
        flow = self._flow()
        tasks = ", ".join(f"{each.state.value} {each.reason}".rstrip() for each in flow.tasks)
        phases = collections.Counter(
            f"{each.phase} {each.reason}".rstrip() for each in flow.partitions
        )
        behind = [str(each.partition) for each in flow.partitions if each.lag_records != 0]
        return (
            f"the flow is {flow.state.value}, its tasks {tasks or 'unknown'}; partitions: "
            + (", ".join(f"{count} {phase}" for phase, count in sorted(phases.items())) or "none")
            + (
                f"; {sum(each.copied_to for each in flow.partitions):,} offsets replicated in "
                f"total; lagging partitions: {', '.join(behind[:5]) or 'none'}"
            )
        )


ORDERS_TOPIC = TrafficTopic(name="orders", partitions=2)
DEMO_GROUP = "billing"
QUIESCENCE_S = 1
"""How long both clusters must be quiescent before the group fails over, in seconds. Production
failovers use a longer time."""
PROCESSED_RECORDS = 500
"""Number of records that the consumer group processes before the failover, and the same number
after it."""
TARGET_FIRST_NUMBER = 1_000_000_000
"""Number in the first record that is produced to the target cluster; the source's records have
lower numbers."""
_HOOK_TIMEOUT_MS = 60_000
_HOOK_YAML = """\
  {step}:
    command: [sh, -c, 'touch {note}.asked; while [ -e {note}.asked ] && ! [ -e {note}.done ]; do
      sleep 0.1; done']
    timeout.ms: {timeout_ms}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFailoverResult:
    """Numbers of records that the consumer group processed before and after the failover, and the
    duration of the failover."""

    origin: str
    destination: str
    sent: int
    before: int
    after: int
    reread: int
    missing: int
    seconds: float
    """Seconds from the start of `mm2 failover` until the group processes records on the other
    cluster."""

    @property
    def is_exactly_once(self) -> bool:
        """True if each record was processed exactly once."""
        return not self.reread and not self.missing


class DemoFailoverError(FatalError):
    """The command `mm2 failover` failed."""


class DemoFailover:
    """Runs `mm2 failover` for a running consumer group.

    `source` and `target` are the client properties of the two clusters. `wait(done, doing)` waits
    until `done` returns True, or raises an exception; `doing` describes this condition.
    """

    def __init__(
        self,
        folder: Path,
        source: ClientProperties,
        target: ClientProperties,
        *,
        mirror: str,
        wait: Callable[[Callable[[], bool], str], object],
        now_s: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._wait = wait
        self._now_s = now_s
        self._source = source
        self._target = target
        count = ORDERS_TOPIC.partitions
        self._writing = NumberProducer(source, ORDERS_TOPIC.name, partitions=count)
        self._reading = GroupConsumer(source, DEMO_GROUP, ORDERS_TOPIC.name)
        self._writing_there = NumberProducer(
            target, ORDERS_TOPIC.name, partitions=count, first=TARGET_FIRST_NUMBER
        )
        self._reading_there = GroupConsumer(target, DEMO_GROUP, mirror, ORDERS_TOPIC.name)
        self._answers: Mapping[str, Callable[[], None]] = {
            "stop-producers": self._writing.stop,
            "stop-consumers": self._reading.stop,
            "start-consumers": self._reading_there.start,
            "start-producers": self._writing_there.start,
        }
        self._child: ChildProcess | None = None

    def close(self) -> None:
        """Stop all applications and processes that are still running."""
        if self._child is not None:
            self._child.kill()
        for each in (
            *(self._writing, self._writing_there),
            *(self._reading, self._reading_there),
        ):
            each.stop_quietly()

    def start_applications(self) -> None:
        """Start the applications, and wait until the group can fail over."""
        made = SandboxClients(self._target, alias=DEMO_GROUP)
        topic_creation.create_topics(
            made, [ORDERS_TOPIC]
        )  # records written to the target later have a separate topic
        for side in (self._source, self._target):
            simulated_applications.create_group_at_offset_zero(
                side, DEMO_GROUP, ORDERS_TOPIC.name, partitions=ORDERS_TOPIC.partitions
            )
        self._writing.start()
        self._reading.start()
        self._wait(
            lambda: len(self._reading.processed) >= PROCESSED_RECORDS,
            f"the group {DEMO_GROUP} works",
        )

    def run(self, settings_file: Path, *, origin: str, destination: str) -> DemoFailoverResult:
        """Fail the group over, and wait until the group has processed every record.

        Raises `DemoFailoverError`, or the exception that `wait` raised.
        """
        began_s = self._now_s()
        self._execute_failover(
            *(
                "--from",
                origin,
                "--to",
                destination,
                "--group",
                DEMO_GROUP,
                "--planned",
                "--execute",
            ),
            *("--quiescence", str(QUIESCENCE_S), "--journal", str(self._folder / "journal.jsonl")),
            *("--config", str(settings_file)),
        )
        before, after = self._reading.processed, self._reading_there.processed
        self._wait(
            lambda: sum(number >= TARGET_FIRST_NUMBER for number in after) >= PROCESSED_RECORDS,
            f"the group {DEMO_GROUP} continues at {destination}",
        )
        seconds = self._now_s() - began_s
        self._writing_there.stop()
        sent = self._writing.sent | self._writing_there.sent
        self._wait(
            lambda: sent <= {*before, *after}, (f"the group {DEMO_GROUP} has processed all records")
        )
        self._reading_there.stop()
        return DemoFailoverResult(
            origin=origin,
            destination=destination,
            sent=len(sent),
            before=len(before),
            after=len(after),
            reread=len(before) + len(after) - len({*before, *after}),
            missing=len(sent - {*before, *after}),
            seconds=seconds,
        )

    def _execute_failover(self, *arguments: str) -> None:
        """Run the failover command, and respond to its hooks while it is running."""
        said = self._folder / "failover.txt"
        command = child_processes.build_python_command("mm2.cli.main", "failover", *arguments)
        with said.open("wb") as output:
            self._child = child = child_processes.start_process(command, output=output)
            self._wait(
                lambda: self._respond_to_waiting_hooks() or child.poll() is not None, "mm2 failover"
            )
        if child.poll():
            raise DemoFailoverError(
                f"mm2 failover exited with status {child.poll()}: {said.read_text()}"
            )

    def _respond_to_waiting_hooks(self) -> bool:
        """Stop or start the applications as requested by hooks that are waiting for a response.
        Always returns False, so that the method can be used as a wait condition."""
        for step, do in self._answers.items():
            done = self._folder / f"{step}.done"
            if (self._folder / f"{step}.asked").exists() and not done.exists():
                do()
                done.touch()
        return False


def make_hooks_section(folder: Path) -> str:
    """Return the `hooks` section of `clusters.yaml`."""
    steps = ("stop-producers", "stop-consumers", "start-consumers", "start-producers")
    return "\nhooks:\n" + "".join(
        _HOOK_YAML.format(step=step, note=folder / step, timeout_ms=_HOOK_TIMEOUT_MS)
        for step in steps
    )


SOURCE_ALIAS, TARGET_ALIAS = "east", "west"
FIRST_PORTS = {SOURCE_ALIAS: 19_092, TARGET_ALIAS: 19_192}
TRICKLE_TOPIC = TrafficTopic(name="trickle", partitions=2)
TRICKLE_PER_SECOND = 200
NODE_STOP_TIMEOUT_S = 10.0

_FLOWS_AND_DEFAULTS_YAML = """\
defaults:
  tasks.max: 2
  replication.factor: -1    # the broker's default: one broker each

flows:
  - from: {source}
    to: {target}
    topics: .*

metrics:
  required: false           # run without metrics if another mm2 run uses the port
"""


def make_demo_config(clusters: Mapping[str, ClientProperties], folder: Path) -> str:
    """Return the demo's `clusters.yaml`.

    `clusters` contains the client properties of the source and the target, by alias. `folder` is
    the directory in which the hooks and the demo communicate.
    """
    source, target = clusters
    sections = "".join(
        f"  {alias}:\n"
        + "".join(
            f"    {key}: {json.dumps(value, ensure_ascii=False)}\n"
            for key, value in properties.items()
        )
        for alias, properties in clusters.items()
    )
    flows = _FLOWS_AND_DEFAULTS_YAML.format(source=source, target=target)
    return f"clusters:\n{sections}\n{flows}{make_hooks_section(folder)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Duration and size of the demo."""

    seconds: float = 10.0
    """Duration in seconds for which clients produce records after the backlog has been
    replicated."""
    records: int = 25_000
    """Number of records (about 1 KB each) that each high-volume kind of traffic writes before
    replication starts."""
    with_failover: bool = True
    """True if the demo ends with a failover of a consumer group, which stops the flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoThroughput:
    """Records and bytes replicated between two status polls."""

    records: int
    size: int
    """Total bytes of the replicated record batches, compressed as in the log."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """Result of the demo; `halted_partitions` describes each halted partition with its halt
    reason."""

    comparison: TopicsComparison
    backlog: DemoThroughput
    latencies: LatencyPercentiles
    halted_partitions: tuple[str, ...]
    failover: DemoFailoverResult | None
    """Result of the failover, or None if no failover was requested or if the clusters differ."""

    @property
    def is_successful(self) -> bool:
        return self.comparison.is_equal and (self.failover is None or self.failover.is_exactly_once)


class Demo:
    """A single demo, run on one thread. `close` stops everything at any stage."""

    def __init__(
        self,
        options: DemoOptions,
        *,
        progress: ProgressPrinter,
        now: Clock,
        stop_signal: Callable[[], int | None],
    ) -> None:
        self._options = options
        self._progress = progress
        self._clock = now
        self._waits = DemoWaiter(
            now,
            stop_signal,
            flow=self._get_flow_status,
            crashed=lambda: self.replication_node.crash_reason,
        )
        self._open = ExitStack()
        self._folder = Path(
            self._open.enter_context(tempfile.TemporaryDirectory(prefix="mm2-demo-"))
        )
        self.clusters = {
            name: SandboxCluster(name, users=(), uses_tls=False, port=port)
            for name, port in FIRST_PORTS.items()
        }
        for each in self.clusters.values():
            self._open.callback(each.close)
        self._mirror: Mm2Node | None = None

    @property
    def settings_file(self) -> Path:
        return self._folder / "clusters.yaml"

    def get_client_properties_path(self, name: str) -> Path:
        """Return the path of the Java client properties file of a cluster. The file exists after
        the clusters have started."""
        return self._folder / f"{name}.client.properties"

    @property
    def replication_node(self) -> Mm2Node:
        """The replication node. Valid after `run` has started the node."""
        assert self._mirror is not None
        return self._mirror

    @property
    def settings(self) -> Mm2Settings:
        """Configuration that the replication node runs with."""
        return config_loader.load_config_file(self.settings_file, environment=os.environ)

    def close(self) -> None:
        """Stop the node, the clients and the clusters."""
        self._progress.show_activity("stopping replication and the clusters")
        self._open.close()
        self._progress.close()

    def run(self) -> DemoResult:
        """Run the demo. Raises `ConnectError` on failure, or `StopSignalError` after a signal."""
        self._start_clusters()
        traffic, steady = self._send_backlog()
        started_s = self._clock.now_s()
        self._start_replication_node()
        backlog = self._replicate_backlog(traffic, started_s)
        latencies = self._run_live_traffic(traffic, steady)
        stopped = self._wait_for_catch_up(traffic)
        comparison = self._compare_topics(traffic)
        with_failover = self._options.with_failover and comparison.is_equal
        return DemoResult(
            comparison=comparison,
            backlog=backlog,
            latencies=latencies,
            halted_partitions=stopped,
            failover=self._fail_over() if with_failover else None,
        )

    def start_trickle_producer(self) -> TrickleProducer:
        """Start sending a trickle of records, which continues until `close`."""
        steady = self._create_trickle_producer(per_second=50)
        steady.start()
        self._open.callback(steady.stop_quietly)
        return steady

    # Steps

    def _start_clusters(self) -> None:
        self._show_activity("starting two Kafka clusters")
        sandbox_cluster.start_clusters(list(self.clusters.values()))
        for name in self.clusters:
            java_server_process.write_settings_file(
                self.get_client_properties_path(name), self._get_client_properties(name)
            )
        where = " and ".join(f"{name} at {each.bootstrap}" for name, each in self.clusters.items())
        self._print_step(f"two Kafka clusters are up: {where}")

    def _send_backlog(self) -> tuple[TrafficMix, TrickleProducer]:
        traffic = TrafficMix(
            self._get_client_properties(SOURCE_ALIAS), records=self._options.records
        )
        self._open.callback(traffic.close)
        traffic.create_topics([TRICKLE_TOPIC, ORDERS_TOPIC])
        traffic.send_backlog(lambda kind: self._show_activity(f"sending to {SOURCE_ALIAS}: {kind}"))
        topics = plurals.format_count(len(traffic.topic_names), "topic")
        self._print_step(
            f"real clients have filled {topics} of {SOURCE_ALIAS}: every codec, "
            "transactions, Java, headers, nulls, old records, 1 byte to 5 MB"
        )
        return traffic, self._create_trickle_producer(per_second=TRICKLE_PER_SECOND)

    def _start_replication_node(self) -> None:
        properties = {name: self._get_client_properties(name) for name in self.clusters}
        self.settings_file.touch(mode=0o600)
        self.settings_file.write_text(make_demo_config(properties, self._folder))
        self._show_activity("starting the flow: Spark is starting first")
        self._mirror = Mm2Node(self.settings, environment=os.environ)
        self._open.callback(self._mirror.stop, NODE_STOP_TIMEOUT_S)
        self._mirror.start()

    def _replicate_backlog(self, traffic: TrafficMix, started_s: float) -> DemoThroughput:
        """Wait until the backlog is replicated. Return the throughput between the last status
        before the first record was replicated and the first status in which all records were
        replicated."""
        ends = self._read_end_offsets(traffic)
        total = sum(ends.values())
        idle_s = started_s

        def is_backlog_replicated() -> bool:
            nonlocal idle_s
            done = sum(self._get_replicated_offsets(ends).values())
            if done == 0:
                idle_s = self._clock.now_s()
                self._show_activity(
                    "Spark is starting the copy processes, which acquire their partitions"
                )
            else:
                self._show_activity(f"replicating the backlog: {min(100, 100 * done // total)} %")
            return self._are_offsets_replicated(ends)

        self._waits.wait_with_progress(is_backlog_replicated, "replicating the backlog")
        partitions = self._get_flow_status().partitions
        found = DemoThroughput(
            records=sum(each.records for each in partitions),
            size=sum(each.bytes for each in partitions),
            seconds=max(WAIT_POLL_INTERVAL_S, self._clock.now_s() - idle_s),
        )
        self._print_step(
            "the first records were replicated "
            f"{text_format.format_duration(idle_s - started_s)} "
            "after the start, and "
            f"all {text_format.format_size(found.size)} after another "
            f"{text_format.format_duration(found.seconds)}"
        )
        return found

    def _run_live_traffic(self, traffic: TrafficMix, steady: TrickleProducer) -> LatencyPercentiles:
        """Send all kinds of traffic for half of the configured time, and then only a low-rate
        stream of records whose replication latency is measured.

        Latency is not measured in the first half, because the clients of the other kinds of traffic
        compete with replication for CPU time.
        """
        probe = LatencyProbe(
            self._get_client_properties(TARGET_ALIAS),
            self._format_remote_topic(TRICKLE_TOPIC.name),
            partitions=TRICKLE_TOPIC.partitions,
        )
        self._open.callback(probe.stop_quietly)
        self._open.callback(steady.stop_quietly)
        probe.start()
        steady.start()
        traffic.start()
        self._waits.wait_with_progress(
            lambda: probe.sample_count > 0, "waiting for the first record of the trickle"
        )
        self._wait_half_of_configured_time("sending traffic of every kind")
        traffic.stop()
        probe.restart_measurement()
        self._wait_half_of_configured_time(f"sending a trickle of {TRICKLE_PER_SECOND} records/s")
        latencies = probe.latencies
        steady.stop()
        probe.stop()
        self._print_step(
            f"live traffic for {text_format.format_duration(self._options.seconds)} has ended"
        )
        return latencies

    def _wait_half_of_configured_time(self, what: str) -> None:
        """Wait for half of the configured time."""
        until_s = self._clock.now_s() + self._options.seconds / 2

        def is_wait_over() -> bool:
            left_s = until_s - self._clock.now_s()
            self._show_activity(f"{what}: {max(0.0, left_s):.0f} s more")
            return left_s <= 0

        self._waits.wait_with_progress(is_wait_over, what)

    def _wait_for_catch_up(self, traffic: TrafficMix) -> tuple[str, ...]:
        ends = self._read_end_offsets(traffic)
        self._show_activity("waiting until the remaining records are replicated")
        self._waits.wait_with_progress(
            lambda: self._are_offsets_replicated(ends), "replicating the last records"
        )
        return tuple(
            f"{each.partition}: {each.reason}"
            for each in self._get_flow_status().partitions
            if each.is_halted
        )

    def _compare_topics(self, traffic: TrafficMix) -> TopicsComparison:
        names = self._list_topics(traffic)
        done = 0

        def print_partition_result(part: PartitionComparison) -> None:
            nonlocal done
            done += 1
            so_far = plurals.format_count(done, "partition")
            self._show_activity(
                f"an ordinary consumer is comparing both sides: {so_far}, {part.source}"
            )

        self._show_activity("an ordinary consumer is comparing both sides")
        found = replication_proof.compare_topics(
            self._get_client_properties(SOURCE_ALIAS),
            self._get_client_properties(TARGET_ALIAS),
            {name: self._format_remote_topic(name) for name in names},
            report=print_partition_result,
        )
        partitions = plurals.format_count(len(found.partitions), "partition")
        self._print_step(
            f"an ordinary consumer compared {partitions} on both sides, record by record"
        )
        return found

    def _fail_over(self) -> DemoFailoverResult:
        """Start a consumer group on the source, and fail the group over to the target."""
        group = DEMO_GROUP
        move = DemoFailover(
            self._folder,
            self._get_client_properties(SOURCE_ALIAS),
            self._get_client_properties(TARGET_ALIAS),
            mirror=self._format_remote_topic(ORDERS_TOPIC.name),
            wait=self._waits.wait_with_timeout,
            now_s=self._clock.now_s,
        )
        self._open.callback(move.close)
        self._show_activity(f"starting the consumer group {group} on {SOURCE_ALIAS}")
        move.start_applications()
        self._print_step(
            f"applications produce to {SOURCE_ALIAS} and consume from it in the consumer group "
            f"{group}"
        )
        self._show_activity(
            f"mm2 failover --from {SOURCE_ALIAS} --to {TARGET_ALIAS} --planned --execute"
        )
        moved = move.run(self.settings_file, origin=SOURCE_ALIAS, destination=TARGET_ALIAS)
        self._print_step(
            f"mm2 failover has moved {group} to {TARGET_ALIAS}; the group continued after "
            f"{text_format.format_duration(moved.seconds)}"
        )
        return moved

    # Queries

    def _get_client_properties(self, name: str) -> dict[str, str]:
        return self.clusters[name].client_properties()

    def _list_topics(self, traffic: TrafficMix) -> list[str]:
        return [*traffic.topic_names, TRICKLE_TOPIC.name]

    def _format_remote_topic(self, topic: str) -> str:
        return self.settings.flows[0].format_remote_topic(topic)

    def _create_trickle_producer(self, *, per_second: float) -> TrickleProducer:
        return TrickleProducer(
            self._get_client_properties(SOURCE_ALIAS),
            TRICKLE_TOPIC.name,
            partitions=TRICKLE_TOPIC.partitions,
            per_second=per_second,
        )

    def _read_end_offsets(self, traffic: TrafficMix) -> dict[TopicPartition, int]:
        """Return the last stable offsets of all non-empty source partitions."""
        with ConsumerLogReader(
            self._get_client_properties(SOURCE_ALIAS), alias=SOURCE_ALIAS
        ) as reader:
            places = [
                TopicPartition(name, number)
                for name in self._list_topics(traffic)
                for number in range(reader.count_partitions(name))
            ]
            ends = {place: reader.read_log_bounds(place)[1] for place in places}
        return {place: end for place, end in ends.items() if end > 0}

    def _get_flow_status(self) -> FlowStatus:
        return self.replication_node.statuses()[0]

    def _get_replicated_offsets(
        self, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return the replicated offsets. Halted partitions count as replicated because the
        comparison reports them."""
        return {
            each.partition: ends[each.partition] if each.is_halted else max(0, each.copied_to)
            for each in self._get_flow_status().partitions
            if each.partition in ends
        }

    def _are_offsets_replicated(self, ends: Mapping[TopicPartition, int]) -> bool:
        copied = self._get_replicated_offsets(ends)
        return all(copied.get(place, 0) >= end for place, end in ends.items())

    def _print_step(self, text: str) -> None:
        self._waits.raise_if_stopped()
        self._progress.print_step(text)

    def _show_activity(self, text: str) -> None:
        self._waits.raise_if_stopped()
        self._progress.show_activity(text)
