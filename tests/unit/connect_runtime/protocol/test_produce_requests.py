from __future__ import annotations

import datetime
import itertools
import uuid

import kio.index
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from connect_runtime.protocol import produce_requests
from connect_runtime.protocol.produce_requests import ProduceBatch, ProduceResponsePartition
from connect_runtime.protocol.request_errors import MalformedResponseError
from tests.support import kio_bytes

VERSIONS = range(produce_requests.PRODUCE_MIN_VERSION, produce_requests.PRODUCE_MAX_VERSION + 1)
I32 = st.integers(-1, 2**31 - 1)
I64 = st.integers(-1, 2**63 - 1)
NAMES = st.text("abcäöλ.-_0", min_size=1, max_size=200)
IDS = st.binary(min_size=16, max_size=16).filter(any)
TOPICS = st.lists(
    st.tuples(
        NAMES, IDS, st.lists(st.tuples(I32, st.binary(max_size=200)), min_size=1, max_size=4)
    ),
    max_size=4,
    unique_by=(lambda topic: topic[0], lambda topic: topic[1]),
)


def kio_module(version: int, kind):
    return kio.index.load_payload_module(0, version, kind)


def kio_request(version, transactional_id, acks, timeout_ms, topics) -> bytes:
    m = kio_module(version, EntityType.request)
    key = "topic_id" if version >= 13 else "name"
    return kio_bytes.written(
        m.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout=datetime.timedelta(milliseconds=timeout_ms),
            topic_data=tuple(
                m.TopicProduceData(
                    partition_data=tuple(
                        m.PartitionProduceData(index=index, records=records)
                        for index, records in parts
                    ),
                    **{key: uuid.UUID(bytes=topic_id) if version >= 13 else name},
                )
                for name, topic_id, parts in topics
            ),
        )
    )


def batches_of(topics) -> list[ProduceBatch]:
    return [
        ProduceBatch(name, topic_id, index, memoryview(records))
        for name, topic_id, parts in topics
        for index, records in parts
    ]


@given(
    version=st.sampled_from(VERSIONS),
    transactional_id=st.one_of(st.none(), st.text(max_size=200)),
    acks=st.sampled_from([-1, 0, 1]),
    timeout_ms=st.integers(0, 2**31 - 1),
    topics=TOPICS,
)
def test_requests_are_byte_for_byte_what_kio_writes(
    version, transactional_id, acks, timeout_ms, topics
):
    chunks = produce_requests.encode_produce_request(
        version,
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        batches=batches_of(topics),
    )
    assert b"".join(chunks) == kio_request(version, transactional_id, acks, timeout_ms, topics)


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_are_handed_on_and_not_copied(version):
    batches = batches_of([("t", b"i" * 16, [(0, b"a" * 500), (1, b"b" * 70_000)])])
    chunks = produce_requests.encode_produce_request(
        version, transactional_id=None, acks=-1, timeout_ms=1, batches=batches
    )
    assert [chunk for chunk in chunks if isinstance(chunk, memoryview)] == [
        batch.records for batch in batches
    ]
    assert all(any(chunk is batch.records for chunk in chunks) for batch in batches)


PRODUCED = st.fixed_dictionaries(
    {
        "index": I32,
        "error_code": st.sampled_from(list(ErrorCode)),
        "base_offset": I64,
        "log_append_time_ms": st.integers(-1, 10**12),
        "log_start_offset": I64,
        "record_errors": st.lists(
            st.tuples(I32, st.one_of(st.none(), st.text(max_size=9))), max_size=130
        ),
        "error_message": st.one_of(st.none(), st.text(max_size=200)),
        "leader": st.tuples(I32, I32),
    }
)


def kio_partition(m, version, data):
    fields = {}
    if version >= 8:
        fields["record_errors"] = tuple(
            m.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in data["record_errors"]
        )
        fields["error_message"] = data["error_message"]
    if version >= 10:
        leader_id, leader_epoch = data["leader"]
        fields["current_leader"] = m.LeaderIdAndEpoch(
            leader_id=leader_id, leader_epoch=leader_epoch
        )
    append_ms = data["log_append_time_ms"]
    return m.PartitionProduceResponse(
        index=data["index"],
        error_code=data["error_code"],
        base_offset=data["base_offset"],
        log_append_time=None
        if append_ms == -1
        else datetime.datetime.fromtimestamp(0, datetime.UTC)
        + datetime.timedelta(milliseconds=append_ms),
        log_start_offset=data["log_start_offset"],
        **fields,
    )


def kio_response(version, throttle_ms, topics) -> bytes:
    m = kio_module(version, EntityType.response)
    key = "topic_id" if version >= 13 else "name"
    extra = {}
    if version >= 10 and topics:
        extra["node_endpoints"] = (m.NodeEndpoint(node_id=3, host="h", port=9092),)
    return kio_bytes.written(
        m.ProduceResponse(
            throttle_time=datetime.timedelta(milliseconds=throttle_ms),
            responses=tuple(
                m.TopicProduceResponse(
                    partition_responses=tuple(kio_partition(m, version, data) for data in parts),
                    **{key: uuid.UUID(bytes=topic_id) if version >= 13 else name},
                )
                for name, topic_id, parts in topics
            ),
            **extra,
        )
    )


def expected_partition(version, name, topic_id, data) -> ProduceResponsePartition:
    no_leader = version < 10 or data["leader"] == (-1, -1)
    return ProduceResponsePartition(
        topic=name if version < 13 else "",
        topic_id=topic_id if version >= 13 else bytes(16),
        partition=data["index"],
        error_code=data["error_code"].value,
        base_offset=data["base_offset"],
        log_append_time_ms=data["log_append_time_ms"],
        log_start_offset=data["log_start_offset"],
        error_message=data["error_message"] if version >= 8 else None,
        current_leader=None if no_leader else data["leader"],
        record_errors=tuple(data["record_errors"]) if version >= 8 else (),
    )


@given(
    version=st.sampled_from(VERSIONS),
    throttle_ms=st.integers(0, 2**31 - 1),
    topics=st.lists(st.tuples(NAMES, IDS, st.lists(PRODUCED, max_size=3)), max_size=3),
)
def test_responses_read_as_kio_wrote_them(version, throttle_ms, topics):
    body = memoryview(kio_response(version, throttle_ms, topics))
    response = produce_requests.decode_produce_response(version, body)
    assert response.throttle_ms == throttle_ms
    assert response.partitions == [
        expected_partition(version, name, topic_id, data)
        for name, topic_id, parts in topics
        for data in parts
    ]


def two_partition_body(version: int) -> bytes:
    good = {
        "index": 1, "error_code": ErrorCode.none, "base_offset": 4, "log_append_time_ms": -1,
        "log_start_offset": 0, "record_errors": [], "error_message": None, "leader": (-1, -1),
    }  # fmt: skip
    bad = {**good, "record_errors": [(0, "m"), (3, None)], "error_message": "x", "leader": (2, 9)}
    return kio_response(version, 7, [("t", b"i" * 16, [good, bad])])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_and_every_surplus_is_a_clear_error(version):
    body = two_partition_body(version)
    for wrong in [*(body[:end] for end in range(len(body))), body + b"\x00"]:
        with pytest.raises(MalformedResponseError, match=f"produce response, version {version}"):
            produce_requests.decode_produce_response(version, memoryview(wrong))


def test_a_damaged_byte_is_a_truncated_response_or_other_values_never_another_error():
    for version, byte in itertools.product(VERSIONS, (0, 1, 127, 128, 255)):
        body = two_partition_body(version)
        for position in range(len(body)):
            damaged = body[:position] + bytes([byte]) + body[position + 1 :]
            try:
                produce_requests.decode_produce_response(version, memoryview(damaged))
            except MalformedResponseError:
                continue
