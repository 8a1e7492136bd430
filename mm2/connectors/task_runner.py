"""Runs the copy of one task's assignment on the task's thread: plan, start, replace, stop.

A second thread reads the topics on both clusters, because brokers may be slow. A running copy
is kept if a later read does not find its topics (the copy notices a deleted topic by itself);
it is replaced only if a setting of the mirror topic would damage what is copied.
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
"""What failed, or must not be copied, is looked at again after this time, or sooner if the interval
is shorter."""
FIRST_TOPIC_RETRY_DELAY_S = 2.0
READING_TOPICS = "looking at topics"
_LOG = logging.getLogger(__name__)

AdminPairFactory = Callable[[], tuple[Admin, Admin]]
"""The source's and the target's, made anew; may raise `FatalError`."""


class TopicPoller:
    """`take`, `reason` and `failure` are for the task's thread."""

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
        self.reason = f"asking clusters {flow.source} and {flow.target}"
        """Why there is no first look yet."""
        self.failure: FatalError | None = None
        """Why there will be none."""
        self._flow = flow
        self._share = tuple(share)
        self._admins = admins
        self._operator = operator
        self._clock = clock
        self._name = name
        self._lock = threading.Lock()
        self._found: PartitionSetupPlan | None = None
        self._looked = False
        self._complaints = RateLimitedWarnings(_LOG, clock=clock)
        self._threads = ThreadGroup(on_unasked_end=self._ended)

    def start(self) -> None:
        self._threads.start(f"topics {self._name}", self._run)

    def take(self) -> PartitionSetupPlan | None:
        """What the newest look found, once."""
        with self._lock:
            found, self._found = self._found, None
        return found

    def stop(self) -> None:
        """Ask it to end; it does once brokers have answered."""
        self._threads.stop_all(0.0)

    def _run(self, stop: threading.Event) -> None:
        with log_context.bind_fields(flow=self._flow.name):
            while not stop.is_set():
                stop.wait(self._look(stop))

    def _look(self, stop: threading.Event) -> float | None:
        """Returns after how many seconds the next one is due, None for never."""
        interval_s = self._flow.refresh_topics_interval_s
        again_s = min(TOPIC_RETRY_DELAY_S, interval_s or TOPIC_RETRY_DELAY_S)
        try:
            found = self._ask(stop)
        except RetriableError as error:
            self.reason = str(error)
            if not stop.is_set():
                self._complaints.say(READING_TOPICS, f"{error}; it is tried again")
            return again_s if self._looked else min(FIRST_TOPIC_RETRY_DELAY_S, again_s)
        except FatalError as error:
            if not self._looked:
                self.failure = error
                return None
            self._complaints.say(READING_TOPICS, f"{error}; what is mirrored goes on")
            return again_s
        self._complaints.over(READING_TOPICS)
        with self._lock:
            self._found = found
        self._looked = True
        return again_s if found.findings else interval_s

    def _ask(self, stop: threading.Event) -> PartitionSetupPlan:
        source, target = self._admins()
        try:
            setups = PartitionSetupBuilder(
                self._flow, source=source, target=target, now=self._clock, operator=self._operator
            )
            return setups.look(self._share, self._flow.admin_timeout_s, pause=stop.wait)
        finally:
            source.close()
            target.close()

    def _ended(self, end: ThreadDied) -> None:
        self.failure = FatalError(f"looking at topics ended: {end.error!r}")


PartitionSetupTuple = tuple[PartitionSetup, ...]


def apply_offset_map(
    plan: PartitionSetupPlan,
    known: OffsetMap,
    *,
    added: Collection[TopicPartition],
) -> PartitionSetupPlan:
    """With what the flow's map says: where partitions start, and which of them belong to a topic
    that was created again. `added` came to the flow later: they start at their earliest record.

    Both follow from the eras of a topic's other partitions, so a partition without progress is not
    copied while a record is unreadable that may be one of those: see `needs_readable_map`.
    """
    unreadable = [(each, _find_map_unreadable_halt(each, known)) for each in plan.partitions]
    readable = [each for each, stop in unreadable if stop is None]
    kept, stopped = recreated_topics.split_recreated(readable, known)
    held_back = [(each, stop) for each, stop in unreadable if stop is not None]
    findings = (
        PartitionFinding(
            partition=get_source_partition(where), cause=stop.cause.value, message=stop.text
        )
        for where, stop in (*held_back, *stopped)
    )
    later = frozenset(added)
    kept = [
        replace(each, start="earliest") if get_source_partition(each) in later else each
        for each in kept
    ]
    return replace(
        plan,
        partitions=start_positions.resolve_start_positions(kept, known),
        findings=(*plan.findings, *findings),
    )


def needs_readable_map(plan: PartitionSetupPlan, known: OffsetMap) -> bool:
    """Must `plan` be settled again once the map is readable?"""
    return any(_find_map_unreadable_halt(each, known) is not None for each in plan.partitions)


def _find_map_unreadable_halt(where: PartitionSetup, known: OffsetMap) -> PartitionHalt | None:
    """Of a partition without progress; any other one does not need its siblings, and its take
    itself sees what is unreadable."""
    mine = known.partition(get_source_partition(where))
    if mine.newest_era or mine.open_request is not None:
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
    """What is to be copied from now on and what cannot be; `troubles` are lines about what is
    copied all the same."""

    partitions: PartitionSetupTuple
    findings: tuple[PartitionFinding, ...]
    troubles: tuple[str, ...]


def merge_running(running: Sequence[PartitionSetup], plan: PartitionSetupPlan) -> UpdatedCopyPlan:
    """A later `plan` of the share of which `running` are copied."""
    spoilt = {each.partition for each in plan.findings if each.spoils}
    copied = {
        get_source_partition(each): each
        for each in running
        if get_source_partition(each) not in spoilt
    }
    found = {get_source_partition(each): each for each in plan.partitions}
    partitions = {**copied, **found}
    told = {each.partition: each.message for each in plan.findings}
    return UpdatedCopyPlan(
        partitions=tuple(partitions[each] for each in sorted(partitions)),
        findings=tuple(each for each in plan.findings if each.partition not in copied),
        troubles=tuple(dict.fromkeys(told[each] for each in sorted(copied.keys() & told.keys()))),
    )


def can_keep_running(one: Iterable[PartitionSetup], other: Iterable[PartitionSetup]) -> bool:
    """May a copy of `one` go on where `other` was found?

    Brokers that remember producers longer than it believes are no reason to end it.
    """
    ours = {each.name: each for each in one}
    theirs = {each.name: each for each in other}
    return ours.keys() == theirs.keys() and all(
        mine.target_codec == later.target_codec
        and mine.old_after_ms <= later.old_after_ms
        and mine.renew_after_s <= later.renew_after_s
        for mine, later in ((ours[each], theirs[each]) for each in ours)
    )


def get_source_partition(where: PartitionSetup) -> TopicPartition:
    """The source partition that a setup is of."""
    return TopicPartition(where.topic, where.partition)


BUSY_POLL_INTERVAL_S = 0.05
"""While something is on its way; else a turn takes as long as its caller lets it."""
MAX_MESSAGES_PER_ITERATION = 500
PLAN_RETRY_DELAY_S = 5.0
"""What was looked up waits for the map: so long in between."""
OWNERSHIP_CONFIRMATION_AGE_S = 5.0
"""A task that the group has confirmed within so much is still this worker's: a first take need not
ask again."""
REPLACE_TIMEOUT_S = 1.9
CLOSE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskDeps:
    """What a share's copy is given.

    `owner` marks this worker's anchors; `in_group`: a group of workers says whose the share is;
    `may_take`, `may_live` and `gauged` as in `CopySupervisorDeps`. `syncs` None: none are
    written. `assigned` is told what is copied. `waits` says at that time (monotonic seconds) why
    nothing may be copied yet by who copies nothing so far; "": it may.
    """

    plane: DataPlane
    clients: SourceTaskClients
    clock: Clock
    random: Random
    owner: bytes
    number: int
    in_group: bool
    java: ReadJavaProgress
    syncs: OffsetSyncEmitter | None
    may_take: Callable[[float], bool]
    may_live: Callable[[float], bool]
    waits: Callable[[float], str]
    gauged: Callable[[PartitionSetup, PartitionGauge], None]
    assigned: Callable[[Sequence[PartitionSetup]], None]


class SourceTaskRunner:
    """One thread's, but for `abandon`. What it raises fails the task.

    `copy` is None while nothing is copied, for this `reason`.
    """

    def __init__(self, share: MirrorSourceTaskConfig, around: SourceTaskDeps) -> None:
        self.share = share
        self.copy: CopySupervisor | None = None
        self.reason = "starting"
        self.report = TaskStatusBuilder(around.number)
        self._around = around
        self._inbox = ChannelInbox()
        self._place = CopyStarter(
            flow=share.config.flow.name,
            task=around.number,
            plane=around.plane,
            inbox=self._inbox,
        )
        self._ahead = EarlyCopyStart(self._place, self._reach)
        self._ledger = TaskLedger(
            around.clients.ledger(share.partitions, around.java),
            clock=around.clock,
            random=around.random,
        )
        self._looks = _build_topic_poller(share, around)
        self._keeper = MapCompactor(
            self._ledger,
            budget_bytes=share.config.flow.map_bytes,
            clock=around.clock,
            random=around.random,
        )
        self._opposite = around.clients.opposite()
        self._warned: tuple[str, ...] = ()
        self._plan: PartitionSetupPlan | None = None
        self._plan_due_s = 0.0
        self._next: tuple[PartitionSetup, ...] | None = None
        self._replace_by_s = 0.0
        self._resting = False
        self._abandoned = False
        self._began_s = 0.0

    def start(self) -> None:
        self._began_s = self._around.clock.now_s()
        self._looks.start()

    # A turn

    def run_once(self, timeout_s: float) -> None:
        """Raises `FatalError`: the task cannot begin, or cannot go on."""
        if self._around.plane.failure:
            raise FatalError(self._around.plane.failure)
        self._take_messages(timeout_s)
        now_s = self._around.clock.now_s()
        if self.copy is None:
            self._tend_ahead(now_s)
        if self._ledger.ready:
            self._ledger.work()
        if not self._ledger.ready:
            self._mend(now_s)
            return
        self._take_look(now_s)
        if self._around.syncs is not None:
            self._around.syncs.work()
        copy = self.copy
        if copy is not None:
            copy.tick(now_s)
            copy.tell_stored()
            if copy.channel is None:  # it has ended: others may copy by now
                self._keeper.forget()
            self._keeper.work(now_s)
            self._replace_stopped(copy, now_s)
            if copy.taken_over:
                raise FatalError(f"fenced by another owner: {copy.taken_over}")

    def _take_messages(self, timeout_s: float) -> None:
        busy = self.copy is None or self._next is not None
        busy = busy or self._ledger.ledger.busy or (self.copy is not None and self.copy.busy)
        busy = busy or (self._around.syncs is not None and self._around.syncs.busy)
        wait_s = min(timeout_s, BUSY_POLL_INTERVAL_S) if busy else timeout_s
        for _ in range(MAX_MESSAGES_PER_ITERATION):
            taken = self._inbox.take(wait_s)
            if taken is None:
                return
            channel, message = taken
            wait_s = 0.0
            if self.copy is not None and self.copy.channel is channel:
                self.copy.received(message, self._around.clock.now_s())

    def _mend(self, now_s: float) -> None:
        """The flow's topics cannot be used: the copy ends, and goes on once they can be."""
        if self.copy is not None:
            self.copy.restart(self._ledger.trouble, now_s)
        self.reason = self._ledger.trouble
        self._ledger.tend()

    # What is to be copied

    def _tend_ahead(self, now_s: float) -> None:
        """A process for the copy begins while it is looked up what it is to copy."""
        waits = self._around.waits(now_s)
        if waits:
            self._ahead.end(waits)
        else:
            self._ahead.tend(now_s)
            self._around.may_take(self._began_s)  # so that it is known by then

    def _take_look(self, now_s: float) -> None:
        if self._looks.failure is not None:
            raise self._looks.failure
        waits = self._around.waits(now_s) if self.copy is None else ""
        if waits:
            self.reason = waits
            return
        self._plan = self._looks.take() or self._plan
        if self._plan is None:
            self.reason = self._looks.reason
            return
        if now_s < self._plan_due_s or self._next is not None:
            return
        known = self._ledger.known()
        if known is None:
            self._plan_due_s = now_s + PLAN_RETRY_DELAY_S
            return
        plan, self._plan = self._plan, None
        if needs_readable_map(plan, known):
            self._plan, self._plan_due_s = plan, now_s + halts.MAP_RETRY_DELAY_S
        self._take_up(apply_offset_map(plan, known, added=self.share.added), now_s)

    def _take_up(self, plan: PartitionSetupPlan, now_s: float) -> None:
        running = () if self.copy is None else self.copy.settings.partitions
        later = merge_running(running, plan)
        self.report.found(later.findings)
        self._warn((*plan.warnings, *later.troubles, *(each.message for each in later.findings)))
        if self.copy is not None and can_keep_running(running, later.partitions):
            return
        if self.copy is not None:
            self._next = later.partitions
            self._replace_by_s = now_s + REPLACE_TIMEOUT_S
            self.copy.stop()
        elif later.partitions:
            self._begin(later.partitions, before=None)
        else:
            self.reason = later.findings[0].message

    def _warn(self, lines: Iterable[str]) -> None:
        """Of what lasts from look to look once."""
        found = tuple(dict.fromkeys(lines))
        for line in found:
            if line not in self._warned:
                _LOG.warning("%s", line)
        self._warned = found

    def _replace_stopped(self, copy: CopySupervisor, now_s: float) -> None:
        if copy.state is TaskState.STOPPING and now_s >= self._replace_by_s:
            copy.abandon()
        if copy.state is not TaskState.STOPPED:
            return
        partitions, self._next = self._next, None
        self.report.forget()
        self._keeper.forget()
        if partitions:
            self._begin(partitions, before=copy)
        else:
            self.copy, self.reason = None, "none of its partitions can be copied as things are"

    def _begin(
        self,
        partitions: tuple[PartitionSetup, ...],
        *,
        before: CopySupervisor | None,
    ) -> None:
        """With the live settings as they are by now."""
        around = self._around
        settings = self._configure(partitions)
        surroundings = CopySupervisorDeps(
            place=self._place,
            ledger=self._ledger.ledger,
            random=around.random,
            log_broken=self._ledger.broken,
            whose=self._opposite.ask,
            may_take=around.may_take,
            may_live=around.may_live,
            streamed=self._streamed,
            gauged=self._gauged,
        )
        self.copy = CopySupervisor(
            settings,
            surroundings,
            before=before,
            ahead=self._ahead.take(),
            given_s=max(self._began_s, around.clock.now_s() - OWNERSHIP_CONFIRMATION_AGE_S),
        )
        self.copy.pause(paused=self._resting)
        self.reason = ""
        around.assigned(settings.partitions)

    def _reach(self) -> CopyEndpoints:
        topics = sorted({each.topic for each in self.share.partitions})
        return CopyEndpoints(
            source=self._around.clients.source(),
            target=self._around.clients.target(),
            topics=tuple(topics),
            mirrors=tuple(map(self.share.config.flow.remote_topic, topics)),
        )

    def _configure(self, partitions: tuple[PartitionSetup, ...]) -> ConfigureCopy:
        share, around = self.share, self._around
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

    def _streamed(self, items: Sequence[FlowLogItem]) -> None:
        if self._around.syncs is not None:
            self._around.syncs.note(items)

    def _gauged(self, where: PartitionSetup, gauge: PartitionGauge) -> None:
        self._keeper.observe(where, gauge)
        self._around.gauged(where, gauge)

    # The worker's hand

    def pause(self, *, paused: bool) -> None:
        self._resting = paused
        if self.copy is not None:
            self.copy.pause(paused=paused)

    def change(self, share: MirrorSourceTaskConfig) -> None:
        """The same share, with other live settings."""
        self.share = share
        if self.copy is not None:
            self.copy.throttle(share.budget.flow, share.budget.topics)
            self.copy.pause_topics(share.config.paused)

    def stop(self, timeout_s: float) -> None:
        """Settle what is on its way, or cut it off once `timeout_s` have passed. Whatever fails
        meanwhile, the copy ends, and all that was opened is closed."""
        until_s = self._around.clock.now_s() + timeout_s - CLOSE_TIMEOUT_S
        copy = self.copy
        with contextlib.ExitStack() as closing:
            closing.callback(self._opposite.close)
            closing.callback(lambda: self._ledger.close(self._close_s()))
            closing.callback(self._ahead.end, "the task stops")
            if self._around.syncs is not None:
                syncs = self._around.syncs
                closing.callback(lambda: syncs.close(self._close_s()))
            if copy is not None:
                closing.callback(lambda: None if copy.ended else copy.abandon())
            self._looks.stop()
            if copy is not None:
                self._settle(copy, until_s)

    def _settle(self, copy: CopySupervisor, until_s: float) -> None:
        """Until it has ended, or is to be cut off."""
        clock = self._around.clock
        copy.stop(max(0.1, until_s - clock.now_s()))
        while not copy.ended and not self._abandoned:
            if clock.now_s() >= until_s or not self._ledger.ready:
                return
            self._take_messages(BUSY_POLL_INTERVAL_S)
            self._ledger.work()
            copy.tick(clock.now_s())
            copy.tell_stored()

    def _close_s(self) -> float:
        return 0.0 if self._abandoned else CLOSE_TIMEOUT_S / 2

    def abandon(self) -> None:
        """From another thread, while `stop` runs: cut everything off at once."""
        self._abandoned = True
        self._ahead.end("abandoned")
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
