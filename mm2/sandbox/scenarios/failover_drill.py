"""`mm2 drill`: rehearses a failover of the user's own flow on two clusters of this machine.

Applications run on the source cluster. Then the source cluster fails, or a planned failover begins,
and the consumer group continues on the target cluster. The result reports recovery time, lost
records and re-read records.

The drill keeps all settings of the flow, but replaces addresses, security settings, other flows,
topics and groups. It never connects to the user's clusters and runs none of the user's hooks. All
processes that the drill starts end when the drill ends. Its clusters require a login, because every
client of a broker without authentication can read the files of the user who runs the broker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.config import java_properties
from connect_runtime.system import child_processes, system_clock
from connect_runtime.system.child_processes import ChildProcess
from connect_runtime.system.supervised_threads import ThreadGroup
from mm2.clusters.flow_cluster_pair import FlowPair
from mm2.config import config_loader, dedicated_mode
from mm2.config.mm2_settings import Mm2Settings
from mm2.failover import failover_journal
from mm2.failover.failover_components import FailoverComponentFactory, FailoverTimeouts
from mm2.failover.failover_executor import FailoverExecutor
from mm2.failover.failover_journal import FailoverIdentity
from mm2.failover.failover_journal_file import JournalFile
from mm2.failover.failover_plan import FailoverPlan
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep
from mm2.failover.plan_findings import PlanVerdict
from mm2.sandbox import sandbox_cluster
from mm2.sandbox.partition_reader import ConsumerLogReader
from mm2.sandbox.sandbox_clients import ClientProperties, SandboxClients
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.traffic import simulated_applications, topic_creation
from mm2.sandbox.traffic.simulated_applications import GroupConsumer, NumberProducer
from mm2.sandbox.traffic.topic_creation import TrafficTopic
from mm2.topics.flow_config import Flow

DRILL_TOPIC, DRILL_GROUP = "drill", "drill-group"
_CONNECTION_PREFIXES = ("bootstrap.servers", "security.", "sasl.", "ssl.", "client.rack")
_CLIENT_PREFIXES = (
    "consumer.",
    "producer.",
    "admin.",
    "source.",
    "target.",
    "override.",
    "cluster.",
)
_SELECTION_KEYS = ("topics", "groups")
_EXCLUDE_SUFFIXES = ("exclude", "blacklist")
_REPLICATION_FACTOR = "replication.factor"
_FLOW_FACTOR_PREFIXES = ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.")
_WORKER_FACTOR_PREFIXES = ("config.storage.", "offset.storage.", "status.storage.")


def make_drill_properties(
    props: Mapping[str, str],
    ends: tuple[str, str],
    client_properties: tuple[ClientProperties, ClientProperties],
) -> dict[str, str]:
    """Return MirrorMaker 2 properties for two sandbox clusters with one broker each.

    `props` are the properties of the user's configuration file, with `${…}` resolved. `ends`
    contains the aliases of the source and the target, and `client_properties` the properties with
    which clients connect to the source and the target.
    """
    aliases = [each.strip() for each in props.get(dedicated_mode.CLUSTERS_KEY, "").split(",")]
    flow = f"{ends[0]}->{ends[1]}."
    kept = {dedicated_mode.CLUSTERS_KEY: ",".join(ends)}
    for key, value in props.items():
        if key == dedicated_mode.CLUSTERS_KEY or key.startswith("config.providers"):
            continue
        alias = next((each for each in aliases if key.startswith(f"{each}.")), None)
        if "->" in key.partition(".")[0] and not key.startswith(flow):
            continue
        if alias is not None and alias not in ends:
            continue
        bare = key.removeprefix(flow).removeprefix(f"{alias}.")
        if _is_connection_key(bare) or _is_topic_or_group_selection_key(bare):
            continue
        if not bare.endswith(_REPLICATION_FACTOR):
            kept[key] = value
    for alias, connection in zip(ends, client_properties, strict=True):
        kept |= {f"{alias}.{key}": value for key, value in connection.items()}
        kept |= {f"{alias}.{each}{_REPLICATION_FACTOR}": "1" for each in _WORKER_FACTOR_PREFIXES}
    kept |= {f"{flow}{each}{_REPLICATION_FACTOR}": "1" for each in _FLOW_FACTOR_PREFIXES}
    return kept | {
        f"{flow}enabled": "true",
        f"{flow}topics": DRILL_TOPIC,
        f"{flow}groups": DRILL_GROUP,
    }


def _is_connection_key(key: str) -> bool:
    """Return True if the key configures how clients connect to a cluster."""
    while key.startswith(_CLIENT_PREFIXES):
        key = key.partition(".")[2]
    return key.startswith(_CONNECTION_PREFIXES)


def _is_topic_or_group_selection_key(key: str) -> bool:
    """Return True if the key selects topics or groups of a flow."""
    first, _, rest = key.partition(".")
    return first in _SELECTION_KEYS and (not rest or rest in _EXCLUDE_SUFFIXES)


DRILL_PARTITIONS = 2
PROCESSED_RECORDS = 500
"""Number of records that the consumer group processes before the failover."""
START_TIMEOUT_S = 180.0
QUIESCENCE_S = 1.0
POLL_INTERVAL_S = 0.1
TARGET_FIRST_NUMBER = 1_000_000_000
"""Number in the first record that is produced to the target cluster; the source's records have
lower numbers."""
ERROR_TAIL_CHARS = 4_000
QUIET_PERIOD_S = 2.0
UNREAD_PERIOD_S = 1.0
"""Time in seconds between the stop of the consumer group and the loss of the cluster. Records that
are replicated during this time are unread when the group continues on the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillResult:
    """Measurements and failures of a drill."""

    kind: FailoverKind
    sent: int
    before: int
    after: int
    lost: int
    """Number of records that the source cluster acknowledged but that the group never processed."""
    skipped: int
    """Number of records that were replicated but skipped by the group."""
    reread: int
    """Number of records that were processed twice."""
    rto_s: float
    """Recovery time in seconds: from the loss of the cluster, or the stop of its producers, until
    the group has processed its first record on the other cluster."""
    all_s: float
    """Seconds from the loss of the cluster, or the stop of its producers, until the group has
    processed all records on the other cluster."""
    report: Mapping[str, Any]
    """Report of the executed failover."""

    @property
    def failures(self) -> list[str]:
        """Describes why the drill failed: replicated records were skipped, more records were
        re-read than the failover report's `reread_max`, or records were lost or re-read although
        the failover was planned."""
        found = []
        if self.skipped:
            records = plurals.format_count(self.skipped, "record")
            found.append(f"the group skipped {records} that had been replicated")
        bound = self.report["reread_max"]
        if bound is not None and self.reread > bound:
            again = plurals.format_count(self.reread, "record", "were")
            found.append(f"{again} re-read, although the failover report states at most {bound:,}")
        if self.kind is not FailoverKind.EMERGENCY:
            if self.lost:
                lost = plurals.format_count(self.lost, "record", "were")
                found.append(f"{lost} lost, although the failover was planned")
            if self.reread:
                again = plurals.format_count(self.reread, "record", "were")
                found.append(f"{again} re-read, although the failover was planned")
        return found

    @property
    def is_successful(self) -> bool:
        return not self.failures

    def as_json(self) -> dict[str, Any]:
        """Encode the drill result as JSON, including `reread_max` and `failures`."""
        found = dataclasses.asdict(self)
        return {
            "version": 1,
            **found,
            "kind": self.kind.value,
            "reread_max": self.report["reread_max"],
            "failures": self.failures,
            "report": dict(self.report),
        }


def find_skipped_records(
    arrived: Collection[int], before: Collection[int], after: Collection[int]
) -> set[int]:
    """Find the replicated records that were processed neither before nor after the failover, and
    return their record numbers."""
    return {number for number in arrived if number < TARGET_FIRST_NUMBER}.difference(before, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DrillApplications:
    """The drill's producers and consumer group members on both clusters."""

    writing: NumberProducer
    reading: GroupConsumer
    target_producer: NumberProducer
    target_consumer: GroupConsumer


class _FirstRecordTimer:
    """Measures on a separate thread when a group has processed its first record (`at_s`)."""

    def __init__(self, reading: GroupConsumer, clock: Clock) -> None:
        self.at_s: float | None = None
        self._reading = reading
        self._clock = clock
        self._threads = ThreadGroup(
            on_unexpected_end=lambda _: None
        )  # the thread is expected to end

    def __enter__(self) -> Self:
        self._threads.start("first record", self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.stop_all(START_TIMEOUT_S)

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(POLL_INTERVAL_S / 4):
            if self._reading.processed:
                self.at_s = self._clock.now_s()
                return


class Drill:
    """A single drill, run on one thread. `close` stops everything at any stage."""

    def __init__(
        self,
        settings: Mm2Settings,
        flow: Flow,
        kind: FailoverKind,
        *,
        clock: Clock,
        report_step: Callable[[str], object],
    ) -> None:
        self._settings = settings
        self._flow = flow
        self._kind = kind
        self._clock = clock
        self._report_step = report_step
        self._open = contextlib.ExitStack()
        self._folder = Path(
            self._open.enter_context(tempfile.TemporaryDirectory(prefix="mm2-drill-"))
        )
        self._ends = (flow.source, flow.target)
        self._child: ChildProcess | None = None
        self._clusters = [SandboxCluster(alias, users=(), uses_tls=False) for alias in self._ends]
        for each in self._clusters:
            self._open.callback(each.close)

    def close(self) -> None:
        self._open.close()

    def run(self) -> DrillResult:
        """Run the drill and return its measurements. Raises `ConnectError` if the drill cannot be
        completed."""
        self._report_step("starting two clusters on this machine")
        sandbox_cluster.start_clusters(self._clusters)
        apps = self._start_applications()
        apps.writing.start()
        apps.reading.start()
        path = self._start_flow()
        settings = config_loader.load_config_file(path, environment=os.environ)
        (flow,) = (each for each in settings.flows if each.name == self._flow.name)
        both = self._open.enter_context(
            FlowPair(settings, flow, purpose="drill", clock=self._clock)
        )
        found = FailoverComponentFactory(
            settings=settings,
            pair=both,
            clock=self._clock,
            timeouts=FailoverTimeouts(quiescence_s=QUIESCENCE_S),
        )
        self._report_step(
            "waiting until the applications are running and replication has caught up with them"
        )
        self._wait_until(
            lambda: (
                len(apps.reading.processed) >= PROCESSED_RECORDS and self._can_move_group(found)
            ),
            "the group can be moved",
        )
        return self._move_group(found, apps)

    def _start_applications(self) -> _DrillApplications:
        """Start the applications. On the target, the consumer group reads the mirror topic and the
        topic to which new records are produced."""
        topic, group = DRILL_TOPIC, DRILL_GROUP
        mirror = self._flow.format_remote_topic(topic)
        here, there = (each.client_properties() for each in self._clusters)
        for properties in (here, there) if mirror != topic else (here,):
            made = SandboxClients(properties, alias=group)
            topic_creation.create_topics(
                made, [TrafficTopic(name=topic, partitions=DRILL_PARTITIONS)]
            )
            simulated_applications.create_group_at_offset_zero(
                properties, group, topic, partitions=DRILL_PARTITIONS
            )
        apps = _DrillApplications(
            writing=NumberProducer(here, topic, partitions=DRILL_PARTITIONS),
            reading=GroupConsumer(here, group, topic),
            target_producer=NumberProducer(
                there, topic, partitions=DRILL_PARTITIONS, first=TARGET_FIRST_NUMBER
            ),
            target_consumer=GroupConsumer(there, group, *dict.fromkeys((mirror, topic))),
        )
        for each in (
            apps.writing,
            apps.reading,
            apps.target_producer,
            apps.target_consumer,
        ):
            self._open.callback(each.stop_quietly)
        return apps

    def _start_flow(self) -> Path:
        """Start `mm2 run` with the user's flow as a child process. Return the path of its
        configuration file."""
        flat = self._settings.flat
        here, there = (each.client_properties() for each in self._clusters)
        props = make_drill_properties(flat.resolve(flat.props), self._ends, (here, there))
        path = self._folder / "drill.properties"
        path.touch(mode=0o600)
        lines = (java_properties.format_property(key, value) for key, value in props.items())
        path.write_text("\n".join(lines) + "\n", encoding="iso-8859-1")
        said = self._open.enter_context((self._folder / "run.log").open("wb"))
        command = child_processes.build_python_command("mm2.cli.main", "run", str(path))
        self._report_step("starting the flow with the settings from the file")
        child = child_processes.start_process([*command, "--metrics-port", "0"], output=said)
        self._open.callback(child.kill)
        self._child = child
        return path

    def _can_move_group(self, found: FailoverComponentFactory) -> bool:
        """Return True if the consumer group could fail over now without access to the source
        cluster."""
        lost = self._kind is FailoverKind.EMERGENCY
        planner = dataclasses.replace(found, lost=lost).planner
        try:
            made = planner.build_plan(self._build_failover_request(FailoverKind.EMERGENCY))
        except ConnectError:
            return False
        return self._plan_covers_all_partitions(made) and made.verdict is not PlanVerdict.NO_GO

    def _plan_covers_all_partitions(self, made: FailoverPlan) -> bool:
        places = {each.partition for group in made.groups for each in group.partitions}
        wanted = {TopicPartition(DRILL_TOPIC, number) for number in range(DRILL_PARTITIONS)}
        copied = {each.partition for each in made.mirrored if each.copied_to}
        return wanted <= places and wanted <= copied

    def _build_failover_request(self, kind: FailoverKind) -> FailoverRequest:
        origin, destination = self._ends
        return FailoverRequest(origin=origin, destination=destination, kind=kind)

    def _move_group(self, found: FailoverComponentFactory, apps: _DrillApplications) -> DrillResult:
        left_s = self._clock.now_s()

        def print_drill_line(line: str) -> None:
            nonlocal left_s
            self._report_step(line)
            if line.startswith("stop-producers: no hook"):
                left_s = self._clock.now_s()
                apps.writing.stop()
            elif line.startswith("stop-consumers: no hook"):
                apps.reading.stop()
            elif line.startswith("start-consumers: no hook"):
                apps.target_consumer.start()
            elif line.startswith("start-producers: no hook"):
                apps.target_producer.start()

        if self._kind is FailoverKind.EMERGENCY:
            apps.reading.abandon_cluster = True
            apps.reading.stop()
            system_clock.wait_until(lambda: False, timeout_s=UNREAD_PERIOD_S)
            self._report_step(f"killing the brokers of {self._flow.source}")
            left_s = self._clock.now_s()
            self._clusters[0].kill()
        with _FirstRecordTimer(apps.target_consumer, self._clock) as first:
            report = self._execute_failover(found, print_drill_line)
            self._child = None  # the failover has stopped the flow
            for each in (apps.target_consumer, apps.target_producer):
                if not each.running:
                    each.start()
            self._wait_until(lambda: first.at_s is not None, "the group continues")
        assert first.at_s is not None, "`_wait_until` returns only after the first record"
        return self._build_drill_result(report, apps, left_s=left_s, rto_s=first.at_s - left_s)

    def _read_mirror(self) -> list[int]:
        """Read the record numbers in the mirror topic. Call only after the last writer to the
        mirror topic has stopped."""
        mirror = self._flow.format_remote_topic(DRILL_TOPIC)
        properties = self._clusters[1].client_properties()
        with ConsumerLogReader(properties, alias=self._flow.target) as reader:
            return [
                int(value or b"")
                for number in range(DRILL_PARTITIONS)
                for chunk in reader.iterate_record_chunks(TopicPartition(mirror, number))
                for _, value, *_ in chunk.contents
            ]

    def _build_drill_result(
        self,
        report: Mapping[str, Any],
        apps: _DrillApplications,
        *,
        left_s: float,
        rto_s: float,
    ) -> DrillResult:
        before, after = apps.reading.processed, apps.target_consumer.processed
        self._wait_until(
            lambda: any(each >= TARGET_FIRST_NUMBER for each in after),
            "the group has processed the records that precede the failover",
        )
        if self._kind is FailoverKind.PLANNED:
            sent = apps.writing.sent
            self._wait_until(
                lambda: sent <= {*before, *after}, "the group has processed all records"
            )
        all_s = self._clock.now_s() - left_s
        apps.target_producer.stop()
        self._wait_until(
            lambda: apps.target_producer.sent <= set(after), "the group has processed all records"
        )
        self._wait_until_idle(after)
        apps.target_consumer.stop()
        mine = [each for each in after if each < TARGET_FIRST_NUMBER]
        return DrillResult(
            kind=self._kind,
            sent=len(apps.writing.sent),
            before=len(before),
            after=len(mine),
            lost=len(apps.writing.sent - {*before, *mine}),
            skipped=len(find_skipped_records(self._read_mirror(), before, mine)),
            reread=len(before) + len(mine) - len({*before, *mine}),
            rto_s=rto_s,
            all_s=all_s,
            report=report,
        )

    def _wait_until_idle(self, processed: Sequence[int]) -> None:
        """Wait until no more records are processed. Waiting for a known number of records is
        impossible, because lost records never arrive."""
        more = True
        while more:
            count = len(processed)
            system_clock.wait_until(lambda: False, timeout_s=QUIET_PERIOD_S)
            more = len(processed) > count

    def _execute_failover(
        self, found: FailoverComponentFactory, tell: Callable[[str], None]
    ) -> Mapping[str, Any]:
        about = FailoverIdentity(
            request=self._build_failover_request(self._kind), flow=self._flow.name
        )
        begin = failover_journal.encode_begun_entry(about, at_ms=self._clock.wall_ms())
        with JournalFile(self._folder / "journal.jsonl", begin=begin) as file:
            with contextlib.closing(found.build_context(tell)) as made:
                FailoverExecutor(file, made).run_remaining_steps()
            report: Mapping[str, Any] = file.journal.details[FailoverStep.REPORT]
        return report

    def _wait_until(self, done: Callable[[], bool], what: str) -> None:
        """Wait until `done` returns True. Raises `FatalError` on timeout, or if the `mm2 run`
        process has ended."""
        end_s = self._clock.now_s() + START_TIMEOUT_S
        while not done():
            ended = None if self._child is None else self._child.poll()
            if ended is not None or self._clock.now_s() > end_s:
                said = (self._folder / "run.log").read_text(errors="replace")[-ERROR_TAIL_CHARS:]
                why = (
                    f"not within {START_TIMEOUT_S:g} s"
                    if ended is None
                    else f"mm2 run ended ({ended})"
                )
                raise FatalError(f"waiting until {what}: {why}; output of mm2 run: {said}")
            system_clock.wait_until(lambda: False, timeout_s=POLL_INTERVAL_S)
