"""Each request in every version that it claims, and what answers say."""

from __future__ import annotations

import datetime
from typing import Any

import kio.index
import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.static.constants import EntityType

from connect_runtime.base import ids
from connect_runtime.wire.codec import frames, group_requests, messages

A0, A1, B0 = (ids.TopicPartition(*each) for each in (("a", 0), ("a", 1), ("b", 0)))
FETCH = group_requests.fetch("g")
COMMIT = group_requests.commit(
    "g",
    {
        B0: group_requests.Committed(7),
        A1: group_requests.Committed(6, "note"),
        A0: group_requests.Committed(5),
    },
)
FORGET = group_requests.forget("g", [B0, A1, A0])
DELETE = group_requests.delete("g")
LISTING = group_requests.listing()
CLASSIC = group_requests.describe_classic("g")
CONSUMER = group_requests.describe_consumer("g")
EVERY = [
    (message, version)
    for message in (FETCH, COMMIT, FORGET, DELETE, CLASSIC, CONSUMER)
    for version in range(message.low, message.high + 1)
]
NO_TIME = datetime.timedelta(0)


def written(message: messages.Message, version: int) -> Any:
    body = bytes(frames.encode_body(message.entity(version)))
    schema = kio.index.load_request_schema(message.api_key, version)
    found, size = entity_reader(schema)(body, 0)
    assert size == len(body)
    return found


@pytest.mark.parametrize(("message", "version"), EVERY)
def test_every_version_says_which_group(message, version):
    found = written(message, version)
    assert found == message.entity(version)
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


def answer(message: messages.Message, version: int) -> Any:
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
    assert group_requests.fetched(fetched((0, 5, 0), (1, -1, 0))) == {
        A0: group_requests.Committed(5),
        A1: group_requests.Committed(-1, "note"),
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
    assert group_requests.refused(fetched((0, 5, 0), (1, 6, 3))) == {A1: 3}
    assert group_requests.refused(described(0)) == {}


def test_the_first_error_counts_wherever_it_stands():
    assert group_requests.error(fetched((0, 5, 0), (1, 6, 0))) == 0
    assert group_requests.error(fetched((0, 5, 0), (1, 6, 3))) == 3
    assert group_requests.error(fetched((0, 5, 3), error=30)) == 30
    assert group_requests.error(described(15)) == 15
    assert group_requests.error(described(0)) == 0
    m = answer(LISTING, 5)
    some = m.ListedGroup(
        group_id="g", protocol_type="consumer", group_state="Empty", group_type="classic"
    )
    for code in (0, 15):
        listed = m.ListGroupsResponse(
            throttle_time=NO_TIME, error_code=ErrorCode(code), groups=(some,)
        )
        assert group_requests.error(listed) == code
    m = answer(DELETE, 2)
    gone = m.DeletableGroupResult(group_id="g", error_code=ErrorCode(69))
    deleted = m.DeleteGroupsResponse(throttle_time=NO_TIME, results=(gone,))
    assert group_requests.error(deleted) == group_requests.GROUP_ID_NOT_FOUND
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
    assert group_requests.error(busy) == 86
