"""The status page of a process, while it runs: its pages among those that are served, its watch on
a thread of its own. It may fail without a word to those who copy."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator, MutableMapping

from connect_runtime.ports import pages
from connect_runtime.system import clock, threads
from mm2.app import version
from mm2.app.ui import children, questions, site, watch
from mm2.connectors import board

_STOP_S = 0.2

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def begun(
    running: watch.Running, reports: watch.Reports, served: MutableMapping[str, pages.Make]
) -> Iterator[None]:
    """While entered there is something to see; the pages come to those that are `served`."""
    now = clock.SystemClock()
    seen = watch.Watch(
        running,
        reports,
        release=version.VERSION,
        host=socket.gethostname(),
        pid=os.getpid(),
        clock=now,
    )
    asked = questions.Questions(children.run, clock=now)
    served.update(site.Site(seen, board.BOARD, asked).served())
    owned = threads.Threads(on_unasked_end=_tell_end)
    owned.start("status page", seen.run)
    try:
        yield
    finally:
        asked.stop()
        owned.stop_all(_STOP_S)


def _tell_end(end: threads.UnaskedEnd) -> None:
    _log.error("the status page has no picture of the last hour any more: %r", end.error)
