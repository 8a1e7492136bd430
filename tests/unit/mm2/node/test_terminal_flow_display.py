from __future__ import annotations

import dataclasses
import io
import logging

from rich import console

from mm2.connectors.status_registry import FlowState
from mm2.node import terminal_flow_display
from mm2.node.terminal_flow_display import LineDisplay, LiveDisplay
from mm2.status import topic_rows
from mm2.status.catch_up_progress import CatchUpTracker
from mm2.status.live_flow_table import LiveTableContent
from mm2.status.topic_rows import CopyRates
from tests.support import statuses


def frame(*flows):
    seen = topic_rows.make_overview(flows, CopyRates(), wall_ms=0, engine_ready=True)
    return LiveTableContent(overview=seen)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_flow_that_runs_gets_a_line_once_a_minute_while_it_says_something_new(caplog):
    display = LineDisplay()

    def flows(records):
        planning = statuses.flow(name="west->east", state=FlowState.PLANNING)
        return frame(statuses.flow(statuses.partition(source_end=records)), planning)

    with caplog.at_level(logging.INFO):
        for second, records in ((-10.0, 9), (0.0, 0), (59.9, 2), (60.0, 3), (70.0, 4), (120.0, 3)):
            display.show_frame(flows(records), 100.0 + second)
        assert len(caplog.messages) == 2, "its state is logged by others"
        display.show_frame(flows(5), 100.0 + 121.0)
    display.close()
    assert all(each.startswith("east->west: RUNNING, 1 task running") for each in caplog.messages)
    assert [each.partition("lag ")[2] for each in caplog.messages] == [
        "0 records, 0 s",
        ">3 records, -",
        ">5 records, -",
    ]
    assert "0.0 MB/s" in caplog.messages[0]


def test_where_figures_are_served_as_metrics_none_are_logged(caplog):
    display = terminal_flow_display.choose_display(table_wanted=False, log_figures=False)
    seen = CatchUpTracker().observe([statuses.flow(statuses.partition())], 0.0)
    with caplog.at_level(logging.INFO):
        display.show_frame(frame(statuses.flow(statuses.partition())), 0.0)
        assert caplog.messages == []
        whole = dataclasses.replace(frame(), progress=seen)
        for second in (0.0, 5.0, 10.0):
            display.show_frame(whole, second)
    assert caplog.messages == ["until caught up: 100 %, 1 of 1 partition, 0 of 0 records"], (
        "the same is not said again"
    )


def test_no_terminal_gets_lines(capsys):
    assert isinstance(terminal_flow_display.choose_display(table_wanted=True), LineDisplay)


def test_a_terminal_gets_the_table_unless_it_is_not_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", Terminal())
    assert isinstance(terminal_flow_display.choose_display(table_wanted=True), LiveDisplay)
    assert isinstance(terminal_flow_display.choose_display(table_wanted=False), LineDisplay)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(terminal_flow_display.choose_display(table_wanted=True), LineDisplay)


def test_log_lines_are_printed_above_the_table_and_go_back_to_stderr(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out, errors = Terminal(), Terminal()
    handler = logging.StreamHandler(errors)
    logging.getLogger().addHandler(handler)
    try:
        display = LiveDisplay(console.Console(file=out, width=120, height=30))
        display.show_frame(frame(statuses.flow(statuses.partition())), 0.0)
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
        display = LiveDisplay(console.Console(file=out, width=120, height=30))
        display.show_frame(frame(statuses.flow(statuses.partition())), 0.0)
        logging.getLogger("mm2").warning("to the file")
        display.close()
    finally:
        logging.getLogger().removeHandler(handler)
    assert elsewhere.getvalue() == "to the file\n"
    assert "to the file" not in out.getvalue()


def test_the_cursor_comes_back(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    terminal_flow_display.restore_terminal()
    assert terminal.getvalue() == "\x1b[?25h"
