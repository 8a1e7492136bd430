from __future__ import annotations

from typing import Any

from connect_runtime.base import metrics
from connect_runtime.core.task import plugin_families

OWN = metrics.Metric(name="b_own", kind=metrics.Kind.GAUGE, help="Own.")
THEIRS = metrics.Metric(name="a_theirs", kind=metrics.Kind.GAUGE, help="Theirs.", labels=("task",))
OTHER = metrics.Metric(name="a_theirs", kind=metrics.Kind.GAUGE, help="Otherwise.")


def family(metric, **series):
    return metrics.Family(metric=metric, series={(each,): value for each, value in series.items()})


SHOWN = metrics.Family(metric=OWN, series={(): 1.0})


def test_what_plugins_say_of_one_metric_comes_together():
    found = plugin_families.together(
        [SHOWN], [family(THEIRS, zero=1.0), family(THEIRS, one=2.0), family(THEIRS)]
    )
    assert found.families == (family(THEIRS, zero=1.0, one=2.0), SHOWN)
    assert found.refused == frozenset()


def test_of_what_is_said_twice_the_first_counts():
    found = plugin_families.together([], [family(THEIRS, zero=1.0), family(THEIRS, zero=2.0)])
    assert found.families == (family(THEIRS, zero=1.0),)
    assert found.refused == {"a_theirs"}


def test_who_declares_a_metric_otherwise_is_not_shown():
    otherwise = metrics.Family(metric=OTHER, series={(): 3.0})
    found = plugin_families.together([], [family(THEIRS, zero=1.0), otherwise])
    assert found.families == (family(THEIRS, zero=1.0),)
    assert found.refused == {"a_theirs"}


def test_nobody_adds_to_the_workers_own():
    found = plugin_families.together([SHOWN], [metrics.Family(metric=OWN, series={(): 2.0})])
    assert found.families == (SHOWN,)
    assert found.refused == {"b_own"}


def test_what_does_not_fit_its_declaration_is_left_out():
    wrong: list[Any] = [{("a", "b"): 1.0}, {(1,): 1.0}, {("a",): "text"}]
    for series in wrong:
        found = plugin_families.together([SHOWN], [metrics.Family(metric=THEIRS, series=series)])
        assert found.families == (SHOWN,)
        assert found.refused == {"a_theirs"}
