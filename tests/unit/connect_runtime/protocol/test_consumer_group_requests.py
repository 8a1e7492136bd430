"""Offsets of many groups in one answer: who stands as he stood is passed over unread.

Each request in every version that it claims, and what answers say."""

from __future__ import annotations

import datetime
import io
from typing import Any

import kio.index
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v8 import response as v8
from kio.schema.offset_fetch.v9 import response as v9
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from connect_runtime.base.ids import TopicPartition
from connect_runtime.protocol import consumer_group_requests, request_framing
from connect_runtime.protocol.consumer_group_requests import CommittedOffset
from connect_runtime.protocol.request_builders import RequestBuilder
from connect_runtime.protocol.request_errors import MalformedResponseError

T0 = TopicPartition("t", 0)
VERSIONS = {8: v8, 9: v9}


def group_of(m, name, offset, *, code=0, partition_code=0, metadata=""):
    partition = m.OffsetFetchResponsePartitions(
        partition_index=0,
        committed_offset=offset,
        metadata=metadata,
        error_code=ErrorCode(partition_code),
    )
    topics = (m.OffsetFetchResponseTopics(name="t", partitions=(partition,)),)
    return m.OffsetFetchResponseGroup(group_id=name, topics=topics, error_code=ErrorCode(code))


def body_of(m, *groups) -> memoryview:
    answer = m.OffsetFetchResponse(throttle_time=datetime.timedelta(0), groups=groups)
    with io.BytesIO() as buffer:
        entity_writer(m.OffsetFetchResponse)(buffer, answer)
        return memoryview(bytearray(buffer.getvalue()))


def committed(offset, metadata=""):
    return {T0: CommittedOffset(offset, metadata)}


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


def test_all_are_asked_for_at_once(version):
    message = consumer_group_requests.build_multi_group_offset_fetch_request(
        ["a", "b"], stable=True
    )
    entity = message.build_request_message(version)
    data = request_framing.encode_request_body(entity)
    (read, _) = entity_reader(type(entity))(data, 0)
    assert [each.group_id for each in read.groups] == ["a", "b"]
    assert [each.topics for each in read.groups] == [None, None]
    assert read.require_stable


def test_who_has_not_moved_is_the_same_and_who_has_is_read(version):
    m = VERSIONS[version]
    names = ["a", "b", "c"]
    before = body_of(m, group_of(m, "a", 5), group_of(m, "b", 6), group_of(m, "c", 7))
    first = consumer_group_requests.build_multi_group_offset_fetch_request(names).decode_response(
        version, before
    )
    assert [each.offsets for each in first.changed] == [committed(at) for at in (5, 6, 7)]
    seen = {each.group: each.data for each in first.changed}
    after = body_of(
        m, group_of(m, "a", 5), group_of(m, "b", 8, metadata="note"), group_of(m, "c", 7)
    )
    second = consumer_group_requests.build_multi_group_offset_fetch_request(
        names, seen=seen
    ).decode_response(version, after)
    assert second.unchanged == ["a", "c"]
    (moved,) = second.changed
    assert (moved.group, moved.offsets, moved.error_code) == ("b", committed(8, "note"), 0)


def test_another_order_confuses_nobody(version):
    m = VERSIONS[version]
    seen = {
        each.group: each.data
        for each in consumer_group_requests.build_multi_group_offset_fetch_request(["a", "b"])
        .decode_response(version, body_of(m, group_of(m, "a", 5), group_of(m, "b", 6)))
        .changed
    }
    ask = consumer_group_requests.build_multi_group_offset_fetch_request(["a", "b"], seen=seen)
    turned = ask.decode_response(version, body_of(m, group_of(m, "b", 6), group_of(m, "a", 5)))
    assert {each.group: each.offsets for each in turned.changed} == {
        "a": committed(5),
        "b": committed(6),
    }


@pytest.mark.parametrize("groups", ["a", "abc"])
def test_fewer_or_more_groups_than_requested_are_refused(version, groups):
    m = VERSIONS[version]
    ask = consumer_group_requests.build_multi_group_offset_fetch_request(["a", "b"])
    body = body_of(m, *(group_of(m, each, 5) for each in groups))
    with pytest.raises(
        MalformedResponseError, match=f"has {len(groups)} groups, but 2 were requested"
    ):
        ask.decode_response(version, body)


def test_offsets_are_subject_to_the_limit_of_decoded_responses(version, monkeypatch):
    monkeypatch.setattr(request_framing, "LARGE_DECODED_RESPONSE_BYTES_MAX", 99)
    ask = consumer_group_requests.build_multi_group_offset_fetch_request(["a"])
    with pytest.raises(MalformedResponseError, match="response has 100 bytes, but at most 99 are"):
        ask.decode_response(version, memoryview(bytes(100)))


def test_error_codes_of_groups_and_partitions(version):
    m = VERSIONS[version]
    body = body_of(m, group_of(m, "a", 5, code=16), group_of(m, "b", 6, partition_code=88))
    found = (
        consumer_group_requests.build_multi_group_offset_fetch_request(["a", "b"])
        .decode_response(version, body)
        .changed
    )
    assert [each.error_code for each in found] == [16, 88]


def test_no_groups_is_an_answer(version):
    assert (
        consumer_group_requests.build_multi_group_offset_fetch_request([])
        .decode_response(version, body_of(VERSIONS[version]))
        .changed
        == []
    )


def test_garbage_is_refused(version):
    m = VERSIONS[version]
    body = body_of(m, group_of(m, "a", 5))
    ask = consumer_group_requests.build_multi_group_offset_fetch_request(["a"])
    seen = {"a": ask.decode_response(version, body).changed[0].data}
    for at in range(5, len(body)):
        for asking in (
            ask,
            consumer_group_requests.build_multi_group_offset_fetch_request(["a"], seen=seen),
        ):
            with pytest.raises(MalformedResponseError):
                asking.decode_response(version, body[:at])
    with pytest.raises(MalformedResponseError):
        ask.decode_response(version, memoryview(bytearray([*body, 0])))


A0, A1, B0 = (TopicPartition(*each) for each in (("a", 0), ("a", 1), ("b", 0)))
FETCH = consumer_group_requests.build_fetch_offsets_request("g")
COMMIT = consumer_group_requests.build_commit_offsets_request(
    "g",
    {
        B0: CommittedOffset(7),
        A1: CommittedOffset(6, "note"),
        A0: CommittedOffset(5),
    },
)
FORGET = consumer_group_requests.build_delete_offsets_request("g", [B0, A1, A0])
DELETE = consumer_group_requests.build_delete_group_request("g")
LISTING = consumer_group_requests.build_list_groups_request()
CLASSIC = consumer_group_requests.build_describe_classic_groups_request("g")
CONSUMER = consumer_group_requests.build_describe_consumer_groups_request("g")
EVERY = [
    (message, version)
    for message in (FETCH, COMMIT, FORGET, DELETE, CLASSIC, CONSUMER)
    for version in range(message.low, message.high + 1)
]
NO_TIME = datetime.timedelta(0)


def written(message: RequestBuilder, version: int) -> Any:
    body = bytes(request_framing.encode_request_body(message.build_request_message(version)))
    schema = kio.index.load_request_schema(message.api_key, version)
    found, size = entity_reader(schema)(body, 0)
    assert size == len(body)
    return found


@pytest.mark.parametrize(("message", "version"), EVERY)
def test_every_version_says_which_group(message, version):
    found = written(message, version)
    assert found == message.build_request_message(version)
    several = ("groups_names", "groups", "group_ids")
    named = [name for key in several for name in getattr(found, key, ())]
    assert "g" in (getattr(found, "group_id", None), *named)


@pytest.mark.parametrize("version", range(LISTING.low, LISTING.high + 1))
def test_all_groups_are_listed_of_whatever_state_and_type(version):
    found = written(LISTING, version)
    assert [getattr(found, f"{each}_filter", ()) for each in ("states", "types")] == [(), ()]


@pytest.mark.parametrize("version", range(COMMIT.low, COMMIT.high + 1))
def test_offsets_are_given_by_nobody_in_particular(version):
    found = written(COMMIT, version)
    assert (found.generation_id_or_member_epoch, found.member_id) == (-1, "")
    said = {
        (topic.name, each.partition_index): (each.committed_offset, each.committed_metadata)
        for topic in found.topics
        for each in topic.partitions
    }
    assert said == {("a", 0): (5, ""), ("a", 1): (6, "note"), ("b", 0): (7, "")}
    assert len(found.topics) == 2
    if version in range(2, 5):
        assert found.retention_time == datetime.timedelta(milliseconds=-1)


def test_all_offsets_are_asked_for_and_some_taken_away():
    assert written(FETCH, 7).topics is None
    found = written(FORGET, 0)
    said = [
        (topic.name, each.partition_index) for topic in found.topics for each in topic.partitions
    ]
    assert said == [("a", 0), ("a", 1), ("b", 0)]


def answer(message: RequestBuilder, version: int) -> Any:
    return kio.index.load_payload_module(message.api_key, version, EntityType.response)


def fetched(*partitions, error=0):
    m = answer(FETCH, 7)
    found = tuple(
        m.OffsetFetchResponsePartition(
            partition_index=number,
            committed_offset=offset,
            metadata="note" if number else None,
            error_code=ErrorCode(code),
        )
        for number, offset, code in partitions
    )
    topics = (m.OffsetFetchResponseTopic(name="a", partitions=found),)
    return m.OffsetFetchResponse(throttle_time=NO_TIME, topics=topics, error_code=ErrorCode(error))


def test_what_a_group_has_is_read():
    assert consumer_group_requests.decode_committed_offsets(fetched((0, 5, 0), (1, -1, 0))) == {
        A0: CommittedOffset(5),
        A1: CommittedOffset(-1, "note"),
    }


def described(code):
    m = answer(CLASSIC, 5)
    one = m.DescribedGroup(
        error_code=ErrorCode(code),
        group_id="g",
        group_state="Empty",
        protocol_type="consumer",
        protocol_data="",
        members=(),
    )
    return m.DescribeGroupsResponse(throttle_time=NO_TIME, groups=(one,))


def test_what_is_refused_of_single_partitions_is_told_by_partition():
    assert consumer_group_requests.get_partition_errors(fetched((0, 5, 0), (1, 6, 3))) == {A1: 3}
    assert consumer_group_requests.get_partition_errors(described(0)) == {}


def test_the_first_error_counts_wherever_it_stands():
    assert consumer_group_requests.find_error_code(fetched((0, 5, 0), (1, 6, 0))) == 0
    assert consumer_group_requests.find_error_code(fetched((0, 5, 0), (1, 6, 3))) == 3
    assert consumer_group_requests.find_error_code(fetched((0, 5, 3), error=30)) == 30
    assert consumer_group_requests.find_error_code(described(15)) == 15
    assert consumer_group_requests.find_error_code(described(0)) == 0
    m = answer(LISTING, 5)
    some = m.ListedGroup(
        group_id="g", protocol_type="consumer", group_state="Empty", group_type="classic"
    )
    for code in (0, 15):
        listed = m.ListGroupsResponse(
            throttle_time=NO_TIME, error_code=ErrorCode(code), groups=(some,)
        )
        assert consumer_group_requests.find_error_code(listed) == code
    m = answer(DELETE, 2)
    gone = m.DeletableGroupResult(group_id="g", error_code=ErrorCode(69))
    deleted = m.DeleteGroupsResponse(throttle_time=NO_TIME, results=(gone,))
    assert (
        consumer_group_requests.find_error_code(deleted)
        == consumer_group_requests.GROUP_ID_NOT_FOUND
    )
    m = answer(FORGET, 0)
    busy = m.OffsetDeleteResponse(
        error_code=ErrorCode(0),
        throttle_time=NO_TIME,
        topics=(
            m.OffsetDeleteResponseTopic(
                name="a",
                partitions=(
                    m.OffsetDeleteResponsePartition(partition_index=0, error_code=ErrorCode(86)),
                ),
            ),
        ),
    )
    assert consumer_group_requests.find_error_code(busy) == 86
