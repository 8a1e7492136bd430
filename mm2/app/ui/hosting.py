"""The status page of a process, while it runs: its pages among those that are served, its watch on
a thread of its own. It may fail without a word to those who copy."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator

from connect_runtime.system import clock, threads
from mm2.app import version
from mm2.app.ui import children, questions, site, watch
from mm2.connectors import board

_STOP_S = 0.2

_log = logging.getLogger(__name__)


class StatusPage:
    """`served` are its pages, by path."""

    def __init__(self, running: watch.Running, reports: watch.Reports) -> None:
        now = clock.SystemClock()
        self._watch = watch.Watch(
            running,
            reports,
            release=version.VERSION,
            host=socket.gethostname(),
            pid=os.getpid(),
            clock=now,
        )
        self._questions = questions.Questions(children.run, clock=now)
        self.served = site.Site(self._watch, board.BOARD, self._questions).served()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """While entered the pictures of the last hour go on."""
        owned = threads.Threads(on_unasked_end=_tell_end)
        owned.start("status page", self._watch.run)
        try:
            yield
        finally:
            self._questions.stop()
            owned.stop_all(_STOP_S)


def _tell_end(end: threads.UnaskedEnd) -> None:
    _log.error("the status page has no picture of the last hour any more: %r", end.error)
