"""Prints the progress of a long command on stderr: one line per completed step, and a status line
at the bottom that is updated in place."""

from __future__ import annotations

import contextlib
import sys

from rich import console, status
from rich.markup import escape

from connect_runtime.base import terminal_escape
from connect_runtime.base.clock_and_deadline import Clock


class ProgressPrinter:
    """Prints steps with the elapsed seconds. `show_activity` updates the line below the steps.

    If stderr is not a terminal, only steps are printed.
    """

    def __init__(self, now: Clock, out: console.Console | None = None) -> None:
        self._clock = now
        self._start_s = now.now_s()
        self._console = out or console.Console(file=sys.stderr, highlight=False)
        self._status: status.Status | None = None
        self._open = contextlib.ExitStack()

    def print_step(self, text: str) -> None:
        """Print a completed step with the elapsed time."""
        self._stop_activity_display()
        self._console.print(f"{self.elapsed_s:6.1f} s  {_escape_text(text)}", soft_wrap=True)

    def show_activity(self, text: str) -> None:
        """Show the current activity in the status line below the steps."""
        if not self._console.is_terminal:
            return
        if self._status is None:
            self._status = self._open.enter_context(self._console.status(_escape_text(text)))
        else:
            self._status.update(_escape_text(text))

    def close(self) -> None:
        """Remove the status line and restore the terminal."""
        self._stop_activity_display()

    @property
    def elapsed_s(self) -> float:
        return self._clock.now_s() - self._start_s

    def _stop_activity_display(self) -> None:
        self._open.close()
        self._status = None


def _escape_text(text: str) -> str:
    """Escape control sequences and `rich` markup so that the text is printed literally."""
    return escape(terminal_escape.escape_unprintable(text))
