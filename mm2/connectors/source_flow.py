"""The driver of one flow: plans it, runs its tasks, keeps its ledger; one thread.

Until flows run on a Connect worker group this loop is their worker: fetch (messages, ledger),
decide (tasks), act. Its body is `run_once`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from random import Random

from connect_runtime.base import backoff, clock, errors, log_context
from mm2.connectors import flow_ledger, flow_report, flow_status, source_connector, source_task
from mm2.core import flows
from mm2.core.copy import messages, start_positions
from mm2.pipeline import control_channel, control_server, engine

TURN_S = 0.05
MESSAGES_PER_TURN = 500
OPEN_S = 30.0
SNAPSHOT_S = 0.5
STOP_S = 1.9

_log = logging.getLogger(__name__)


class SourceFlow:
    """Everything below is touched by the flow's own thread only, but for `status` (a frozen
    snapshot, replaced whole), `stop_asked` and `throttle`.
    """

    def __init__(
        self,
        flow: flows.Flow,
        *,
        connector: source_connector.SourceConnector,
        ledger: flow_ledger.FlowLedger,
        run_in: engine.CopyEngine,
        server: control_server.ControlServer,
        configure: Callable[[source_connector.SourcePlan], list[messages.Configure]],
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
        self._clock = now
        self._random = random
        self._inbox = control_channel.Inbox()
        self._backoff = backoff.Backoff(initial_s=1.0, max_s=15.0)
        self._tasks: list[source_task.SourceTask] = []
        self._state = flow_status.FlowState.PLANNING
        self._reason = f"asking clusters {flow.source} and {flow.target}"
        self._broken: errors.ConnectError | None = None
        self._wait_until_s = 0.0
        self._snapshot_at_s = 0.0
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
            known = self._ledger.catch_up(OPEN_S)
        except errors.RetriableError as error:
            delay_s = self._backoff.next_delay_s(self._random)
            self._wait_until_s = self._clock.now_s() + delay_s
            self._reason = str(error)
            _log.warning("%s; tried again in %.0f s", error, delay_s)
            return
        except errors.FatalError as error:
            _log.error("%s", error)
            self._end(flow_status.FlowState.FAILED, str(error))
            return
        partitions = start_positions.settled(plan.partitions, known)
        self._begin(replace(plan, partitions=partitions))

    def _begin(self, plan: source_connector.SourcePlan) -> None:
        around = source_task.Surroundings(
            engine=self._engine,
            server=self._server,
            inbox=self._inbox,
            ledger=self._ledger,
            random=self._random,
            log_broken=self._note_broken,
        )
        self._report.found(plan.findings)
        self._tasks = [
            source_task.SourceTask(settings, around) for settings in self._configure(plan)
        ]
        self._state = flow_status.FlowState.RUNNING
        self._reason = "" if self._tasks else "no topic matches"
        topics = len({each.topic for task in self._tasks for each in task.settings.partitions})
        _log.info("%d topics in %d tasks", topics, len(self._tasks))

    # Working

    def _work(self, now_s: float) -> None:
        self._take_messages()
        self._work_ledger()
        now_s = self._clock.now_s()
        if self._broken is not None:
            self._mend(now_s)
            return
        for task in self._tasks:
            task.tick(now_s)
            task.tell_stored()
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
        """The map topic cannot be written: copies end, and go on when it can be again."""
        if self.stop_asked.is_set():
            for task in self._tasks:
                task.stop()
                task.abandon()
            self._end(flow_status.FlowState.STOPPED, f"stopped; {self._broken}")
            return
        why = f"the flow's own topics on the target cannot be used: {self._broken}"
        for task in self._tasks:
            task.restart(why, now_s)
        if now_s < self._wait_until_s:
            self.stop_asked.wait(TURN_S)
            return
        try:
            self._ledger.open(OPEN_S)
        except errors.FatalError as error:
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
                self._failed = (
                    f"fenced by another owner: {fenced[0].reason}. Another mm2 process runs flow "
                    f"{self.flow.name}: run each flow once"
                )
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
            state = flow_status.FlowState.FAILED if self._failed else flow_status.FlowState.STOPPED
            self._end(state, self._failed or "stopped")

    def _end(self, state: flow_status.FlowState, reason: str) -> None:
        self._state = state
        self._reason = reason
        self._publish()

    # What others see

    @property
    def status(self) -> flow_status.FlowStatus:
        return self._report.status

    def _publish(self) -> None:
        running = self._state is flow_status.FlowState.RUNNING
        missing = self._slots_missing() if running else 0
        self._report.publish(self._state, self._reason, self._tasks, slots_missing=missing)

    def _slots_missing(self) -> int:
        """This flow's part of the slots that the engine lacks."""
        waiting = sum(each.state is source_task.TaskState.WAITING_FOR_SLOT for each in self._tasks)
        return min(waiting, self._engine.slots().missing)
