from __future__ import annotations

import io
import json
import logging
import warnings

import pytest

from connect_runtime.app import log_format
from connect_runtime.base import log_context

LOGGER = logging.getLogger("tests.logs")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def record(message: str = "hello", seconds: float = 0.0) -> logging.LogRecord:
    made = logging.LogRecord("a.b", logging.INFO, "f.py", 1, message, None, None)
    made.created = seconds
    return made


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_769_846_400.1239, "2026-01-31T08:00:00.123Z"),
        (1_769_846_400.0, "2026-01-31T08:00:00.000Z"),
    ],
)
def test_moments_are_utc_with_milliseconds(seconds, text):
    assert log_format.format_utc_timestamp(seconds) == text


def test_text_lines(stream):
    log_format.configure_logging(log_format.TEXT_FORMAT, stream=stream)
    with log_context.bind_log_fields(flow="east->west", task=3):
        LOGGER.info("caught up at %d", 7)
    line = stream.getvalue()
    assert line.endswith("Z INFO tests.logs: [east->west|task 3] caught up at 7\n")


def test_a_line_without_context_needs_no_filter():
    line = log_format.build_formatter(log_format.TEXT_FORMAT).format(record())
    assert line == "1970-01-01T00:00:00.000Z INFO a.b: hello"


def test_json_lines(stream):
    log_format.configure_logging(log_format.JSON_FORMAT, stream=stream)
    with log_context.bind_log_fields(flow="east->west", connector="MirrorSourceConnector", task=3):
        LOGGER.warning('two\nlines and "quotes"')
    try:
        raise ValueError("boom")  # noqa: TRY301 - the trace is what is tested
    except ValueError:
        LOGGER.exception("failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["message"] == 'two\nlines and "quotes"'
    assert first["level"] == "WARNING"
    assert first["logger"] == "tests.logs"
    assert (first["flow"], first["connector"], first["task"]) == (
        "east->west",
        "MirrorSourceConnector",
        3,
    )
    assert "exception" not in first
    assert "ValueError: boom" in second["exception"]
    assert second.keys() == {"time", "level", "logger", "message", "exception"}


def test_json_lines_say_what_a_call_says_it_is_about(stream):
    log_format.configure_logging(log_format.JSON_FORMAT, stream=stream)
    with log_context.bind_log_fields(flow="a->b", topic="old"):
        LOGGER.info("halted", extra={"topic": "orders", "partition": 7, "operator": ""})
    (line,) = (json.loads(each) for each in stream.getvalue().splitlines())
    assert (line["flow"], line["topic"], line["partition"]) == ("a->b", "orders", 7)
    assert "operator" not in line


def test_levels_and_a_second_call(stream):
    log_format.configure_logging(log_format.JSON_FORMAT, stream=io.StringIO())
    log_format.configure_logging(log_format.TEXT_FORMAT, level=logging.WARNING, stream=stream)
    LOGGER.info("unheard")
    LOGGER.warning("heard")
    assert stream.getvalue().count("\n") == 1
    assert "heard" in stream.getvalue()


def test_warnings_become_log_lines(stream):
    log_format.configure_logging(log_format.TEXT_FORMAT, stream=stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert "DeprecationWarning: old" in stream.getvalue()


def test_what_others_chose_cannot_control_a_terminal_or_forge_a_line(stream):
    name = "g\x1b]52;c;aGk=\x07\u202e\n2026-01-31T08:00:00.123Z INFO forged"
    log_format.configure_logging(log_format.TEXT_FORMAT, stream=stream)
    with log_context.bind_log_fields(topic=name):
        LOGGER.info("group %s", name)
    lines = stream.getvalue().splitlines()
    assert all(line.isprintable() for line in lines)
    assert all(line.startswith("    ") for line in lines[1:])
    assert r"g\x1b]52;c;aGk=\x07\u202e" in lines[0]


def test_traces_stay_readable(stream):
    log_format.configure_logging(log_format.TEXT_FORMAT, stream=stream)

    def fail() -> None:
        raise ValueError("a\x1b[2J\nb")

    try:
        fail()
    except ValueError:
        LOGGER.exception("failed")
    first, *trace = stream.getvalue().splitlines()
    assert first.endswith(" ERROR tests.logs: failed")
    assert trace[0] == "    Traceback (most recent call last):"
    assert trace[1].startswith("      File ")
    assert trace[-2:] == [r"    ValueError: a\x1b[2J", "    b"]


def test_json_lines_hold_no_control_characters(stream):
    log_format.configure_logging(log_format.JSON_FORMAT, stream=stream)
    LOGGER.info("g\x9b\u202e\ud800 größe")
    line = stream.getvalue().removesuffix("\n")
    assert line.isprintable()
    assert json.loads(line)["message"] == "g\x9b\u202e\ud800 größe"
