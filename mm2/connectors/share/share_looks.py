"""Looks at a task's topics, on a thread of its own: brokers may take their time to answer.

The first look says what can be copied at all, later ones what has changed since. The task takes up
what was found when it comes round.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids, log_context
from connect_runtime.system import threads
from mm2.cluster import admin
from mm2.connectors import complaints
from mm2.connectors.topics import partition_setups
from mm2.core import commands, flows

AGAIN_S = 60.0
"""What failed, or must not be copied, is looked at again after this time, or sooner if the interval
is shorter."""
FIRST_AGAIN_S = 2.0
LOOKING = "looking at topics"
_LOG = logging.getLogger(__name__)

Admins = Callable[[], tuple[admin.Admin, admin.Admin]]
"""The source's and the target's, made anew; may raise `FatalError`."""


class ShareLooks:
    """`take`, `reason` and `failure` are for the task's thread."""

    def __init__(
        self,
        flow: flows.Flow,
        share: Collection[ids.TopicPartition],
        *,
        admins: Admins,
        operator: commands.Operator,
        clock: base_clock.Clock,
        name: str,
    ) -> None:
        self.reason = f"asking clusters {flow.source} and {flow.target}"
        """Why there is no first look yet."""
        self.failure: errors.FatalError | None = None
        """Why there will be none."""
        self._flow = flow
        self._share = tuple(share)
        self._admins = admins
        self._operator = operator
        self._clock = clock
        self._name = name
        self._lock = threading.Lock()
        self._found: partition_setups.SourcePlan | None = None
        self._looked = False
        self._complaints = complaints.Complaints(_LOG, clock=clock)
        self._threads = threads.Threads(on_unasked_end=self._ended)

    def start(self) -> None:
        self._threads.start(f"topics {self._name}", self._run)

    def take(self) -> partition_setups.SourcePlan | None:
        """What the newest look found, once."""
        with self._lock:
            found, self._found = self._found, None
        return found

    def stop(self) -> None:
        """Ask it to end; it does once brokers have answered."""
        self._threads.stop_all(0.0)

    def _run(self, stop: threading.Event) -> None:
        with log_context.within(flow=self._flow.name):
            while not stop.is_set():
                stop.wait(self._look(stop))

    def _look(self, stop: threading.Event) -> float | None:
        """Returns after how many seconds the next one is due, None for never."""
        interval_s = self._flow.refresh_topics_interval_s
        again_s = min(AGAIN_S, interval_s or AGAIN_S)
        try:
            found = self._ask(stop)
        except errors.RetriableError as error:
            self.reason = str(error)
            if not stop.is_set():
                self._complaints.say(LOOKING, f"{error}; it is tried again")
            return again_s if self._looked else min(FIRST_AGAIN_S, again_s)
        except errors.FatalError as error:
            if not self._looked:
                self.failure = error
                return None
            self._complaints.say(LOOKING, f"{error}; what is mirrored goes on")
            return again_s
        self._complaints.over(LOOKING)
        with self._lock:
            self._found = found
        self._looked = True
        return again_s if found.findings else interval_s

    def _ask(self, stop: threading.Event) -> partition_setups.SourcePlan:
        source, target = self._admins()
        try:
            setups = partition_setups.PartitionSetups(
                self._flow, source=source, target=target, now=self._clock, operator=self._operator
            )
            return setups.look(self._share, self._flow.admin_timeout_s, pause=stop.wait)
        finally:
            source.close()
            target.close()

    def _ended(self, end: threads.UnaskedEnd) -> None:
        self.failure = errors.FatalError(f"looking at topics ended: {end.error!r}")
