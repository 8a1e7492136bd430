"""`CheckFinding` and `CheckReport`: what a preflight found, as a table and as JSON.

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
    """What was looked at, in the order of looking: whoever fails early skips what is behind.

    `LISTENER`: what listens there is of another kind than `security.protocol` says, or brokers
    tell clients to come to addresses that cannot be reached from here.
    """

    DNS = "DNS"
    NETWORK = "NETWORK"
    LISTENER = "LISTENER"
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
"""What is looked at of a cluster, before any flow is."""


class CheckSeverity(enum.Enum):
    """FAILED: something will not be mirrored, or not at all as was asked for. WARNING: it may go
    wrong later, or costs something. NOTE: worth knowing."""

    FAILED = "failed"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """`subject` is a cluster's alias, a flow's name, or `ENGINE_SUBJECT`.

    `code` is for programs and stays the same. `text` says what was seen, `means` what comes of it,
    `mend` what to do; `command` does it, or shows more, "" where nothing that could be typed would.
    `affects` names the topics that have this one cause. `also` are other subjects of the same.
    """

    subject: str
    word: CheckArea
    weight: CheckSeverity
    code: str
    text: str
    means: str
    mend: str
    command: str = ""
    affects: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def subjects(self) -> tuple[str, ...]:
        return (self.subject, *self.also)


ENGINE_SUBJECT = "spark"
"""The subject of what is found about slots."""


class CheckResult(enum.Enum):
    """What stands in a cell. SKIPPED: something before it failed."""

    OK = "ok"
    FAILED = "FAILED"
    WARNING = "warning"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One subject; words that do not apply to it are in no cell."""

    subject: str
    cells: Mapping[CheckArea, CheckResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """`findings` are in order: the heaviest first, then as looked at."""

    rows: tuple[CheckRow, ...]
    findings: tuple[CheckFinding, ...]

    @property
    def verdict(self) -> CheckResult:
        """OK also with notes."""
        weights = {each.weight for each in self.findings}
        if CheckSeverity.FAILED in weights:
            return CheckResult.FAILED
        return CheckResult.WARNING if CheckSeverity.WARNING in weights else CheckResult.OK

    def reaches_none_of(self, aliases: Collection[str]) -> bool:
        """Did each of these clusters that was looked at fail by its name or its network?"""
        words = (CheckArea.DNS, CheckArea.NETWORK)
        rows = [row for row in self.rows if row.subject in aliases]
        return bool(rows) and all(
            any(row.cells.get(word) is CheckResult.FAILED for word in words) for row in rows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSubject:
    """Of one subject: words that were looked at, and those that something before them hid."""

    subject: str
    seen: frozenset[CheckArea]
    skipped: frozenset[CheckArea] = frozenset()


def build_report(
    looked: Iterable[CheckedSubject], findings: Collection[CheckFinding]
) -> CheckReport:
    """What has the same cause is one finding, whatever subjects and topics it affects; a subject's
    own come in the order of the words."""
    rows = tuple(looked)
    places = {each.subject: number for number, each in enumerate(rows)}
    words = list(CheckArea)
    weights = list(CheckSeverity)
    ordered = sorted(
        _merge_findings(findings),
        key=lambda each: (
            weights.index(each.weight),
            places.get(each.subject, len(places)),
            words.index(each.word),
        ),
    )
    return CheckReport(
        rows=tuple(_build_row(each, findings) for each in rows), findings=tuple(ordered)
    )


def _merge_findings(found: Iterable[CheckFinding]) -> list[CheckFinding]:
    alike: dict[CheckFinding, list[CheckFinding]] = {}
    for each in found:
        cause = dataclasses.replace(each, subject="", means="", affects=())
        alike.setdefault(cause, []).append(each)
    return [
        dataclasses.replace(
            members[0],
            means="; ".join(dict.fromkeys(each.means for each in members)),
            affects=tuple(dict.fromkeys(topic for each in members for topic in each.affects)),
            also=tuple(dict.fromkeys(each.subject for each in members))[1:],
        )
        for members in alike.values()
    ]


def _build_row(looked: CheckedSubject, findings: Collection[CheckFinding]) -> CheckRow:
    worst: dict[CheckArea, CheckResult] = dict.fromkeys(looked.skipped, CheckResult.SKIPPED)
    worst |= dict.fromkeys(looked.seen, CheckResult.OK)
    for each in findings:
        if each.subject != looked.subject:
            continue
        if each.weight is CheckSeverity.FAILED:
            worst[each.word] = CheckResult.FAILED
        elif (
            each.weight is CheckSeverity.WARNING and worst.get(each.word) is not CheckResult.FAILED
        ):
            worst[each.word] = CheckResult.WARNING
    return CheckRow(
        subject=looked.subject, cells={word: worst[word] for word in CheckArea if word in worst}
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
    """A table with a row for each cluster, flow and engine, then each finding in four lines."""
    words = [word for word in CheckArea if any(word in row.cells for row in report.rows)]
    table = [["", *(word.value for word in words)]]
    for row in report.rows:
        results = (row.cells[word].value if word in row.cells else _NO_CELL for word in words)
        table.append([row.subject, *results])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        yield "  ".join(padded).rstrip()
    for each in report.findings:
        yield ""
        head = f"{_SEVERITY_LABELS[each.weight]} {each.word.value} {', '.join(each.subjects)}"
        yield f"{head}: {each.text}{_format_affected(each.affects)} ({each.code})"
        yield f"  means: {each.means}"
        yield f"  mend:  {each.mend}"
        if each.command:
            yield f"  $ {each.command}"
    yield ""
    yield _format_summary(report)


def report_to_json(report: CheckReport, file: str) -> dict[str, Any]:
    """For programs; `version` says how it reads."""
    return {
        "version": REPORT_JSON_VERSION,
        "file": file,
        "verdict": report.verdict.value.lower(),
        "checks": [
            {"subject": row.subject, "word": word.value, "result": result.value.lower()}
            for row in report.rows
            for word, result in row.cells.items()
        ],
        "findings": [
            {
                "subject": each.subject,
                "subjects": list(each.subjects),
                "affects": list(each.affects),
                "word": each.word.value,
                "weight": each.weight.value,
                "code": each.code,
                "text": each.text,
                "means": each.means,
                "mend": each.mend,
                "command": each.command,
            }
            for each in report.findings
        ],
    }


def _format_affected(topics: Sequence[str]) -> str:
    if not topics:
        return ""
    more = len(topics) - _MAX_TOPICS_NAMED
    named = ", ".join(topics[:_MAX_TOPICS_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"; affects {plurals.format_count(len(topics), 'topic')}: {named}"


def _format_summary(report: CheckReport) -> str:
    counts = (
        plurals.format_count(number, word)
        for weight, word in (
            (CheckSeverity.FAILED, "failure"),
            (CheckSeverity.WARNING, "warning"),
            (CheckSeverity.NOTE, "note"),
        )
        if (number := sum(each.weight is weight for each in report.findings))
    )
    return f"verdict: {report.verdict.value}" + "".join(f", {each}" for each in counts)
