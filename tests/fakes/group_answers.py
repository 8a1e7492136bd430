"""What a group's coordinator answers, as kio entities of the newest versions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3 import response as find_v3
from kio.schema.find_coordinator.v6 import response as find_v6
from kio.schema.heartbeat.v4 import response as heartbeat_v4
from kio.schema.join_group.v9 import response as join_v9
from kio.schema.leave_group.v5 import response as leave_v5
from kio.schema.sync_group.v5 import response as sync_v5

AT_ONCE: Any = datetime.timedelta(0)


def found(node: int = 1, *, code: int = 0) -> Any:
    number: Any = node
    return find_v6.FindCoordinatorResponse(
        throttle_time=AT_ONCE,
        coordinators=(
            find_v6.Coordinator(
                key="g",
                node_id=number,
                host="",
                port=number,
                error_code=ErrorCode(code),
                error_message=None,
            ),
        ),
    )


def found_by_an_old_broker(node: int = 1, *, code: int = 0) -> Any:
    number: Any = node
    return find_v3.FindCoordinatorResponse(
        throttle_time=AT_ONCE,
        error_code=ErrorCode(code),
        error_message=None,
        node_id=number,
        host="",
        port=number,
    )


def joined(
    *,
    code: int = 0,
    generation: int = 1,
    member_id: str = "m1",
    leader: str = "m2",
    protocol: str | None = "sessioned",
    protocol_type: str | None = "connect",
    members: Mapping[str, bytes] | None = None,
) -> Any:
    number: Any = generation
    return join_v9.JoinGroupResponse(
        throttle_time=AT_ONCE,
        error_code=ErrorCode(code),
        generation_id=number,
        protocol_type=protocol_type,
        protocol_name=protocol,
        leader=leader,
        member_id=member_id,
        members=tuple(
            join_v9.JoinGroupResponseMember(member_id=member, metadata=metadata)
            for member, metadata in (members or {}).items()
        ),
    )


def synced(
    assignment: bytes = b"work",
    *,
    code: int = 0,
    protocol: str | None = "sessioned",
    protocol_type: str | None = "connect",
) -> Any:
    return sync_v5.SyncGroupResponse(
        throttle_time=AT_ONCE,
        error_code=ErrorCode(code),
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignment=assignment,
    )


def beaten(*, code: int = 0) -> Any:
    return heartbeat_v4.HeartbeatResponse(throttle_time=AT_ONCE, error_code=ErrorCode(code))


def left(*, code: int = 0) -> Any:
    return leave_v5.LeaveGroupResponse(
        throttle_time=AT_ONCE, error_code=ErrorCode(code), members=()
    )
