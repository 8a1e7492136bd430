from __future__ import annotations

from typing import Any

from mm2.connectors.share import copy_figures
from mm2.core.copy import messages
from tests.fakes import copy_plane, taking

ZERO, ONE, TWO = (taking.where(partition=each) for each in range(3))


def gauge(
    index: int, *, records: int = 5, phase: str = "copying", reason: str = ""
) -> messages.Gauge:
    told: dict[str, Any] = {
        "index": index,
        "records": records,
        "bytes": 10 * records,
        "phase": phase,
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
    assert figures.all_totals() == {ZERO.name: (5, 50), ONE.name: (0, 0)}
    figures.note(gauge(0, records=2))
    assert figures.totals(0) == (7, 70)
    figures.copy_ended("killed")
    figures.copy_ended("not even begun")
    assert figures.totals(0) == (7, 70)


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
    assert after.all_totals() == {ONE.name: (5, 50), TWO.name: (0, 0)}
    assert after.gauges == {}
