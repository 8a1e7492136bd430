"""What a preflight found, as people and programs read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from connect_runtime.base import amounts
from mm2.core.preflight import findings

JSON_VERSION = 1
_WEIGHTS = {
    findings.Weight.FAILED: "FAILED",
    findings.Weight.WARNING: "WARNING",
    findings.Weight.NOTE: "NOTE",
}
_NO_CELL = "-"
_TOPICS_NAMED = 12


def lines(report: findings.Report) -> Iterator[str]:
    """A table with a row for each cluster, flow and engine, then each finding in four lines."""
    words = [word for word in findings.Word if any(word in row.cells for row in report.rows)]
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
        head = f"{_WEIGHTS[each.weight]} {each.word.value} {', '.join(each.subjects)}"
        yield f"{head}: {each.text}{_affected(each.affects)} ({each.code})"
        yield f"  means: {each.means}"
        yield f"  mend:  {each.mend}"
        if each.command:
            yield f"  $ {each.command}"
    yield ""
    yield _summary(report)


def as_json(report: findings.Report, file: str) -> dict[str, Any]:
    """For programs; `version` says how it reads."""
    return {
        "version": JSON_VERSION,
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


def _affected(topics: Sequence[str]) -> str:
    if not topics:
        return ""
    more = len(topics) - _TOPICS_NAMED
    named = ", ".join(topics[:_TOPICS_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"; affects {amounts.counted(len(topics), 'topic')}: {named}"


def _summary(report: findings.Report) -> str:
    counts = (
        amounts.counted(number, word)
        for weight, word in (
            (findings.Weight.FAILED, "failure"),
            (findings.Weight.WARNING, "warning"),
            (findings.Weight.NOTE, "note"),
        )
        if (number := sum(each.weight is weight for each in report.findings))
    )
    return f"verdict: {report.verdict.value}" + "".join(f", {each}" for each in counts)
