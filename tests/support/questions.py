"""Everything that panels and rules ever ask Prometheus, and what of it no healthy run answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support import boards, prometheus, promql, rules

ABOUT_TROUBLE = {
    "mm2:topic:time_to_data_loss_seconds|mm2:topic:data_loss_risk_seconds": "records that "
    "wait to be copied, in a topic with retention",
    "mm2_halted_partitions": "a partition that stands still",
    "mm2_incidents_total": "an incident",
    "mm2_flow_override": "an operator who pauses the flow",
    "mm2_connector_override|mm2:flow:heartbeats_suspended": "an operator who pauses another "
    "connector",
    "mm2:flow:unreported": "a node that is gone with its flow",
    "mm2:flow:unreachable": "a cluster that does not respond",
    "ALERTS": "an alert",
    "deriv": "a lag that shrinks",
    "mm2:flow:known1[hd]|mm2:flow:known6h": "hours of history",
}
"""What has nothing to say while all is well, by what it asks for, and the trouble that changes
it."""
NOT_MADE = {
    "unfenced-take-over": "a take-over after the transactional id has expired takes a week, and "
    "one of a mirror whose end does not pair, or that Java doubled, another history",
    "mm2:flow:heartbeats_suspended": "a flow that leads to the source writes heartbeats there, and "
    "the run has none",
    "mm2:flow:known": "a day takes a day, and a tenth of it hours",
}
"""Parts of expressions that get no answer from a run even then, and why. Recorded series, in
promtool's tests, have it instead."""


def every(factor: int) -> Iterator[str]:
    """`factor` times hastened. Of an alert, which asks whether something is wrong: each series that
    it looks at."""
    for board in boards.read().values():
        for asked in (*boards.asked(board), *boards.chosen_from(board)):
            yield prometheus.with_shorter_windows(promql.filled(asked.expr), factor)
    for rule in rules.read():
        if rule.alert:
            yield from promql.selectors(rule.expr)
        else:
            labels = ", ".join(f'{name}="{value}"' for name, value in rule.labels.items())
            yield f"{rule.name}{{{labels}}}"


def is_about_trouble(expr: str) -> bool:
    return any(speaks_of(each, expr) for each in ABOUT_TROUBLE)


def speaks_of(trouble: str, expr: str) -> bool:
    """`trouble` is a key of `ABOUT_TROUBLE`."""
    return re.search(rf"\b({trouble})\b", expr) is not None


def about_trouble(factor: int) -> set[str]:
    """Those that a run has to answer once there is trouble."""
    found = {each for each in every(factor) if is_about_trouble(each)}
    return {each for each in found if not any(part in each for part in NOT_MADE)}


def recorded(folder: Path = rules.PROMETHEUS / "tests") -> str:
    """What promtool's tests say that they are told, or what they ask."""
    found: list[str] = []
    for file in sorted(folder.glob("*.yml")):
        for test in yaml.safe_load(file.read_text())["tests"]:
            found += _said(test)
    return "\n".join(found)


def _said(test: Mapping[str, Any]) -> Iterator[str]:
    yield from (each["series"] for each in test.get("input_series", ()))
    yield from (each["expr"] for each in test.get("promql_expr_test", ()))
