"""Looks that go on at the same time, each on a thread of its own, all waited for together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline
from connect_runtime.system import threads

T = TypeVar("T")


def run(
    looks: Mapping[str, Callable[[], T]], *, clock: base_clock.Clock, timeout_s: float
) -> dict[str, T | None]:
    """What each look returned, by its name; None for one that has not ended after `timeout_s`.

    Raises what a look raised.
    """
    found: dict[str, T | None] = dict.fromkeys(looks)
    running: list[threads.OwnedThread] = []
    for name, look in looks.items():

        def body(stop: object, name: str = name, look: Callable[[], T] = look) -> None:
            found[name] = look()

        running.append(threads.OwnedThread(f"check {name}", body, on_unasked_end=_ignore))
    end = deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    for each in running:
        each.join(end.left_s(clock.now_s()))
        if each.failure is not None:
            raise each.failure
    return dict(found)


def _ignore(_: threads.UnaskedEnd) -> None:
    """A look ends by itself."""
