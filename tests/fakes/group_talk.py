"""A group member, the clock, and the coordinator that a test plays."""

from __future__ import annotations

import random
from typing import Any, TypeVar

from connect_runtime.group.member import GroupMember
from connect_runtime.group.member_events import (
    GroupRequestFailed,
    GroupResponseReceived,
    JoinPrepared,
    MemberEvent,
    MemberInstruction,
    MemberLogLine,
    MemberTick,
    PrepareJoin,
    SendGroupRequest,
    WorkerLoopTicked,
)
from connect_runtime.group.member_state import GroupRebalanceConfig, MemberState
from connect_runtime.protocol.request_errors import ConnectionFailed
from tests.fakes import group_answers

PROTOCOLS = (("sessioned", b"s"), ("compatible", b"c"), ("default", b"d"))
T = TypeVar("T")


class GroupTalk:
    """Every step is checked; `sent` has the requests that wait for an answer, by API."""

    def __init__(self, **options: Any) -> None:
        self.settings = GroupRebalanceConfig(group_id="g", **options)
        self.member = GroupMember(self.settings, rng=random.Random(1))
        self.now_s = 1000.0
        self.sent: dict[str, SendGroupRequest] = {}
        self.told: list[MemberInstruction] = []
        self.notes: list[str] = []
        self.errors: list[str] = []

    @property
    def state(self) -> MemberState:
        return self.member.state

    def tell(self, event: MemberEvent) -> list[MemberInstruction]:
        """What it tells the worker; requests are kept, notes too."""
        told: list[MemberInstruction] = []
        for each in self.member.process_event(event, now_s=self.now_s):
            match each:
                case SendGroupRequest():
                    self.sent[each.message.api] = each
                case MemberLogLine():
                    self.notes.append(each.text)
                    if each.is_error:
                        self.errors.append(each.text)
                case _:
                    told.append(each)
        self.member.check_invariants()
        self.told += told
        return told

    def wait(self, seconds: float, *, ticking: bool = True) -> list[MemberInstruction]:
        """Time passes, and it is woken whenever it wants; `ticking`: the worker is alive."""
        told, end_s, wakes = [], self.now_s + seconds, 0
        while self.member.get_next_tick_s() <= end_s:
            wakes += 1
            assert wakes < 1000, "it asks to be woken for nothing"
            self.now_s = max(self.now_s, self.member.get_next_tick_s())
            told += self._woken(ticking)
        self.now_s = end_s
        return told + self._woken(ticking)

    def _woken(self, ticking: bool) -> list[MemberInstruction]:
        return self.tell(WorkerLoopTicked() if ticking else MemberTick())

    def answer(self, api: str, body: Any) -> list[MemberInstruction]:
        return self.tell(GroupResponseReceived(token=self.sent.pop(api).token, body=body))

    def fail(self, api: str, failure: Any = None) -> list[MemberInstruction]:
        gone = failure or ConnectionFailed("broker:9092", "refused")
        return self.tell(GroupRequestFailed(token=self.sent.pop(api).token, failure=gone))

    def entity(self, api: str, version: int | None = None) -> Any:
        """The request that waits, as it would be written."""
        message = self.sent[api].message
        return message.build_request_message(message.high if version is None else version)

    def prepare(self) -> list[MemberInstruction]:
        """The worker answers the last `PrepareJoin`."""
        asked = last(self.told, PrepareJoin)
        return self.tell(JoinPrepared(token=asked.token, protocols=PROTOCOLS))

    # as far as

    def find(self) -> GroupTalk:
        self.tell(MemberTick())
        self.answer("find_coordinator", group_answers.found())
        return self

    def join(self, **fields: Any) -> list[MemberInstruction]:
        """Asked to prepare, the worker does, and the group is joined."""
        self.prepare()
        return self.answer("join_group", group_answers.joined(**fields))

    def stable(self, assignment: bytes = b"work") -> GroupTalk:
        self.find().join()
        self.answer("sync_group", group_answers.synced(assignment))
        assert self.state is MemberState.STABLE
        return self


def last(told: list[MemberInstruction], kind: type[T]) -> T:
    return [each for each in told if isinstance(each, kind)][-1]
