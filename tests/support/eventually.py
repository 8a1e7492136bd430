"""Waiting for what the system under test does in its own time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from connect_runtime.system import system_clock

T = TypeVar("T")


def eventually(
    condition: Callable[[], T],
    deadline_s: float = 20.0,
    what: str | Callable[[], str] = "the condition holds",
    *,
    interval_s: float = 0.05,
) -> T:
    """Ask until the answer is truthy, and return it; an `AssertionError` while asking means no.

    When `deadline_s` have passed it raises `AssertionError` with `what`, the last answer and the
    last error. `what` may be a function, called only then, that describes what was seen instead.
    """
    answer: T | None = None
    error: AssertionError | None = None

    def holds() -> bool:
        nonlocal answer, error
        try:
            answer, error = condition(), None
        except AssertionError as raised:
            answer, error = None, raised
        return bool(answer)

    if not system_clock.wait_until(holds, timeout_s=deadline_s, interval_s=interval_s):
        described = what if isinstance(what, str) else what()
        seen = f"last answer {answer!r}" if error is None else f"last: {error}"
        raise AssertionError(f"not within {deadline_s} s: {described} ({seen})") from error
    assert answer is not None
    return answer
