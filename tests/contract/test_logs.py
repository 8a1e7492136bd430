"""The contract of `logs.Logs`, on the fake and on a real cluster.

One partition: two records, an aborted one, two more, the last in a transaction that is still open.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import confluent_kafka
import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.kafka.kafka_client_interfaces import LogOffsets
from mm2.kafka.list_offsets_client import KafkaLogOffsets
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.fakes.logs import FakeLog, FakeLogs
from tests.support import cluster_access, kafka

WAIT_S = 60.0
SHORT_S = 5.0
"""Of a topic that is not there nobody says so in time."""
MARKERS = 40
_UNIQUE = itertools.count()
BASE_MS = cluster_access.CLOCK.wall_ms() - 100_000  # retention takes what is much older
TIMES_MS = [BASE_MS + 1_000, BASE_MS + 2_000, None, None, BASE_MS + 3_000, None]
"""By offset: records, an aborted one, its marker, a record in a transaction, and its marker."""
MARKERS_MS = {3: BASE_MS + 100_000, 5: BASE_MS + 100_000}


class Place:
    """A topic of two partitions, the second empty."""

    def __init__(self, topic: str, logs: LogOffsets) -> None:
        self.logs = logs
        self.full, self.empty = (TopicPartition(topic, number) for number in range(2))
        self.nowhere = TopicPartition(f"{topic}-nowhere", 0)


@pytest.fixture(scope="module")
def real(contract_cluster: SandboxCluster) -> Iterator[Place]:
    topic = f"logs-{next(_UNIQUE)}"
    properties = contract_cluster.client_properties()
    kafka.create_topic(properties, topic, partitions=2)
    plain = confluent_kafka.Producer(kafka.client_config(properties))
    for later_ms in (1_000, 2_000):
        plain.produce(topic, b"x", partition=0, timestamp=BASE_MS + later_ms)
        kafka.flush(plain)
    writing = kafka.transactional_producer(properties, topic)
    for later_ms, commit in ((2_500, False), (3_000, True)):
        writing.begin_transaction()
        writing.produce(topic, b"x", partition=0, timestamp=BASE_MS + later_ms)
        kafka.flush(writing)
        kafka.end_transaction(writing, commit=commit)
    writing.begin_transaction()
    writing.produce(topic, b"x", partition=0, timestamp=BASE_MS + 4_000)
    kafka.flush(writing)
    logs = KafkaLogOffsets(
        cluster_access.of(contract_cluster), client_id="test-logs", clock=cluster_access.CLOCK
    )
    yield Place(topic, logs)
    logs.close()
    kafka.end_transaction(writing, commit=False)


@pytest.fixture
def many_markers(
    request: pytest.FixtureRequest, contract_cluster: SandboxCluster
) -> tuple[LogOffsets, TopicPartition]:
    """A record, and transactions behind it that were all aborted."""
    topic = f"logs-{next(_UNIQUE)}"
    properties = contract_cluster.client_properties()
    kafka.create_topic(properties, topic)
    plain = confluent_kafka.Producer(kafka.client_config(properties))
    plain.produce(topic, b"x", partition=0, timestamp=BASE_MS + 1_000)
    kafka.flush(plain)
    writing = kafka.transactional_producer(properties, topic)
    for _ in range(MARKERS // 2):
        writing.begin_transaction()
        writing.produce(topic, b"x", partition=0)
        kafka.flush(writing)
        kafka.end_transaction(writing, commit=False)
    real: Place = request.getfixturevalue("real")
    return real.logs, TopicPartition(topic, 0)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.integration)])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "real":
        found: Place = request.getfixturevalue("real")
        return found
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    return Place(
        "t",
        FakeLogs(
            {
                one: FakeLog([*TIMES_MS, None], markers_ms=MARKERS_MS, pending=1),
                other: FakeLog(),
            }
        ),
    )


def test_logs_end_before_open_transactions(place):
    found = place.logs.fetch_log_bounds([place.full, place.empty], WAIT_S)
    assert found.succeeded == {
        place.full: LogBounds(start=0, end=6, pending=1),
        place.empty: LogBounds(start=0, end=0),
    }
    assert found.failed == {}


def test_a_partition_that_is_not_there_stands_in_nobodys_way(place):
    found = place.logs.fetch_log_bounds([place.full, place.nowhere], WAIT_S)
    assert list(found.succeeded) == [place.full]
    assert isinstance(found.failed[place.nowhere], TopicMissingError)


@pytest.mark.parametrize(
    ("later_ms", "offset"), [(0, 0), (1_001, 1), (2_501, 3), (1_000_000_000, None)]
)
def test_the_first_offset_that_is_not_older(place, later_ms, offset):
    asked = dict.fromkeys((place.full, place.empty), BASE_MS + later_ms)
    found = place.logs.find_offsets_by_time(asked, WAIT_S)
    assert found.succeeded == {place.full: offset, place.empty: None}


@pytest.mark.parametrize(("offset", "later_ms"), [(0, 1_000), (1, 2_000), (2, 3_000), (4, 3_000)])
def test_times_are_those_of_the_next_committed_record(place, offset, later_ms):
    found = place.logs.read_timestamps({place.full: offset, place.empty: 0}, WAIT_S)
    assert found == {place.full: BASE_MS + later_ms}


def test_behind_the_last_committed_record_there_is_no_time(place):
    assert place.logs.read_timestamps({place.full: 5}, WAIT_S) == {}


def test_nothing_asked_is_nothing_found(place):
    assert place.logs.read_timestamps({}, WAIT_S) == {}
    assert place.logs.fetch_log_bounds([], WAIT_S).succeeded == {}


def test_the_newest_record_is_the_last_committed_one_and_no_marker(place):
    ends = place.logs.fetch_log_bounds([place.full, place.empty], WAIT_S).succeeded
    asked = {**ends, place.nowhere: LogBounds(start=0, end=3)}
    assert place.logs.read_newest_timestamps(asked, SHORT_S) == {place.full: BASE_MS + 3_000}


@pytest.mark.integration
def test_a_record_far_behind_many_markers_is_found(many_markers):
    logs, partition = many_markers
    ends = logs.fetch_log_bounds([partition], WAIT_S).succeeded
    assert ends[partition].end > 16
    assert logs.read_newest_timestamps(ends, WAIT_S) == {partition: BASE_MS + 1_000}
