"""The list of codes is that of all findings."""

from __future__ import annotations

import ast
import inspect
import re

from mm2.core.failover import codes, findings, group_findings, readiness, verifying


def texts(*modules) -> set[str]:
    return {
        node.value
        for module in modules
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_code_that_a_finding_has_is_listed():
    hyphenated = re.compile(r"[a-z]+(-[a-z]+)+")
    used = texts(findings, group_findings, readiness, verifying)
    assert {each for each in used if hyphenated.fullmatch(each)} <= codes.ALL


def test_no_code_is_listed_that_no_finding_has():
    named = {value for name, value in vars(codes).items() if name.isupper() and name != "ALL"}
    assert codes.ALL - named <= texts(findings, group_findings, readiness, verifying)
    assert named <= codes.ALL


def test_a_mistyped_code_is_found():
    accepted = ["lag", "group-unread:a:b", "group-unraed:mail", "no-goups"]
    assert codes.mistaken(accepted) == ["group-unraed:mail", "no-goups"]
