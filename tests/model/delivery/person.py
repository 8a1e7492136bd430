"""Somebody who reads what a partition that stands still says, and types the command it ends with.

Until faults have ended nobody comes to it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from mm2 import suggested_commands
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_state import PartitionPhase

if TYPE_CHECKING:
    from tests.model.delivery.owner import Owner
    from tests.model.delivery.world import World


COMES_AFTER_S = 60.0
_ABORT = "--start-offset"


class Person:
    """`misled` are messages that told of something that was not there."""

    def __init__(self, around: World) -> None:
        self.misled: dict[str, None] = {}
        self._world = around

    def hears(self, copy: Owner, stop: PartitionHalt) -> None:
        """It has just come to stand still; acts later on, if it says so still."""
        if stop.cause is not HaltCause.HANGING_TRANSACTION or not self._world.network.calm:
            return
        # Where nobody is fenced, its coordinator may have ended it just now; and who has thawed
        # was told before it froze.
        passes = self._world.weather.unfenced or copy.thawed_s == self._world.events.now_s
        if not passes and not stands_open(self._world, stop):
            self.misled[stop.message] = None
        self._world.events.after(COMES_AFTER_S, lambda: self._obeys(copy, stop))

    def _obeys(self, copy: Owner, stop: PartitionHalt) -> None:
        told = copy.machine.state.phase is PartitionPhase.HALTED
        if copy.alive and told and copy.machine.state.halt is stop:
            self._world.events.note(
                "person", f"types {suggested_commands.extract_remedy_from_message(stop.message)}"
            )
            start = _begins_at(stop)
            if start is None:
                self._world.described = True
            else:
                self._world.target.abort(start)


def stands_open(around: World, stop: PartitionHalt) -> bool:
    """Is the transaction there of which the stop tells?"""
    start, there = _begins_at(stop), around.target.open_transactions.values()
    if start is None:
        return not around.described and bool(there)
    return start in there


def _begins_at(stop: PartitionHalt) -> int | None:
    """The offset at which the transaction begins that the stop wants to be aborted; None: it wants
    the right to ask for it."""
    words = shlex.split(suggested_commands.extract_remedy_from_message(stop.message))
    return int(words[words.index(_ABORT) + 1]) if _ABORT in words else None
