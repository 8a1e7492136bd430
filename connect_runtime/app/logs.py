"""Log lines: to stderr, in UTC, as text or JSON.

Text: `2026-01-31T08:00:00.123Z INFO mm2.pipeline.copy_loop: [east->west|task 3] caught up`;
the message ends the line, so that a command at its end can be copied. What is no printable
character is escaped, and a line after the first begins with blanks, so that no name or message from
elsewhere can move a cursor or forge a line.

JSON: one object a line with `time`, `level`, `logger`, `message`, and those of `flow`, `connector`,
`task`, `topic`, `partition`, `operator` and `exception` that apply. Numbers are numbers.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
from typing import TextIO

from connect_runtime.base import log_context, terminal_escape

TEXT = "text"
JSON = "json"
FORMATS = (TEXT, JSON)
_INDENT = "    "
_NUMBERS = ("task", "partition")


class TextFormatter(logging.Formatter):
    """A line for people; an exception's trace follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(utc)s %(levelname)s %(name)s: %(context)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.utc = utc_text(record.created)
        record.context = getattr(record, "context", "")
        return terminal_escape.escape_lines(super().format(record), indent=_INDENT)


class JsonFormatter(logging.Formatter):
    """A line for machines, whatever the message holds."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int] = {
            "time": utc_text(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in log_context.FIELDS:
            value = getattr(record, name, None)
            if value not in (None, ""):
                line[name] = _number(value) if name in _NUMBERS else str(value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False)
        return text if text.isprintable() else json.dumps(line)


def _number(value: object) -> int | str:
    text = str(value)
    return int(text) if text.isdecimal() else text


def utc_text(seconds: float) -> str:
    """Seconds since the epoch as ISO-8601 in UTC with milliseconds."""
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def formatter(log_format: str) -> logging.Formatter:
    """For `TEXT` or `JSON`."""
    assert log_format in FORMATS, log_format
    return JsonFormatter() if log_format == JSON else TextFormatter()


def configure(log_format: str, *, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Make this process log to `stream` (stderr if None), and nowhere else. Call it once."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(formatter(log_format))
    handler.addFilter(log_context.ContextFilter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(capture=True)
