from __future__ import annotations

from typing import Any

from mm2.connectors import task_copy_progress
from mm2.connectors.task_copy_progress import IncidentCounts, TaskCopyProgress
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.replication import replication_latency
from mm2.replication.replication_latency import LatencySnapshot
from tests.fakes import copy_plane, taking


def stated(**changed):
    given: dict[str, Any] = {
        "topic": "orders",
        "partition": 4,
        "id": "not-paired-0-30",
        "kind": IncidentKind.NOT_PAIRED,
        "flow": "a->b",
        "at_ms": 1,
        "detail": "copied again",
        "source": (0, 30),
        "target": (40, 50),
    }
    return incident_records.encode_incident(Incident(**(given | changed)))


def test_an_incident_is_told_with_its_ranges_and_counted():
    found = IncidentCounts()
    assert found.record_stored_incident(*stated()) == (
        "incident not-paired: orders-4, source offsets [0, 30), mirror offsets [40, 50): "
        "copied again"
    )
    assert found.counts == {("orders", "not-paired"): 1}


def test_ranges_that_do_not_apply_are_left_out():
    told = IncidentCounts().record_stored_incident(*stated(source=None, target=None))
    assert told == "incident not-paired: orders-4: copied again"


def test_a_statement_made_again_is_the_same_one():
    found = IncidentCounts()
    found.record_stored_incident(*stated())
    assert found.record_stored_incident(*stated(at_ms=2)) is None
    assert found.record_stored_incident(*stated(partition=5)) is not None
    assert found.record_stored_incident(*stated(id="not-paired-30-60")) is not None
    other = IncidentKind.SOURCE_GONE
    assert found.record_stored_incident(*stated(kind=other, id="source-gone-0-30")) is not None
    assert found.counts == {("orders", "not-paired"): 3, ("orders", "source-gone"): 1}


NONE = task_copy_progress.NO_TOTALS
ZERO, ONE, TWO = (taking.where(partition=each) for each in range(3))


def gauge(
    index: int, *, records: int = 5, phase: str = "copying", reason: str = ""
) -> PartitionProgressReport:
    told: dict[str, Any] = {
        "index": index,
        "records": records,
        "bytes": 10 * records,
        "phase": phase,
        "batches": 3,
        "reencoded_batches": 2,
        "already_stored_records": 1,
    }
    return PartitionProgressReport(
        **{**copy_plane.PLAIN, **told, "reason": reason, "copied_to": records}
    )


def test_only_another_standing_is_news():
    figures = TaskCopyProgress([ZERO])
    assert figures.record_progress_report(gauge(0))
    assert not figures.record_progress_report(gauge(0, records=6))
    assert figures.record_progress_report(gauge(0, phase="halted", reason="damaged"))
    assert figures.record_progress_report(gauge(0, phase="halted", reason="refused"))


def test_each_copy_counts_from_zero_and_the_share_goes_on():
    figures = TaskCopyProgress([ZERO, ONE])
    figures.record_progress_report(gauge(0))
    figures.record_copy_end("killed")
    assert figures.get_all_totals() == {ZERO.source_name: (5, 50, 3, 2, 1), ONE.source_name: NONE}
    figures.record_progress_report(gauge(0, records=2))
    assert figures.get_totals(0) == (7, 70, 6, 4, 2)
    figures.record_copy_end("killed")
    figures.record_copy_end("not even begun")
    assert figures.get_totals(0) == (7, 70, 6, 4, 2)


def test_without_a_copy_nothing_moves_and_what_stopped_stays_so():
    figures = TaskCopyProgress([ZERO, ONE])
    figures.record_progress_report(gauge(0))
    figures.record_progress_report(gauge(1, phase="halted", reason="damaged"))
    figures.record_copy_end("killed")
    seen = [(each.phase, each.reason) for each in figures.reports.values()]
    assert seen == [("waiting", "killed"), ("halted", "damaged")]


def test_what_another_share_copied_of_the_same_partitions_is_counted_on():
    before = TaskCopyProgress([ZERO, ONE])
    before.record_progress_report(gauge(1))
    after = TaskCopyProgress([ONE, TWO], previous=before)
    assert after.get_all_totals() == {ONE.source_name: (5, 50, 3, 2, 1), TWO.source_name: NONE}
    assert after.reports == {}


def pulse(records: int, **told: Any) -> LatencySnapshot:
    counts = (records, *[0] * (replication_latency.BUCKET_COUNT - 1))
    return LatencySnapshot(counts=counts, sum_ms=10 * records, **told)


def test_pulses_of_copies_that_follow_each_other_are_one():
    assert TaskCopyProgress([ZERO]).latency is None
    figures = TaskCopyProgress([ZERO])
    life = figures.counter_generation
    figures.record_latency(pulse(5, replicated_at_s=100, caught_up_at_s=90), 0.0)
    figures.record_copy_end("killed")
    assert figures.latency == pulse(5, replicated_at_s=100, caught_up_at_s=90, incarnation=life)
    figures.record_latency(pulse(2), 1.0)
    assert figures.latency == pulse(7, replicated_at_s=100, caught_up_at_s=90, incarnation=life)
    figures.record_latency(pulse(3, replicated_at_s=200), 2.0)
    assert figures.latency == pulse(8, replicated_at_s=200, caught_up_at_s=90, incarnation=life)
    after = TaskCopyProgress([ZERO], previous=figures)
    after.record_latency(pulse(1), 3.0)
    assert after.latency == pulse(9, replicated_at_s=200, caught_up_at_s=90, incarnation=life)


def test_what_counts_from_nothing_has_a_life_of_its_own():
    one, other = TaskCopyProgress([ZERO]), TaskCopyProgress([ZERO])
    assert 0 < one.counter_generation < other.counter_generation
    assert TaskCopyProgress([ONE], previous=one).counter_generation == one.counter_generation


def test_clocks_that_were_ahead_are_told_of_for_a_while():
    figures = TaskCopyProgress([ZERO])
    figures.record_latency(pulse(0, ahead_ms=700), 0.0)
    figures.record_latency(pulse(0), 30.0)
    assert figures.latency is not None
    assert figures.latency.ahead_ms == 700
    figures.record_latency(pulse(0), 100.0)
    assert figures.latency.ahead_ms == 0
