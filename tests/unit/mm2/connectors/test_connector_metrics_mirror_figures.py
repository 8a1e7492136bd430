"""What gauges and acknowledgements come to: counts over copies, ages in windows, lags."""

from __future__ import annotations

import dataclasses
import math

import pytest

from mm2.connectors import connector_metrics
from mm2.connectors.connector_metrics import PartitionStatistics, WindowedLatencies
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.replication import replication_latency
from mm2.replication.replication_latency import RecordAges

WALL_MS = 1_790_000_000_000


def gauge(
    records=0,
    size=0,
    *,
    copied_to=0,
    end=0,
    oldest_ms=-1,
    arrived=replication_latency.NO_AGES,
    stored=None,
):
    return PartitionProgressReport(
        index=0,
        phase="copying",
        records=records,
        bytes=size,
        copied_to=copied_to,
        source_end=end,
        log_start=0,
        age_ms=0,
        oldest_uncopied_ms=oldest_ms,
        transactional=False,
        reason="",
        cause="",
        arrival_ages=arrived,
        acknowledged_ages=stored or replication_latency.NO_AGES,
    )


def test_every_attribute_of_java_is_measured():
    assert PartitionStatistics().compute_attributes(0.0).keys() == (
        connector_metrics.SOURCE_METRICS.attributes.keys()
    )
    assert connector_metrics.compute_checkpoint_attributes(WindowedLatencies(), 0.0).keys() == (
        connector_metrics.CHECKPOINT_METRICS.attributes.keys()
    )


def test_before_the_first_record_there_are_counts_but_no_ages():
    numbers = PartitionStatistics().compute_attributes(5.0)
    assert numbers["record-count"] == numbers["byte-rate"] == 0.0
    assert all(math.isnan(value) for name, value in numbers.items() if "-ms" in name)


def test_counts_go_on_over_copies():
    made = PartitionStatistics()
    made.record_progress_report(gauge(10, 1000), 1.0)
    made.record_progress_report(gauge(10, 1000), 2.0)
    made.record_progress_report(gauge(30, 2500), 3.0)
    made.record_progress_report(gauge(0, 0), 4.0)
    made.record_progress_report(gauge(35, 9000), 5.0)
    numbers = made.compute_attributes(11.0)
    assert (numbers["record-count"], numbers["byte-count"]) == (65, 11500)
    assert numbers["record-rate"] == pytest.approx(65 / 40), "10 s, and one window counts as full"
    assert made.compute_attributes(100.0)["record-rate"] == 0.0
    assert made.compute_attributes(100.0)["record-count"] == 65


def test_ages_are_of_all_records_between_gauges():
    made = PartitionStatistics()
    made.record_progress_report(gauge(arrived=RecordAges(4, 400, 40, 200)), 1.0)
    made.record_progress_report(
        gauge(4, arrived=RecordAges(1, 10, 10, 10), stored=RecordAges(4, 800, 100, 300)), 2.0
    )
    numbers = made.compute_attributes(3.0)
    assert [numbers[f"record-age-ms{each}"] for each in ("", "-max", "-min", "-avg")] == [
        10,
        200,
        10,
        82,
    ]
    latencies = [numbers[f"replication-latency-ms{each}"] for each in ("", "-max", "-min", "-avg")]
    assert latencies == [100, 300, 100, 200]


def test_a_latency_does_not_stay_when_nothing_comes_any_more():
    times = WindowedLatencies()
    times.observe_record_ages(RecordAges(1, 70, 70, 70), 0.0)
    assert (
        connector_metrics.compute_checkpoint_attributes(times, 59.0)["checkpoint-latency-ms"] == 70
    )
    later = connector_metrics.compute_checkpoint_attributes(times, 60.0)
    assert all(math.isnan(each) for each in later.values())


@pytest.mark.parametrize(
    ("copied_to", "end", "oldest_ms", "records", "seconds"),
    [
        (-1, -1, -1, None, None),
        (5, -1, -1, None, None),
        (5, 9, WALL_MS - 2500, 4, 2.5),
        (5, 9, -1, 4, None),
        (9, 9, -1, 0, 0.0),
        (9, 5, -1, 0, 0.0),
        (5, 9, WALL_MS + 2500, 4, 0.0),
    ],
    ids=[
        "nothing known",
        "no end",
        "behind",
        "of no age",
        "caught up",
        "end is old",
        "clock ahead",
    ],
)
def test_lags_are_known_or_not_and_never_negative(copied_to, end, oldest_ms, records, seconds):
    made = PartitionStatistics()
    made.record_progress_report(gauge(copied_to=copied_to, end=end, oldest_ms=oldest_ms), 1.0)
    assert (made.lag_records, made.compute_lag_s(WALL_MS)) == (records, seconds)


def test_who_stands_still_says_why_as_long_as_that_is_so():
    made = PartitionStatistics()
    found = []
    for phase, cause in (("copying", ""), ("halted", "topic-recreated"), ("acquiring", "")):
        made.record_progress_report(dataclasses.replace(gauge(), phase=phase, cause=cause), 1.0)
        found.append(made.halt_reason)
    assert found == ["", "topic-recreated", ""]
