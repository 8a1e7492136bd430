"""No panel, rule or runbook asks for what nothing emits, and nothing is measured unseen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.base.metrics import Metric, MetricKind
from mm2.metrics import metric_declarations
from tests.support import boards, exported, promql, rules
from tests.support.boards import Asked
from tests.support.rules import Rule

KNOWN = exported.catalogue()
ASKED = [each for board in boards.read().values() for each in boards.asked(board)]
CHOSEN = [each for board in boards.read().values() for each in boards.chosen_from(board)]
NOT_SHOWN: dict[str, str] = {}
"""Metrics that are on no board, and why."""
_SERIES = re.compile(r"\b(?:mm2|kafka_connect)[a-z0-9]*_[a-z0-9_]+\b|\bmm2:[a-z0-9_:]+")


@pytest.mark.parametrize("each", ASKED, ids=lambda each: each.where)
def test_what_a_panel_asks_is_there(each: Asked):
    assert KNOWN.judge(each.expr) == []
    assert boards.legend_labels(each, KNOWN) == []


@pytest.mark.parametrize("each", CHOSEN, ids=lambda each: each.where)
def test_what_a_board_lets_choose_is_there(each: Asked):
    assert KNOWN.judge(each.expr) == []


def test_every_board_lets_choose_a_flow():
    assert {each.where for each in CHOSEN} >= {f"{uid}: choice of flow" for uid in boards.read()}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("label_values(mm2_flow_stat, flow)", "nothing emits mm2_flow_stat"),
        ("label_values(mm2_flow_state, topic)", "there is no label topic"),
    ],
)
def test_a_choice_of_what_is_not_there_is_told(query: str, told: str):
    (wrong,) = boards.chosen_from(a_board(query))
    assert any(told in each for each in KNOWN.judge(wrong.expr))


def test_a_choice_that_nobody_can_read_is_told():
    with pytest.raises(ValueError, match="no label_values"):
        list(boards.chosen_from(a_board("metrics(mm2_)")))


def a_board(query: str) -> dict[str, Any]:
    asked = {"name": "flow", "type": "query", "query": {"query": query}}
    return {"uid": "mm2-flow", "templating": {"list": [asked]}}


@pytest.mark.parametrize("rule", rules.read(), ids=lambda rule: rule.name)
def test_what_a_rule_asks_is_there(rule: Rule):
    assert KNOWN.judge(rule.expr) == []
    labels = KNOWN.labels_of(rule.expr)
    used = re.findall(r"\$labels\.(\w+)", " ".join(rule.annotations.values()))
    assert [each for each in used if each not in labels] == []


@pytest.mark.parametrize("page", sorted(rules.RUNBOOKS.glob("*.md")), ids=lambda page: page.stem)
def test_what_a_runbook_names_is_there(page: Path):
    assert [name for name in named(page.read_text()) if name not in KNOWN.labels] == []


def named(page: str) -> list[str]:
    return _SERIES.findall(page)


def test_every_metric_is_on_a_board():
    shown = frozenset[str]().union(*(promql.series(each.expr) for each in ASKED))
    recorded = [rule for rule in rules.read() if not rule.alert]
    while more := frozenset[str]().union(*through(recorded, shown)) - shown:
        shown |= more
    assert unseen(metric_declarations.ALL_METRICS, shown) == sorted(NOT_SHOWN)


def through(recorded: Iterable[Rule], shown: frozenset[str]) -> Iterator[frozenset[str]]:
    """What is seen of what is recorded: of a name that several rules record, what each asks for."""
    return (promql.series(rule.expr) for rule in recorded if rule.name in shown)


def unseen(declared: tuple[Metric, ...], shown: frozenset[str]) -> list[str]:
    """Those of which no series is shown."""
    return sorted(
        metric.name
        for metric in declared
        if not shown
        & {metric.name, *(f"{metric.name}{end}" for end in ("_bucket", "_sum", "_count"))}
    )


def test_every_recorded_series_is_asked_for():
    asked = [each.expr for each in ASKED] + [rule.expr for rule in rules.read()]
    used = frozenset[str]().union(*map(promql.series, asked))
    recorded = {rule.name for rule in rules.read() if not rule.alert}
    assert recorded - used == set()


@pytest.mark.parametrize(
    ("expr", "told"),
    [
        (
            "sum by (flow) (mm2_replication_lag_recrods)",
            "nothing emits mm2_replication_lag_recrods",
        ),
        ("mm2:flow:lag_secs", "nothing emits mm2:flow:lag_secs"),
        ('mm2_replication_lag_records{partition="0"}', "has no label partition"),
        ("sum by (topic) (mm2_flow_last_replication_age_seconds)", "there is no label topic"),
        ('mm2_flow_state{state="RUNING"}', "state is never RUNING"),
        ('mm2_flow_partitions{phase=~"halted|fended"}', "phase is never fended"),
        ('mm2_incidents_total{kind="gone"}', "kind is never gone"),
        ('mm2:limit:seconds{of="lags"}', "of is never lags"),
        ('mm2_replication_latency_seconds_bucket{le="10"}', "le is never 10"),
        (
            "histogram_quantile(0.5, sum by (flow) (mm2_replication_latency_seconds_bucket))",
            "label le",
        ),
        ("mm2_replication_latency_seconds", "nothing emits mm2_replication_latency_seconds"),
        ("mm2:topic:lag_seconds > mm2:flow:lag_seconds", "both sides never have the same labels"),
        ("mm2:flow:lag_seconds > on (topic) group_left () mm2:topic:lag_seconds", "no label topic"),
        ("sum by (flow (mm2_build_info)", "is no PromQL"),
        ('kafka_connect_connector_status{connector="Mirror"}', "connector is never Mirror"),
    ],
)
def test_what_nothing_can_answer_is_told(expr: str, told: str):
    said = KNOWN.judge(expr)
    assert any(told in each for each in said), said


def test_a_legend_with_a_label_that_is_not_there_is_told():
    wrong = Asked(where="here", expr="sum by (flow) (mm2_build_info)", legend="{{version}}")
    assert boards.legend_labels(wrong, KNOWN) == ["version"]


def test_a_runbook_with_a_misspelt_series_is_told():
    assert named(
        "look at mm2_flow_stat and mm2:flow:age_seconds; kafka_connect_connector_status"
    ) == [
        "mm2_flow_stat",
        "mm2:flow:age_seconds",
        "kafka_connect_connector_status",
    ]
    assert "mm2_flow_stat" not in KNOWN.labels


def test_a_metric_that_nobody_shows_is_told():
    new = Metric(name="mm2_new", kind=MetricKind.GAUGE, help="New.")
    shown = promql.series("mm2_replication_latency_seconds_bucket")
    assert unseen((new, metric_declarations.REPLICATION_LATENCY), shown) == ["mm2_new"]


def test_a_series_that_went_away_is_missed_where_it_was_shown():
    less = exported.catalogue(
        [
            each
            for each in metric_declarations.ALL_METRICS
            if each is not metric_declarations.OFFSET_MAP_AGE
        ]
    )
    wrong = {each.where for each in ASKED if less.judge(each.expr)}
    assert "mm2-groups: Offset map lag" in wrong
