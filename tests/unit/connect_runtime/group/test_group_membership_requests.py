"""Each request in every version that it claims, as bytes that kio reads back."""

from __future__ import annotations

import datetime
import random
from typing import Any

import kio.index
import pytest
from kio.serial import entity_reader
from kio.static.constants import EntityType

from connect_runtime.group import group_membership_requests, member_events
from connect_runtime.group.coordinator import CoordinatorLookup
from connect_runtime.group.group_membership_requests import MemberInstructionCollector
from connect_runtime.group.member_events import MemberLogLine, PrepareJoin, SendGroupRequest
from connect_runtime.group.member_state import GroupGeneration, GroupRebalanceConfig
from connect_runtime.protocol import request_framing
from connect_runtime.protocol.request_builders import AnyNodeTarget, NodeTarget, RequestBuilder


@pytest.fixture
def box() -> MemberInstructionCollector:
    options = GroupRebalanceConfig(group_id="g")
    found = CoordinatorLookup(settings=options, rng=random.Random(1))
    found.on_coordinator_found(3)
    generation = GroupGeneration(number=4, member_id="m", protocol="sessioned")
    return MemberInstructionCollector(
        settings=options, coordinator_lookup=found, generation=generation
    )


def test_everything_is_told_once_and_in_order(box):
    box.add_log_line("something")
    token = box.request_join_preparation()
    assert box.pop_instructions() == [
        MemberLogLine("group g: something"),
        PrepareJoin(token),
    ]
    assert box.pop_instructions() == []


def test_each_request_has_a_token_of_its_own(box):
    tokens = [
        box.request_join_preparation(),
        box.send_find_coordinator(),
        box.send_join_group([("default", b"")], reason="why"),
        box.send_sync_group({}),
        box.send_heartbeat(),
        box.send_leave_group("why"),
    ]
    assert len(set(tokens)) == len(tokens)
    assert [each.token for each in box.pop_instructions()] == tokens


def test_requests_go_where_they_belong_with_the_time_that_they_may_take(box):
    box.send_find_coordinator()
    box.send_join_group([("default", b"")], reason="why")
    box.send_sync_group({})
    box.send_heartbeat()
    box.send_leave_group("why")
    sent = {
        each.message.api: each
        for each in box.pop_instructions()
        if isinstance(each, SendGroupRequest)
    }
    assert {api: (each.lane, each.timeout_s) for api, each in sent.items()} == {
        "find_coordinator": (member_events.GROUP_PURPOSE, 40.0),
        "join_group": (member_events.JOIN_PURPOSE, 65.0),
        "sync_group": (member_events.JOIN_PURPOSE, 65.0),
        "heartbeat": (member_events.GROUP_PURPOSE, 10.0),
        "leave_group": (member_events.GROUP_PURPOSE, 10.0),
    }
    assert sent.pop("find_coordinator").to == AnyNodeTarget()
    assert {each.to for each in sent.values()} == {NodeTarget(3)}


JOIN = group_membership_requests.build_join_group_request(
    "g",
    member_id="m",
    protocol_type="connect",
    protocols=[("sessioned", b"s"), ("default", b"d")],
    session_timeout_s=10.0,
    rebalance_timeout_s=60.0,
    reason="r" * 300,
)
SYNC = group_membership_requests.build_sync_group_request(
    "g", member_id="m", generation=7, protocol_type="connect", protocol="sessioned",
    assignments={"m": b"a", "n": b"b"},
)  # fmt: skip
BEAT = group_membership_requests.build_heartbeat_request("g", member_id="m", generation=7)
LEAVE = group_membership_requests.build_leave_group_request("g", member_id="m", reason="r" * 300)
EVERY = [
    (message, version)
    for message in (JOIN, SYNC, BEAT, LEAVE)
    for version in range(message.low, message.high + 1)
]


def written(message: RequestBuilder, version: int) -> Any:
    body = b"".join(
        bytes(chunk)
        for chunk in [request_framing.encode_request_body(message.build_request_message(version))]
    )
    schema = kio.index.load_request_schema(message.api_key, version)
    found, size = entity_reader(schema)(body, 0)
    assert size == len(body)
    return found


@pytest.mark.parametrize(("message", "version"), EVERY)
def test_every_version_says_who_asks_for_which_group(message, version):
    found = written(message, version)
    assert found == message.build_request_message(version)
    assert found.group_id == "g"
    member = found.members[0] if message is LEAVE else found
    assert member.member_id == "m"
    assert member.group_instance_id is None
    kio.index.load_payload_module(message.api_key, version, EntityType.response)


@pytest.mark.parametrize("version", range(JOIN.low, JOIN.high + 1))
def test_a_join_has_its_timeouts_and_protocols_and_newer_ones_their_reason(version):
    found = written(JOIN, version)
    assert found.session_timeout == datetime.timedelta(seconds=10)
    assert found.rebalance_timeout == datetime.timedelta(seconds=60)
    assert found.protocol_type == "connect"
    assert [(each.name, each.metadata) for each in found.protocols] == [
        ("sessioned", b"s"),
        ("default", b"d"),
    ]
    assert getattr(found, "reason", "r" * 255) == "r" * 255


def test_a_sync_has_an_answer_for_each_member():
    found = written(SYNC, 5)
    assert {each.member_id: each.assignment for each in found.assignments} == {
        "m": b"a",
        "n": b"b",
    }
    assert (found.protocol_type, found.protocol_name) == ("connect", "sessioned")
    assert found.generation_id == 7


def test_leaving_says_why():
    assert written(LEAVE, 5).members[0].reason == "r" * 255
    assert written(BEAT, 4).generation_id == 7
