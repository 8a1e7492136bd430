"""The copy of one task's share: planned, run, watched and ended, on the task's own thread.

Its body is `run_once`: fetch (messages, ledger, looks), decide (the supervisor of the copy), act.
What it reads of the flow's own topics, and writes there, is its own share's.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

from connect_runtime.base import clock, errors
from mm2.connectors import flow_status
from mm2.connectors.share import (
    copy_start,
    copy_supervisor,
    flow_ledger,
    map_keeper,
    share_ledger,
    share_looks,
    share_plan,
    sync_emitter,
    task_clients,
    task_report,
)
from mm2.connectors.topics import partition_setups
from mm2.core.configs import task_share
from mm2.core.copy import instructions, messages, reach, setup, stops
from mm2.pipeline import control_channel, data_plane

TURN_S = 0.05
"""While something is on its way; else a turn takes as long as its caller lets it."""
MESSAGES_PER_TURN = 500
AGAIN_S = 5.0
"""What was looked up waits for the map: so long in between."""
CONFIRMED_S = 5.0
"""A task that the group has confirmed within so much is still this worker's: a first take need not
ask again."""
REPLACE_S = 1.9
CLOSE_S = 1.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a share's copy is given.

    `owner` marks this worker's anchors; `in_group`: a group of workers says whose the share is;
    `may_take`, `may_live` and `gauged` as in `copy_supervisor.Surroundings`. `syncs` None: none are
    written. `assigned` is told what is copied. `waits` says at that time (monotonic seconds) why
    nothing may be copied yet by who copies nothing so far; "": it may.
    """

    plane: data_plane.DataPlane
    clients: task_clients.Clients
    clock: clock.Clock
    random: Random
    owner: bytes
    number: int
    in_group: bool
    java: flow_ledger.ReadJava
    syncs: sync_emitter.OffsetSyncEmitter | None
    may_take: Callable[[float], bool]
    may_live: Callable[[float], bool]
    waits: Callable[[float], str]
    gauged: Callable[[setup.PartitionSetup, messages.Gauge], None]
    assigned: Callable[[Sequence[setup.PartitionSetup]], None]


class ShareCopy:
    """One thread's, but for `abandon`. What it raises fails the task.

    `copy` is None while nothing is copied, for this `reason`.
    """

    def __init__(self, share: task_share.TaskShare, around: Around) -> None:
        self.share = share
        self.copy: copy_supervisor.CopySupervisor | None = None
        self.reason = "starting"
        self.report = task_report.TaskReport(around.number)
        self._around = around
        self._inbox = control_channel.Inbox()
        self._place = copy_start.Place(
            flow=share.config.flow.name,
            task=around.number,
            plane=around.plane,
            inbox=self._inbox,
        )
        self._ahead = copy_start.AheadOfTime(self._place, self._reach)
        self._ledger = share_ledger.ShareLedger(
            around.clients.ledger(share.partitions, around.java),
            clock=around.clock,
            random=around.random,
        )
        self._looks = _looks(share, around)
        self._keeper = map_keeper.MapKeeper(
            self._ledger,
            budget_bytes=share.config.flow.map_bytes,
            clock=around.clock,
            random=around.random,
        )
        self._opposite = around.clients.opposite()
        self._warned: tuple[str, ...] = ()
        self._plan: partition_setups.SourcePlan | None = None
        self._plan_due_s = 0.0
        self._next: tuple[setup.PartitionSetup, ...] | None = None
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
            raise errors.FatalError(self._around.plane.failure)
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
                raise errors.FatalError(f"fenced by another owner: {copy.taken_over}")

    def _take_messages(self, timeout_s: float) -> None:
        busy = self.copy is None or self._next is not None
        busy = busy or self._ledger.ledger.busy or (self.copy is not None and self.copy.busy)
        busy = busy or (self._around.syncs is not None and self._around.syncs.busy)
        wait_s = min(timeout_s, TURN_S) if busy else timeout_s
        for _ in range(MESSAGES_PER_TURN):
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
            self._plan_due_s = now_s + AGAIN_S
            return
        plan, self._plan = self._plan, None
        if share_plan.waits_for_map(plan, known):
            self._plan, self._plan_due_s = plan, now_s + stops.MAP_RETRY_S
        self._take_up(share_plan.settled(plan, known, added=self.share.added), now_s)

    def _take_up(self, plan: partition_setups.SourcePlan, now_s: float) -> None:
        running = () if self.copy is None else self.copy.settings.partitions
        later = share_plan.merged(running, plan)
        self.report.found(later.findings)
        self._warn((*plan.warnings, *later.troubles, *(each.message for each in later.findings)))
        if self.copy is not None and share_plan.same(running, later.partitions):
            return
        if self.copy is not None:
            self._next = later.partitions
            self._replace_by_s = now_s + REPLACE_S
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

    def _replace_stopped(self, copy: copy_supervisor.CopySupervisor, now_s: float) -> None:
        if copy.state is flow_status.TaskState.STOPPING and now_s >= self._replace_by_s:
            copy.abandon()
        if copy.state is not flow_status.TaskState.STOPPED:
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
        partitions: tuple[setup.PartitionSetup, ...],
        *,
        before: copy_supervisor.CopySupervisor | None,
    ) -> None:
        """With the live settings as they are by now."""
        around = self._around
        settings = self._configure(partitions)
        surroundings = copy_supervisor.Surroundings(
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
        self.copy = copy_supervisor.CopySupervisor(
            settings,
            surroundings,
            before=before,
            ahead=self._ahead.take(),
            given_s=max(self._began_s, around.clock.now_s() - CONFIRMED_S),
        )
        self.copy.pause(paused=self._resting)
        self.reason = ""
        around.assigned(settings.partitions)

    def _reach(self) -> reach.Reach:
        topics = sorted({each.topic for each in self.share.partitions})
        return reach.Reach(
            source=self._around.clients.source(),
            target=self._around.clients.target(),
            topics=tuple(topics),
            mirrors=tuple(map(self.share.config.flow.remote_topic, topics)),
        )

    def _configure(self, partitions: tuple[setup.PartitionSetup, ...]) -> messages.Configure:
        share, around = self.share, self._around
        return messages.Configure(
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

    def _streamed(self, items: Sequence[instructions.LogItem]) -> None:
        if self._around.syncs is not None:
            self._around.syncs.note(items)

    def _gauged(self, where: setup.PartitionSetup, gauge: messages.Gauge) -> None:
        self._keeper.observe(where, gauge)
        self._around.gauged(where, gauge)

    # The worker's hand

    def pause(self, *, paused: bool) -> None:
        self._resting = paused
        if self.copy is not None:
            self.copy.pause(paused=paused)

    def change(self, share: task_share.TaskShare) -> None:
        """The same share, with other live settings."""
        self.share = share
        if self.copy is not None:
            self.copy.throttle(share.budget.flow, share.budget.topics)
            self.copy.pause_topics(share.config.paused)

    def stop(self, timeout_s: float) -> None:
        """Settle what is on its way, or cut it off once `timeout_s` have passed. Whatever fails
        meanwhile, the copy ends, and all that was opened is closed."""
        until_s = self._around.clock.now_s() + timeout_s - CLOSE_S
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

    def _settle(self, copy: copy_supervisor.CopySupervisor, until_s: float) -> None:
        """Until it has ended, or is to be cut off."""
        clock = self._around.clock
        copy.stop(max(0.1, until_s - clock.now_s()))
        while not copy.ended and not self._abandoned:
            if clock.now_s() >= until_s or not self._ledger.ready:
                return
            self._take_messages(TURN_S)
            self._ledger.work()
            copy.tick(clock.now_s())
            copy.tell_stored()

    def _close_s(self) -> float:
        return 0.0 if self._abandoned else CLOSE_S / 2

    def abandon(self) -> None:
        """From another thread, while `stop` runs: cut everything off at once."""
        self._abandoned = True
        self._ahead.end("abandoned")
        copy = self.copy
        if copy is not None:
            copy.cut()


def _looks(share: task_share.TaskShare, around: Around) -> share_looks.ShareLooks:
    return share_looks.ShareLooks(
        share.config.flow,
        share.partitions,
        admins=around.clients.admins,
        operator=around.clients.operator(),
        clock=around.clock,
        name=f"{share.config.common.name}-{around.number}",
    )
