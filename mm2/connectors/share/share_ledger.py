"""The ledger of one task, opened, and opened again where the flow's topics could not be used."""

from __future__ import annotations

import enum
import logging
from random import Random

from connect_runtime.base import backoff, errors
from connect_runtime.base import clock as base_clock
from mm2.cluster import flow_log_topics
from mm2.connectors import complaints
from mm2.connectors.share import flow_ledger
from mm2.core import commands
from mm2.core.offsets import offset_map

ATTEMPT_S = 4.0
"""To open or read: who stops the task waits no longer than that."""
TROUBLE = "the flow's own topics on the target cannot be used"
_LOG = logging.getLogger(__name__)


class _Stage(enum.Enum):
    CLOSED = "closed"
    READING = "reading"
    READY = "ready"


class ShareLedger:
    """One thread's. `trouble` says why it is not ready; "" while it is."""

    def __init__(
        self, ledger: flow_ledger.FlowLedger, *, clock: base_clock.Clock, random: Random
    ) -> None:
        self.ledger = ledger
        self.trouble = "reading the flow's own topics on the target"
        self._clock = clock
        self._random = random
        self._stage = _Stage.CLOSED
        self._backoff = backoff.Backoff(initial_s=0.5, max_s=15.0)
        self._due_s = 0.0
        self._complaints = complaints.Complaints(_LOG, clock=clock)
        self._closing = False

    @property
    def ready(self) -> bool:
        return self._stage is _Stage.READY

    def tend(self) -> None:
        """Open it, or go on reading, if that is due. Raises `FatalError` where it is refused."""
        if self.ready or self._clock.now_s() < self._due_s:
            return
        try:
            if self._stage is _Stage.CLOSED:
                self.ledger.open(ATTEMPT_S)
                self._stage = _Stage.READING
            self.ledger.catch_up(ATTEMPT_S)
        except (errors.RetriableError, flow_log_topics.MisconfiguredTopicError) as error:
            if flow_ledger.is_broken_by(error):
                self._stage = _Stage.CLOSED
            self._wait(error)
            return
        self._stage = _Stage.READY
        self.trouble = ""
        self._backoff.reset()
        self._complaints.over(TROUBLE)

    def work(self) -> None:
        """Answer questions, run callbacks."""
        try:
            self.ledger.work(0.0)
        except errors.ConnectError as error:
            self.broken(error)

    def known(self, timeout_s: float = ATTEMPT_S) -> offset_map.OffsetMap | None:
        """The map as of now; None when it cannot be read now."""
        try:
            return self.ledger.catch_up(timeout_s)
        except errors.ConnectError as error:
            if flow_ledger.is_broken_by(error):
                self.broken(error)
            return None

    def broken(self, error: errors.ConnectError) -> None:
        """It must be opened again."""
        self._stage = _Stage.CLOSED
        self._wait(error)

    def _wait(self, error: errors.ConnectError) -> None:
        before, self.trouble = self.trouble, f"{TROUBLE}: {error}"
        self._due_s = self._clock.now_s() + self._backoff.next_delay_s(self._random)
        if not self._closing:
            self._complaints.say(TROUBLE, commands.with_note(str(error), "Retrying."))
        elif self.trouble != before:  # each record says so
            _LOG.info("who goes on finds out what was copied last: %s", error)

    def close(self, timeout_s: float) -> None:
        self._closing = True
        self.ledger.close(timeout_s)
