"""Somebody who reads what a partition that stands still says, and types the command it ends with.

Until faults have ended nobody comes to it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from mm2.core import commands
from mm2.core.copy import standing, stops

if TYPE_CHECKING:
    from tests.model.delivery import owner, world

COMES_AFTER_S = 60.0
_ABORT = "--start-offset"


class Person:
    """`misled` are messages that told of something that was not there."""

    def __init__(self, around: world.World) -> None:
        self.misled: dict[str, None] = {}
        self._world = around

    def hears(self, copy: owner.Owner, stop: stops.Stop) -> None:
        """It has just come to stand still; acts later on, if it says so still."""
        if stop.cause is not stops.Cause.HANGING or not self._world.network.calm:
            return
        # Where nobody is fenced, its coordinator may have ended it just now; and who has thawed
        # was told before it froze.
        passes = self._world.weather.unfenced or copy.thawed_s == self._world.events.now_s
        if not passes and begins_at(stop) not in self._world.target.open_transactions.values():
            self.misled[stop.message] = None
        self._world.events.after(COMES_AFTER_S, lambda: self._obeys(copy, stop))

    def _obeys(self, copy: owner.Owner, stop: stops.Stop) -> None:
        told = copy.machine.standing.phase is standing.Phase.STOPPED
        if copy.alive and told and copy.machine.standing.stop is stop:
            self._world.events.note("person", f"types {commands.found_in(stop.message)}")
            self._world.target.abort(begins_at(stop))


def begins_at(stop: stops.Stop) -> int:
    """The offset at which the transaction begins that the stop wants to be aborted."""
    words = shlex.split(commands.found_in(stop.message))
    return int(words[words.index(_ABORT) + 1])
