"""The requests of a group member, as messages that can be written in every version brokers speak.

Connect workers have no `group.instance.id`: a member that restarts is a new one.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.wire.codec import messages

_JOIN_WITH_REASON = 8
_LEAVE_WITH_REASON = 5
_SYNC_WITH_PROTOCOL = 5
_REASON_MAX = 255


def join_group(
    group_id: str,
    *,
    member_id: str,
    protocol_type: str,
    protocols: Sequence[tuple[str, bytes]],
    session_timeout_s: float,
    rebalance_timeout_s: float,
    reason: str,
) -> messages.Message:
    """`protocols`: (name, metadata), the favourite first. `member_id`: "" for a new member."""

    def build(version: int, m: Any) -> Any:
        said = {"reason": reason[:_REASON_MAX]} if version >= _JOIN_WITH_REASON else {}
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
            **said,
        )

    return messages.Message(api="join_group", low=5, high=9, build=build)


def sync_group(
    group_id: str,
    *,
    member_id: str,
    generation: int,
    protocol_type: str,
    protocol: str,
    answers: Mapping[str, bytes],
) -> messages.Message:
    """`answers`: member id -> assignment, from the leader; empty from everybody else."""

    def build(version: int, m: Any) -> Any:
        named: dict[str, str] = {}
        if version >= _SYNC_WITH_PROTOCOL:
            named = {"protocol_type": protocol_type, "protocol_name": protocol}
        return m.SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            assignments=tuple(
                m.SyncGroupRequestAssignment(member_id=to, assignment=answer)
                for to, answer in answers.items()
            ),
            **named,
        )

    return messages.Message(api="sync_group", low=3, high=5, build=build)


def heartbeat(group_id: str, *, member_id: str, generation: int) -> messages.Message:
    def build(version: int, m: Any) -> Any:
        return m.HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)

    return messages.Message(api="heartbeat", low=3, high=4, build=build)


def leave_group(group_id: str, *, member_id: str, reason: str) -> messages.Message:
    def build(version: int, m: Any) -> Any:
        said = {"reason": reason[:_REASON_MAX]} if version >= _LEAVE_WITH_REASON else {}
        return m.LeaveGroupRequest(
            group_id=group_id, members=(m.MemberIdentity(member_id=member_id, **said),)
        )

    return messages.Message(api="leave_group", low=3, high=5, build=build)
