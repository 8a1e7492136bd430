"""The dashboards as Grafana reads them, and what is wrong with one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grafana.generator import boards
from tests.support import rules
from tests.support.promql import Catalogue

Json = Mapping[str, Any]
_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
_SHOWS = ("stat", "timeseries", "table")
_WELL = "green"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One expression of a dashboard, and the panel (or annotation) that asks it."""

    where: str
    expr: str
    legend: str = ""


def read() -> dict[str, Any]:
    """By uid, as they stand in grafana/dashboards."""
    files = sorted(boards.FOLDER.glob("*.json"))
    return {file.stem: json.loads(file.read_text()) for file in files}


def panels(board: Json) -> list[dict[str, Any]]:
    return [each for each in board["panels"] if each["type"] != "row"]


def asked(board: Json) -> Iterator[Asked]:
    """Everything that Prometheus is asked."""
    for panel in panels(board):
        for target in panel["targets"]:
            where = f"{board['uid']}: {panel['title']}"
            yield Asked(where=where, expr=target["expr"], legend=target.get("legendFormat", ""))
    for each in board["annotations"]["list"]:
        yield Asked(where=f"{board['uid']}: {each['name']}", expr=each["expr"])


def chosen_from(board: Json) -> Iterator[Asked]:
    """What there is to choose from at the head of a board, as an expression that has a series for
    each choice."""
    for each in board["templating"]["list"]:
        if each["type"] != "query":
            continue
        where, query = f"{board['uid']}: choice of {each['name']}", each["query"]["query"]
        found = _VALUES.fullmatch(query)
        if found is None:
            raise ValueError(f"{where} asks {query}, which are no label_values(series, label)")
        yield Asked(where=where, expr=f"group by ({found[2]}) ({found[1]})")


def judged(panel: Json) -> list[str]:
    """What a panel lacks for whom it is to help at night."""
    said = []
    if panel["type"] not in _SHOWS:
        said.append(f"is a {panel['type']}, none of {_SHOWS}")
    if len(panel.get("description", "")) < 20:
        said.append("does not say what it shows")
    defaults = panel.get("fieldConfig", {}).get("defaults", {})
    if not defaults.get("unit"):
        said.append("has no unit")
    if not defaults.get("noValue"):
        said.append("does not say what it means that nothing is there")
    if not any(_is_for_nothing(each) for each in defaults.get("mappings", ())):
        said.append("shows nothing known in a colour of what is known")
    if panel["type"] == "stat" and not defaults.get("thresholds", {}).get("steps"):
        said.append("has no thresholds")
    for link in panel.get("links", ()):
        name = re.fullmatch(r"\$\{runbooks\}/(\w+)\.md", link["url"])
        if name is None or not (rules.RUNBOOKS / f"{name[1]}.md").exists():
            said.append(f"leads to {link['url']}, which is no runbook")
    if any(not each.get("expr") for each in panel["targets"]):
        said.append("asks nothing")
    return said


def _is_for_nothing(mapping: Json) -> bool:
    options = mapping["options"]
    if mapping["type"] != "special" or options["match"] != "null+nan":
        return False
    return bool(options["result"]["text"]) and options["result"]["color"] != _WELL


def legend_labels(each: Asked, known: Catalogue) -> list[str]:
    """Labels that a legend names and its expression does not have."""
    found = known.labels_of(each.expr)
    return [label for label in _LEGEND.findall(each.legend) if label not in found]
