"""Builders of JoinGroup, SyncGroup, Heartbeat and LeaveGroup requests, and the instructions that
result from one event of a group member.

Connect workers have no `group.instance.id`, so that a restarted worker joins as a new member.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.group import member_events
from connect_runtime.group.coordinator import CoordinatorLookup
from connect_runtime.group.member_events import (
    MemberInstruction,
    MemberLogLine,
    PrepareJoin,
    SendGroupRequest,
)
from connect_runtime.group.member_state import GroupGeneration, GroupRebalanceConfig
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    NodeTarget,
    RequestBuilder,
    RequestTarget,
)

_JOIN_WITH_REASON = 8
_LEAVE_WITH_REASON = 5
_SYNC_WITH_PROTOCOL = 5
_MAX_REASON_CHARS = 255


def build_join_group_request(
    group_id: str,
    *,
    member_id: str,
    protocol_type: str,
    protocols: Sequence[tuple[str, bytes]],
    session_timeout_s: float,
    rebalance_timeout_s: float,
    reason: str,
) -> RequestBuilder:
    """Build a JoinGroup request.

    `protocols` are (name, metadata) pairs in order of preference. `member_id` is "" for a new
    member.
    """

    def build_request_of_version(version: int, m: Any) -> Any:
        reason_field = (
            {"reason": reason[:_MAX_REASON_CHARS]} if version >= _JOIN_WITH_REASON else {}
        )
        return m.JoinGroupRequest(
            group_id=group_id,
            session_timeout=datetime.timedelta(seconds=session_timeout_s),
            rebalance_timeout=datetime.timedelta(seconds=rebalance_timeout_s),
            member_id=member_id,
            protocol_type=protocol_type,
            protocols=tuple(
                m.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols
            ),
            **reason_field,
        )

    return RequestBuilder(api="join_group", low=5, high=9, build=build_request_of_version)


def build_sync_group_request(
    group_id: str,
    *,
    member_id: str,
    generation: int,
    protocol_type: str,
    protocol: str,
    assignments: Mapping[str, bytes],
) -> RequestBuilder:
    """Build a SyncGroup request. The leader's request contains all assignments. Every member
    receives its assignment in the response.

    `assignments` are by member id; empty if this member is not the leader.
    """

    def build_request_of_version(version: int, m: Any) -> Any:
        named: dict[str, str] = {}
        if version >= _SYNC_WITH_PROTOCOL:
            named = {"protocol_type": protocol_type, "protocol_name": protocol}
        return m.SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            assignments=tuple(
                m.SyncGroupRequestAssignment(member_id=to, assignment=answer)
                for to, answer in assignments.items()
            ),
            **named,
        )

    return RequestBuilder(api="sync_group", low=3, high=5, build=build_request_of_version)


def build_heartbeat_request(group_id: str, *, member_id: str, generation: int) -> RequestBuilder:
    """Build a Heartbeat request, which reports that the member is alive."""

    def build_request_of_version(version: int, m: Any) -> Any:
        return m.HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)

    return RequestBuilder(api="heartbeat", low=3, high=4, build=build_request_of_version)


def build_leave_group_request(group_id: str, *, member_id: str, reason: str) -> RequestBuilder:
    """Build a LeaveGroup request."""

    def build_request_of_version(version: int, m: Any) -> Any:
        reason_field = (
            {"reason": reason[:_MAX_REASON_CHARS]} if version >= _LEAVE_WITH_REASON else {}
        )
        return m.LeaveGroupRequest(
            group_id=group_id, members=(m.MemberIdentity(member_id=member_id, **reason_field),)
        )

    return RequestBuilder(api="leave_group", low=3, high=5, build=build_request_of_version)


@dataclass(slots=True, kw_only=True)
class MemberInstructionCollector:
    """Collects the instructions that result from one event of a group member.

    Requests are sent to the group's coordinator (`coordinator_lookup.node`), which must be known.
    """

    settings: GroupRebalanceConfig
    coordinator_lookup: CoordinatorLookup
    generation: GroupGeneration = field(default_factory=GroupGeneration)
    _tokens: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _instructions: list[MemberInstruction] = field(default_factory=list)

    def pop_instructions(self) -> list[MemberInstruction]:
        """Return and clear the collected instructions, in order."""
        instructions, self._instructions = self._instructions, []
        return instructions

    def add_instruction(self, instruction: MemberInstruction) -> None:
        """Add an instruction for the member's caller."""
        self._instructions.append(instruction)

    def add_log_line(self, text: str, *, is_error: bool = False) -> None:
        """Add an instruction to log a line."""
        text = f"group {self.settings.group_id}: {text}"
        self.add_instruction(MemberLogLine(text, is_error=is_error))

    # Each of these methods returns the token that identifies the result.

    def request_join_preparation(self) -> int:
        token = next(self._tokens)
        self.add_instruction(PrepareJoin(token))
        return token

    def send_find_coordinator(self) -> int:
        timeout_s = self.settings.request_timeout_s
        return self._send_group_request(
            self.coordinator_lookup.build_request(),
            AnyNodeTarget(),
            lane=member_events.GROUP_PURPOSE,
            timeout_s=timeout_s,
        )

    def send_join_group(self, protocols: Sequence[tuple[str, bytes]], *, reason: str) -> int:
        message = build_join_group_request(
            self.settings.group_id,
            member_id=self.generation.member_id,
            protocol_type=self.settings.protocol_type,
            protocols=protocols,
            session_timeout_s=self.settings.session_timeout_s,
            rebalance_timeout_s=self.settings.rebalance_timeout_s,
            reason=reason,
        )
        return self._send_rebalance_request(message)

    def send_sync_group(self, answers: Mapping[str, bytes]) -> int:
        message = build_sync_group_request(
            self.settings.group_id,
            member_id=self.generation.member_id,
            generation=self.generation.number,
            protocol_type=self.settings.protocol_type,
            protocol=self.generation.protocol,
            assignments=answers,
        )
        return self._send_rebalance_request(message)

    def send_heartbeat(self) -> int:
        message = build_heartbeat_request(
            self.settings.group_id,
            member_id=self.generation.member_id,
            generation=self.generation.number,
        )
        return self._send_membership_request(message)

    def send_leave_group(self, reason: str) -> int:
        message = build_leave_group_request(
            self.settings.group_id, member_id=self.generation.member_id, reason=reason
        )
        return self._send_membership_request(message)

    def _send_rebalance_request(self, message: RequestBuilder) -> int:
        return self._send_group_request(
            message,
            self._coordinator_request_target,
            lane=member_events.JOIN_PURPOSE,
            timeout_s=self.settings.join_timeout_s,
        )

    def _send_membership_request(self, message: RequestBuilder) -> int:
        return self._send_group_request(
            message,
            self._coordinator_request_target,
            lane=member_events.GROUP_PURPOSE,
            timeout_s=self.settings.session_timeout_s,
        )

    @property
    def _coordinator_request_target(self) -> RequestTarget:
        assert self.coordinator_lookup.node is not None
        return NodeTarget(self.coordinator_lookup.node)

    def _send_group_request(
        self, message: RequestBuilder, to: RequestTarget, *, lane: str, timeout_s: float
    ) -> int:
        token = next(self._tokens)
        self.add_instruction(
            SendGroupRequest(token=token, to=to, message=message, lane=lane, timeout_s=timeout_s)
        )
        return token
