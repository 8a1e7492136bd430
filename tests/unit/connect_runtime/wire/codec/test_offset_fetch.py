"""Offsets of many groups in one answer: who stands as he stood is passed over unread."""

from __future__ import annotations

import datetime
import io

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v8 import response as v8
from kio.schema.offset_fetch.v9 import response as v9
from kio.serial import entity_reader, entity_writer

from connect_runtime.base import ids
from connect_runtime.wire.codec import failures, frames, group_requests, offset_fetch

T0 = ids.TopicPartition("t", 0)
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
    return {T0: group_requests.Committed(offset, metadata)}


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


def test_all_are_asked_for_at_once(version):
    message = offset_fetch.fetch(["a", "b"], stable=True)
    entity = message.entity(version)
    data = frames.encode_body(entity)
    (read, _) = entity_reader(type(entity))(data, 0)
    assert [each.group_id for each in read.groups] == ["a", "b"]
    assert [each.topics for each in read.groups] == [None, None]
    assert read.require_stable


def test_who_has_not_moved_is_the_same_and_who_has_is_read(version):
    m = VERSIONS[version]
    names = ["a", "b", "c"]
    before = body_of(m, group_of(m, "a", 5), group_of(m, "b", 6), group_of(m, "c", 7))
    first = offset_fetch.fetch(names).decoded(version, before)
    assert [each.offsets for each in first.found] == [committed(at) for at in (5, 6, 7)]
    seen = {each.group: each.data for each in first.found}
    after = body_of(
        m, group_of(m, "a", 5), group_of(m, "b", 8, metadata="note"), group_of(m, "c", 7)
    )
    second = offset_fetch.fetch(names, seen=seen).decoded(version, after)
    assert second.same == ["a", "c"]
    (moved,) = second.found
    assert (moved.group, moved.offsets, moved.code) == ("b", committed(8, "note"), 0)


def test_another_order_or_fewer_groups_confuse_nobody(version):
    m = VERSIONS[version]
    seen = {
        each.group: each.data
        for each in offset_fetch.fetch(["a", "b"])
        .decoded(version, body_of(m, group_of(m, "a", 5), group_of(m, "b", 6)))
        .found
    }
    ask = offset_fetch.fetch(["a", "b"], seen=seen)
    turned = ask.decoded(version, body_of(m, group_of(m, "b", 6), group_of(m, "a", 5)))
    assert {each.group: each.offsets for each in turned.found} == {
        "a": committed(5),
        "b": committed(6),
    }
    assert ask.decoded(version, body_of(m, group_of(m, "a", 5))).same == ["a"]
    more = ask.decoded(version, body_of(m, *(group_of(m, each, 5) for each in "abc")))
    assert [each.group for each in more.found] == ["b", "c"]


def test_error_codes_of_groups_and_partitions(version):
    m = VERSIONS[version]
    body = body_of(m, group_of(m, "a", 5, code=16), group_of(m, "b", 6, partition_code=88))
    found = offset_fetch.fetch(["a", "b"]).decoded(version, body).found
    assert [each.code for each in found] == [16, 88]


def test_no_groups_is_an_answer(version):
    assert offset_fetch.fetch([]).decoded(version, body_of(VERSIONS[version])).found == []


def test_garbage_is_refused(version):
    m = VERSIONS[version]
    body = body_of(m, group_of(m, "a", 5))
    ask = offset_fetch.fetch(["a"])
    seen = {"a": ask.decoded(version, body).found[0].data}
    for at in range(5, len(body)):
        for asking in (ask, offset_fetch.fetch(["a"], seen=seen)):
            with pytest.raises(failures.TruncatedResponse):
                asking.decoded(version, body[:at])
    with pytest.raises(failures.TruncatedResponse):
        ask.decoded(version, memoryview(bytearray([*body, 0])))
