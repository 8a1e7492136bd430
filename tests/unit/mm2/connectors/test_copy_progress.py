from __future__ import annotations

from typing import Any

from mm2.connectors import copy_progress
from mm2.connectors.copy_progress import IncidentCounts, TaskCopyProgress
from mm2.copier.control_messages import PartitionGauge
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.replication import latency
from mm2.replication.latency import LatencySnapshot
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
    return incident_records.encode(Incident(**(given | changed)))


def test_an_incident_is_told_with_its_ranges_and_counted():
    found = IncidentCounts()
    assert found.stored(*stated()) == (
        "incident not-paired: orders-4, source offsets [0, 30), mirror offsets [40, 50): "
        "copied again"
    )
    assert found.counts == {("orders", "not-paired"): 1}


def test_ranges_that_do_not_apply_are_left_out():
    told = IncidentCounts().stored(*stated(source=None, target=None))
    assert told == "incident not-paired: orders-4: copied again"


def test_a_statement_made_again_is_the_same_one():
    found = IncidentCounts()
    found.stored(*stated())
    assert found.stored(*stated(at_ms=2)) is None
    assert found.stored(*stated(partition=5)) is not None
    assert found.stored(*stated(id="not-paired-30-60")) is not None
    other = IncidentKind.SOURCE_GONE
    assert found.stored(*stated(kind=other, id="source-gone-0-30")) is not None
    assert found.counts == {("orders", "not-paired"): 3, ("orders", "source-gone"): 1}


NONE = copy_progress.NO_TOTALS
ZERO, ONE, TWO = (taking.where(partition=each) for each in range(3))


def gauge(
    index: int, *, records: int = 5, phase: str = "copying", reason: str = ""
) -> PartitionGauge:
    told: dict[str, Any] = {
        "index": index,
        "records": records,
        "bytes": 10 * records,
        "phase": phase,
        "batches": 3,
        "made": 2,
        "spared": 1,
    }
    return PartitionGauge(**{**copy_plane.PLAIN, **told, "reason": reason, "copied_to": records})


def test_only_another_standing_is_news():
    figures = TaskCopyProgress([ZERO])
    assert figures.note(gauge(0))
    assert not figures.note(gauge(0, records=6))
    assert figures.note(gauge(0, phase="stopped", reason="damaged"))
    assert figures.note(gauge(0, phase="stopped", reason="refused"))


def test_each_copy_counts_from_zero_and_the_share_goes_on():
    figures = TaskCopyProgress([ZERO, ONE])
    figures.note(gauge(0))
    figures.copy_ended("killed")
    assert figures.all_totals() == {ZERO.name: (5, 50, 3, 2, 1), ONE.name: NONE}
    figures.note(gauge(0, records=2))
    assert figures.totals(0) == (7, 70, 6, 4, 2)
    figures.copy_ended("killed")
    figures.copy_ended("not even begun")
    assert figures.totals(0) == (7, 70, 6, 4, 2)


def test_without_a_copy_nothing_moves_and_what_stopped_stays_so():
    figures = TaskCopyProgress([ZERO, ONE])
    figures.note(gauge(0))
    figures.note(gauge(1, phase="stopped", reason="damaged"))
    figures.copy_ended("killed")
    seen = [(each.phase, each.reason) for each in figures.gauges.values()]
    assert seen == [("waiting", "killed"), ("stopped", "damaged")]


def test_what_another_share_copied_of_the_same_partitions_is_counted_on():
    before = TaskCopyProgress([ZERO, ONE])
    before.note(gauge(1))
    after = TaskCopyProgress([ONE, TWO], before=before)
    assert after.all_totals() == {ONE.name: (5, 50, 3, 2, 1), TWO.name: NONE}
    assert after.gauges == {}


def pulse(records: int, **told: Any) -> LatencySnapshot:
    counts = (records, *[0] * (latency.BUCKET_COUNT - 1))
    return LatencySnapshot(counts=counts, sum_ms=10 * records, **told)


def test_pulses_of_copies_that_follow_each_other_are_one():
    assert TaskCopyProgress([ZERO]).pulse is None
    figures = TaskCopyProgress([ZERO])
    life = figures.life
    figures.note_pulse(pulse(5, crossed_s=100, idle_s=90), 0.0)
    figures.copy_ended("killed")
    assert figures.pulse == pulse(5, crossed_s=100, idle_s=90, life=life)
    figures.note_pulse(pulse(2), 1.0)
    assert figures.pulse == pulse(7, crossed_s=100, idle_s=90, life=life)
    figures.note_pulse(pulse(3, crossed_s=200), 2.0)
    assert figures.pulse == pulse(8, crossed_s=200, idle_s=90, life=life)
    after = TaskCopyProgress([ZERO], before=figures)
    after.note_pulse(pulse(1), 3.0)
    assert after.pulse == pulse(9, crossed_s=200, idle_s=90, life=life)


def test_what_counts_from_nothing_has_a_life_of_its_own():
    one, other = TaskCopyProgress([ZERO]), TaskCopyProgress([ZERO])
    assert 0 < one.life < other.life
    assert TaskCopyProgress([ONE], before=one).life == one.life


def test_clocks_that_were_ahead_are_told_of_for_a_while():
    figures = TaskCopyProgress([ZERO])
    figures.note_pulse(pulse(0, ahead_ms=700), 0.0)
    figures.note_pulse(pulse(0), 30.0)
    assert figures.pulse is not None
    assert figures.pulse.ahead_ms == 700
    figures.note_pulse(pulse(0), 100.0)
    assert figures.pulse.ahead_ms == 0
