"""What an expression asks for, read without evaluating it; variables of Grafana filled."""

from __future__ import annotations

from tests.support import promql
from tests.support.promql import Catalogue

KNOWN = Catalogue(
    labels={
        "a_total": frozenset({"flow", "topic", "instance", "job"}),
        "b": frozenset({"flow", "instance", "job"}),
    }
)


def labels(expr: str) -> set[str]:
    assert KNOWN.judge(expr) == []
    return set(KNOWN.labels_of(expr))


def test_variables_and_intervals_are_filled():
    filled = promql.filled(
        'rate(a_total{flow=~"$flow", topic=~"${topic:regex}"}[$__rate_interval])'
    )
    assert filled == 'rate(a_total{flow=~".*", topic=~".*"}[1m])'


def test_series_and_selectors_of_all_that_is_in_it():
    expr = 'sum(rate(a_total{flow!="x"}[5m] offset 1h)) / on () b'
    assert promql.series(expr) == {"a_total", "b"}
    assert promql.selectors(expr) == ['a_total{flow!="x"}', "b{}"]


def test_labels_from_the_inside_out():
    assert labels("sum by (flow) (a_total)") == {"flow"}
    assert labels("sum without (topic, job) (a_total)") == {"flow", "instance"}
    assert labels("topk(3, sum by (flow, topic) (a_total))") == {"flow", "topic"}
    assert labels("sum(a_total)") == set()
    assert labels("a_total > 3 * time()") == {"flow", "topic", "instance", "job"}
    assert labels("a_total and on (flow) b") == {"flow", "topic", "instance", "job"}
    assert labels("sum by (flow) (b) or sum by (topic) (a_total)") == {"flow", "topic"}
    assert labels('label_replace(sum by (flow) (b), "to", "$1", "flow", ".*")') == {"flow", "to"}
    assert labels("sum by (flow, topic) (a_total) * on (flow) group_left () sum by (flow) (b)") == {
        "flow",
        "topic",
    }


def test_a_recorded_series_has_the_labels_of_its_rule():
    known = Catalogue(labels=dict(KNOWN.labels))
    known.record("r", "sum by (flow) (b)", {"of": "lag"})
    known.record("r", "sum by (flow) (b)", {"of": "loss"})
    assert known.labels["r"] == {"flow", "of"}
    assert known.judge('r{of=~"lag|loss"}') == []
    assert known.judge('r{of="gap"}') == ["r: of is never gap, but ['lag', 'loss']"]
