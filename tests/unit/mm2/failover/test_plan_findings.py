"""The list of codes is that of all findings.

How findings weigh."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re

import pytest

from mm2.failover import group_offset_writes, plan_finding_rules, plan_findings, readiness
from mm2.failover.plan_findings import PlanFinding, PlanSeverity, PlanVerdict


def texts(*modules) -> set[str]:
    return {
        node.value
        for module in modules
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_code_that_a_finding_has_is_listed():
    hyphenated = re.compile(r"[a-z]+(-[a-z]+)+")
    used = texts(plan_finding_rules, plan_finding_rules, readiness, group_offset_writes)
    assert {each for each in used if hyphenated.fullmatch(each)} <= plan_findings.ALL_CODES


def test_no_code_is_listed_that_no_finding_has():
    named = {
        value
        for name, value in vars(plan_findings).items()
        if name.isupper() and name != "ALL_CODES"
    }
    assert plan_findings.ALL_CODES - named <= texts(
        plan_finding_rules, plan_finding_rules, readiness, group_offset_writes
    )
    assert named <= plan_findings.ALL_CODES


def test_a_mistyped_code_is_found():
    accepted = ["lag", "group-unreadable:a:b", "group-unraed:mail", "no-goups"]
    assert plan_findings.find_unknown_codes(accepted) == ["group-unraed:mail", "no-goups"]


Weight, Verdict = PlanSeverity, PlanVerdict


def finding(weight, group=""):
    return PlanFinding(severity=weight, code="lag", text="…", group=group)


@pytest.mark.parametrize(
    ("weights", "verdict"),
    [
        ([], Verdict.GO),
        ([Weight.NOTE], Verdict.GO),
        ([Weight.NOTE, Weight.COSTS], Verdict.GO_AT_A_COST),
        ([Weight.FORBIDS, Weight.COSTS], Verdict.NO_GO),
    ],
)
def test_the_gravest_decides(weights, verdict):
    assert plan_findings.decide_verdict(map(finding, weights)) is verdict


@pytest.mark.parametrize(
    ("accepted", "weight"),
    [
        ((), Weight.FORBIDS),
        (("lag",), Weight.COSTS),
        (("lag:billing",), Weight.COSTS),
        (("lag:other",), Weight.FORBIDS),
        (("ends",), Weight.FORBIDS),
    ],
)
def test_what_is_accepted_costs(accepted, weight):
    assert (
        plan_findings.lower_severity_if_accepted(
            finding(Weight.FORBIDS, "billing"), accepted
        ).severity
        is weight
    )


def test_a_group_is_quoted_for_the_shell():
    assert plan_findings.format_accept_option("lag", "billing") == "--accept lag:billing"
    assert plan_findings.format_accept_option("lag", "a$(b)") == "--accept 'lag:a$(b)'"


def test_no_text_names_a_group_to_accept_without_quotes():
    folder = pathlib.Path(inspect.getfile(plan_findings)).parent
    unquoted = re.compile(r"--accept \{[^}]*\}:\{")
    assert not [path for path in folder.glob("*.py") if unquoted.search(path.read_text())]


def test_a_note_stays_a_note():
    assert (
        plan_findings.lower_severity_if_accepted(finding(Weight.NOTE), ["lag"]).severity
        is Weight.NOTE
    )
