"""The copy loop: one thread and one selector for all partitions of a task.

The loop transfers data between sockets and the `PartitionReplicator` state machines, which make all
decisions. Each iteration waits for events, handles them, runs timers, and sends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import FatalError
from connect_runtime.network.cluster_connections import ClusterConnections
from connect_runtime.network.tcp_and_tls_transport import Poller
from mm2.copier import (
    client_properties,
    partition_leader_availability,
    partition_recovery_requests,
    progress_reports,
)
from mm2.copier.control_channel_messages import CopyConfiguration
from mm2.copier.driver_client import DriverAnswerHandler, DriverClient
from mm2.copier.fetcher import Fetcher
from mm2.copier.partition_leader_availability import LeaderMonitor, UnavailableLeader
from mm2.copier.partition_recovery_requests import RecoveryRequests
from mm2.copier.producer import BatchProducer
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.replication import error_policy, replication_latency, throttle
from mm2.replication.batch_size_limits import BatchMergeLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.record_transforms import TransformChain
from mm2.replication.recovery_instructions import (
    AppendToFlowState,
    Instruction,
    InstructionAnswer,
    RefreshTargetMetadata,
)
from mm2.replication.replication_latency import LatencyHistogram
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

TICK_INTERVAL_S = 0.02
SWEEP_INTERVAL_S = 10.0
LEADER_CHECK_INTERVAL_S = 1.0
IDLE_POLL_S = 0.25
MAX_CONCURRENT_ACQUISITIONS = 256
"""Maximum number of partitions that are acquired at the same time. Acquiring a partition means
fencing earlier producers and finding the position at which replication resumes."""
REPORTS_PER_MESSAGE = 5_000
"""Maximum number of progress reports per message. More would approach the limit
`control_channel_wire_format.MAX_COPY_FRAME_VALUES`."""


class CopyLoop:
    """Replicates all partitions of a task.

    Call `run_once` until `is_closed`, or until `fatal_error` contains an error that no retry can
    resolve, for example a wrong password.
    """

    def __init__(
        self,
        settings: CopyConfiguration,
        *,
        source: ClusterConnections,
        target: ClusterConnections,
        driver: DriverClient,
        poller: Poller,
        clock: Clock,
        random: Random,
        chain: TransformChain | None = None,
    ) -> None:
        self._clock = clock
        self._poller = poller
        self._source, self._target = source, target
        self._aliases = settings.source.alias, settings.target.alias
        self._link = driver
        self._memory_budget = MemoryBudget(settings.budget_bytes)
        self._merge_limits = BatchMergeLimits()
        self._latencies = LatencyHistogram()
        self._recovery = RecoveryRequests(
            source=source,
            target=target,
            driver=driver,
            on_answer=self._handle_instruction_answer,
            clock=clock,
            granted=settings.granted,
        )
        self._fetcher = Fetcher(
            source,
            memory_budget=self._memory_budget,
            execute=self._execute_instructions,
            on_arrived=self._handle_records_arrived,
            clock=clock,
            throttles=throttle.create_byte_rate_limits(
                settings.throttle_bytes_s, settings.topic_throttles
            ),
            limits=client_properties.parse_fetch_limits(settings.source.properties),
            can_send=self._has_leader,
        )
        self._producer = BatchProducer(
            target,
            execute=self._execute_instructions,
            clock=clock,
            on_result=self._handle_batch_acknowledged,
            can_record=lambda: not driver.is_storage_backlog_full,
        )
        self.partitions = self._create_partitions(settings, random, chain)
        source.set_metadata_topics({each.topic for each in settings.partitions})
        target.set_metadata_topics({each.remote_topic for each in settings.partitions})
        self._active: dict[int, PartitionReplicator] = {id(each): each for each in self.partitions}
        self._reports: dict[int, PartitionProgressReport] = {}
        self._index = {id(each): index for index, each in enumerate(self.partitions)}
        self._changed = set(self._index)
        self._lagging = set(range(len(self.partitions)))
        self._obstacles: dict[int, UnavailableLeader | None] = {}
        self._monitored_clusters = tuple(
            _ClusterLeaders(
                side=side,
                alias=alias,
                connections=connections,
                monitor=LeaderMonitor(
                    connections, unreachable_after_s=settings.unreachable_after_s
                ),
            )
            for side, alias, connections in zip(
                ClusterSide, self._aliases, (source, target), strict=True
            )
        )
        self._generations = (-1, -1)
        self._next_tick_s = self._next_reports_s = self._next_sweep_s = (
            self._next_leader_check_s
        ) = 0.0
        self._poll_started_s = 0.0
        self._closing = False

    def _create_partitions(
        self, settings: CopyConfiguration, random: Random, chain: TransformChain | None
    ) -> list[PartitionReplicator]:
        copies = [
            PartitionReplicator(
                where,
                owner=settings.owner,
                memory_budget=self._memory_budget,
                merge_limits=self._merge_limits,
                random=random,
                wall_ms=self._clock.wall_ms,
                transform=None if chain is None else chain.bind_partition(where),
                latency=self._latencies,
            )
            for where in settings.partitions
        ]
        for copy in copies:
            self._fetcher.add_partition(copy)
        return copies

    # One iteration

    def run_once(self) -> None:
        """Wait for network events or the next timer, then handle all events and due timers."""
        now_s = self._clock.now_s()
        wait_s = min(
            self._source.tick(now_s),
            self._target.tick(now_s),
            self._recovery.find_next_delay_end_s() - now_s,
            (self._next_tick_s - now_s) if self._active else IDLE_POLL_S,
            IDLE_POLL_S,
        )
        self._poll_started_s = self._clock.now_s()
        self._poller.poll(max(0.0, wait_s), woken=self._record_idle_time)
        now_s = self._clock.now_s()
        self._handle_leader_changes(now_s)
        if now_s >= self._next_leader_check_s:
            self._next_leader_check_s = now_s + LEADER_CHECK_INTERVAL_S
            self._find_silent_leaders(now_s)
        if now_s >= self._next_tick_s:
            self._next_tick_s = now_s + TICK_INTERVAL_S
            self._run_partition_timers(now_s)
        self._recovery.send_queued_requests(now_s)
        self._producer.send_ready_batches(now_s)
        self._fetcher.send_fetches(now_s)
        if now_s >= self._next_reports_s:
            self._next_reports_s = now_s + progress_reports.REPORT_INTERVAL_S
            self.send_progress_reports()

    def _record_idle_time(self) -> None:
        now_s = self._clock.now_s()
        waited_s = now_s - self._poll_started_s
        self._merge_limits.record_idle_time(waited_s, now_s, slow_acks=self._producer.has_slow_acks)

    def _run_partition_timers(self, now_s: float) -> None:
        if now_s >= self._next_sweep_s:
            self._next_sweep_s = now_s + SWEEP_INTERVAL_S
            self._active.update((id(each), each) for each in self.partitions)
            self._detect_lost_leaders_and_recreated_topics(now_s)
        if not self._active:
            return
        acquiring = sum(copy.state.phase is PartitionPhase.ACQUIRING for copy in self.partitions)
        for number, copy in list(self._active.items()):
            waiting = copy.state.phase in (PartitionPhase.WAITING, PartitionPhase.HALTED)
            if waiting and acquiring >= MAX_CONCURRENT_ACQUISITIONS and not self._closing:
                continue
            instructions = copy.tick(now_s)
            acquiring += waiting and copy.state.phase is PartitionPhase.ACQUIRING
            if instructions:
                self._execute_instructions(copy, instructions)
            self._schedule_partition(copy)
            self._active.pop(number, None)
            if copy.needs_tick_soon:
                self._active[number] = copy
            if self._clock.now_s() - now_s > partition_recovery_requests.MAX_COMPUTE_TIME_S:
                break  # the remaining partitions come first in the next iteration

    def _handle_leader_changes(self, now_s: float) -> None:
        generations = (self._source.view.change_count, self._target.view.change_count)
        if generations == self._generations:
            return
        target_moved = generations[1] != self._generations[1]
        self._generations = generations
        self._fetcher.update_all_partitions()
        self._detect_lost_leaders_and_recreated_topics(now_s)
        if not target_moved:
            return
        for copy in self.partitions:
            self._check_topic(copy, self._target, on_target=True, now_s=now_s)
            leader = self._target.view.get_leader(copy.setup.remote_topic, copy.setup.partition)
            self._fetcher.update_partition(copy)
            if leader is not None:
                self._execute_instructions(copy, copy.on_leader_epoch_received(leader.epoch, now_s))
                self._producer.mark_partition_ready(copy)

    def _has_leader(self, copy: PartitionReplicator) -> bool:
        """Return True if the mirror partition has a leader. Without a leader, the source partition
        is not fetched, because its records could not be written and would fill the memory
        budget."""
        where = copy.setup
        return self._target.view.get_leader(where.remote_topic, where.partition) is not None

    def _find_silent_leaders(self, now_s: float) -> None:
        """Detect partition leaders on both clusters that have stopped responding, and those that
        respond again."""
        wall_ms = self._clock.wall_ms()
        changed = [
            each.check_leaders(self.partitions, now_s, wall_ms) for each in self._monitored_clusters
        ]
        if any(changed):
            self._record_unavailable_leaders()

    def _record_unavailable_leaders(self) -> None:
        """Record for each partition whether its source or target leader is missing or does not
        respond."""
        source, target = self._source.view, self._target.view
        for copy in self.partitions:
            obstacle = next(
                filter(None, (each.find_silent_leader(copy) for each in self._monitored_clusters)),
                None,
            )
            obstacle = obstacle or partition_leader_availability.find_missing_leader(
                copy.setup, source=source, target=target
            )
            if obstacle != self._obstacles.get(id(copy)):
                self._changed.add(id(copy))
                self._obstacles[id(copy)] = obstacle

    def _detect_lost_leaders_and_recreated_topics(self, now_s: float) -> None:
        """Check each partition for missing leaders and for a deleted or recreated source topic."""
        self._record_unavailable_leaders()
        for copy in self.partitions:
            self._check_topic(copy, self._source, on_target=False, now_s=now_s)

    def _check_topic(
        self,
        copy: PartitionReplicator,
        side: ClusterConnections,
        *,
        on_target: bool,
        now_s: float,
    ) -> None:
        name = copy.setup.remote_topic if on_target else copy.setup.topic
        topic = side.view.get_topic(name)
        if topic is None:
            return
        if topic.error_code:
            if topic.error_code == error_policy.UNKNOWN_TOPIC_OR_PARTITION and not on_target:
                self._execute_instructions(copy, copy.on_fetch_error(topic.error_code, now_s))
            return
        instructions = copy.on_topic_id_received(topic.topic_id, now_s, on_target=on_target)
        if instructions or copy.state.phase is PartitionPhase.HALTED:
            self._execute_instructions(copy, instructions)

    # Instructions of the partitions, and their results

    def _execute_instructions(
        self, copy: PartitionReplicator, instructions: Sequence[Instruction]
    ) -> None:
        """Execute the instructions returned by a partition's state machine."""
        now_s = self._clock.now_s()
        for instruction in instructions:
            match instruction:
                case RefreshTargetMetadata():
                    self._target.refresh_metadata()
                case AppendToFlowState(items=items, token=token) if (
                    not copy.script_runner.is_instruction_outstanding(instruction)
                ):
                    self._link.append_to_flow_state(
                        items, on_stored=self._build_segment_stored_callback(copy, token)
                    )
                case _:
                    self._recovery.submit_instruction(copy, instruction, now_s)
        self._schedule_partition(copy)

    def _handle_instruction_answer(
        self, copy: PartitionReplicator, answer: InstructionAnswer
    ) -> None:
        self._execute_instructions(
            copy, copy.script_runner.on_response(answer, self._clock.now_s())
        )

    def _build_segment_stored_callback(
        self, copy: PartitionReplicator, token: int
    ) -> DriverAnswerHandler:
        return lambda _: self._handle_segment_stored(copy, token)

    def _handle_segment_stored(self, copy: PartitionReplicator, token: int) -> None:
        copy.on_segment_stored(token)
        self._schedule_partition(copy)

    def _handle_records_arrived(self, copy: PartitionReplicator) -> None:
        self._changed.add(id(copy))
        if copy.send_queue.queued_batches:
            self._producer.mark_partition_ready(copy)
        if copy.needs_tick_soon:
            self._active[id(copy)] = copy

    def _handle_batch_acknowledged(self, copy: PartitionReplicator) -> None:
        self._changed.add(id(copy))
        self._fetcher.reassign_idle_partition(copy)
        if copy.needs_tick_soon:
            self._active[id(copy)] = copy

    def _schedule_partition(self, copy: PartitionReplicator) -> None:
        self._changed.add(id(copy))
        self._fetcher.update_partition(copy)
        if copy.send_queue.queued_batches:
            self._producer.mark_partition_ready(copy)
        if copy.needs_tick_soon:
            self._active[id(copy)] = copy

    # Commands of the driver

    def set_paused_topics(self, *, paused: bool, topics: Collection[str]) -> None:
        """Pause all partitions, or only the partitions of `topics`, and resume all others."""
        for copy in self.partitions:
            should_pause = paused or copy.setup.topic in topics
            if should_pause != copy.paused:
                copy.paused = should_pause
                self._schedule_partition(copy)
                self._active[id(copy)] = copy

    def set_throttles(self, bytes_per_s: int, topics: Mapping[str, int]) -> None:
        """Replace the throttles of the flow and of individual topics (bytes per second)."""
        self._fetcher.set_throttles(throttle.create_byte_rate_limits(bytes_per_s, topics))

    def begin_closing(self) -> None:
        """Stop fetching and sending. The loop continues until in-flight batches are acknowledged
        and resume points are written."""
        self._closing = True
        now_s = self._clock.now_s()
        for copy in self.partitions:
            self._execute_instructions(copy, copy.close(now_s))
            self._active[id(copy)] = copy

    @property
    def is_closed(self) -> bool:
        """True if every partition has either been closed with its progress recorded, or been fenced
        by a new owner.

        The new owner of a fenced partition recovers the progress that was not recorded.
        """
        return all(
            copy.state.phase is PartitionPhase.FENCED
            or (copy.state.phase is PartitionPhase.CLOSED and copy.is_all_progress_recorded)
            for copy in self.partitions
        )

    @property
    def fatal_error(self) -> str:
        """Reason why a cluster cannot be reached and no retry can help, for example a wrong
        password; otherwise ""."""
        for side in (self._source, self._target):
            if side.view.brokers:
                continue  # a broker accepted the login: errors of others are reported per partition
            for where, trouble in side.get_connection_errors().items():
                if isinstance(trouble, FatalError):
                    return f"{where}: {trouble}"
        return ""

    def send_progress_reports(self) -> None:
        """Send the driver the partitions' progress reports that changed since the last call."""
        changed = []
        now_s = self._clock.now_s()
        changed_ids, self._changed = self._changed, set()
        for index in sorted(self._index[each] for each in changed_ids):
            copy = self.partitions[index]
            report = partition_leader_availability.mark_report_waiting_for_leader(
                progress_reports.build_progress_report(index, copy), self._obstacles.get(id(copy))
            )
            (self._lagging.discard if _is_caught_up(copy, report) else self._lagging.add)(index)
            if self._reports.get(index) != report:
                self._reports[index] = report
                changed.append(report)
        idle_s = (
            replication_latency.NEVER_S
            if self._lagging
            else self._fetcher.find_oldest_response_time_s()
        )
        pulse = self._latencies.take_snapshot(caught_up_at_s=idle_s)
        errors = self._collect_connection_errors()
        for start in range(0, max(1, len(changed)), REPORTS_PER_MESSAGE):
            self._link.send_progress_reports(
                changed[start : start + REPORTS_PER_MESSAGE],
                connection_errors=errors,
                latency=pulse,
                now_s=now_s,
            )

    def _collect_connection_errors(self) -> dict[str, str]:
        """Collect the connection errors of both clusters, by alias and address."""
        sides = ((self._aliases[0], self._source), (self._aliases[1], self._target))
        return {
            f"{alias}: {where}": str(trouble)
            for alias, side in sides
            for where, trouble in side.get_connection_errors().items()
        }


@dataclass(slots=True, kw_only=True)
class _ClusterLeaders:
    """The partition leaders of one cluster, and which of them did not respond at the last check."""

    side: ClusterSide
    alias: str
    connections: ClusterConnections
    monitor: LeaderMonitor
    silent_leaders: dict[int, UnreachableCluster] = field(default_factory=dict)
    _leaders: frozenset[int] = frozenset()
    _generation: int = -1

    def check_leaders(
        self, copies: Sequence[PartitionReplicator], now_s: float, wall_ms: int
    ) -> bool:
        """Check which leaders of the partitions respond. Return True if the set of unresponsive
        leaders has changed."""
        view = self.connections.view
        if view.change_count != self._generation:
            self._generation = view.change_count
            found = (view.get_leader(*self._to_topic_partition(copy)) for copy in copies)
            self._leaders = frozenset(each.node_id for each in found if each is not None)
        silent = self.monitor.find_silent_leaders(self._leaders, now_s)
        if silent.keys() == self.silent_leaders.keys():
            return False
        self.silent_leaders = {
            node_id: self.silent_leaders.get(node_id)
            or self._describe_unreachable_broker(node_id, now_s - last_s, wall_ms)
            for node_id, last_s in silent.items()
        }
        return True

    def find_silent_leader(self, copy: PartitionReplicator) -> UnavailableLeader | None:
        """Return the partition's leader on this cluster if it does not respond, else None."""
        if not self.silent_leaders:
            return None
        leader = self.connections.view.get_leader(*self._to_topic_partition(copy))
        found = None if leader is None else self.silent_leaders.get(leader.node_id)
        if found is None:
            return None
        return UnavailableLeader(side=self.side, reason=found.format_description(), silent=True)

    def _to_topic_partition(self, copy: PartitionReplicator) -> tuple[str, int]:
        """Return the partition's topic name on this cluster and its partition number."""
        on_source = self.side is ClusterSide.SOURCE
        return copy.setup.topic if on_source else copy.setup.remote_topic, copy.setup.partition

    def _describe_unreachable_broker(
        self, node_id: int, silent_s: float, wall_ms: int
    ) -> UnreachableCluster:
        trouble = self.connections.get_connection_error(node_id)
        broker = self.connections.view.brokers.get(node_id)
        where = "" if broker is None else f" ({broker.host}:{broker.port})"
        return UnreachableCluster(
            side=self.side,
            cluster=self.alias,
            broker=f"{node_id}{where}",
            reason="" if trouble is None else str(trouble),
            since_ms=wall_ms - round(silent_s * 1000),
        )


def _is_caught_up(copy: PartitionReplicator, report: PartitionProgressReport) -> bool:
    """Return True if the partition is being replicated, and all records up to the last known end of
    the source partition have been replicated."""
    return copy.accepts_fetched_records and 0 <= report.source_end <= report.copied_to
