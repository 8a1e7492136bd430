"""The table of findings is that of the code: who reads a code finds it there."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

import pytest

from mm2.failover import plan_finding_rules, plan_findings, readiness
from mm2.failover.plan_findings import PlanSeverity
from tests.support.deployed import image

GUIDE = image.ROOT / "docs" / "guides" / "failover-verdicts.md"
_ROW = re.compile(r"^\| `([a-z-]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
WORDS = {
    PlanSeverity.FORBIDS.name: "NO-GO",
    PlanSeverity.COSTS.name: "COST",
    PlanSeverity.NOTE.name: "NOTE",
}


def rows() -> list[tuple[str, ...]]:
    return _ROW.findall(GUIDE.read_text())


def test_every_code_is_explained_once_and_no_other():
    named = [code for code, *_ in rows()]
    assert sorted(named) == sorted(plan_findings.ALL_CODES)


def weights(expression: ast.expr) -> set[str]:
    """All that it may come to, as far as it says so itself."""
    names = (each.attr for each in ast.walk(expression) if isinstance(each, ast.Attribute))
    return {WORDS[name] for name in names if name in WORDS}


def spoken(expression: ast.expr) -> str:
    """A code, as it is written or by its name."""
    match expression:
        case ast.Constant(value=str(code)):
            return code
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return str(getattr(plan_findings, name, getattr(readiness, name, "")))
    return ""


def said() -> Iterator[tuple[str, str]]:
    """A code and a weight that a finding of it may have, where both stand together."""
    for module in (plan_finding_rules, plan_finding_rules, readiness):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call):
                given = {each.arg: each.value for each in node.keywords}
                pair = given.get("severity"), given.get("code")
            elif isinstance(node, ast.Tuple) and len(node.elts) == 3:
                pair = node.elts[0], node.elts[1]
            else:
                continue
            weight, code = pair
            if weight is not None and code is not None and (name := spoken(code)):
                for each in weights(weight):
                    yield name, each


def test_what_a_finding_weighs_is_in_its_row():
    table = {code: weighs for code, weighs, *_ in rows()}
    found = set(said())
    assert len(found) > 40
    for code, weight in sorted(found):
        assert weight in table[code], code


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_row_says_what_it_means_and_what_to_do(row):
    _, weighs, meaning, way_on = row
    assert re.search("NO-GO|COST|NOTE", weighs)
    assert meaning.strip()
    assert way_on.strip()
