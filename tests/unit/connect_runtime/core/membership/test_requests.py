"""Each request in every version that it claims, as bytes that kio reads back."""

from __future__ import annotations

import datetime
from typing import Any

import kio.index
import pytest
from kio.serial import entity_reader
from kio.static.constants import EntityType

from connect_runtime.core.membership import requests
from connect_runtime.wire.codec import frames, messages

JOIN = requests.join_group(
    "g",
    member_id="m",
    protocol_type="connect",
    protocols=[("sessioned", b"s"), ("default", b"d")],
    session_timeout_s=10.0,
    rebalance_timeout_s=60.0,
    reason="r" * 300,
)
SYNC = requests.sync_group(
    "g", member_id="m", generation=7, protocol_type="connect", protocol="sessioned",
    answers={"m": b"a", "n": b"b"},
)  # fmt: skip
BEAT = requests.heartbeat("g", member_id="m", generation=7)
LEAVE = requests.leave_group("g", member_id="m", reason="r" * 300)
EVERY = [
    (message, version)
    for message in (JOIN, SYNC, BEAT, LEAVE)
    for version in range(message.low, message.high + 1)
]


def written(message: messages.Message, version: int) -> Any:
    body = b"".join(bytes(chunk) for chunk in [frames.encode_body(message.entity(version))])
    schema = kio.index.load_request_schema(message.api_key, version)
    found, size = entity_reader(schema)(body, 0)
    assert size == len(body)
    return found


@pytest.mark.parametrize(("message", "version"), EVERY)
def test_every_version_says_who_asks_for_which_group(message, version):
    found = written(message, version)
    assert found == message.entity(version)
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
