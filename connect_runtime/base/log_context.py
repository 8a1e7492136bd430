"""Adds the current replication flow (such as `east->west`), connector and task to log records.

`with bind_log_fields(flow="east->west", task=3):` adds the fields to every record that this thread
or coroutine logs inside the block. `LogContextFilter` makes the fields available to log formatters.
The text log format uses the attribute `context`, which is "" without fields. The JSON log format
uses one attribute for each bound field of `FIELDS`.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator

FIELDS = ("flow", "connector", "task", "topic", "partition", "operator")
"""Context fields of a log record, set by `bind_log_fields` or by `extra` of the logging call."""

_current: contextvars.ContextVar[tuple[tuple[str, str], ...]] = contextvars.ContextVar(
    "log_context", default=()
)


@contextlib.contextmanager
def bind_log_fields(**parts: object) -> Iterator[None]:
    """Add context fields to the log lines of a `with` block. Inner values replace outer values
    of a field."""
    merged = dict(_current.get())
    merged.update((name, str(value)) for name, value in parts.items())
    token = _current.set(tuple(merged.items()))
    try:
        yield
    finally:
        _current.reset(token)


def bind_caller_flow_to_log_fields() -> contextlib.AbstractContextManager[None]:
    """Return a context manager for a thread that the caller starts. It adds the caller's
    replication flow (such as `east->west`), if one is bound, to the thread's log lines."""
    flow = dict(_current.get()).get("flow")
    return contextlib.nullcontext() if flow is None else bind_log_fields(flow=flow)


def format_log_prefix() -> str:
    """Format the current context fields as a log prefix in Kafka Connect's style.

    Example: `[east->west|task 3] `. The replication flow is shown without its field name.
    """
    parts = [value if name == "flow" else f"{name} {value}" for name, value in _current.get()]
    return f"[{'|'.join(parts)}] " if parts else ""


class LogContextFilter(logging.Filter):
    """Copies the current context fields to each log record, but keeps fields that the record
    already has from `extra`.

    Attach the filter to handlers, because a logger's filters do not see records of its child
    loggers.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Copy the current context fields to the log record. Always returns True."""
        record.context = format_log_prefix()
        for name, value in _current.get():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True
