from __future__ import annotations

import pytest

from tests.bench import throughput
from tests.bench.throughput import Look
from tests.bench.workloads import Produced, Workload

WORKLOAD = Workload(
    topic="big", title="1 KB records", records=1_000_000, record_bytes=1_000, batch_bytes=131_072
)


PRODUCED = Produced(workload=WORKLOAD, records={0: 400_000, 1: 600_000}, batch_bytes_mean=131_000)


def look(at_s: float, offsets: int, *, cpu_s: float, others_s: float = 0.0) -> Look:
    return Look(at_s=at_s, offsets=offsets, cpu_s=cpu_s, others_s=others_s)


def test_the_steady_state_is_between_the_first_look_and_the_last():
    first = look(15.0, 200_000, cpu_s=8.0, others_s=100.0)
    last = look(19.0, 1_000_004, cpu_s=12.0, others_s=102.0)
    measured = throughput.between(first, last, produced=PRODUCED, started_s=10.0)
    assert measured.bytes_s == pytest.approx(200e6)
    assert measured.records_s == pytest.approx(200_000)
    assert measured.cpu_steady_s_per_gb == pytest.approx(4.0 / 0.8)
    assert measured.cpu_total_s_per_gb == pytest.approx(12.0)
    assert measured.first_s == pytest.approx(5.0)
    assert measured.others_cores == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("last_s", "first_offsets"), [(15.05, 200_000), (19.0, 1_000_000), (19.0, 1_000_008)]
)
def test_what_went_too_quickly_has_no_rate(last_s, first_offsets):
    first = look(15.0, first_offsets, cpu_s=8.0)
    last = look(last_s, 1_000_004, cpu_s=12.0)
    measured = throughput.between(first, last, produced=PRODUCED, started_s=10.0)
    assert (measured.bytes_s, measured.records_s, measured.cpu_steady_s_per_gb) == (None,) * 3
    assert measured.cpu_total_s_per_gb == pytest.approx(12.0)
    assert measured.first_s == pytest.approx(5.0)


def test_rounding_of_the_machines_counters_is_not_negative_work():
    first = look(15.0, 0, cpu_s=8.0, others_s=100.0)
    last = look(19.0, 1_000_000, cpu_s=12.0, others_s=99.99)
    measured = throughput.between(first, last, produced=PRODUCED, started_s=10.0)
    assert measured.others_cores == 0.0
