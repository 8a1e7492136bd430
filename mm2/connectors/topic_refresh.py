"""Looks at a running flow's topics again every so often: what is new there is mirrored, too.

A thread of its own, since brokers may take their time to answer; the flow takes up what was found.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from connect_runtime.base import clock, errors, log_context
from mm2.connectors import flow_changes, flow_status, source_connector, source_flow
from mm2.core import flows

TURN_S = 0.5
AGAIN_S = 60.0
"""What failed is tried again after this time, or sooner if the interval is shorter."""

_log = logging.getLogger(__name__)

MakeConnector = Callable[[flows.Flow], source_connector.SourceConnector]
"""One that changes nothing any more once the flow was asked to stop."""


class TopicRefresh:
    """As `refresh.topics.interval.seconds` says, of the configuration that is in force.

    `connect` makes a connector of this object's own, which the flow's thread never touches.
    """

    def __init__(
        self, running: source_flow.SourceFlow, *, connect: MakeConnector, now: clock.Clock
    ) -> None:
        self._running = running
        self._connect = connect
        self._clock = now
        self._flow: flows.Flow | None = None
        self._connector: source_connector.SourceConnector | None = None
        self._due_s = 0.0

    def run(self, stop: threading.Event) -> None:
        """The thread's body: until the flow has ended."""
        with log_context.within(flow=self._running.flow.name):
            try:
                while not self._running.ended and not stop.wait(TURN_S):
                    self.run_once()
            finally:
                self._disconnect()

    def run_once(self) -> None:
        flow, now_s = self._running.flow, self._clock.now_s()
        interval_s = flow.refresh_topics_interval_s
        if interval_s is None or self._running.status.state is not flow_status.FlowState.RUNNING:
            self._flow = None
            return
        if self._flow is None or not flow_changes.is_same(self._flow, flow):
            self._disconnect()  # it was just planned: by the flow's start, or by a reload
            self._flow, self._due_s = flow, now_s + interval_s
        if now_s >= self._due_s:
            done = self._look(flow)
            wait_s = interval_s if done else min(interval_s, AGAIN_S)
            self._due_s = self._clock.now_s() + wait_s

    def _look(self, flow: flows.Flow) -> bool:
        try:
            if self._connector is None:
                self._connector = self._connect(flow)
            plan = self._connector.plan(flow.admin_timeout_s)
            self._running.change(flow_changes.Refreshed(flow=flow, plan=plan))
        except errors.ConnectError as error:
            if self._running.stop_asked.is_set():
                return False
            _log.warning("looking for new topics: %s; what is mirrored goes on", error)
        else:
            return True
        return False

    def _disconnect(self) -> None:
        if self._connector is not None:
            self._connector.close()
            self._connector = None
