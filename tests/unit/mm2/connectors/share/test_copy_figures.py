from __future__ import annotations

from typing import Any

from mm2.connectors.share import copy_figures
from mm2.core.copy import crossing, messages
from tests.fakes import copy_plane, taking

NONE = copy_figures.NOTHING
ZERO, ONE, TWO = (taking.where(partition=each) for each in range(3))


def gauge(
    index: int, *, records: int = 5, phase: str = "copying", reason: str = ""
) -> messages.Gauge:
    told: dict[str, Any] = {
        "index": index,
        "records": records,
        "bytes": 10 * records,
        "phase": phase,
        "batches": 3,
        "made": 2,
        "spared": 1,
    }
    return messages.Gauge(**{**copy_plane.PLAIN, **told, "reason": reason, "copied_to": records})


def test_only_another_standing_is_news():
    figures = copy_figures.CopyFigures([ZERO])
    assert figures.note(gauge(0))
    assert not figures.note(gauge(0, records=6))
    assert figures.note(gauge(0, phase="stopped", reason="damaged"))
    assert figures.note(gauge(0, phase="stopped", reason="refused"))


def test_each_copy_counts_from_zero_and_the_share_goes_on():
    figures = copy_figures.CopyFigures([ZERO, ONE])
    figures.note(gauge(0))
    figures.copy_ended("killed")
    assert figures.all_totals() == {ZERO.name: (5, 50, 3, 2, 1), ONE.name: NONE}
    figures.note(gauge(0, records=2))
    assert figures.totals(0) == (7, 70, 6, 4, 2)
    figures.copy_ended("killed")
    figures.copy_ended("not even begun")
    assert figures.totals(0) == (7, 70, 6, 4, 2)


def test_without_a_copy_nothing_moves_and_what_stopped_stays_so():
    figures = copy_figures.CopyFigures([ZERO, ONE])
    figures.note(gauge(0))
    figures.note(gauge(1, phase="stopped", reason="damaged"))
    figures.copy_ended("killed")
    seen = [(each.phase, each.reason) for each in figures.gauges.values()]
    assert seen == [("waiting", "killed"), ("stopped", "damaged")]


def test_what_another_share_copied_of_the_same_partitions_is_counted_on():
    before = copy_figures.CopyFigures([ZERO, ONE])
    before.note(gauge(1))
    after = copy_figures.CopyFigures([ONE, TWO], before=before)
    assert after.all_totals() == {ONE.name: (5, 50, 3, 2, 1), TWO.name: NONE}
    assert after.gauges == {}


def pulse(records: int, **told: Any) -> crossing.Pulse:
    counts = (records, *[0] * (crossing.BUCKETS - 1))
    return crossing.Pulse(counts=counts, sum_ms=10 * records, **told)


def test_pulses_of_copies_that_follow_each_other_are_one():
    assert copy_figures.CopyFigures([ZERO]).pulse is None
    figures = copy_figures.CopyFigures([ZERO])
    life = figures.life
    figures.note_pulse(pulse(5, crossed_s=100, idle_s=90), 0.0)
    figures.copy_ended("killed")
    assert figures.pulse == pulse(5, crossed_s=100, idle_s=90, life=life)
    figures.note_pulse(pulse(2), 1.0)
    assert figures.pulse == pulse(7, crossed_s=100, idle_s=90, life=life)
    figures.note_pulse(pulse(3, crossed_s=200), 2.0)
    assert figures.pulse == pulse(8, crossed_s=200, idle_s=90, life=life)
    after = copy_figures.CopyFigures([ZERO], before=figures)
    after.note_pulse(pulse(1), 3.0)
    assert after.pulse == pulse(9, crossed_s=200, idle_s=90, life=life)


def test_what_counts_from_nothing_has_a_life_of_its_own():
    one, other = copy_figures.CopyFigures([ZERO]), copy_figures.CopyFigures([ZERO])
    assert 0 < one.life < other.life
    assert copy_figures.CopyFigures([ONE], before=one).life == one.life


def test_clocks_that_were_ahead_are_told_of_for_a_while():
    figures = copy_figures.CopyFigures([ZERO])
    figures.note_pulse(pulse(0, ahead_ms=700), 0.0)
    figures.note_pulse(pulse(0), 30.0)
    assert figures.pulse is not None
    assert figures.pulse.ahead_ms == 700
    figures.note_pulse(pulse(0), 100.0)
    assert figures.pulse.ahead_ms == 0
