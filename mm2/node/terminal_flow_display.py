"""Displays running flows: a live table on a terminal, log lines otherwise.

Log lines are written to stderr and the table to stdout. If both are the same terminal, log lines
are printed above the table.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import NoReturn, Protocol

from rich import console, file_proxy, live

from mm2.connectors.status_registry import FlowState
from mm2.status import live_flow_table
from mm2.status.live_flow_table import LiveTableContent

SUMMARY_INTERVAL_S = 60.0
FIRST_SUMMARY_DELAY_S = 10.0
"""Delay of the first log line of a flow in seconds, because rates and lag are unknown right after
the start."""
PROGRESS_INTERVAL_S = 10.0

_log = logging.getLogger(__name__)


class FlowDisplay(Protocol):
    """Displays the status of all flows. `show_frame` shows a new status; `close` ends the display
    and is idempotent."""

    def show_frame(self, frame: LiveTableContent, now_s: float) -> None: ...

    def close(self) -> None: ...


class LineDisplay:
    """Logs one line per running flow every minute. With `--until-caught-up`, also logs the progress
    every ten seconds.

    A line that is the same as the flow's previous line is omitted. State changes are logged by
    `RunLoop`.
    """

    def __init__(self, *, log_figures: bool = True) -> None:
        """Create a display that logs lines. If `log_figures` is False, the lines per flow are
        omitted, because the same figures are exposed as metrics."""
        self._figures = log_figures
        self._next_s: dict[str, float] = {}
        self._last: dict[str, str] = {}

    def show_frame(self, frame: LiveTableContent, now_s: float) -> None:
        for row in frame.overview.flows:
            if self._figures and row.state is FlowState.RUNNING:
                self._next_s.setdefault(row.flow, now_s + FIRST_SUMMARY_DELAY_S)
                self._log_line(
                    row.flow,
                    live_flow_table.describe_flow(row),
                    now_s,
                    interval_s=SUMMARY_INTERVAL_S,
                )
        if frame.progress is not None:
            line = live_flow_table.describe_progress(frame.progress)
            self._log_line("until caught up", line, now_s, interval_s=PROGRESS_INTERVAL_S)

    def _log_line(self, subject: str, text: str, now_s: float, *, interval_s: float) -> None:
        if now_s < self._next_s.get(subject, now_s) or self._last.get(subject) == text:
            return
        self._next_s[subject], self._last[subject] = now_s + interval_s, text
        _log.info("%s: %s", subject, text)

    def close(self) -> None:
        """Do nothing, because there are no resources to release."""


class LiveDisplay:
    """A table on the terminal that is redrawn with each frame. After `close`, the last frame
    remains visible."""

    def __init__(self, out: console.Console) -> None:
        self._console = out
        self._live = live.Live(
            console=out, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._open = contextlib.ExitStack()
        self._started = False

    def show_frame(self, frame: LiveTableContent, now_s: float) -> None:
        if not self._started:
            self._started = True
            self._open.enter_context(self._live)
            self._open.enter_context(_print_logs_above_table(self._console))
        size = self._console.size
        picture = live_flow_table.render_table(frame, width=size.width, height=size.height)
        self._live.update(picture, refresh=True)

    def close(self) -> None:
        self._open.close()


def choose_display(*, table_wanted: bool, log_figures: bool = True) -> FlowDisplay:
    """Choose the display for this process's stdout. If `log_figures` is False, `LineDisplay` omits
    the lines per flow."""
    out = console.Console(file=sys.stdout)
    if table_wanted and out.is_terminal and not out.is_dumb_terminal:
        return LiveDisplay(out)
    return LineDisplay(log_figures=log_figures)


def restore_terminal() -> None:
    """Show the terminal's cursor again if the live table could not do so. Safe in signal
    handlers."""
    with contextlib.suppress(OSError, AttributeError):
        if sys.stdout.isatty():
            sys.stdout.write("\x1b[?25h")
            sys.stdout.flush()


def exit_process_immediately(code: int) -> NoReturn:
    """Restore the terminal's cursor, and exit the process without any other cleanup. Safe in signal
    handlers."""
    restore_terminal()
    os._exit(code)


@contextlib.contextmanager
def _print_logs_above_table(out: console.Console) -> Iterator[None]:
    """Redirect the terminal's log handlers to the console that draws the table, inside a `with`
    block."""
    redirected = []
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream.isatty():
            redirected.append((handler, handler.stream))
            handler.setStream(file_proxy.FileProxy(out, handler.stream))
    try:
        yield
    finally:
        for handler, stream in redirected:
            handler.setStream(stream)
