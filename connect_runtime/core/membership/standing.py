"""Where a member stands in its group.

    state     what happens there                                   what leads out
    UNJOINED  find the coordinator, ask to prepare, send JoinGroup  Prepared -> JOINING
    JOINING   JoinGroup is held back until all members have come    answer -> SYNCING
    SYNCING   the leader plans; SyncGroup; heartbeats               answer -> STABLE
    STABLE    heartbeats; a wish to rejoin asks to prepare          Prepared -> JOINING
    OUT       left, until somebody wishes to rejoin                 RejoinRequested -> UNJOINED
    FAILED    until it is closed                                    CloseRequested -> CLOSING
    CLOSING   LeaveGroup is on its way                              answer or none -> CLOSED
    CLOSED    for good                                              nothing

From JOINING, SYNCING and STABLE a refusal or a silence leads to UNJOINED.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class State(enum.Enum):
    UNJOINED = enum.auto()
    JOINING = enum.auto()
    SYNCING = enum.auto()
    STABLE = enum.auto()
    OUT = enum.auto()
    FAILED = enum.auto()
    CLOSING = enum.auto()
    CLOSED = enum.auto()


IN_GROUP = frozenset({State.SYNCING, State.STABLE})
IN_ROUND = frozenset({State.JOINING, State.SYNCING})
AT_WORK = frozenset({State.UNJOINED, State.JOINING, State.SYNCING, State.STABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """`number` -1 and `protocol` "" before the first round; `member_id` "" for a new member."""

    number: int = -1
    member_id: str = ""
    protocol: str = ""
