"""A report as people read it, and as programs do."""

from __future__ import annotations

import dataclasses
import json

from mm2.preflight import check_report
from mm2.preflight.check_report import CheckArea, CheckedSubject, CheckFinding, CheckSeverity

Weight, Word = CheckSeverity, CheckArea
FOUND = CheckFinding(
    subject="east",
    area=Word.NETWORK,
    severity=Weight.FAILED,
    code="network",
    text="c:2 of bootstrap.servers: refused",
    effect="nothing is copied",
    fix="start it",
    command="nc -vz c 2",
)
NOTE = CheckFinding(
    subject="east->west",
    area=Word.SETTINGS,
    severity=Weight.NOTE,
    code="retention-short",
    text="short",
    effect="records may be lost",
    fix="keep them longer",
)
ROWS = (
    CheckedSubject(
        subject="east",
        checked=frozenset({Word.DNS, Word.NETWORK}),
        skipped=frozenset({Word.PROTOCOL}),
    ),
    CheckedSubject(subject="east->west", checked=frozenset({Word.SETTINGS})),
)


def test_people_get_a_table_and_of_each_finding_what_mends_it():
    assert list(check_report.format_report(check_report.build_report(ROWS, [NOTE, FOUND]))) == [
        "            DNS  NETWORK  PROTOCOL  SETTINGS",
        "east        ok   FAILED   skipped   -",
        "east->west  -    -        -         ok",
        "",
        "FAILED NETWORK east: c:2 of bootstrap.servers: refused (network)",
        "  effect: nothing is copied",
        "  fix:    start it",
        "  $ nc -vz c 2",
        "",
        "NOTE SETTINGS east->west: short (retention-short)",
        "  effect: records may be lost",
        "  fix:    keep them longer",
        "",
        "verdict: FAILED, 1 failure, 1 note",
    ]


def test_one_cause_is_told_with_its_flows_and_topics():
    affects = tuple(f"t{number}" for number in range(14))
    alike = [dataclasses.replace(NOTE, subject=flow, affects=affects) for flow in ("a->b", "b->a")]
    line = list(check_report.format_report(check_report.build_report(ROWS, alike)))[4]
    assert line.startswith("NOTE SETTINGS a->b, b->a: short; affects 14 topics: t0, t1, ")
    assert line.endswith(", t11 and 2 more (retention-short)")


def test_without_findings_the_verdict_is_ok():
    assert (
        list(check_report.format_report(check_report.build_report(ROWS[1:], [])))[-1]
        == "verdict: ok"
    )


def test_programs_get_the_same_with_a_version():
    told = json.loads(
        json.dumps(
            check_report.report_to_json(check_report.build_report(ROWS, [FOUND]), "mm2.yaml")
        )
    )
    assert told == {
        "version": 1,
        "file": "mm2.yaml",
        "verdict": "failed",
        "checks": [
            {"subject": "east", "area": "DNS", "result": "ok"},
            {"subject": "east", "area": "NETWORK", "result": "failed"},
            {"subject": "east", "area": "PROTOCOL", "result": "skipped"},
            {"subject": "east->west", "area": "SETTINGS", "result": "ok"},
        ],
        "findings": [
            {
                "subject": "east",
                "subjects": ["east"],
                "affects": [],
                "area": "NETWORK",
                "severity": "failed",
                "code": "network",
                "text": "c:2 of bootstrap.servers: refused",
                "effect": "nothing is copied",
                "fix": "start it",
                "command": "nc -vz c 2",
            }
        ],
    }
