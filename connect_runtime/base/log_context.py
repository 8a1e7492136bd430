"""Which flow, connector or task a log line is about, without passing it to every function.

`with within(flow="east->west", task=3):` marks every line logged by this thread (or coroutine)
inside; `ContextFilter` gives each record a `context` attribute for the text format, "" without
one, and the attributes of `FIELDS` that apply for the JSON format.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator

FIELDS = ("flow", "connector", "task", "topic", "partition", "operator")
"""What a log record may say that it is about: by `within`, or by `extra` of the logging call."""

_current: contextvars.ContextVar[tuple[tuple[str, str], ...]] = contextvars.ContextVar(
    "log_context", default=()
)


@contextlib.contextmanager
def within(**parts: object) -> Iterator[None]:
    """Add parts such as flow, connector, task; an inner part replaces an outer one of its name."""
    merged = dict(_current.get())
    merged.update((name, str(value)) for name, value in parts.items())
    token = _current.set(tuple(merged.items()))
    try:
        yield
    finally:
        _current.reset(token)


def of_flow() -> contextlib.AbstractContextManager[None]:
    """For threads that are started here: they log of the same flow, if there is one."""
    flow = dict(_current.get()).get("flow")
    return contextlib.nullcontext() if flow is None else within(flow=flow)


def current() -> str:
    """`[east->west|task 3] `, as Kafka Connect prints it; the flow goes without its name."""
    parts = [value if name == "flow" else f"{name} {value}" for name, value in _current.get()]
    return f"[{'|'.join(parts)}] " if parts else ""


class ContextFilter(logging.Filter):
    """Put it on handlers (filters on loggers do not see their children's records).

    Each part that the record does not have itself, through `extra`, becomes an attribute of it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.context = current()
        for name, value in _current.get():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True
