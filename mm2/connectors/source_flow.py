"""The driver of one flow: plans it, runs its tasks, keeps its ledger; one thread.

Until flows run on a Connect worker group this loop is their worker: fetch (messages, ledger),
decide (tasks), act. Its body is `run_once`. What changes while it runs comes from other threads
(`flow_changes`): tasks whose share of the partitions stays the same notice nothing of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from connect_runtime.base import backoff, clock, errors, ids, log_context
from mm2.connectors import (
    change_queue,
    flow_changes,
    flow_ledger,
    flow_report,
    flow_status,
    opposite_ids,
    source_connector,
    source_task,
)
from mm2.core import flows
from mm2.core.copy import messages
from mm2.core.topics import split
from mm2.pipeline import control_channel, control_server, engine

TURN_S = 0.05
MESSAGES_PER_TURN = 500
OPEN_S = 30.0
CHANGE_READ_S = 2.0
CHANGE_AGAIN_S = 5.0
"""What was looked up waits for the map: so long each time, and so long in between."""
SNAPSHOT_S = 0.5
STOP_S = 1.9
NO_TOPICS = "no topic matches"

_log = logging.getLogger(__name__)

Configure = Callable[
    [flows.Flow, source_connector.SourcePlan, Sequence[messages.Configure]],
    list[messages.Configure],
]
"""The tasks of a flow: anew, or, given those that run, with their numbers and as few changes as
can be."""


class SourceFlow:
    """Everything below is touched by the flow's own thread only, but for `status` (a frozen
    snapshot, replaced whole), `flow` (likewise), `stop_asked` and `change`.
    """

    def __init__(  # noqa: PLR0913 - all by keyword, each another part of the process
        self,
        flow: flows.Flow,
        *,
        connector: source_connector.SourceConnector,
        ledger: flow_ledger.FlowLedger,
        run_in: engine.CopyEngine,
        server: control_server.ControlServer,
        configure: Configure,
        opposite: opposite_ids.OppositeIds,
        now: clock.Clock,
        random: Random,
    ) -> None:
        self.flow = flow
        self.stop_asked = threading.Event()
        self._report = flow_report.FlowReport(flow.name)
        self._connector = connector
        self._ledger = ledger
        self._engine = run_in
        self._server = server
        self._configure = configure
        self._opposite = opposite
        self._clock = now
        self._random = random
        self._inbox = control_channel.Inbox()
        self._backoff = backoff.Backoff(initial_s=1.0, max_s=15.0)
        self._tasks: list[source_task.SourceTask] = []
        self._changes = change_queue.ChangeQueue()
        self._leaving: dict[int, tuple[messages.Configure | None, float]] = {}
        self._state = flow_status.FlowState.PLANNING
        self._reason = f"asking clusters {flow.source} and {flow.target}"
        self._broken: errors.ConnectError | None = None
        self._wait_until_s = 0.0
        self._snapshot_at_s = 0.0
        self._changes_due_s = 0.0
        self._stop_by_s = 0.0
        self._failed = ""

    @property
    def ended(self) -> bool:
        return self._state in (flow_status.FlowState.STOPPED, flow_status.FlowState.FAILED)

    def run(self, _stop: threading.Event) -> None:
        """The thread's body: until the flow has ended."""
        with log_context.within(flow=self.flow.name):
            try:
                while not self.ended:
                    self.run_once()
            finally:
                self._ledger.close(1.0)
                self._connector.close()
                self._changes.close()
                self._opposite.close()
                self._publish()

    def run_once(self) -> None:
        now_s = self._clock.now_s()
        if self._state is flow_status.FlowState.PLANNING:
            self._plan(now_s)
        else:
            self._work(now_s)
        if now_s >= self._snapshot_at_s:
            self._snapshot_at_s = now_s + SNAPSHOT_S
            self._publish()

    # Planning

    def _plan(self, now_s: float) -> None:
        if self.stop_asked.is_set():
            self._end(flow_status.FlowState.STOPPED, "stopped")
            return
        if now_s < self._wait_until_s:
            self.stop_asked.wait(min(TURN_S, self._wait_until_s - now_s))
            return
        try:
            self._ledger.open(OPEN_S)  # first: planning looks at what settings its topics have
            plan = self._connector.plan(self.flow.admin_timeout_s)
            plan = flow_changes.as_known(plan, self._ledger.catch_up(OPEN_S))
        except errors.RetriableError as error:
            delay_s = self._backoff.next_delay_s(self._random)
            self._wait_until_s = self._clock.now_s() + delay_s
            self._reason = str(error)
            if self.stop_asked.is_set():
                return
            _log.warning("%s; tried again in %.0f s", error, delay_s)
            return
        except errors.FatalError as error:
            _log.error("%s", error)
            self._end(flow_status.FlowState.FAILED, str(error))
            return
        if self.stop_asked.is_set():  # all this takes its time; another may have its place by now
            self._end(flow_status.FlowState.STOPPED, "stopped")
        else:
            self._begin(plan)

    def _surroundings(self) -> source_task.Surroundings:
        return source_task.Surroundings(
            engine=self._engine,
            server=self._server,
            inbox=self._inbox,
            ledger=self._ledger,
            random=self._random,
            log_broken=self._note_broken,
            whose=self._opposite.ask,
        )

    def _begin(self, plan: source_connector.SourcePlan) -> None:
        around = self._surroundings()
        self._found(plan.findings, plan.warnings)
        self._tasks = [
            source_task.SourceTask(settings, around)
            for settings in self._configure(self.flow, plan, ())
        ]
        self._state = flow_status.FlowState.RUNNING
        self._reason = "" if self._tasks else NO_TOPICS
        topics = len({each.topic for task in self._tasks for each in task.settings.partitions})
        _log.info("%d topics in %d tasks", topics, len(self._tasks))

    # Working

    def _work(self, now_s: float) -> None:
        self._take_messages()
        self._work_ledger()
        self._take_changes(now_s)
        now_s = self._clock.now_s()
        if self._broken is not None:
            self._mend(now_s)
            return
        for task in self._tasks:
            task.tick(now_s)
            task.tell_stored()
        self._replace_stopped(now_s)
        self._look_at_ends(now_s)

    def _take_messages(self) -> None:
        timeout_s = TURN_S
        for _ in range(MESSAGES_PER_TURN):
            taken = self._inbox.take(timeout_s)
            if taken is None:
                return
            channel, message = taken
            timeout_s = 0.0
            for task in self._tasks:
                if task.channel is channel:
                    task.received(message, self._clock.now_s())

    def _work_ledger(self) -> None:
        try:
            self._ledger.work(0.0)
        except errors.ConnectError as error:
            self._note_broken(error)

    def _note_broken(self, error: errors.ConnectError) -> None:
        if isinstance(error, flow_ledger.UnreadableError):
            self._failed = self._failed or str(error)
            return
        if self._broken is None:
            self._broken = error

    def _mend(self, now_s: float) -> None:
        """The flow's topics cannot be used: copies end, and go on once they can be again.

        What was refused in reading is refused again, and is no reason to open them for ever.
        """
        if self.stop_asked.is_set() or self._state is flow_status.FlowState.STOPPING:
            for task in self._tasks:
                task.stop()
                task.abandon()
            self._end_stopped(f"stopped; {self._broken}")
            return
        why = f"the flow's own topics on the target cannot be used: {self._broken}"
        for task in self._tasks:
            task.restart(why, now_s)
        if now_s < self._wait_until_s:
            self.stop_asked.wait(TURN_S)
            return
        try:
            self._ledger.open(OPEN_S)
            self._ledger.catch_up(OPEN_S)
        except errors.FatalError as error:
            _log.error("%s", error)
            self._end(flow_status.FlowState.FAILED, str(error))
        except errors.RetriableError as error:
            self._broken = error
            self._wait_until_s = self._clock.now_s() + self._backoff.next_delay_s(self._random)
            _log.warning("%s", why)
        else:
            self._broken = None
            self._backoff.reset()

    def _look_at_ends(self, now_s: float) -> None:
        if self._state is flow_status.FlowState.STOPPING:
            self._finish_stop(now_s)
        elif self.stop_asked.is_set():
            self._stop_tasks(now_s)
        else:
            fenced = [each for each in self._tasks if each.state is source_task.TaskState.FENCED]
            if fenced:
                self._failed = f"fenced by another owner: {fenced[0].reason}"
                _log.error("%s", self._failed)
                self._stop_tasks(now_s)
            elif self._failed:
                _log.error("%s", self._failed)
                self._stop_tasks(now_s)
            elif self._engine.state is engine.EngineState.FAILED:
                self._failed = f"the engine has failed: {self._engine.failure}"
                self._stop_tasks(now_s)

    def _stop_tasks(self, now_s: float) -> None:
        self._state = flow_status.FlowState.STOPPING
        self._stop_by_s = now_s + STOP_S
        for task in self._tasks:
            task.stop_even_if_fenced()

    def _finish_stop(self, now_s: float) -> None:
        if now_s >= self._stop_by_s:
            for task in self._tasks:
                task.abandon()
        if all(task.ended for task in self._tasks):
            self._end_stopped("stopped")

    def _end_stopped(self, reason: str) -> None:
        state = flow_status.FlowState.FAILED if self._failed else flow_status.FlowState.STOPPED
        self._end(state, self._failed or reason)

    def _end(self, state: flow_status.FlowState, reason: str) -> None:
        self._state = state
        self._reason = reason
        self._publish()

    # Change

    def change(self, change: flow_changes.Change) -> None:
        """From any thread. Raises as `change_queue.ChangeQueue.put`."""
        self._changes.put(change)

    def _take_changes(self, now_s: float) -> None:
        running = self._state is flow_status.FlowState.RUNNING and not self._leaving
        if not running or now_s < self._changes_due_s:
            return
        change = self._changes.take()
        match change:
            case flow_changes.Rebudget(budgets=budgets):
                self.flow = replace(self.flow, budgets=budgets)
                self._rebudget()
            case flow_changes.Refreshed(flow=flow) if not flow_changes.is_same(flow, self.flow):
                pass  # a look that began before another configuration came
            case flow_changes.Adopt() | flow_changes.Refreshed():
                self._take_up(change)

    def _rebudget(self) -> None:
        shares = [
            [ids.TopicPartition(each.topic, each.partition) for each in task.settings.partitions]
            for task in self._tasks
        ]
        for task, budget in zip(self._tasks, split.budgets(self.flow.budgets, shares), strict=True):
            task.throttle(budget.flow, budget.topics)

    def _by_number(self, number: int) -> source_task.SourceTask:
        return next(each for each in self._tasks if each.settings.task == number)

    def _take_up(self, change: flow_changes.Adopt | flow_changes.Refreshed) -> None:
        """What was looked up, as the flow's map has it; until that can be read, `change` waits."""
        try:
            plan = flow_changes.as_known(change.plan, self._ledger.catch_up(CHANGE_READ_S))
        except errors.ConnectError as error:
            if flow_ledger.is_broken_by(error):
                self._note_broken(error)
            else:
                _log.warning("%s; what was looked up is taken up later", error)
            self._changes_due_s = self._clock.now_s() + CHANGE_AGAIN_S
            self._changes.postpone(change)
            return
        copied = [each for task in self._tasks for each in task.settings.partitions]
        if isinstance(change, flow_changes.Adopt):
            self._connector.close()
            self.flow, self._connector = change.flow, change.connector
            later = flow_changes.adopted(copied, plan)
        else:
            known = {*self._report.found_topics, *(each.topic for each in copied)}
            later = flow_changes.merged(copied, plan, known=known)
        for line in later.news:
            _log.info("%s", line)
        self._found(later.findings, later.warnings)
        self._share_out(replace(plan, partitions=later.partitions))

    def _found(self, findings: Sequence[source_connector.Finding], warnings: Sequence[str]) -> None:
        for line in self._report.found(findings, warnings):
            _log.warning("%s", line)

    def _share_out(self, plan: source_connector.SourcePlan) -> None:
        """Stop the tasks whose share changes; `_replace_stopped` starts them again."""
        before = [each.settings for each in self._tasks]
        wanted = {each.task: each for each in self._configure(self.flow, plan, before)}
        self._reason = "" if wanted else NO_TOPICS
        until_s = self._clock.now_s() + STOP_S
        for task in self._tasks:
            after = wanted.pop(task.settings.task, None)
            if after is not None and flow_changes.same_share(after, task.settings):
                task.throttle(after.throttle_bytes_s, after.topic_throttles)
            else:
                self._leaving[task.settings.task] = (after, until_s)
                task.stop()
        around = self._surroundings()
        self._tasks += [source_task.SourceTask(each, around) for each in wanted.values()]

    def _replace_stopped(self, now_s: float) -> None:
        if not self._leaving or self._state is not flow_status.FlowState.RUNNING:
            return
        for number, (after, until_s) in list(self._leaving.items()):
            task = self._by_number(number)
            if now_s >= until_s and not task.ended:
                task.abandon()
            if task.state is not source_task.TaskState.STOPPED:
                continue
            del self._leaving[number]
            self._report.forget(number)
            at = self._tasks.index(task)
            if after is None:
                del self._tasks[at]
            else:
                self._tasks[at] = source_task.SourceTask(after, self._surroundings(), before=task)

    # What others see

    @property
    def settled(self) -> bool:
        """Has every change taken effect?"""
        return self._changes.empty and not self._leaving

    @property
    def status(self) -> flow_status.FlowStatus:
        return self._report.status

    def _publish(self) -> None:
        missing = self._slots_missing() if self._state is flow_status.FlowState.RUNNING else 0
        self._report.publish(self._state, self._reason, self._tasks, slots_missing=missing)

    def _slots_missing(self) -> int:
        """This flow's part of the slots that the engine lacks."""
        waiting = sum(each.state is source_task.TaskState.WAITING_FOR_SLOT for each in self._tasks)
        return min(waiting, self._engine.slots().missing)
