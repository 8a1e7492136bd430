"""The benchmark's judge on a real broker: planted faults in a copy must be seen."""

from __future__ import annotations

import contextlib

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.bench import log_counts, producing
from tests.bench.ends import Ends
from tests.support import kafka
from tests.support.kafka import Outgoing

pytestmark = pytest.mark.integration

RECORDS = {0: 30, 1: 20}


def outgoing(records: dict[int, int]) -> list[Outgoing]:
    return [
        Outgoing(value=b"v" * 50, partition=number)
        for number, count in records.items()
        for _ in range(count)
    ]


def verdict(running: SandboxCluster, name: str) -> str:
    counts = log_counts.topic(producing.data_folder(running), name, partitions=2)
    return log_counts.verdict(RECORDS, {number: each.records for number, each in counts.items()})


@pytest.fixture
def copy(east: SandboxCluster, topic) -> str:
    return kafka.create_topic(east.client_properties(), topic(), partitions=2)


def test_a_whole_copy_has_no_fault_whatever_its_batches_and_markers(east, copy):
    kafka.produce(east.client_properties(), copy, outgoing(RECORDS)[:17], batch_size=200)
    rest = outgoing(RECORDS)[17:]
    kafka.produce_transaction(east.client_properties(), copy, rest, transactional_id=copy)
    assert verdict(east, copy) == ""


def test_a_lost_record_is_seen(east, copy):
    kafka.produce(east.client_properties(), copy, outgoing(RECORDS)[:-1])
    assert verdict(east, copy) == "partition 1 lost 1"


def test_a_doubled_record_is_seen(east, copy):
    kafka.produce(east.client_properties(), copy, outgoing({0: 30, 1: 21}))
    assert verdict(east, copy) == "partition 1 has 1 too many"


def test_end_offsets_are_those_of_an_ordinary_client(east, copy, topic):
    kafka.produce(east.client_properties(), copy, outgoing(RECORDS))
    with contextlib.closing(Ends(east.bootstrap, copy, partitions=2)) as asked:
        assert asked.now() == {
            number: kafka.offsets(east.client_properties(), copy, number)[1] for number in (0, 1)
        }
        assert asked.now() == RECORDS
    with contextlib.closing(Ends(east.bootstrap, topic("none"), partitions=2)) as asked:
        assert asked.now() == {0: 0, 1: 0}
