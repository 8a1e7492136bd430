"""The contract of `single_partition_producer.RecordWriter`, on the fake and on a real cluster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.kafka.kafka_client_interfaces import RecordWriter
from mm2.kafka.single_partition_producer import KafkaRecordWriter
from tests.fakes.source_task_clients import FakeWriter
from tests.support import cluster_access, eventually, kafka

WAIT_S = 60.0
KINDS = ["fake", pytest.param("real", marks=pytest.mark.integration)]
_UNIQUE = itertools.count()
_Answers = list[ConnectError | None]


def sync(number: int) -> tuple[bytes, bytes]:
    place = TopicPartition("t", 0)
    return mirrormaker2_records.encode_offset_sync(
        OffsetSync(partition=place, upstream=number, downstream=number)
    )


@pytest.fixture(params=KINDS)
def made(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[RecordWriter, Callable[[], list[int]]]]:
    """With what stands in its topic."""
    if request.param == "fake":
        fake = FakeWriter()
        yield fake, lambda: [each.upstream for each in fake.written]
        return
    where = request.getfixturevalue("contract_cluster")
    topic = kafka.create_topic(where.client_properties(), f"written-{next(_UNIQUE)}")
    real = KafkaRecordWriter(
        cluster_access.of(where), client_id="test-writer", topic=topic, clock=cluster_access.CLOCK
    )

    def stored() -> list[int]:
        found = kafka.read_partition(where.client_properties(), topic)
        return [
            mirrormaker2_records.decode_offset_sync(each.key or b"", each.value or b"").upstream
            for each in found
        ]

    yield real, stored
    real.close(0.0)


def test_everything_is_written_in_order_and_answered_once(made):
    writer, stored = made
    answers: _Answers = []
    for number in range(20):
        writer.write(*sync(number), on_written=answers.append)
    assert answers == [], "callbacks come in poll"

    def answered() -> bool:
        writer.poll(0.1)
        return len(answers) == 20

    eventually.eventually(answered, WAIT_S)
    assert answers == [None] * 20
    assert stored() == list(range(20))
    writer.poll(0.0)
    assert len(answers) == 20


@pytest.mark.integration
def test_closing_waits_for_what_is_under_way(contract_cluster):
    where = contract_cluster.client_properties()
    topic = kafka.create_topic(where, f"closed-{next(_UNIQUE)}")
    writer = KafkaRecordWriter(
        cluster_access.of(contract_cluster),
        client_id="test-writer",
        topic=topic,
        clock=cluster_access.CLOCK,
    )
    answers: _Answers = []
    writer.write(*sync(1), on_written=answers.append)
    writer.close(WAIT_S)
    assert answers == [None]


@pytest.mark.integration
def test_what_cannot_be_written_is_told(contract_cluster):
    writer = KafkaRecordWriter(
        cluster_access.of(contract_cluster),
        client_id="test-writer",
        topic="there is none",
        clock=cluster_access.CLOCK,
    )
    answers: _Answers = []
    writer.write(*sync(1), on_written=answers.append)

    def answered() -> bool:
        writer.poll(0.1)
        return bool(answers)

    eventually.eventually(answered, WAIT_S)
    assert isinstance(answers[0], ConnectError)
    assert "there is none" in str(answers[0])
    writer.write(*sync(2), on_written=answers.append)
    writer.close(0.0)
    assert len(answers) == 2, "what was given up is told, too"
