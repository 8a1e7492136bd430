"""The rules for Prometheus in deploy/, their tests and runbooks, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
RUNBOOKS = ROOT / "deploy" / "runbooks"
SEVERITIES = ("page", "ticket")
SECTIONS = ("What it means", "What to look at", "What to do", "When to escalate")
_COMMAND = re.compile(r"`(mm2 [^`]*)`")
_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`alert` of those that alert; the others record `name`."""

    name: str
    alert: bool
    expr: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def read(folder: Path = PROMETHEUS / "rules") -> list[Rule]:
    """Of all files, in order: what records comes before what alerts."""
    found = [
        _rule(each)
        for file in sorted(folder.glob("*.yml"))
        for group in yaml.safe_load(file.read_text())["groups"]
        for each in group["rules"]
    ]
    return sorted(found, key=lambda rule: rule.alert)


def _rule(given: Mapping[str, Any]) -> Rule:
    return Rule(
        name=given.get("alert") or given["record"],
        alert="alert" in given,
        expr=given["expr"],
        labels=given.get("labels", {}),
        annotations=given.get("annotations", {}),
    )


def alerts() -> list[Rule]:
    return [each for each in read() if each.alert]


def judged(rule: Rule, page: str | None) -> list[str]:
    """What an alert lacks for who is woken by it. `page` is its runbook, None: there is none."""
    said: list[str] = []
    if rule.labels.get("severity") not in SEVERITIES:
        said.append(f"severity is {rule.labels.get('severity')}, none of {SEVERITIES}")
    said += [
        f"has no {each}" for each in ("summary", "description") if not rule.annotations.get(each)
    ]
    wanted = f"deploy/runbooks/{rule.name}.md"
    if rule.annotations.get("runbook") != wanted:
        said.append(f"its runbook is not {wanted}")
    if page is None:
        return [*said, "there is no such runbook"]
    if f"severity: {rule.labels.get('severity')}" not in page:
        said.append("its runbook names another severity")
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    if tuple(headings) != SECTIONS:
        said.append(f"its runbook has the sections {headings}")
    return said


def commands(page: str) -> list[str]:
    """Every command line of mm2 that a page names, in blocks and between the lines."""
    blocks = (line for block in _BLOCK.findall(page) for line in block.splitlines())
    lines = [line for line in blocks if line.startswith("mm2 ")]
    between = _BLOCK.sub("", page)
    return lines + [each for each in _COMMAND.findall(between) if "…" not in each]


def cases(folder: Path = PROMETHEUS / "tests") -> dict[str, set[bool]]:
    """By alert: is it told when it fires (True), and when it does not (False)?"""
    found: dict[str, set[bool]] = {}
    for file in sorted(folder.glob("*.yml")):
        for test in yaml.safe_load(file.read_text())["tests"]:
            for case in test.get("alert_rule_test", ()):
                found.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    return found
