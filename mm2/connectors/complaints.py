"""Troubles that last, told again and again, and not too often."""

from __future__ import annotations

import logging

from connect_runtime.base import clock as base_clock

EVERY_S = 60.0


class Complaints:
    """For one thread. `about` is one of a few."""

    def __init__(self, log: logging.Logger, *, clock: base_clock.Clock) -> None:
        self._log = log
        self._clock = clock
        self._due_s: dict[str, float] = {}

    def say(self, about: str, text: object) -> None:
        """Warn, unless of the same was warned within a minute."""
        now_s = self._clock.now_s()
        quiet = now_s < self._due_s.get(about, now_s)
        if not quiet:
            self._due_s[about] = now_s + EVERY_S
        self._log.log(logging.DEBUG if quiet else logging.WARNING, "%s: %s", about, text)

    def over(self, about: str) -> None:
        """It works: what comes next is news."""
        self._due_s.pop(about, None)
