"""What is told while something goes on."""

from __future__ import annotations

import io

from rich import console

from mm2.sandbox.scenarios.progress_printer import ProgressPrinter


class SteppingClock:
    def __init__(self) -> None:
        self.at_s = 100.0

    def now_s(self) -> float:
        return self.at_s

    def wall_ms(self) -> int:
        raise AssertionError


def told(*, terminal: bool) -> str:
    out, clock = io.StringIO(), SteppingClock()
    tell = ProgressPrinter(
        clock, console.Console(file=out, force_terminal=terminal, highlight=False, width=40)
    )
    tell.show_activity("starting [it]")
    tell.show_activity("waiting")
    clock.at_s += 2.5
    tell.print_step("it is up at [::1]:9092, with a line that is longer than the terminal is wide")
    tell.show_activity("going on")
    tell.close()
    return out.getvalue()


def test_without_a_terminal_only_steps_are_told():
    assert told(terminal=False) == (
        "   2.5 s  it is up at [::1]:9092, with a line that is longer than the terminal is wide\n"
    )


def test_on_a_terminal_what_goes_on_is_told_and_the_cursor_comes_back():
    shown = told(terminal=True)
    assert "starting [it]" in shown or "waiting" in shown
    assert "it is up at [::1]:9092" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 2
