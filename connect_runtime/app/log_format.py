"""Configures the log format: lines to stderr, in UTC, as text or JSON.

Text: `2026-01-31T08:00:00.123Z INFO mm2.copier.copy_loop: [east->west|task 3] caught up`. The
message ends the line, so that a command at its end can be copied. Unprintable characters are
escaped and continuation lines are indented, so that untrusted names and messages can neither move
the cursor nor forge a line.

JSON: one object per line with `time`, `level`, `logger` and `message`, and, where applicable,
`flow`, `connector`, `task`, `topic`, `partition`, `operator` and `exception`. Numbers are not
quoted.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
from typing import TextIO

from connect_runtime.base import log_context, terminal_escape
from connect_runtime.base.log_context import LogContextFilter

TEXT_FORMAT = "text"
JSON_FORMAT = "json"
FORMATS = (TEXT_FORMAT, JSON_FORMAT)
_INDENT = "    "
_NUMERIC_FIELDS = ("task", "partition")


class TextFormatter(logging.Formatter):
    """Formats a log record as a line of text. An exception's stack trace follows on further
    lines."""

    def __init__(self) -> None:
        super().__init__("%(utc)s %(levelname)s %(name)s: %(context)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.utc = format_utc_timestamp(record.created)
        record.context = getattr(record, "context", "")
        return terminal_escape.escape_unprintable_except_newlines(
            super().format(record), indent=_INDENT
        )


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int] = {
            "time": format_utc_timestamp(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in log_context.FIELDS:
            value = getattr(record, name, None)
            if value not in (None, ""):
                line[name] = _parse_numeric_field(value) if name in _NUMERIC_FIELDS else str(value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False)
        return text if text.isprintable() else json.dumps(line)


def _parse_numeric_field(value: object) -> int | str:
    text = str(value)
    return int(text) if text.isdecimal() else text


def format_utc_timestamp(seconds: float) -> str:
    """Format seconds since the epoch as ISO-8601 in UTC with milliseconds."""
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def build_formatter(log_format: str) -> logging.Formatter:
    """Return the log formatter for `TEXT_FORMAT` or `JSON_FORMAT`."""
    assert log_format in FORMATS, log_format
    return JsonFormatter() if log_format == JSON_FORMAT else TextFormatter()


def configure_logging(
    log_format: str, *, level: int = logging.INFO, stream: TextIO | None = None
) -> None:
    """Configure logging to write only to `stream` (stderr if None). Call once per process."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(build_formatter(log_format))
    handler.addFilter(LogContextFilter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(capture=True)
