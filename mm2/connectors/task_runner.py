"""Runs the copy process of one task's assignment on the task's thread: plan, start, replace, stop.

A second thread reads the topics on both clusters, because brokers may be slow. A running copy
process is kept if a later read does not find its topics (it detects deleted topics by itself); it
is replaced only if a setting of the mirror topic would damage the copied data.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

from connect_runtime.base import log_context
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock
from connect_runtime.system.threads import ThreadDied, ThreadGroup
from mm2.config.mirror_connector_config import MirrorSourceTaskConfig
from mm2.connectors import recreated_topics
from mm2.connectors.connector_clients import SourceTaskClients
from mm2.connectors.copy_supervisor import (
    CopyStarter,
    CopySupervisor,
    CopySupervisorDeps,
    EarlyCopyStart,
)
from mm2.connectors.flow_ledger import ReadJavaProgress, TaskLedger
from mm2.connectors.map_compactor import MapCompactor
from mm2.connectors.offset_sync_emitter import OffsetSyncEmitter
from mm2.connectors.partition_setup import (
    PartitionFinding,
    PartitionSetupBuilder,
    PartitionSetupPlan,
)
from mm2.connectors.stall_log import RateLimitedWarnings
from mm2.connectors.status_registry import TaskState
from mm2.connectors.task_status import TaskStatusBuilder
from mm2.copier.control_messages import ConfigureCopy, CopyEndpoints, PartitionGauge
from mm2.copier.control_server import ChannelInbox
from mm2.copier.data_plane import DataPlane
from mm2.kafka.client_interfaces import Admin
from mm2.offsets.offset_map import OffsetMap
from mm2.operator_commands import OperatorCommands
from mm2.replication import halts, recovery_instructions, start_positions
from mm2.replication.halts import PartitionHalt
from mm2.replication.recovery_instructions import FlowLogItem
from mm2.replication.setup import PartitionSetup
from mm2.topics.flow_config import Flow

TOPIC_RETRY_DELAY_S = 60.0
"""Delay until topics that failed or must not be copied are checked again; the refresh interval if
that is shorter.
"""
FIRST_TOPIC_RETRY_DELAY_S = 2.0
READING_TOPICS = "reading topic metadata"
_LOG = logging.getLogger(__name__)

AdminPairFactory = Callable[[], tuple[Admin, Admin]]
"""Creates admin clients of source and target; may raise `FatalError`."""


class TopicPoller:
    """Reads the topics of an assignment on a separate thread. `take`, `reason` and `failure` are
    for the task's thread.
    """

    def __init__(
        self,
        flow: Flow,
        share: Collection[TopicPartition],
        *,
        admins: AdminPairFactory,
        operator: OperatorCommands,
        clock: Clock,
        name: str,
    ) -> None:
        self.reason = f"reading topic metadata of {flow.source} and {flow.target}"
        """Why there is no first result yet."""
        self.failure: FatalError | None = None
        """Set if there will be no result."""
        self._flow = flow
        self._share = tuple(share)
        self._admins = admins
        self._operator = operator
        self._clock = clock
        self._name = name
        self._lock = threading.Lock()
        self._found: PartitionSetupPlan | None = None
        self._has_result = False
        self._warnings = RateLimitedWarnings(_LOG, clock=clock)
        self._threads = ThreadGroup(on_unasked_end=self._handle_thread_death)

    def start(self) -> None:
        self._threads.start(f"topics {self._name}", self._run_polls)

    def take(self) -> PartitionSetupPlan | None:
        """Return the newest result once; None if there is no new one."""
        with self._lock:
            plan, self._found = self._found, None
        return plan

    def stop(self) -> None:
        """Ask the thread to end. It ends after the current requests."""
        self._threads.stop_all(0.0)

    def _run_polls(self, stop: threading.Event) -> None:
        with log_context.bind_fields(flow=self._flow.name):
            while not stop.is_set():
                stop.wait(self._read_topics(stop))

    def _read_topics(self, stop: threading.Event) -> float | None:
        """Read the topics; return the delay until the next read in seconds, None for no further
        read.
        """
        interval_s = self._flow.refresh_topics_interval_s
        retry_s = min(TOPIC_RETRY_DELAY_S, interval_s or TOPIC_RETRY_DELAY_S)
        try:
            plan = self._build_plan(stop)
        except RetriableError as error:
            self.reason = str(error)
            if not stop.is_set():
                self._warnings.say(READING_TOPICS, f"{error}; retrying")
            return retry_s if self._has_result else min(FIRST_TOPIC_RETRY_DELAY_S, retry_s)
        except FatalError as error:
            if not self._has_result:
                self.failure = error
                return None
            self._warnings.say(READING_TOPICS, f"{error}; replication continues")
            return retry_s
        self._warnings.over(READING_TOPICS)
        with self._lock:
            self._found = plan
        self._has_result = True
        return retry_s if plan.findings else interval_s

    def _build_plan(self, stop: threading.Event) -> PartitionSetupPlan:
        source, target = self._admins()
        try:
            setups = PartitionSetupBuilder(
                self._flow, source=source, target=target, now=self._clock, operator=self._operator
            )
            return setups.look(self._share, self._flow.admin_timeout_s, pause=stop.wait)
        finally:
            source.close()
            target.close()

    def _handle_thread_death(self, end: ThreadDied) -> None:
        self.failure = FatalError(f"the thread that reads topic metadata ended: {end.error!r}")


PartitionSetupTuple = tuple[PartitionSetup, ...]


def apply_offset_map(
    plan: PartitionSetupPlan,
    known: OffsetMap,
    *,
    added: Collection[TopicPartition],
) -> PartitionSetupPlan:
    """Complete the plan with the flow's offset map: start positions, and halts for recreated
    topics.

    Partitions in `added` joined the flow later and start at their earliest record. Both rules need
    the eras of a topic's other partitions, so a partition without progress is not copied while an
    unreadable record may be one of those: see `needs_readable_map`.
    """
    unreadable = [(each, _find_map_unreadable_halt(each, known)) for each in plan.partitions]
    readable = [each for each, stop in unreadable if stop is None]
    copyable, halted = recreated_topics.split_recreated(readable, known)
    unreadable_halts = [(each, stop) for each, stop in unreadable if stop is not None]
    findings = (
        PartitionFinding(
            partition=get_source_partition(where), cause=stop.cause.value, message=stop.text
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
        partitions=start_positions.resolve_start_positions(copyable, known),
        findings=(*plan.findings, *findings),
    )


def needs_readable_map(plan: PartitionSetupPlan, known: OffsetMap) -> bool:
    """True if `plan` must be completed again once the map is readable."""
    return any(_find_map_unreadable_halt(each, known) is not None for each in plan.partitions)


def _find_map_unreadable_halt(where: PartitionSetup, known: OffsetMap) -> PartitionHalt | None:
    """The halt of a partition without progress. Others do not need the eras of other partitions,
    and their acquisition detects unreadable records.
    """
    progress = known.partition(get_source_partition(where))
    if progress.newest_era or progress.open_request is not None:
        return None
    return next(
        (
            halts.halt_map_unreadable(where, recovery_instructions.describe_unreadable(each))
            for each in known.unreadable(get_source_partition(where))
        ),
        None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedCopyPlan:
    """What to copy from now on."""

    partitions: PartitionSetupTuple
    findings: tuple[PartitionFinding, ...]
    """Partitions that must not be copied."""
    troubles: tuple[str, ...]
    """Problems despite which partitions are copied."""


def merge_running(running: Sequence[PartitionSetup], plan: PartitionSetupPlan) -> UpdatedCopyPlan:
    """Merge a later `plan` of an assignment with its `running` partitions."""
    must_end = {each.partition for each in plan.findings if each.spoils}
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
        troubles=tuple(
            dict.fromkeys(messages[each] for each in sorted(copied.keys() & messages.keys()))
        ),
    )


def can_keep_running(one: Iterable[PartitionSetup], other: Iterable[PartitionSetup]) -> bool:
    """True if a copy process of `one` can continue with the settings in `other`.

    A longer producer expiration on the brokers needs no restart.
    """
    current = {each.name: each for each in one}
    found = {each.name: each for each in other}
    return current.keys() == found.keys() and all(
        mine.target_codec == later.target_codec
        and mine.old_after_ms <= later.old_after_ms
        and mine.renew_after_s <= later.renew_after_s
        for mine, later in ((current[each], found[each]) for each in current)
    )


def get_source_partition(where: PartitionSetup) -> TopicPartition:
    """Source partition of a setup."""
    return TopicPartition(where.topic, where.partition)


BUSY_POLL_INTERVAL_S = 0.05
"""Poll interval while work is pending; otherwise an iteration takes as long as its
caller permits.
"""
MAX_MESSAGES_PER_ITERATION = 500
PLAN_RETRY_DELAY_S = 5.0
"""Delay before a plan is completed again if the offset map cannot be read."""
OWNERSHIP_CONFIRMATION_AGE_S = 5.0
"""A confirmation of the group that is at most this old permits the first acquisitions."""
REPLACE_TIMEOUT_S = 1.9
CLOSE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskDeps:
    """Dependencies of a task's copy process."""

    plane: DataPlane
    clients: SourceTaskClients
    clock: Clock
    random: Random
    owner: bytes
    """Identifies this worker process in resume points."""
    number: int
    """The task number."""
    in_group: bool
    """True if a Connect group assigns the partitions."""
    java: ReadJavaProgress
    """Reads the progress of Java's MirrorMaker."""
    syncs: OffsetSyncEmitter | None
    """None if the flow has no offset-syncs topic."""
    may_take: Callable[[float], bool]
    """As in `CopySupervisorDeps`."""
    may_live: Callable[[float], bool]
    """As in `CopySupervisorDeps`."""
    waits: Callable[[float], str]
    """Returns why copying must not begin at this time (monotonic seconds); "" if it may."""
    gauged: Callable[[PartitionSetup, PartitionGauge], None]
    """As in `CopySupervisorDeps`."""
    assigned: Callable[[Sequence[PartitionSetup]], None]
    """Called with the partitions that are copied."""


class SourceTaskRunner:
    """Runs the copy process of one task. Not thread-safe except for `abandon`. Exceptions fail the
    task.

    `copy` is None while nothing is copied; `reason` says why.
    """

    def __init__(self, share: MirrorSourceTaskConfig, around: SourceTaskDeps) -> None:
        self.share = share
        self.copy: CopySupervisor | None = None
        self.reason = "starting"
        self.report = TaskStatusBuilder(around.number)
        self._deps = around
        self._inbox = ChannelInbox()
        self._starter = CopyStarter(
            flow=share.config.flow.name,
            task=around.number,
            plane=around.plane,
            inbox=self._inbox,
        )
        self._early_start = EarlyCopyStart(self._starter, self._build_endpoints)
        self._ledger = TaskLedger(
            around.clients.ledger(share.partitions, around.java),
            clock=around.clock,
            random=around.random,
        )
        self._topic_poller = _build_topic_poller(share, around)
        self._compactor = MapCompactor(
            self._ledger,
            budget_bytes=share.config.flow.map_bytes,
            clock=around.clock,
            random=around.random,
        )
        self._reverse_producer_ids = around.clients.opposite()
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
        """Run one iteration. Raises `FatalError` if the task cannot start or continue."""
        if self._deps.plane.failure:
            raise FatalError(self._deps.plane.failure)
        self._handle_messages(timeout_s)
        now_s = self._deps.clock.now_s()
        if self.copy is None:
            self._start_early(now_s)
        if self._ledger.ready:
            self._ledger.work()
        if not self._ledger.ready:
            self._reopen_ledger(now_s)
            return
        self._update_plan(now_s)
        if self._deps.syncs is not None:
            self._deps.syncs.work()
        copy = self.copy
        if copy is not None:
            copy.tick(now_s)
            copy.tell_stored()
            if copy.channel is None:  # it has ended: another worker may copy by now
                self._compactor.forget()
            self._compactor.work(now_s)
            self._replace_stopped(copy, now_s)
            if copy.taken_over:
                raise FatalError(f"fenced by another owner: {copy.taken_over}")

    def _handle_messages(self, timeout_s: float) -> None:
        busy = self.copy is None or self._next_partitions is not None
        busy = busy or self._ledger.ledger.busy or (self.copy is not None and self.copy.busy)
        busy = busy or (self._deps.syncs is not None and self._deps.syncs.busy)
        wait_s = min(timeout_s, BUSY_POLL_INTERVAL_S) if busy else timeout_s
        for _ in range(MAX_MESSAGES_PER_ITERATION):
            taken = self._inbox.take(wait_s)
            if taken is None:
                return
            channel, message = taken
            wait_s = 0.0
            if self.copy is not None and self.copy.channel is channel:
                self.copy.received(message, self._deps.clock.now_s())

    def _reopen_ledger(self, now_s: float) -> None:
        """End the copy process until the flow's internal topics can be used again."""
        if self.copy is not None:
            self.copy.restart(self._ledger.trouble, now_s)
        self.reason = self._ledger.trouble
        self._ledger.tend()

    # Planning

    def _start_early(self, now_s: float) -> None:
        """Start the copy process early, while the topics are being read."""
        wait_reason = self._deps.waits(now_s)
        if wait_reason:
            self._early_start.end(wait_reason)
        else:
            self._early_start.tend(now_s)
            self._deps.may_take(self._started_s)  # requests a confirmation early

    def _update_plan(self, now_s: float) -> None:
        if self._topic_poller.failure is not None:
            raise self._topic_poller.failure
        wait_reason = self._deps.waits(now_s) if self.copy is None else ""
        if wait_reason:
            self.reason = wait_reason
            return
        self._plan = self._topic_poller.take() or self._plan
        if self._plan is None:
            self.reason = self._topic_poller.reason
            return
        if now_s < self._plan_due_s or self._next_partitions is not None:
            return
        offset_map = self._ledger.known()
        if offset_map is None:
            self._plan_due_s = now_s + PLAN_RETRY_DELAY_S
            return
        plan, self._plan = self._plan, None
        if needs_readable_map(plan, offset_map):
            self._plan, self._plan_due_s = plan, now_s + halts.MAP_RETRY_DELAY_S
        self._apply_plan(apply_offset_map(plan, offset_map, added=self.share.added), now_s)

    def _apply_plan(self, plan: PartitionSetupPlan, now_s: float) -> None:
        running = () if self.copy is None else self.copy.settings.partitions
        later = merge_running(running, plan)
        self.report.found(later.findings)
        self._log_new_warnings(
            (*plan.warnings, *later.troubles, *(each.message for each in later.findings))
        )
        if self.copy is not None and can_keep_running(running, later.partitions):
            return
        if self.copy is not None:
            self._next_partitions = later.partitions
            self._replace_by_s = now_s + REPLACE_TIMEOUT_S
            self.copy.stop()
        elif later.partitions:
            self._start_supervisor(later.partitions, before=None)
        else:
            self.reason = later.findings[0].message

    def _log_new_warnings(self, lines: Iterable[str]) -> None:
        """Log new warnings; those that persist are logged once."""
        found = tuple(dict.fromkeys(lines))
        for line in found:
            if line not in self._logged_warnings:
                _LOG.warning("%s", line)
        self._logged_warnings = found

    def _replace_stopped(self, copy: CopySupervisor, now_s: float) -> None:
        if copy.state is TaskState.STOPPING and now_s >= self._replace_by_s:
            copy.abandon()
        if copy.state is not TaskState.STOPPED:
            return
        partitions, self._next_partitions = self._next_partitions, None
        self.report.forget()
        self._compactor.forget()
        if partitions:
            self._start_supervisor(partitions, before=copy)
        else:
            self.copy, self.reason = None, "none of its partitions can be copied at present"

    def _start_supervisor(
        self,
        partitions: tuple[PartitionSetup, ...],
        *,
        before: CopySupervisor | None,
    ) -> None:
        """Start supervising a copy process, with the current live settings."""
        around = self._deps
        settings = self._build_copy_configuration(partitions)
        supervisor_deps = CopySupervisorDeps(
            place=self._starter,
            ledger=self._ledger.ledger,
            random=around.random,
            log_broken=self._ledger.broken,
            whose=self._reverse_producer_ids.ask,
            may_take=around.may_take,
            may_live=around.may_live,
            streamed=self._handle_streamed,
            gauged=self._handle_gauge,
        )
        self.copy = CopySupervisor(
            settings,
            supervisor_deps,
            before=before,
            ahead=self._early_start.take(),
            given_s=max(self._started_s, around.clock.now_s() - OWNERSHIP_CONFIRMATION_AGE_S),
        )
        self.copy.pause(paused=self._is_paused)
        self.reason = ""
        around.assigned(settings.partitions)

    def _build_endpoints(self) -> CopyEndpoints:
        topics = sorted({each.topic for each in self.share.partitions})
        return CopyEndpoints(
            source=self._deps.clients.source(),
            target=self._deps.clients.target(),
            topics=tuple(topics),
            mirrors=tuple(map(self.share.config.flow.remote_topic, topics)),
        )

    def _build_copy_configuration(self, partitions: tuple[PartitionSetup, ...]) -> ConfigureCopy:
        share, around = self.share, self._deps
        return ConfigureCopy(
            flow=share.config.flow.name,
            task=around.number,
            owner=around.owner,
            source=around.clients.source(),
            target=around.clients.target(),
            partitions=tuple(replace(each, in_group=around.in_group) for each in partitions),
            budget_bytes=share.config.flow.buffer_bytes,
            throttle_bytes_s=share.budget.flow,
            topic_throttles=share.budget.topics,
            paused_topics=share.config.paused,
            transforms=share.config.transforms,
            unreachable_after_s=share.config.flow.unreachable_after_s,
        )

    def _handle_streamed(self, items: Sequence[FlowLogItem]) -> None:
        if self._deps.syncs is not None:
            self._deps.syncs.note(items)

    def _handle_gauge(self, where: PartitionSetup, gauge: PartitionGauge) -> None:
        self._compactor.observe(where, gauge)
        self._deps.gauged(where, gauge)

    # Commands of the worker

    def pause(self, *, paused: bool) -> None:
        self._is_paused = paused
        if self.copy is not None:
            self.copy.pause(paused=paused)

    def change(self, share: MirrorSourceTaskConfig) -> None:
        """Apply changed live settings of the same assignment."""
        self.share = share
        if self.copy is not None:
            self.copy.throttle(share.budget.flow, share.budget.topics)
            self.copy.pause_topics(share.config.paused)

    def stop(self, timeout_s: float) -> None:
        """Finish in-flight batches, or kill the copy process after `timeout_s`.

        All resources are closed, whatever fails meanwhile.
        """
        until_s = self._deps.clock.now_s() + timeout_s - CLOSE_TIMEOUT_S
        copy = self.copy
        with contextlib.ExitStack() as closing:
            closing.callback(self._reverse_producer_ids.close)
            closing.callback(lambda: self._ledger.close(self._choose_close_timeout_s()))
            closing.callback(self._early_start.end, "the task is stopping")
            if self._deps.syncs is not None:
                syncs = self._deps.syncs
                closing.callback(lambda: syncs.close(self._choose_close_timeout_s()))
            if copy is not None:
                closing.callback(lambda: None if copy.ended else copy.abandon())
            self._topic_poller.stop()
            if copy is not None:
                self._wait_for_end(copy, until_s)

    def _wait_for_end(self, copy: CopySupervisor, until_s: float) -> None:
        """Wait until the copy process has ended or the time is up."""
        clock = self._deps.clock
        copy.stop(max(0.1, until_s - clock.now_s()))
        while not copy.ended and not self._abandoned:
            if clock.now_s() >= until_s or not self._ledger.ready:
                return
            self._handle_messages(BUSY_POLL_INTERVAL_S)
            self._ledger.work()
            copy.tick(clock.now_s())
            copy.tell_stored()

    def _choose_close_timeout_s(self) -> float:
        return 0.0 if self._abandoned else CLOSE_TIMEOUT_S / 2

    def abandon(self) -> None:
        """Kill everything at once. Called from another thread while `stop` runs."""
        self._abandoned = True
        self._early_start.end("abandoned")
        copy = self.copy
        if copy is not None:
            copy.cut()


def _build_topic_poller(share: MirrorSourceTaskConfig, around: SourceTaskDeps) -> TopicPoller:
    return TopicPoller(
        share.config.flow,
        share.partitions,
        admins=around.clients.admins,
        operator=around.clients.operator(),
        clock=around.clock,
        name=f"{share.config.common.name}-{around.number}",
    )
