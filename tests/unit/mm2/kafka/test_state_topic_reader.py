"""State topics are read to their end, whatever their leaders answer, or an error says why not."""

from __future__ import annotations

import uuid

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicMissingError,
    UnreachableError,
    UnsupportedByBrokersError,
)
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.system.system_clock import SystemClock, wait_until
from mm2.formats import compression
from mm2.formats.primitive_types import MalformedRecordError
from mm2.kafka import state_topic_reader
from mm2.kafka.flow_state_log import FlowStateLogReader
from mm2.kafka.kafka_client_interfaces import (
    FlowStateTopic,
    LogTruncatedError,
    StoredLogRecord,
    TopicRecord,
)
from mm2.kafka.state_topic_reader import KafkaStateTopicReader, RecordApplier, TopicReader
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.support import log_brokers, state_records
from tests.support.log_brokers import Log, batch

TOPIC = "offsets"
WAIT_S = 20.0
SHORT_S = 0.6
CLOCK = SystemClock()
NOT_LEADER, NOT_AUTHORIZED, FENCED_EPOCH, OUT_OF_RANGE = 6, 29, 74, 1


def reader_of(cluster, *topics: str, partitions: int = 1) -> TopicReader:
    return TopicReader(
        cluster.access,
        client_id="c",
        topics=topics or (TOPIC,),
        partitions=partitions,
        clock=CLOCK,
    )


def keys(records) -> list[bytes]:
    return [each.key for each in records]


def log(*parts: bytes, end: int, **more) -> Log:
    return Log(list(parts), end=end, **more)


@pytest.fixture
def one():
    """A log of four records in two batches."""
    found = log(batch(b"a", b"b", at=0), batch(b"c", b"d", at=2), end=4)
    with log_brokers.serve({(TOPIC, 0): found}) as cluster:
        reader = reader_of(cluster)
        yield cluster, found, reader
        reader.close()


def test_records_are_read_once_and_in_order(one):
    _, found, reader = one
    first = state_records.read(reader, WAIT_S)
    assert [(each.offset, each.key, each.value) for each in first] == [
        (0, b"a", b"aa"),
        (1, b"b", b"bb"),
        (2, b"c", b"cc"),
        (3, b"d", b"dd"),
    ]
    assert first[2].time_ms == log_brokers.TIME_MS + 2
    assert state_records.read(reader, WAIT_S) == []
    found.batches.append(batch(b"e", at=4))
    found.end = 5
    assert keys(state_records.read(reader, WAIT_S)) == [b"e"]


def test_an_idle_reader_sends_nothing_and_a_read_without_news_no_fetch(one):
    cluster, _, reader = one
    state_records.read(reader, WAIT_S)
    fetches = len(cluster.asked("fetch"))
    everything = len(cluster.brokers[0].broker.asked)
    assert not wait_until(lambda: len(cluster.brokers[0].broker.asked) > everything, timeout_s=0.1)
    state_records.read(reader, WAIT_S)
    assert len(cluster.asked("fetch")) == fetches


def test_a_topic_that_is_empty_takes_no_fetch():
    with log_brokers.serve({(TOPIC, 0): log(start=7, end=7)}) as cluster:
        reader = reader_of(cluster)
        assert state_records.read(reader, WAIT_S) == []
        assert cluster.asked("fetch") == []
        reader.close()


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_is_read(codec):
    found = log(batch(b"a", b"b", at=0, codec=codec), end=2)
    with log_brokers.serve({(TOPIC, 0): found}) as cluster:
        reader = reader_of(cluster)
        assert keys(state_records.read(reader, WAIT_S)) == [b"a", b"b"]
        reader.close()


def test_markers_are_skipped_and_aborted_records_are_read():
    writing = Stamp(base_offset=1, leader_epoch=1, producer_id=9, producer_epoch=0)
    found = log(
        batch(b"a", at=0, producer_id=9, producer_epoch=0, attributes=batches.TRANSACTIONAL),
        batches.marker(writing, commit=False, timestamp=1),
        batch(b"c", at=2),
        end=3,
        aborted=((9, 0),),
    )
    with log_brokers.serve({(TOPIC, 0): found}) as cluster:
        reader = reader_of(cluster)
        assert keys(state_records.read(reader, WAIT_S)) == [b"a", b"c"]
        reader.close()


def test_offsets_that_compaction_removed_end_the_log_too():
    """Before the first record, after the last one of a batch, and a tail without any batch."""
    emptied = batches.data([], Stamp(base_offset=6, leader_epoch=1), last_offset_delta=3)
    for found, offsets in (
        (log(batch(b"a", at=3), end=4), [3]),
        (log(batch(b"a", at=0), emptied, end=10), [0]),
        (log(batch(b"a", at=0), end=10), [0]),
    ):
        with log_brokers.serve({(TOPIC, 0): found}) as cluster:
            reader = reader_of(cluster)
            assert [each.offset for each in state_records.read(reader, WAIT_S)] == offsets
            assert state_records.read(reader, WAIT_S) == []
            reader.close()


@pytest.mark.parametrize("code", [NOT_LEADER, FENCED_EPOCH, 103])
def test_what_passes_is_asked_again(one, code):
    cluster, found, reader = one
    cluster.brokers[0].end_codes = [code]
    found.codes = [code, code]
    assert keys(state_records.read(reader, WAIT_S)) == [b"a", b"b", b"c", b"d"]


def test_what_does_not_pass_is_told_at_once(one):
    cluster, found, reader = one
    found.codes = [NOT_AUTHORIZED]
    with pytest.raises(NotAuthorizedError, match=r"reading offsets-0 on hostile .* grant"):
        state_records.read(reader, WAIT_S)
    cluster.brokers[0].end_codes = [NOT_AUTHORIZED]
    with pytest.raises(NotAuthorizedError, match="reading the log end of offsets-0"):
        state_records.read(reader, WAIT_S)


def test_a_topic_is_awaited_until_the_deadline(one):
    cluster, _, reader = one
    cluster.lead({})
    with pytest.raises(TopicMissingError, match="offsets-0"):
        state_records.read(reader, SHORT_S)
    cluster.lead({TOPIC: (1,)})
    assert len(state_records.read(reader, WAIT_S)) == 4
    other = reader_of(cluster, partitions=2)
    with pytest.raises(TopicMissingError, match="offsets-1"):
        state_records.read(other, SHORT_S)
    other.close()


def test_a_leader_that_does_not_know_the_end_yet_is_asked_again(one):
    _, found, reader = one
    found.end = 3
    taken: list[TopicRecord] = []
    with pytest.raises(LogTruncatedError, match="the log ends at offset 3, but had reached 4"):
        reader.read_to_end(SHORT_S, taken.append, at_least={TOPIC: 4})
    assert taken == []
    found.end = 4
    reader.read_to_end(WAIT_S, taken.append, at_least={TOPIC: 4})
    assert len(taken) == 4


@pytest.mark.parametrize("change", ["start", "range", "diverging"])
def test_records_that_are_gone_are_noticed(one, change):
    _, found, reader = one
    state_records.read(reader, WAIT_S)
    found.end = 9
    if change == "start":
        found.start = 6
    elif change == "range":
        found.codes = [OUT_OF_RANGE]
    else:
        found.diverging = 2
    with pytest.raises(LogTruncatedError, match="will be read again from the beginning"):
        state_records.read(reader, WAIT_S)


def test_the_epoch_of_what_was_read_is_what_the_leader_checks(one):
    cluster, found, reader = one
    state_records.read(reader, WAIT_S)
    found.batches.append(batch(b"e", at=4, leader_epoch=2))
    found.end = 5
    state_records.read(reader, WAIT_S)
    asked = [each.entity.topics[0].partitions[0] for each in cluster.asked("fetch")]
    assert [int(each.last_fetched_epoch) for each in asked] == [-1, 1]
    assert {int(each.current_leader_epoch) for each in asked} == {1}


def test_what_was_read_before_an_error_is_not_lost(one):
    _, found, reader = one
    damaged = bytearray(found.batches[1])
    damaged[-1] ^= 1
    whole, found.batches[1] = found.batches[1], bytes(damaged)
    taken: list[TopicRecord] = []
    with pytest.raises(FatalError, match=r"offsets-0 on hostile .*checksum .* at offset 2"):
        reader.read_to_end(WAIT_S, taken.append)
    assert keys(taken) == [b"a", b"b"]
    found.batches[1] = whole
    reader.read_to_end(WAIT_S, taken.append)
    assert keys(taken) == [b"a", b"b", b"c", b"d"]


def test_a_topic_that_is_read_in_part_is_an_error_and_the_next_call_starts_again(one):
    cluster, found, _ = one
    topics = KafkaStateTopicReader(
        listing=cluster.access, reading=cluster.access, client_id="c", clock=CLOCK
    )
    damaged = bytearray(found.batches[1])
    damaged[-1] ^= 1
    whole, found.batches[1] = found.batches[1], bytes(damaged)
    taken: list[TopicRecord] = []
    with pytest.raises(FatalError, match=r"offsets-0 on hostile .*checksum .* at offset 2"):
        topics.read_topic(TOPIC, WAIT_S, taken.append)
    assert keys(taken) == [b"a", b"b"]
    found.batches[1] = whole
    again: list[TopicRecord] = []
    topics.read_topic(TOPIC, WAIT_S, again.append)
    assert keys(again) == [b"a", b"b", b"c", b"d"]
    topics.close()


def test_a_record_without_a_key_ends_reading_a_flow_log_each_time(one):
    cluster, found, _ = one
    stray = [Record(key=None, value=b"stray", timestamp=log_brokers.TIME_MS)]
    found.batches[1] = batches.data(stray, Stamp(base_offset=2, leader_epoch=1))
    found.end = 3
    reader = FlowStateLogReader(
        cluster.access, client_id="c", topics={FlowStateTopic.MAP: TOPIC}, clock=CLOCK
    )
    taken: list[StoredLogRecord] = []
    for _ in range(2):
        with pytest.raises(FatalError, match="offset 2 has no key"):
            reader.read_to_end(WAIT_S, taken.append, at_least={})
        assert keys(taken) == [b"a", b"b"]
    reader.close()


def test_a_handler_that_fails_gets_its_record_again(one):
    _, _, reader = one
    taken = []

    def take(record):
        taken.append(record.key)
        if len(taken) == 3:
            raise KeyError

    with pytest.raises(KeyError):
        reader.read_to_end(WAIT_S, take)
    reader.read_to_end(WAIT_S, take)
    assert taken == [b"a", b"b", b"c", b"c", b"d"]


def test_many_partitions_of_a_leader_take_one_fetch():
    logs = {
        (name, number): log(batch(f"{name}{number}".encode(), at=0), end=1)
        for name in ("s", "t")
        for number in range(20)
    }
    with log_brokers.serve(logs) as cluster:
        reader = reader_of(cluster, "s", "t", partitions=20)
        assert len(state_records.read(reader, WAIT_S)) == 40
        assert len(cluster.asked("fetch")) == 1
        reader.close()


def test_a_batch_larger_than_a_response_delays_no_other_partition(monkeypatch):
    monkeypatch.setattr("mm2.kafka.partition_log_client._MAX_RESPONSE_BYTES", 1000)
    logs = {
        (TOPIC, number): log(batch(b"k" * 300, at=0), batch(b"l" * 300, at=1), end=2)
        for number in range(3)
    }
    with log_brokers.serve(logs) as cluster:
        reader = reader_of(cluster, partitions=3)
        assert len(state_records.read(reader, WAIT_S)) == 6
        reader.close()


def test_a_silent_leader_delays_no_other_partition():
    logs = {
        (TOPIC, number): log(batch(b"%d" % number, at=0), batch(b"more", at=1), end=2)
        for number in range(2)
    }
    taken = []
    with log_brokers.serve(logs, brokers=2) as cluster:
        cluster.lead({TOPIC: (1, 2)})
        cluster.brokers[1].silent = {"fetch"}
        reader = reader_of(cluster, partitions=2)
        with pytest.raises(UnreachableError, match="offsets-1 on hostile"):
            reader.read_to_end(SHORT_S, lambda record: taken.append(record.key))
        assert taken == [b"0", b"more"]
        reader.close()


def test_partitions_follow_their_leader_although_the_old_one_is_silent():
    with log_brokers.serve({(TOPIC, 0): log(batch(b"a", at=0), end=1)}, brokers=2) as cluster:
        cluster.lead({TOPIC: (2,)})
        cluster.brokers[1].silent = {"list_offsets"}
        reader = reader_of(cluster)
        with pytest.raises(UnreachableError):
            state_records.read(reader, 0.3)
        cluster.lead({TOPIC: (1,)})
        assert keys(state_records.read(reader, WAIT_S)) == [b"a"]
        reader.close()


def test_a_cluster_that_does_not_answer_is_unreachable():
    access = KafkaClusterAccess(name="gone", bootstrap=("127.0.0.1:1",))
    reader = TopicReader(access, client_id="c", topics=[TOPIC], clock=CLOCK)
    with pytest.raises(UnreachableError, match=r"offsets-0 on gone .*check bootstrap\.servers"):
        state_records.read(reader, SHORT_S)
    reader.close()


def test_closing_ends_the_connections(one):
    cluster, _, reader = one
    state_records.read(reader, WAIT_S)
    reader.close()
    links = cluster.brokers[0].broker.links
    assert wait_until(lambda: not any(each.open for each in links), timeout_s=WAIT_S)


def test_a_connection_that_breaks_is_made_again(one):
    cluster, found, reader = one
    state_records.read(reader, WAIT_S)
    cluster.brokers[0].drop_next = {"list_offsets", "fetch"}
    found.batches.append(batch(b"e", at=4))
    found.end = 5
    assert keys(state_records.read(reader, WAIT_S)) == [b"e"]
    assert cluster.brokers[0].drop_next == set()


def test_brokers_that_are_too_old_are_named(one):
    cluster, _, reader = one
    cluster.brokers[0].broker.ranges = {"fetch": (0, 11)}
    with pytest.raises(UnsupportedByBrokersError, match=r"reading offsets-0 .* newer brokers"):
        state_records.read(reader, WAIT_S)


def test_a_topic_made_again_is_noticed(one):
    """By its id, although its log is as long as the old one."""
    cluster, _, reader = one
    broker = cluster.brokers[0].broker
    broker.topic_ids = {TOPIC: uuid.uuid4()}
    state_records.read(reader, WAIT_S)
    broker.topic_ids = {TOPIC: uuid.uuid4()}
    cluster.brokers[0].end_codes = [FENCED_EPOCH] * 40  # until the metadata is read again
    with pytest.raises(LogTruncatedError, match="the topic id has changed"):
        state_records.read(reader, WAIT_S)


# Hostile brokers


def _with_length(value: int):
    return lambda body: body[:8] + value.to_bytes(4, "big", signed=True) + body[12:]


MALFORMED = {
    "stray bytes": lambda body: body + b"\xff\xff",
    "truncated": lambda body: body[:-3],
    "half": lambda body: body[: len(body) // 2],
    "empty": lambda body: b"",
    "not UTF-8": lambda body: body.replace(TOPIC.encode(), b"\xff" * len(TOPIC)),
    "another topic": lambda body: body.replace(TOPIC.encode(), b"x" * len(TOPIC)),
    "all ones": lambda body: b"\xff" * len(body),
    "all zero": lambda body: bytes(len(body)),
    "lengths out of range": lambda body: body.replace(b"\x02", b"\xff\xff\xff\xff\x07"),
}


@pytest.mark.parametrize("api", ["metadata", "list_offsets", "fetch"])
@pytest.mark.parametrize("twist", MALFORMED.values(), ids=list(MALFORMED))
def test_a_malformed_response_is_an_error_within_the_deadline(one, api, twist):
    cluster, _, reader = one
    broker = cluster.brokers[0]
    broker.twists[api] = twist
    if api == "metadata":
        cluster.twist_metadata(twist)
    began = CLOCK.now_s()
    with pytest.raises(RetriableError, match="offsets-0 on hostile"):
        state_records.read(reader, SHORT_S)
    assert CLOCK.now_s() - began < SHORT_S + 2.0
    broker.twists.clear()
    cluster.twist_metadata(bytes)
    assert len(state_records.read(reader, WAIT_S)) == 4


DAMAGED = {
    "checksum": lambda each: each[:-1] + bytes([each[-1] ^ 1]),
    "truncated": lambda each: each[:-5],
    "length too large": _with_length(2**31 - 1),
    "length negative": _with_length(-1),
    "length too small": _with_length(5),
    "unknown format": lambda each: each[:16] + b"\x09" + each[17:],
    "old format": lambda each: each[:16] + b"\x01" + each[17:],
    "last offset before the first": lambda each: batches.rechecked(
        each[:23] + b"\xff\xff\xff\xff" + each[27:]
    ),
    "too many records": lambda each: batches.rechecked(each[:57] + b"\x7f\xff\xff\xff" + each[61:]),
    "malformed record": lambda each: batches.rechecked(each[:61] + b"\xff" * len(each[61:])),
    "unknown codec": lambda each: batches.rechecked(each[:22] + b"\x07" + each[23:]),
    "not compressed": lambda each: batches.rechecked(each[:22] + b"\x04" + each[23:]),
    "offsets beyond 64 bits": lambda each: b"\x7f" + b"\xff" * 7 + each[8:],
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=list(DAMAGED))
def test_a_damaged_batch_is_an_error_within_the_deadline(one, damage):
    _, found, reader = one
    found.batches = [damage(found.batches[0])]
    with pytest.raises(ConnectError, match="offsets-0 on hostile"):
        state_records.read(reader, SHORT_S)


def test_a_batch_that_decompresses_to_more_than_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(state_topic_reader, "BATCH_BYTES_MAX", 100_000)
    found = log(batch(b"a", at=0), batch(b"k" * 100_000, at=1, codec=compression.GZIP), end=2)
    with log_brokers.serve({(TOPIC, 0): found}) as cluster:
        reader = reader_of(cluster)
        taken = []
        with pytest.raises(FatalError, match=r"offsets-0 .* offset 1 .* more than 100000 bytes"):
            reader.read_to_end(WAIT_S, lambda record: taken.append(record.key))
        assert taken == [b"a"]
        reader.close()


def test_the_deadline_holds_within_a_batch(one):
    _, _, reader = one
    taken = []

    def take(record):
        taken.append(record.key)
        if len(taken) == 1:
            wait_until(lambda: False, timeout_s=2 * SHORT_S)

    with pytest.raises(RetriableError, match="continues at offset 1"):
        reader.read_to_end(SHORT_S, take)
    assert taken == [b"a"]
    reader.read_to_end(WAIT_S, take)
    assert taken == [b"a", b"b", b"c", b"d"]


def test_malformed_records_do_not_fill_the_log(caplog):
    applied = []

    def apply(key, value):
        if key == b"bad":
            raise MalformedRecordError("too short")
        applied.append(key)

    applier = RecordApplier(apply)
    for offset, key in enumerate([b"bad", b"a", None, *[b"bad"] * 10_000, b"b"]):
        applier.apply_record(TopicRecord(topic=TOPIC, offset=offset, key=key, value=b""))
    assert applied == [b"a", b"b"]
    lines = [each.getMessage() for each in caplog.records]
    assert len(lines) == 14
    assert lines[0].startswith("offsets: the record at offset 0 cannot be read (too short)")
    assert "it has no key" in lines[1]
