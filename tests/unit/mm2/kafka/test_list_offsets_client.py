"""Offsets and timestamps are returned per partition; a silent leader delays no other."""

from __future__ import annotations

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicMissingError,
    UnreachableError,
)
from connect_runtime.system.system_clock import SystemClock
from mm2.formats import compression
from mm2.kafka.list_offsets_client import KafkaLogOffsets
from mm2.offsets.log_start_and_end_offsets import LogBounds
from tests.fakes import batches
from tests.fakes.batches import Stamp
from tests.support import log_brokers
from tests.support.log_brokers import TIME_MS, Log, batch

WAIT_S = 20.0
SHORT_S = 0.6
CLOCK = SystemClock()
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOWHERE = TopicPartition("nowhere", 0)


@pytest.fixture
def two():
    """Two logs, led by two brokers. The second has a transaction that is open."""
    logs = {
        ("t", 0): Log([batch(b"a", b"b", at=3), batch(b"c", at=5)], start=3, end=6),
        ("t", 1): Log([batch(b"a", at=0), batch(b"b", at=1)], end=2, stable=1),
    }
    with log_brokers.serve(logs, brokers=2) as cluster:
        cluster.lead({"t": (1, 2)})
        offsets = KafkaLogOffsets(cluster.access, client_id="c", clock=CLOCK)
        yield cluster, offsets
        offsets.close()


def test_bounds_take_one_round_trip_to_each_leader(two):
    cluster, offsets = two
    found = offsets.fetch_log_bounds([T0, T1], WAIT_S)
    assert found.succeeded == {
        T0: LogBounds(start=3, end=6),
        T1: LogBounds(start=0, end=1, pending=1),
    }
    assert found.failed == {}
    for node in (1, 2):
        assert len(cluster.asked("list_offsets", node=node)) == 3


def test_a_silent_leader_is_told_in_time_and_stops_no_other(two):
    cluster, offsets = two
    cluster.brokers[1].silent = {"list_offsets"}
    found = offsets.fetch_log_bounds([T0, T1], SHORT_S)
    assert list(found.succeeded) == [T0]
    assert isinstance(found.failed[T1], UnreachableError)
    with pytest.raises(UnreachableError, match="reading the log bounds of t-1"):
        offsets.fetch_log_bounds([T1], SHORT_S)


def test_what_is_missing_or_not_allowed_is_told_at_once(two):
    cluster, offsets = two
    cluster.brokers[1].end_codes = [29] * 3
    began = CLOCK.now_s()
    found = offsets.fetch_log_bounds([T0, T1, NOWHERE, TopicPartition("t", 2)], WAIT_S)
    assert CLOCK.now_s() - began < WAIT_S / 2
    assert list(found.succeeded) == [T0]
    assert {each: type(error) for each, error in found.failed.items()} == {
        T1: NotAuthorizedError,
        NOWHERE: TopicMissingError,
        TopicPartition("t", 2): TopicMissingError,
    }


def test_a_topic_that_has_come_since_is_found(two):
    cluster, offsets = two
    leaders = {"t": (1, 2)}
    cluster.lead({})
    assert set(offsets.fetch_log_bounds([T0], WAIT_S).failed) == {T0}
    cluster.lead(leaders)
    assert set(offsets.fetch_log_bounds([T0], WAIT_S).succeeded) == {T0}


def test_where_nothing_is_as_late_as_asked_is_told_apart_from_nonsense(two):
    cluster, offsets = two
    cluster.logs["t", 0].end = -1
    cluster.logs["t", 1].stable = -5
    found = offsets.find_offsets_by_time({T0: 5, T1: 5}, SHORT_S)
    assert found.succeeded == {T0: None}
    assert isinstance(found.failed[T1], RetriableError)
    assert T0 in offsets.fetch_log_bounds([T0, T1], SHORT_S).failed


def test_times_are_those_of_committed_records(two):
    _, offsets = two
    assert offsets.read_timestamps({T0: 4, T1: 1}, WAIT_S) == {T0: TIME_MS + 4}
    ends = offsets.fetch_log_bounds([T0, T1], WAIT_S).succeeded
    assert offsets.read_newest_timestamps(ends, WAIT_S) == {T0: TIME_MS + 5, T1: TIME_MS}


def test_aborted_records_have_no_time(two):
    cluster, offsets = two
    writing = Stamp(base_offset=4, leader_epoch=1, producer_id=9, producer_epoch=0)
    cluster.logs["t", 0] = Log(
        [
            batch(b"a", at=3, producer_id=9, producer_epoch=0, attributes=batches.TRANSACTIONAL),
            batches.marker(writing, commit=False, timestamp=1),
            batch(b"c", at=5),
        ],
        start=3,
        end=6,
        aborted=((9, 3),),
    )
    assert offsets.read_timestamps({T0: 3}, WAIT_S) == {T0: TIME_MS + 5}
    bounds = LogBounds(start=3, end=5)
    assert offsets.read_newest_timestamps({T0: bounds}, WAIT_S) == {}


def test_records_that_retention_deletes_meanwhile_are_not_waited_for(two):
    cluster, offsets = two
    cluster.logs["t", 0].codes = [1]
    assert offsets.read_timestamps({T0: 0}, WAIT_S) == {T0: TIME_MS + 3}


def test_what_cannot_be_read_has_no_time(two):
    cluster, offsets = two
    whole = batch(b"a", at=3)
    damaged = batches.rechecked(whole[:61] + b"\xff" * len(whole[61:]))
    for log in (
        Log([damaged], start=3, end=6),
        Log([whole[:-1] + b"\1"], start=3, end=6),
        Log([whole], start=3, end=6, codes=[29]),
    ):
        cluster.logs["t", 0] = log
        assert offsets.read_timestamps({T0: 3, T1: 0, NOWHERE: 0}, WAIT_S) == {T1: TIME_MS}


def test_a_malformed_response_is_an_error_within_the_deadline(two):
    cluster, offsets = two
    cluster.brokers[0].twists = {
        "list_offsets": lambda body: body + b"\xff",
        "fetch": lambda _: b"",
    }
    found = offsets.fetch_log_bounds([T0, T1], SHORT_S)
    assert set(found.succeeded) == {T1}
    assert "unexpected bytes at the end" in str(found.failed[T0])
    assert offsets.read_timestamps({T0: 3, T1: 0}, SHORT_S) == {T1: TIME_MS}


def test_a_batch_that_decompresses_to_much_has_the_times_of_its_header(two, monkeypatch):
    decompressed = []
    real = compression.decompress

    def decompress(codec, data, *, max_bytes):
        plain = real(codec, data, max_bytes=max_bytes)
        decompressed.append(len(plain))
        return plain

    monkeypatch.setattr(compression, "decompress", decompress)
    cluster, offsets = two
    bomb = batch(b"a", bytes(3_000_000), b"c", at=3, codec=compression.GZIP)
    cluster.logs["t", 0] = Log([bomb], start=3, end=6)
    assert offsets.read_timestamps({T0: 3}, WAIT_S) == {T0: TIME_MS + 3}
    ends = {T0: LogBounds(start=3, end=6)}
    assert offsets.read_newest_timestamps(ends, WAIT_S) == {T0: TIME_MS + 5}
    assert decompressed == []
