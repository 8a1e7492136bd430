from __future__ import annotations

import io
import logging

from rich import console

from mm2.app import displays, overview, rates, table
from tests.support import statuses


def frame(*flows):
    seen = overview.make(flows, rates.Rates(), wall_ms=0, engine_ready=True)
    return table.Frame(seen=seen)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_come_every_ten_seconds_for_every_flow(caplog):
    display = displays.LineDisplay()
    flows = frame(statuses.flow(statuses.partition()), statuses.flow(name="west->east"))
    with caplog.at_level(logging.INFO):
        for second in (0.0, 0.5, 9.9, 10.0, 11.0):
            display.show(flows, 100.0 + second)
    display.close()
    assert len(caplog.messages) == 4
    assert caplog.messages[0].startswith("east->west: RUNNING, 1 task running")
    assert caplog.messages[1].startswith("west->east: ")


def test_no_terminal_gets_lines(capsys):
    assert isinstance(displays.choose(table_wanted=True), displays.LineDisplay)


def test_a_terminal_gets_the_table_unless_it_is_not_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", Terminal())
    assert isinstance(displays.choose(table_wanted=True), displays.LiveDisplay)
    assert isinstance(displays.choose(table_wanted=False), displays.LineDisplay)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(displays.choose(table_wanted=True), displays.LineDisplay)


def test_log_lines_are_printed_above_the_table_and_go_back_to_stderr(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out, errors = Terminal(), Terminal()
    handler = logging.StreamHandler(errors)
    logging.getLogger().addHandler(handler)
    try:
        display = displays.LiveDisplay(console.Console(file=out, width=120, height=30))
        display.show(frame(statuses.flow(statuses.partition())), 0.0)
        logging.getLogger("mm2").warning("while it is there: [red]")
        assert "while it is there: [red]" in out.getvalue()
        assert errors.getvalue() == ""
        display.close()
        display.close()
        logging.getLogger("mm2").warning("afterwards")
        assert errors.getvalue() == "afterwards\n"
    finally:
        logging.getLogger().removeHandler(handler)


def test_a_log_that_goes_elsewhere_stays_there(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out, elsewhere = Terminal(), io.StringIO()
    handler = logging.StreamHandler(elsewhere)
    logging.getLogger().addHandler(handler)
    try:
        display = displays.LiveDisplay(console.Console(file=out, width=120, height=30))
        display.show(frame(statuses.flow(statuses.partition())), 0.0)
        logging.getLogger("mm2").warning("to the file")
        display.close()
    finally:
        logging.getLogger().removeHandler(handler)
    assert elsewhere.getvalue() == "to the file\n"
    assert "to the file" not in out.getvalue()


def test_the_cursor_comes_back(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    displays.restore_terminal()
    assert terminal.getvalue() == "\x1b[?25h"
