"""Adds the current flow, connector and task to log records.

`with bind_fields(flow="east->west", task=3):` applies to every line logged by this thread or
coroutine inside the block. `LogContextFilter` sets the attribute `context` for the text format
("" without fields) and one attribute for each of `FIELDS` that applies for the JSON format.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator

FIELDS = ("flow", "connector", "task", "topic", "partition", "operator")
"""What a log record may say that it is about: by `bind_fields`, or by `extra` of the logging call."""

_current: contextvars.ContextVar[tuple[tuple[str, str], ...]] = contextvars.ContextVar(
    "log_context", default=()
)


@contextlib.contextmanager
def bind_fields(**parts: object) -> Iterator[None]:
    """Add parts such as flow, connector, task; an inner part replaces an outer one of its name."""
    merged = dict(_current.get())
    merged.update((name, str(value)) for name, value in parts.items())
    token = _current.set(tuple(merged.items()))
    try:
        yield
    finally:
        _current.reset(token)


def bind_current_flow() -> contextlib.AbstractContextManager[None]:
    """For threads that are started here: they log of the same flow, if there is one."""
    flow = dict(_current.get()).get("flow")
    return contextlib.nullcontext() if flow is None else bind_fields(flow=flow)


def format_prefix() -> str:
    """`[east->west|task 3] `, as Kafka Connect prints it; the flow goes without its name."""
    parts = [value if name == "flow" else f"{name} {value}" for name, value in _current.get()]
    return f"[{'|'.join(parts)}] " if parts else ""


class LogContextFilter(logging.Filter):
    """Put it on handlers (filters on loggers do not see their children's records).

    Each part that the record does not have itself, through `extra`, becomes an attribute of it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.context = format_prefix()
        for name, value in _current.get():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True
