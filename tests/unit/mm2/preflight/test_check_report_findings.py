from __future__ import annotations

import dataclasses

from mm2.preflight import check_report
from mm2.preflight.check_report import (
    CheckArea,
    CheckedSubject,
    CheckFinding,
    CheckResult,
    CheckSeverity,
)

Result, Weight, Word = CheckResult, CheckSeverity, CheckArea

SOME = CheckFinding(
    subject="east",
    area=Word.NETWORK,
    severity=Weight.FAILED,
    code="network",
    text="refused",
    effect="nothing is copied",
    fix="start it",
)
NOTE = dataclasses.replace(SOME, severity=Weight.NOTE, area=Word.DNS)
WARNING = dataclasses.replace(SOME, severity=Weight.WARNING, area=Word.TLS)
EAST = CheckedSubject(
    subject="east",
    checked=frozenset({Word.DNS, Word.NETWORK, Word.TLS}),
    skipped=frozenset({Word.AUTH}),
)


def test_a_cell_is_as_bad_as_the_worst_that_was_found():
    report = check_report.build_report([EAST], [NOTE, SOME, WARNING])
    (row,) = report.rows
    assert dict(row.cells) == {
        Word.DNS: Result.OK,
        Word.NETWORK: Result.FAILED,
        Word.TLS: Result.WARNING,
        Word.AUTH: Result.SKIPPED,
    }
    assert list(row.cells) == [Word.DNS, Word.NETWORK, Word.TLS, Word.AUTH]


def test_a_warning_never_hides_a_failure():
    lighter = dataclasses.replace(SOME, severity=Weight.WARNING)
    (row,) = check_report.build_report([EAST], [SOME, lighter]).rows
    assert row.cells[Word.NETWORK] is Result.FAILED


def test_the_heaviest_is_told_first_and_the_same_once():
    other = dataclasses.replace(SOME, subject="west")
    west = CheckedSubject(subject="west", checked=frozenset({Word.NETWORK}))
    other = dataclasses.replace(other, text="another")
    report = check_report.build_report([west, EAST], [NOTE, SOME, WARNING, other, SOME])
    assert report.findings == (other, SOME, WARNING, NOTE)


def test_one_cause_is_one_finding_with_all_its_subjects_and_topics():
    west = CheckedSubject(subject="west", checked=frozenset({Word.NETWORK}))
    one = dataclasses.replace(SOME, affects=("a", "b"))
    other = dataclasses.replace(SOME, subject="west", effect="worse", affects=("b", "c"))
    report = check_report.build_report([EAST, west], [one, other])
    (found,) = report.findings
    assert found.subjects == ("east", "west")
    assert found.affects == ("a", "b", "c")
    assert found.effect == "nothing is copied; worse"
    assert [row.cells[Word.NETWORK] for row in report.rows] == [Result.FAILED] * 2


def test_findings_of_others_are_not_in_a_row():
    (row,) = check_report.build_report([EAST], [dataclasses.replace(SOME, subject="west")]).rows
    assert row.cells[Word.NETWORK] is Result.OK


def test_the_verdict_is_the_worst_and_notes_are_none():
    def verdict(*found: CheckFinding) -> CheckResult:
        return check_report.build_report([EAST], found).verdict

    assert verdict() is Result.OK
    assert verdict(NOTE) is Result.OK
    assert verdict(NOTE, WARNING) is Result.WARNING
    assert verdict(WARNING, SOME) is Result.FAILED


def test_whether_any_cluster_was_reached():
    west = CheckedSubject(subject="west", checked=frozenset({Word.DNS, Word.NETWORK}))
    lost = dataclasses.replace(SOME, subject="west", area=Word.DNS)
    assert not check_report.build_report([EAST, west], [SOME]).are_all_clusters_unreachable(
        ("east", "west")
    )
    assert check_report.build_report([EAST, west], [SOME, lost]).are_all_clusters_unreachable(
        ("east", "west")
    )
    assert not check_report.build_report([], []).are_all_clusters_unreachable(())
