"""`CheckFinding` and `CheckReport`: findings of a preflight check, as a table and as JSON.

The table has a row for each cluster, each flow and the engine, and a column for each checked area.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import plurals


class CheckArea(enum.Enum):
    """Area of a preflight check, such as network or ACLs. Areas are checked in order; after a
    failure, the later areas are skipped."""

    DNS = "DNS"
    NETWORK = "NETWORK"
    LISTENER = "LISTENER"
    """Checks that the listener protocol matches `security.protocol` and that advertised addresses
    are reachable."""
    TLS = "TLS"
    AUTH = "AUTH"
    PROTOCOL = "PROTOCOL"
    RIGHTS = "RIGHTS"
    TOPICS = "TOPICS"
    SETTINGS = "SETTINGS"
    SPARK = "SPARK"


CONNECTIVITY_AREAS = (
    CheckArea.DNS,
    CheckArea.NETWORK,
    CheckArea.LISTENER,
    CheckArea.TLS,
    CheckArea.AUTH,
    CheckArea.PROTOCOL,
)
"""Areas that are checked for a cluster before its flows are checked."""


class CheckSeverity(enum.Enum):
    """Severity of a finding."""

    FAILED = "failed"
    """Some data will not be replicated, or not as configured."""
    WARNING = "warning"
    """A problem that may cause a failure later, or that increases cost."""
    NOTE = "note"
    """Information that requires no action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """A problem that was found, with its effect and how to fix it."""

    subject: str
    """Cluster alias, flow name, or `ENGINE_SUBJECT`."""
    area: CheckArea
    severity: CheckSeverity
    code: str
    """Stable identifier of the kind of finding, for use in scripts."""
    text: str
    """Description of the problem."""
    effect: str
    """Effect of the problem."""
    fix: str
    """How to fix the problem."""
    command: str = ""
    """Command that fixes the problem or shows details; "" if there is no such command."""
    affects: tuple[str, ...] = ()
    """Topics affected by the problem."""
    other_subjects: tuple[str, ...] = ()
    """Other clusters or flows with the same finding."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of everything to which this finding applies: clusters, flows, or the copy
        engine."""
        return (self.subject, *self.other_subjects)


ENGINE_SUBJECT = "spark"
"""Subject of findings about the copy engine's slots (copy processes that can run at the same
time)."""


class CheckResult(enum.Enum):
    """Result of one check area for a cluster, a flow or the engine, shown in a cell of the table.
    SKIPPED means that an earlier area failed."""

    OK = "ok"
    FAILED = "FAILED"
    WARNING = "warning"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """Row of the check table for a cluster, a flow or the engine. Areas that do not apply have no
    cell."""

    subject: str
    cells: Mapping[CheckArea, CheckResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Result of a preflight check. Findings are ordered by severity, then by subject and area."""

    rows: tuple[CheckRow, ...]
    findings: tuple[CheckFinding, ...]

    @property
    def verdict(self) -> CheckResult:
        """Worst severity of all findings; OK if there are only notes."""
        weights = {each.severity for each in self.findings}
        if CheckSeverity.FAILED in weights:
            return CheckResult.FAILED
        return CheckResult.WARNING if CheckSeverity.WARNING in weights else CheckResult.OK

    def are_all_clusters_unreachable(self, aliases: Collection[str]) -> bool:
        """Return True if each checked cluster in `aliases` failed the DNS or network check."""
        areas = (CheckArea.DNS, CheckArea.NETWORK)
        rows = [row for row in self.rows if row.subject in aliases]
        return bool(rows) and all(
            any(row.cells.get(area) is CheckResult.FAILED for area in areas) for row in rows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSubject:
    """A checked cluster, flow or engine, with the areas that were checked and the areas that were
    skipped."""

    subject: str
    checked: frozenset[CheckArea]
    skipped: frozenset[CheckArea] = frozenset()


def build_report(
    checked: Iterable[CheckedSubject], findings: Collection[CheckFinding]
) -> CheckReport:
    """Build a report. Findings with the same cause are merged, even if they affect different
    clusters, flows and topics."""
    rows = tuple(checked)
    places = {each.subject: number for number, each in enumerate(rows)}
    areas = list(CheckArea)
    weights = list(CheckSeverity)
    ordered = sorted(
        _merge_findings(findings),
        key=lambda each: (
            weights.index(each.severity),
            places.get(each.subject, len(places)),
            areas.index(each.area),
        ),
    )
    return CheckReport(
        rows=tuple(_build_row(each, findings) for each in rows), findings=tuple(ordered)
    )


def _merge_findings(found: Iterable[CheckFinding]) -> list[CheckFinding]:
    alike: dict[CheckFinding, list[CheckFinding]] = {}
    for each in found:
        cause = dataclasses.replace(each, subject="", effect="", affects=())
        alike.setdefault(cause, []).append(each)
    return [
        dataclasses.replace(
            members[0],
            effect="; ".join(dict.fromkeys(each.effect for each in members)),
            affects=tuple(dict.fromkeys(topic for each in members for topic in each.affects)),
            other_subjects=tuple(dict.fromkeys(each.subject for each in members))[1:],
        )
        for members in alike.values()
    ]


def _build_row(looked: CheckedSubject, findings: Collection[CheckFinding]) -> CheckRow:
    worst: dict[CheckArea, CheckResult] = dict.fromkeys(looked.skipped, CheckResult.SKIPPED)
    worst |= dict.fromkeys(looked.checked, CheckResult.OK)
    for each in findings:
        if each.subject != looked.subject:
            continue
        if each.severity is CheckSeverity.FAILED:
            worst[each.area] = CheckResult.FAILED
        elif (
            each.severity is CheckSeverity.WARNING
            and worst.get(each.area) is not CheckResult.FAILED
        ):
            worst[each.area] = CheckResult.WARNING
    return CheckRow(
        subject=looked.subject, cells={area: worst[area] for area in CheckArea if area in worst}
    )


REPORT_JSON_VERSION = 1
_SEVERITY_LABELS = {
    CheckSeverity.FAILED: "FAILED",
    CheckSeverity.WARNING: "WARNING",
    CheckSeverity.NOTE: "NOTE",
}
_NO_CELL = "-"
_MAX_TOPICS_NAMED = 12


def format_report(report: CheckReport) -> Iterator[str]:
    """Yield the table, then four lines for each finding."""
    areas = [area for area in CheckArea if any(area in row.cells for row in report.rows)]
    table = [["", *(area.value for area in areas)]]
    for row in report.rows:
        results = (row.cells[area].value if area in row.cells else _NO_CELL for area in areas)
        table.append([row.subject, *results])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        yield "  ".join(padded).rstrip()
    for each in report.findings:
        yield ""
        head = f"{_SEVERITY_LABELS[each.severity]} {each.area.value} {', '.join(each.subjects)}"
        yield f"{head}: {each.text}{_format_affected_subjects(each.affects)} ({each.code})"
        yield f"  effect: {each.effect}"
        yield f"  fix:    {each.fix}"
        if each.command:
            yield f"  $ {each.command}"
    yield ""
    yield _format_report_summary(report)


def report_to_json(report: CheckReport, file: str) -> dict[str, Any]:
    """Convert the report to JSON. `version` is the version of the format."""
    return {
        "version": REPORT_JSON_VERSION,
        "file": file,
        "verdict": report.verdict.value.lower(),
        "checks": [
            {"subject": row.subject, "area": area.value, "result": result.value.lower()}
            for row in report.rows
            for area, result in row.cells.items()
        ],
        "findings": [
            {
                "subject": each.subject,
                "subjects": list(each.subjects),
                "affects": list(each.affects),
                "area": each.area.value,
                "severity": each.severity.value,
                "code": each.code,
                "text": each.text,
                "effect": each.effect,
                "fix": each.fix,
                "command": each.command,
            }
            for each in report.findings
        ],
    }


def _format_affected_subjects(topics: Sequence[str]) -> str:
    if not topics:
        return ""
    more = len(topics) - _MAX_TOPICS_NAMED
    named = ", ".join(topics[:_MAX_TOPICS_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"; affects {plurals.format_count(len(topics), 'topic')}: {named}"


def _format_report_summary(report: CheckReport) -> str:
    counts = (
        plurals.format_count(number, label)
        for severity, label in (
            (CheckSeverity.FAILED, "failure"),
            (CheckSeverity.WARNING, "warning"),
            (CheckSeverity.NOTE, "note"),
        )
        if (number := sum(each.severity is severity for each in report.findings))
    )
    return f"verdict: {report.verdict.value}" + "".join(f", {each}" for each in counts)
