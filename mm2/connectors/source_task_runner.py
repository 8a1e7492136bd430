"""Plans a task's partitions, and starts, replaces and stops the copy process that replicates them.

All of this happens on the task's thread. A second thread reads topic metadata from both clusters,
because brokers may be slow. If a later read does not find a topic, the running copy process is
kept, because copy processes detect deleted topics themselves. A running copy process is replaced if
partitions are added, if the settings of a partition change, or if a setting of a mirror topic would
damage the replicated data.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

from connect_runtime.base import log_context
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2.config.mirror_connector_config import MirrorSourceTaskConfig
from mm2.connectors import offset_sync_emitter, recreated_topics
from mm2.connectors.connector_kafka_clients import SourceTaskClients
from mm2.connectors.copy_process_supervisor import (
    CopyStarter,
    CopySupervisor,
    CopySupervisorDeps,
    EarlyCopyStart,
)
from mm2.connectors.flow_state_store import ReadJavaProgress, TaskStateStore
from mm2.connectors.offset_map_compactor import MapCompactor
from mm2.connectors.offset_sync_emitter import OffsetSyncEmitter
from mm2.connectors.partition_setup_builder import (
    PartitionFinding,
    PartitionSetupBuilder,
    PartitionSetupPlan,
)
from mm2.connectors.rate_limited_error_logging import RateLimitedWarnings
from mm2.connectors.status_registry import TaskState
from mm2.connectors.task_status_builder import TaskStatusBuilder
from mm2.copier import control_channel_messages
from mm2.copier.control_channel_messages import CopyConfiguration, CopyEndpoints
from mm2.copier.control_channel_server import ChannelInbox
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.copier.shared_copy_engine import DataPlane
from mm2.kafka.kafka_client_interfaces import Admin
from mm2.offsets.offset_map import OffsetMap
from mm2.replication import partition_halt_messages, partition_start_offsets, recovery_instructions
from mm2.replication.partition_halt_messages import PartitionHalt
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.recovery_instructions import FlowStateRecord
from mm2.suggested_commands import OperatorCommands
from mm2.topics.flow_config import Flow

TOPIC_RETRY_DELAY_S = 60.0
"""Delay until topics that failed or must not be replicated are checked again, unless the refresh
interval is shorter."""
FIRST_TOPIC_RETRY_DELAY_S = 2.0
READING_TOPICS = "reading topic metadata"
_LOG = logging.getLogger(__name__)

AdminPairFactory = Callable[[], tuple[Admin, Admin]]
"""Creates the admin clients of source and target. Raises `FatalError` if the settings are
invalid."""


class TopicPoller:
    """Reads the metadata of a task's topics periodically on a separate thread. The task's thread
    uses `take_new_plan`, `reason` and `failure`."""

    def __init__(
        self,
        flow: Flow,
        partitions: Collection[TopicPartition],
        *,
        create_admins: AdminPairFactory,
        operator: OperatorCommands,
        clock: Clock,
        name: str,
    ) -> None:
        self.reason = f"reading topic metadata of {flow.source} and {flow.target}"
        """Why topic metadata has not been read yet."""
        self.failure: FatalError | None = None
        """The permanent error that prevents topic metadata from being read; None if there is
        none."""
        self._flow = flow
        self._share = tuple(partitions)
        self._admins = create_admins
        self._operator = operator
        self._clock = clock
        self._name = name
        self._lock = threading.Lock()
        self._found: PartitionSetupPlan | None = None
        self._has_result = False
        self._warnings = RateLimitedWarnings(_LOG, clock=clock)
        self._threads = ThreadGroup(on_unexpected_end=self._handle_thread_death)

    def start(self) -> None:
        self._threads.start(f"topics {self._name}", self._run_polls)

    def take_new_plan(self) -> PartitionSetupPlan | None:
        """Return the plan from the newest read of topic metadata, or None if no new plan has been
        made since the last call."""
        with self._lock:
            plan, self._found = self._found, None
        return plan

    def stop(self) -> None:
        """Ask the thread to stop after its current requests."""
        self._threads.stop_all(0.0)

    def _run_polls(self, stop: threading.Event) -> None:
        with log_context.bind_log_fields(flow=self._flow.name):
            while not stop.is_set():
                stop.wait(self._read_topics(stop))

    def _read_topics(self, stop: threading.Event) -> float | None:
        """Read the topics' metadata once. Returns the delay in seconds until the next read, or None
        if no further read is needed."""
        interval_s = self._flow.refresh_topics_interval_s
        retry_s = min(TOPIC_RETRY_DELAY_S, interval_s or TOPIC_RETRY_DELAY_S)
        try:
            plan = self._build_plan(stop)
        except RetriableError as error:
            self.reason = str(error)
            if not stop.is_set():
                self._warnings.warn(READING_TOPICS, f"{error}; retrying")
            return retry_s if self._has_result else min(FIRST_TOPIC_RETRY_DELAY_S, retry_s)
        except FatalError as error:
            if not self._has_result:
                self.failure = error
                return None
            self._warnings.warn(READING_TOPICS, f"{error}; replication continues")
            return retry_s
        self._warnings.reset(READING_TOPICS)
        with self._lock:
            self._found = plan
        self._has_result = True
        return retry_s if plan.findings else interval_s

    def _build_plan(self, stop: threading.Event) -> PartitionSetupPlan:
        source, target = self._admins()
        try:
            setups = PartitionSetupBuilder(
                self._flow, source=source, target=target, clock=self._clock, operator=self._operator
            )
            return setups.build_plan(self._share, self._flow.admin_timeout_s, pause=stop.wait)
        finally:
            source.close()
            target.close()

    def _handle_thread_death(self, end: UnexpectedThreadEnd) -> None:
        self.failure = FatalError(f"the thread that reads topic metadata ended: {end.error!r}")


PartitionSetupTuple = tuple[PartitionSetup, ...]


def complete_plan_with_offset_map(
    plan: PartitionSetupPlan,
    offset_map: OffsetMap,
    *,
    added: Collection[TopicPartition],
) -> PartitionSetupPlan:
    """Complete the plan with the flow's offset map: set start positions and halt partitions of
    recreated topics.

    Partitions in `added` appeared after the flow's first topic refresh. They start at their
    earliest record, regardless of the flow's start position. Start positions and halts depend on
    the eras (mirror generations) of a topic's other partitions. A partition without recorded
    progress is therefore not replicated while an unreadable record may be one of these eras; see
    `needs_readable_map`.
    """
    unreadable = [(each, _find_unreadable_map_halt(each, offset_map)) for each in plan.partitions]
    readable = [each for each, stop in unreadable if stop is None]
    copyable, halted = recreated_topics.split_recreated_topics(readable, offset_map)
    unreadable_halts = [(each, stop) for each, stop in unreadable if stop is not None]
    findings = (
        PartitionFinding(
            partition=get_source_partition(where),
            cause=stop.cause.value,
            message=stop.coded_message,
        )
        for where, stop in (*unreadable_halts, *halted)
    )
    added_later = frozenset(added)
    copyable = [
        replace(each, start="earliest") if get_source_partition(each) in added_later else each
        for each in copyable
    ]
    return replace(
        plan,
        partitions=partition_start_offsets.resolve_start_positions(copyable, offset_map),
        findings=(*plan.findings, *findings),
    )


def needs_readable_map(plan: PartitionSetupPlan, offset_map: OffsetMap) -> bool:
    """Return True if `plan` must be completed again later because the offset map contains
    unreadable records."""
    return any(_find_unreadable_map_halt(each, offset_map) is not None for each in plan.partitions)


def _find_unreadable_map_halt(where: PartitionSetup, known: OffsetMap) -> PartitionHalt | None:
    """Return the halt of a partition without recorded progress if an unreadable record of the
    offset map may belong to the partition; otherwise None. Partitions with recorded progress do not
    need the eras (mirror generations) of their topic's other partitions, and their acquisition
    detects unreadable records."""
    progress = known.get_partition(get_source_partition(where))
    if progress.newest_era or progress.pending_era_request is not None:
        return None
    return next(
        (
            partition_halt_messages.build_map_unreadable_halt(
                where, recovery_instructions.convert_unreadable_record(each)
            )
            for each in known.list_unreadable_records(get_source_partition(where))
        ),
        None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedCopyPlan:
    """The partitions that the task's copy process must replicate from now on, with findings and
    warnings."""

    partitions: PartitionSetupTuple
    findings: tuple[PartitionFinding, ...]
    """Partitions that must not be replicated."""
    warnings: tuple[str, ...]
    """Problems that do not prevent partitions from being replicated."""


def merge_running_partitions(
    running: Sequence[PartitionSetup], plan: PartitionSetupPlan
) -> UpdatedCopyPlan:
    """Merge a new plan for the task's partitions with the partitions that are already being
    replicated (`running`)."""
    must_end = {each.partition for each in plan.findings if each.is_harmful}
    copied = {
        get_source_partition(each): each
        for each in running
        if get_source_partition(each) not in must_end
    }
    planned = {get_source_partition(each): each for each in plan.partitions}
    partitions = {**copied, **planned}
    messages = {each.partition: each.message for each in plan.findings}
    return UpdatedCopyPlan(
        partitions=tuple(partitions[each] for each in sorted(partitions)),
        findings=tuple(each for each in plan.findings if each.partition not in copied),
        warnings=tuple(
            dict.fromkeys(messages[each] for each in sorted(copied.keys() & messages.keys()))
        ),
    )


def can_copy_process_keep_running(
    running: Iterable[PartitionSetup], planned: Iterable[PartitionSetup]
) -> bool:
    """Return True if the copy process that replicates the setups `running` can continue with the
    new setups `planned`.

    A longer producer expiration on the brokers does not require a restart.
    """
    current = {each.source_name: each for each in running}
    found = {each.source_name: each for each in planned}
    return current.keys() == found.keys() and all(
        mine.target_codec == later.target_codec
        and mine.old_after_ms <= later.old_after_ms
        and mine.renew_after_s <= later.renew_after_s
        for mine, later in ((current[each], found[each]) for each in current)
    )


def get_source_partition(where: PartitionSetup) -> TopicPartition:
    """Return the source partition that a `PartitionSetup` is for."""
    return TopicPartition(where.topic, where.partition)


BUSY_POLL_INTERVAL_S = 0.05
"""Poll interval in seconds while work is pending. Otherwise an iteration lasts as long as its
caller permits."""
MAX_MESSAGES_PER_ITERATION = 500
PLAN_RETRY_DELAY_S = 5.0
"""Delay in seconds before another attempt to complete a plan if the offset map could not be
read."""
OWNERSHIP_CONFIRMATION_AGE_S = 5.0
"""Maximum age in seconds of the Connect group's last confirmation of this worker's membership. With
an older confirmation, a new copy process must request permission for its first acquisitions."""
REPLACE_TIMEOUT_S = 1.9
CLOSE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskDeps:
    """Dependencies of a task's copy process."""

    data_plane: DataPlane
    clients: SourceTaskClients
    clock: Clock
    random: Random
    owner_id: bytes
    """Identifies this worker process in the resume points that its copy processes write to the
    offset map."""
    task_number: int
    """Number of the task."""
    in_group: bool
    """True if a Connect group assigns the partitions."""
    read_java_progress: ReadJavaProgress
    """Reads the replication progress that Java's MirrorMaker 2 has recorded."""
    sync_emitter: OffsetSyncEmitter | None
    """Writes offset syncs; None if the flow has no offset-syncs topic."""
    may_acquire: Callable[[float], bool]
    """Returns True if a partition may be acquired. The argument is the time at which the copy
    process requested the acquisition (monotonic seconds)."""
    may_keep_running: Callable[[float], bool]
    """Returns False if another worker may own the task by now. The supervisor then ends the copy
    process."""
    get_wait_reason: Callable[[float], str]
    """Returns why replication must not begin at this time (monotonic seconds); "" if it may
    begin."""
    on_progress_report: Callable[[PartitionSetup, PartitionProgressReport], None]
    """Called with each progress report of a partition, in order."""
    on_assigned: Callable[[Sequence[PartitionSetup]], None]
    """Called with the partitions to replicate each time a copy process is set up."""


class SourceTaskRunner:
    """Runs the copy process of one task. Not thread-safe except for `kill_copy_process`. An
    exception raised by a method fails the task.

    `supervisor` is None while nothing is replicated; `reason` then states why.
    """

    def __init__(self, task_config: MirrorSourceTaskConfig, deps: SourceTaskDeps) -> None:
        self.task_config = task_config
        self.supervisor: CopySupervisor | None = None
        self.reason = "starting"
        self.status_builder = TaskStatusBuilder(deps.task_number)
        self._deps = deps
        self._inbox = ChannelInbox()
        self._starter = CopyStarter(
            flow=task_config.config.flow.name,
            task=deps.task_number,
            plane=deps.data_plane,
            inbox=self._inbox,
        )
        self._early_start = EarlyCopyStart(self._starter, self._build_endpoints)
        self._store = TaskStateStore(
            deps.clients.create_flow_state_store(task_config.partitions, deps.read_java_progress),
            clock=deps.clock,
            random=deps.random,
        )
        self._topic_poller = _build_topic_poller(task_config, deps)
        self._compactor = MapCompactor(
            self._store,
            budget_bytes=task_config.config.flow.offset_map_bytes_max,
            clock=deps.clock,
            random=deps.random,
        )
        self._reverse_producer_ids = deps.clients.create_lookup_of_reverse_flow_producers()
        self._logged_warnings: tuple[str, ...] = ()
        self._plan: PartitionSetupPlan | None = None
        self._plan_due_s = 0.0
        self._next_partitions: tuple[PartitionSetup, ...] | None = None
        self._replace_by_s = 0.0
        self._is_paused = False
        self._abandoned = False
        self._started_s = 0.0

    def start(self) -> None:
        self._started_s = self._deps.clock.now_s()
        self._topic_poller.start()

    # One iteration

    def run_once(self, timeout_s: float) -> None:
        """Run one iteration of the task's loop. Raises `FatalError` if the task cannot start or
        continue."""
        if self._deps.data_plane.failure:
            raise FatalError(self._deps.data_plane.failure)
        self._handle_messages(timeout_s)
        now_s = self._deps.clock.now_s()
        if self.supervisor is None:
            self._start_copy_early(now_s)
        if self._store.is_ready:
            self._store.run_once()
        if not self._store.is_ready:
            self._reopen_state_store(now_s)
            return
        self._update_copy_plan(now_s)
        if self._deps.sync_emitter is not None:
            self._deps.sync_emitter.run_once()
        copy = self.supervisor
        if copy is not None:
            copy.tick(now_s)
            copy.acknowledge_stored_items()
            if copy.channel is None:  # it has ended: another worker may replicate by now
                self._compactor.clear_partitions()
            self._compactor.run_once(now_s)
            self._replace_stopped_copy(copy, now_s)
            if copy.fenced_reason:
                raise FatalError(f"fenced by another owner: {copy.fenced_reason}")

    def _handle_messages(self, timeout_s: float) -> None:
        busy = self.supervisor is None or self._next_partitions is not None
        busy = (
            busy
            or self._store.store.is_busy
            or (self.supervisor is not None and self.supervisor.is_busy)
        )
        busy = busy or (self._deps.sync_emitter is not None and self._deps.sync_emitter.is_busy)
        wait_s = min(timeout_s, BUSY_POLL_INTERVAL_S) if busy else timeout_s
        for _ in range(MAX_MESSAGES_PER_ITERATION):
            taken = self._inbox.take_message(wait_s)
            if taken is None:
                return
            channel, message = taken
            wait_s = 0.0
            if self.supervisor is not None and self.supervisor.channel is channel:
                self.supervisor.handle_message(message, self._deps.clock.now_s())

    def _reopen_state_store(self, now_s: float) -> None:
        """End the copy process, and reopen the flow's internal topics if an attempt is due."""
        if self.supervisor is not None:
            self.supervisor.restart(self._store.unavailable_reason, now_s)
        self.reason = self._store.unavailable_reason
        self._store.open_or_read_store()

    # Planning

    def _start_copy_early(self, now_s: float) -> None:
        """Start the copy process early, while the topics are still being read."""
        wait_reason = self._deps.get_wait_reason(now_s)
        if wait_reason:
            self._early_start.end_process(wait_reason)
        else:
            self._early_start.tick(now_s)
            self._deps.may_acquire(self._started_s)  # requests a confirmation early

    def _update_copy_plan(self, now_s: float) -> None:
        if self._topic_poller.failure is not None:
            raise self._topic_poller.failure
        wait_reason = self._deps.get_wait_reason(now_s) if self.supervisor is None else ""
        if wait_reason:
            self.reason = wait_reason
            return
        self._plan = self._topic_poller.take_new_plan() or self._plan
        if self._plan is None:
            self.reason = self._topic_poller.reason
            return
        if now_s < self._plan_due_s or self._next_partitions is not None:
            return
        offset_map = self._store.read_offset_map()
        if offset_map is None:
            self._plan_due_s = now_s + PLAN_RETRY_DELAY_S
            return
        plan, self._plan = self._plan, None
        if needs_readable_map(plan, offset_map):
            self._plan, self._plan_due_s = plan, now_s + partition_halt_messages.MAP_RETRY_DELAY_S
        self._apply_copy_plan(
            complete_plan_with_offset_map(
                plan, offset_map, added=self.task_config.added_partitions
            ),
            now_s,
        )

    def _apply_copy_plan(self, plan: PartitionSetupPlan, now_s: float) -> None:
        running = () if self.supervisor is None else self.supervisor.settings.partitions
        later = merge_running_partitions(running, plan)
        self.status_builder.set_findings(later.findings)
        self._log_new_warnings(
            (*plan.warnings, *later.warnings, *(each.message for each in later.findings))
        )
        if self.supervisor is not None and can_copy_process_keep_running(running, later.partitions):
            return
        if self.supervisor is not None:
            self._next_partitions = later.partitions
            self._replace_by_s = now_s + REPLACE_TIMEOUT_S
            self.supervisor.stop()
        elif later.partitions:
            self._start_supervisor(later.partitions, before=None)
        else:
            self.reason = later.findings[0].message

    def _log_new_warnings(self, lines: Iterable[str]) -> None:
        """Log the warnings that the previous call did not include."""
        found = tuple(dict.fromkeys(lines))
        for line in found:
            if line not in self._logged_warnings:
                _LOG.warning("%s", line)
        self._logged_warnings = found

    def _replace_stopped_copy(self, copy: CopySupervisor, now_s: float) -> None:
        if copy.state is TaskState.STOPPING and now_s >= self._replace_by_s:
            copy.kill_and_mark_stopped()
        if copy.state is not TaskState.STOPPED:
            return
        partitions, self._next_partitions = self._next_partitions, None
        self.status_builder.clear_cache()
        self._compactor.clear_partitions()
        if partitions:
            self._start_supervisor(partitions, before=copy)
        else:
            self.supervisor, self.reason = (
                None,
                ("none of the task's partitions can be replicated at present"),
            )

    def _start_supervisor(
        self,
        partitions: tuple[PartitionSetup, ...],
        *,
        before: CopySupervisor | None,
    ) -> None:
        """Start supervising a copy process for the given partitions, with the current settings."""
        around = self._deps
        settings = self._build_copy_configuration(partitions)
        supervisor_deps = CopySupervisorDeps(
            starter=self._starter,
            store=self._store.store,
            random=around.random,
            on_log_broken=self._store.mark_broken,
            query_producer_ids=self._reverse_producer_ids.query_reverse_flow_producers,
            may_acquire=around.may_acquire,
            may_keep_running=around.may_keep_running,
            on_streamed=self._handle_streamed_items,
            on_progress_report=self._handle_progress_report,
        )
        self.supervisor = CopySupervisor(
            settings,
            supervisor_deps,
            previous=before,
            early_copy=self._early_start.take_started_process(),
            confirmed_after_s=max(
                self._started_s, around.clock.now_s() - OWNERSHIP_CONFIRMATION_AGE_S
            ),
        )
        self.supervisor.set_paused(paused=self._is_paused)
        self.reason = ""
        around.on_assigned(settings.partitions)

    def _build_endpoints(self) -> CopyEndpoints:
        topics = sorted({each.topic for each in self.task_config.partitions})
        return CopyEndpoints(
            source=self._deps.clients.get_source_cluster_access(),
            target=self._deps.clients.get_target_cluster_access(),
            topics=tuple(topics),
            remote_topics=tuple(map(self.task_config.config.flow.format_remote_topic, topics)),
        )

    def _build_copy_configuration(
        self, partitions: tuple[PartitionSetup, ...]
    ) -> CopyConfiguration:
        share, around = self.task_config, self._deps
        return CopyConfiguration(
            flow=share.config.flow.name,
            task=around.task_number,
            owner=around.owner_id,
            source=around.clients.get_source_cluster_access(),
            target=around.clients.get_target_cluster_access(),
            partitions=tuple(replace(each, in_group=around.in_group) for each in partitions),
            budget_bytes=share.config.flow.buffer_bytes,
            throttle_bytes_s=share.throttle.flow,
            topic_throttles=share.throttle.topics,
            paused_topics=share.config.paused_topics,
            transforms=share.config.transforms,
            unreachable_after_s=share.config.flow.unreachable_after_s,
        )

    def _handle_streamed_items(self, items: Sequence[FlowStateRecord]) -> None:
        if self._deps.sync_emitter is not None:
            with control_channel_messages.reject_malformed_message({"type": "record"}):
                segments = offset_sync_emitter.decode_segments(items)
            self._deps.sync_emitter.record_segments(segments)

    def _handle_progress_report(
        self, where: PartitionSetup, report: PartitionProgressReport
    ) -> None:
        self._compactor.record_progress_report(where, report)
        self._deps.on_progress_report(where, report)

    # Commands of the worker

    def set_paused(self, *, paused: bool) -> None:
        self._is_paused = paused
        if self.supervisor is not None:
            self.supervisor.set_paused(paused=paused)

    def reconfigure(self, task_config: MirrorSourceTaskConfig) -> None:
        """Apply changed throttles and topic pauses without a restart. The assigned partitions must
        be unchanged."""
        self.task_config = task_config
        if self.supervisor is not None:
            self.supervisor.set_throttles(task_config.throttle.flow, task_config.throttle.topics)
            self.supervisor.pause_topics(task_config.config.paused_topics)

    def stop(self, timeout_s: float) -> None:
        """Finish in-flight batches, or kill the copy process after `timeout_s`.

        All resources are closed even if an error occurs.
        """
        until_s = self._deps.clock.now_s() + timeout_s - CLOSE_TIMEOUT_S
        copy = self.supervisor
        with contextlib.ExitStack() as closing:
            closing.callback(self._reverse_producer_ids.close)
            closing.callback(lambda: self._store.close(self._choose_close_timeout_s()))
            closing.callback(self._early_start.end_process, "the task is stopping")
            if self._deps.sync_emitter is not None:
                syncs = self._deps.sync_emitter
                closing.callback(lambda: syncs.close(self._choose_close_timeout_s()))
            if copy is not None:
                closing.callback(lambda: None if copy.has_ended else copy.kill_and_mark_stopped())
            self._topic_poller.stop()
            if copy is not None:
                self._wait_for_copy_end(copy, until_s)

    def _wait_for_copy_end(self, copy: CopySupervisor, until_s: float) -> None:
        """Wait until the copy process has ended or the deadline has passed."""
        clock = self._deps.clock
        copy.stop(max(0.1, until_s - clock.now_s()))
        while not copy.has_ended and not self._abandoned:
            if clock.now_s() >= until_s or not self._store.is_ready:
                return
            self._handle_messages(BUSY_POLL_INTERVAL_S)
            self._store.run_once()
            copy.tick(clock.now_s())
            copy.acknowledge_stored_items()

    def _choose_close_timeout_s(self) -> float:
        return 0.0 if self._abandoned else CLOSE_TIMEOUT_S / 2

    def kill_copy_process(self) -> None:
        """Kill the copy process immediately. Called from another thread while `stop` runs."""
        self._abandoned = True
        self._early_start.end_process("abandoned")
        copy = self.supervisor
        if copy is not None:
            copy.kill()


def _build_topic_poller(share: MirrorSourceTaskConfig, around: SourceTaskDeps) -> TopicPoller:
    return TopicPoller(
        share.config.flow,
        share.partitions,
        create_admins=around.clients.create_admin_clients,
        operator=around.clients.get_operator_commands(),
        clock=around.clock,
        name=f"{share.config.common.name}-{around.task_number}",
    )
