"""The session machine against a model of the broker's side of KIP-227."""

from __future__ import annotations

import datetime
import random
import struct
import tracemalloc
import uuid
from typing import Any

import kio.index
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from connect_runtime.protocol import api_versions, fetch_requests, varints
from connect_runtime.protocol.fetch_requests import (
    FetchRequestPartition,
    FetchResponse,
    FetchResponsePartition,
    FetchSession,
    FetchSessionRequest,
)
from connect_runtime.protocol.request_errors import MalformedResponseError
from tests.support import kio_bytes

VERSIONS = range(fetch_requests.FETCH_MIN_VERSION, fetch_requests.FETCH_MAX_VERSION + 1)
I32 = st.integers(-1, 2**31 - 1)
I64 = st.integers(-1, 2**63 - 1)
NAMES = st.text("abcäöλ.-_0", min_size=1, max_size=200)
IDS = st.binary(min_size=16, max_size=16).filter(any)
ASKED = st.builds(FetchRequestPartition, NAMES, IDS, I32, I32, I64, I32, I32)


ID = bytes(15) + b"1"


def test_topics_with_ids_are_read_in_any_version():
    assert fetch_requests.choose_fetch_versions([ID, ID]) == api_versions.FETCH_VERSIONS


def test_one_topic_without_an_id_makes_them_all_be_named():
    assert fetch_requests.choose_fetch_versions([ID, varints.NO_TOPIC_ID]) == (12, 12)


def kio_module(version: int, kind):
    return kio.index.load_payload_module(1, version, kind)


def grouped(version: int, partitions):
    topics: dict = {}
    for part in partitions:
        key = uuid.UUID(bytes=part.topic_id) if version >= 13 else part.topic
        topics.setdefault(key, []).append(part)
    return topics


def kio_request(version: int, partitions, forgotten, **fields) -> bytes:
    m = kio_module(version, EntityType.request)
    key = "topic_id" if version >= 13 else "topic"
    topics = tuple(
        m.FetchTopic(
            partitions=tuple(
                m.FetchPartition(
                    partition=p.partition,
                    current_leader_epoch=p.leader_epoch,
                    fetch_offset=p.fetch_offset,
                    last_fetched_epoch=p.last_fetched_epoch,
                    partition_max_bytes=p.max_bytes,
                )
                for p in parts
            ),
            **{key: name},
        )
        for name, parts in grouped(version, partitions).items()
    )
    dropped = tuple(
        m.ForgottenTopic(partitions=tuple(p.partition for p in parts), **{key: name})
        for name, parts in grouped(version, forgotten).items()
    )
    max_wait = datetime.timedelta(milliseconds=fields.pop("max_wait_ms"))
    return kio_bytes.written(
        m.FetchRequest(max_wait=max_wait, topics=topics, forgotten_topics_data=dropped, **fields)
    )


@given(
    version=st.sampled_from(VERSIONS),
    partitions=st.lists(ASKED, max_size=5),
    forgotten=st.lists(ASKED, max_size=3),
    fields=st.fixed_dictionaries(
        {
            "max_wait_ms": st.integers(0, 60_000),
            "min_bytes": I32,
            "max_bytes": I32,
            "isolation_level": st.integers(0, 1),
            "session_id": I32,
            "session_epoch": I32,
            "rack_id": st.text(max_size=20),
        }
    ),
)
def test_requests_are_byte_for_byte_what_kio_writes(version, partitions, forgotten, fields):
    ours = fetch_requests.encode_fetch_request(
        version, partitions=partitions, forgotten=forgotten, **fields
    )
    assert ours == kio_request(version, partitions, forgotten, **fields)


def test_partitions_of_one_topic_are_grouped_wherever_they_stand():
    ids = [bytes([n]) * 16 for n in (1, 2)]
    parts = [FetchRequestPartition(f"t{i % 2}", ids[i % 2], i, 0, 0, 0, 1) for i in range(6)]
    fields: dict[str, Any] = {
        "max_wait_ms": 1, "min_bytes": 1, "max_bytes": 1, "isolation_level": 1,
        "session_id": 0, "session_epoch": 0, "rack_id": "",
    }  # fmt: skip
    for version in VERSIONS:
        ours = fetch_requests.encode_fetch_request(
            version, partitions=parts, forgotten=[], **fields
        )
        assert ours == kio_request(version, parts, [], **fields)


FETCHED = st.fixed_dictionaries(
    {
        "partition_index": I32,
        "error_code": st.sampled_from(list(ErrorCode)),
        "high_watermark": I64,
        "last_stable_offset": I64,
        "log_start_offset": I64,
        "aborted": st.one_of(st.none(), st.lists(st.tuples(I64, I64), max_size=300)),
        "preferred_read_replica": I32,
        "records": st.one_of(st.none(), st.binary(max_size=300)),
        "diverging": st.tuples(I32, I64),
        "leader": st.tuples(I32, I32),
        "snapshot": st.tuples(I64, I32),
    }
)


def kio_partition(m, data):
    aborted = data["aborted"]
    return m.PartitionData(
        partition_index=data["partition_index"],
        error_code=data["error_code"],
        high_watermark=data["high_watermark"],
        last_stable_offset=data["last_stable_offset"],
        log_start_offset=data["log_start_offset"],
        aborted_transactions=None
        if aborted is None
        else tuple(m.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted),
        preferred_read_replica=data["preferred_read_replica"],
        records=data["records"],
        diverging_epoch=m.EpochEndOffset(
            epoch=data["diverging"][0], end_offset=data["diverging"][1]
        ),
        current_leader=m.LeaderIdAndEpoch(
            leader_id=data["leader"][0], leader_epoch=data["leader"][1]
        ),
        snapshot_id=m.SnapshotId(end_offset=data["snapshot"][0], epoch=data["snapshot"][1]),
    )


def kio_response(version, throttle_ms, error, session_id, topics) -> bytes:
    m = kio_module(version, EntityType.response)
    key = "topic_id" if version >= 13 else "topic"
    extra = {}
    if version >= 16 and topics:
        extra["node_endpoints"] = (m.NodeEndpoint(node_id=3, host="h", port=9092),)
    return kio_bytes.written(
        m.FetchResponse(
            throttle_time=datetime.timedelta(milliseconds=throttle_ms),
            error_code=error,
            session_id=session_id,
            responses=tuple(
                m.FetchableTopicResponse(
                    partitions=tuple(kio_partition(m, data) for data in parts),
                    **{key: uuid.UUID(bytes=topic_id) if version >= 13 else name},
                )
                for name, topic_id, parts in topics
            ),
            **extra,
        )
    )


def expected_partition(version, name, topic_id, data) -> FetchResponsePartition:
    return FetchResponsePartition(
        topic=name if version < 13 else "",
        topic_id=topic_id if version >= 13 else bytes(16),
        partition=data["partition_index"],
        error_code=data["error_code"].value,
        high_watermark=data["high_watermark"],
        last_stable_offset=data["last_stable_offset"],
        log_start_offset=data["log_start_offset"],
        aborted=data["aborted"] or [],
        preferred_read_replica=data["preferred_read_replica"],
        diverging_end_offset=data["diverging"][1],
        current_leader=None if data["leader"] == (-1, -1) else data["leader"],
        records=memoryview(data["records"] or b""),
        diverging_epoch=data["diverging"][0],
    )


@given(
    version=st.sampled_from(VERSIONS),
    throttle_ms=st.integers(0, 2**31 - 1),
    error=st.sampled_from(list(ErrorCode)),
    session_id=I32,
    topics=st.lists(st.tuples(NAMES, IDS, st.lists(FETCHED, max_size=3)), max_size=3),
)
def test_responses_read_as_kio_wrote_them(version, throttle_ms, error, session_id, topics):
    body = memoryview(bytearray(kio_response(version, throttle_ms, error, session_id, topics)))
    response = fetch_requests.decode_fetch_response(version, body, max_partitions=9)
    assert response[:3] == (throttle_ms, error.value, session_id)
    assert response.partitions == [
        expected_partition(version, name, topic_id, data)
        for name, topic_id, parts in topics
        for data in parts
    ]


def one_partition_body(version: int, records: bytes = b"0123456789") -> bytearray:
    data = {
        "partition_index": 1, "error_code": ErrorCode.none, "high_watermark": 9,
        "last_stable_offset": 9, "log_start_offset": 0, "aborted": [(1, 2)],
        "preferred_read_replica": -1, "records": records, "diverging": (3, 4),
        "leader": (1, 7), "snapshot": (-1, -1),
    }  # fmt: skip
    topics = [("t", b"i" * 16, [data])]
    return bytearray(kio_response(version, 0, ErrorCode.none, 5, topics))


def decode(version: int, body: bytes | bytearray) -> FetchResponse:
    return fetch_requests.decode_fetch_response(version, memoryview(body), max_partitions=1)


def test_more_partitions_or_topics_than_requested_are_refused_at_once():
    empty = struct.pack(">ihqqq", 0, 0, 0, 0, 0) + b"\x01" + struct.pack(">i", -1) + b"\x01\x00"
    count = 100_000
    number = varints.encode_varint(count + 1)
    topics = (
        b"\x02" + ID + number + empty * count + b"\x00",
        number + (ID + b"\x01\x00") * count,
        b"\x03" + (ID + b"\x02" + empty + b"\x00") * 2,
    )
    for each in topics:
        body = bytes(10) + each + b"\x00"
        tracemalloc.start()
        try:
            with pytest.raises(MalformedResponseError, match="requested: 1"):
                decode(17, body)
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()
    fetch_requests.decode_fetch_response(17, memoryview(body), max_partitions=2)


def test_aborted_transactions_are_bounded_in_the_whole_response(monkeypatch):
    monkeypatch.setattr(fetch_requests, "ABORTED_TRANSACTIONS_MAX", 4)
    with_three = (
        struct.pack(">ihqqq", 0, 0, 0, 0, 0)
        + varints.encode_varint(4)
        + struct.pack(">qqb", 1, 2, 0) * 3
        + struct.pack(">i", -1)
        + b"\x01\x00"
    )
    body = bytes(10) + b"\x02" + ID + b"\x03" + with_three * 2 + b"\x00\x00"
    with pytest.raises(MalformedResponseError, match="more than 4 aborted transactions"):
        fetch_requests.decode_fetch_response(17, memoryview(body), max_partitions=2)
    body = bytes(10) + b"\x02" + ID + b"\x02" + with_three + b"\x00\x00"
    assert decode(17, body).partitions[0].aborted == [(1, 2)] * 3


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_a_writable_view_into_the_body(version):
    body = one_partition_body(version)
    (part,) = decode(version, body).partitions
    part.records[0:2] = b"xx"
    assert b"xx23456789" in bytes(body)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_and_every_surplus_is_a_clear_error(version):
    body = bytes(one_partition_body(version))
    for wrong in [*(body[:end] for end in range(len(body))), body + b"\x00"]:
        with pytest.raises(MalformedResponseError, match=f"fetch response, version {version}"):
            decode(version, wrong)


@given(version=st.sampled_from(VERSIONS), position=st.integers(0, 200), byte=st.integers(0, 255))
def test_a_damaged_byte_is_a_truncated_response_or_other_values_never_another_error(
    version, position, byte
):
    body = one_partition_body(version)
    body[position % len(body)] = byte
    try:
        response = decode(version, body)
    except MalformedResponseError:
        return
    assert sum(len(part.records) for part in response.partitions) <= len(body)


ID = b"i" * 16


def partition(number: int, offset: int = 0, topic_id: bytes = ID) -> FetchRequestPartition:
    return FetchRequestPartition("t", topic_id, number, 1, offset, -1, 1 << 20)


def answer(*partitions: int, session_id: int = 9, error_code: int = 0) -> FetchResponse:
    found = [
        FetchResponsePartition("t", ID, p, 0, 0, 0, 0, [], -1, -1, None, memoryview(b""))
        for p in partitions
    ]
    return FetchResponse(0, error_code, session_id, found)


def opened(*numbers: int) -> FetchSession:
    session = FetchSession()
    for number in numbers:
        session.set_partition(number, partition(number))
    request = session.start_next_request()
    assert request == (0, 0, [partition(n) for n in numbers], [])
    session.on_response(answer(*numbers))
    return session


def test_after_the_first_full_request_only_news_is_sent():
    session = opened(0, 1, 2)
    assert session.start_next_request() == (9, 1, [], [])
    session.on_response(answer())
    session.set_partition(1, partition(1, offset=50))
    session.set_partition(1, partition(1, offset=60))
    session.set_partition(2, partition(2))
    assert session.start_next_request() == (9, 2, [partition(1, offset=60)], [])


def test_dropped_partitions_are_forgotten_and_may_come_back():
    session = opened(0, 1)
    session.remove_partition(0)
    session.remove_partition(7)
    assert session.start_next_request() == (9, 1, [], [partition(0)])
    session.on_response(answer())
    session.set_partition(0, partition(0, offset=5))
    session.remove_partition(1)
    session.set_partition(1, partition(1))
    assert session.start_next_request() == (9, 2, [partition(0, offset=5)], [])


def test_what_changes_while_a_request_is_in_flight_goes_with_the_next():
    session = opened(0)
    session.start_next_request()
    session.set_partition(0, partition(0, offset=10))
    session.set_partition(1, partition(1))
    session.on_response(answer())
    assert session.start_next_request() == (9, 2, [partition(0, offset=10), partition(1)], [])


def test_a_recreated_topic_is_forgotten_under_its_old_id():
    session = opened(0)
    new = partition(0, topic_id=b"j" * 16)
    session.set_partition(0, new)
    assert session.start_next_request() == (9, 1, [new], [partition(0)])


@pytest.mark.parametrize(
    ("error_code", "next_id"),
    [(70, 0), (71, 9), (106, 9), (100, 9), (-1, 9)],
    ids=["id not found", "bad epoch", "topic id error", "unknown topic id", "other"],
)
def test_a_refused_request_starts_anew_with_everything(error_code, next_id):
    session = opened(0, 1)
    session.remove_partition(0)
    session.set_partition(2, partition(2))
    session.start_next_request()
    session.on_response(answer(error_code=error_code, session_id=0))
    assert session.start_next_request() == (next_id, 0, [partition(1), partition(2)], [])


def test_a_lost_request_starts_anew_and_closes_the_old_session():
    session = opened(0, 1)
    session.set_partition(0, partition(0, offset=3))
    session.start_next_request()
    session.on_request_failed()
    assert session.start_next_request() == (9, 0, [partition(0, offset=3), partition(1)], [])
    session.on_request_failed()
    assert session.start_next_request().session_id == 9


def test_without_a_session_every_request_is_full():
    session = FetchSession()
    session.set_partition(0, partition(0))
    for _ in range(3):
        assert session.start_next_request() == (0, 0, [partition(0)], [])
        session.on_response(answer(0, session_id=0))


def test_a_session_that_misses_partitions_or_was_closed_is_opened_again():
    session = FetchSession()
    session.set_partition(0, partition(0))
    session.set_partition(1, partition(1))
    session.start_next_request()
    session.on_response(answer(0, session_id=4))
    assert session.start_next_request()[:2] == (4, 0)
    session.on_response(answer(0, 1, session_id=5))
    assert session.start_next_request()[:2] == (5, 1)
    session.on_response(answer(session_id=0))
    assert session.start_next_request()[:2] == (0, 0)


def test_the_epoch_wraps_to_one():
    session = opened(0)
    session._epoch = 2**31 - 1
    assert session.start_next_request().session_epoch == 2**31 - 1
    session.on_response(answer())
    assert session.start_next_request().session_epoch == 1


def test_one_request_at_a_time():
    session = opened(0)
    session.start_next_request()
    assert session.is_in_flight()
    with pytest.raises(AssertionError, match="one request in flight"):
        session.start_next_request()


class Broker:
    """The broker's cache: applies requests in order, refuses what does not follow."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sessions: dict[int, tuple[int, dict]] = {}
        self.last_id = 0

    def handle(self, request: FetchSessionRequest) -> FetchResponse:
        session_id, epoch, partitions, forgotten = request
        if epoch == 0:
            self.sessions.pop(session_id, None)
            cached = {(p.topic_id, p.partition): p for p in partitions}
            assert not forgotten
            self.fetched = dict(cached)
            if self.rng.random() < 0.2:
                return answer(*(p.partition for p in partitions), session_id=0)
            self.last_id += 1
            self.sessions[self.last_id] = (1, cached)
            return answer(*(p.partition for p in partitions), session_id=self.last_id)
        if session_id not in self.sessions:
            return answer(session_id=0, error_code=70)
        expected, cached = self.sessions[session_id]
        if epoch != expected:
            return answer(session_id=0, error_code=71)
        for p in forgotten:
            assert cached.pop((p.topic_id, p.partition)), "forgot what it never had"
        cached.update({(p.topic_id, p.partition): p for p in partitions})
        self.sessions[session_id] = (epoch + 1, cached)
        self.fetched = dict(cached)
        return answer(session_id=session_id)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_an_accepted_request_makes_the_broker_fetch_exactly_what_is_wanted(seed):
    rng = random.Random(seed)
    broker, session = Broker(rng), FetchSession()
    for _ in range(200):
        for _ in range(rng.randrange(4)):
            key = rng.randrange(6)
            if rng.random() < 0.3:
                session.remove_partition(key)
            else:
                topic_id = rng.choice([ID, ID, ID, b"j" * 16])
                session.set_partition(key, partition(key, rng.randrange(3), topic_id))
        request = session.start_next_request()
        wanted = {(p.topic_id, p.partition): p for p in session._wanted.values()}
        fate = rng.random()
        if fate < 0.1:
            session.on_request_failed()
        elif fate < 0.2:
            broker.handle(request)
            session.on_request_failed()
        else:
            response = broker.handle(request)
            if response.error_code == 0:
                assert broker.fetched == wanted
            session.on_response(response)
        session.check_invariants()
        if rng.random() < 0.05:
            broker.sessions.clear()
