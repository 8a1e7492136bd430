"""What became of a map that was made anew, for people and programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mm2.app import columns, figures
from mm2.app.offsets import rebuilding

JSON_VERSION = 1
_COLUMNS = (
    "TOPIC",
    "PARTITION",
    "MADE-ANEW",
    "SOURCE-RECORDS",
    "MIRROR-RECORDS",
    "MATCHED",
    "UNSURE",
    "BEHIND",
    "STORED",
    "WHY",
)


def lines(found: Sequence[rebuilding.Rebuilt]) -> Iterator[str]:
    """A table, in order of partitions. UNSURE are source offsets of which a bound alone is known,
    BEHIND records of the mirror behind the last that was matched."""
    yield from columns.lines(_COLUMNS, [_cells(each) for each in _ordered(found)])


def _ordered(found: Sequence[rebuilding.Rebuilt]) -> list[rebuilding.Rebuilt]:
    return sorted(found, key=lambda each: each.partition)


def _cells(each: rebuilding.Rebuilt) -> tuple[str, ...]:
    compared = each.compared
    matched = None if compared is None else compared.matched
    return (
        each.partition.topic,
        str(each.partition.partition),
        figures.UNKNOWN if each.kind is None else each.kind.value.split(":")[0],
        figures.count(None if compared is None else compared.source),
        figures.count(None if compared is None else compared.target),
        figures.count(None if matched is None else matched.matched),
        figures.count(None if matched is None else matched.unsure),
        figures.count(None if matched is None else matched.tail),
        figures.count(each.stored),
        each.why or figures.UNKNOWN,
    )


def as_json(flow: str, found: Sequence[rebuilding.Rebuilt]) -> dict[str, Any]:
    """`version` says how it reads."""
    return {
        "version": JSON_VERSION,
        "flow": flow,
        "partitions": [_partition(each) for each in _ordered(found)],
    }


def _partition(each: rebuilding.Rebuilt) -> dict[str, Any]:
    compared = each.compared
    matched = None if compared is None else compared.matched
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "made_anew": None if each.kind is None else each.kind.name.lower(),
        "source_records": None if compared is None else compared.source,
        "mirror_records": None if compared is None else compared.target,
        "first_source_offset": None if matched is None else matched.first_source,
        "first_mirror_offset": None if matched is None else matched.first_target,
        "through": None if matched is None else matched.through,
        "matched": None if matched is None else matched.matched,
        "unsure": None if matched is None else matched.unsure,
        "behind": None if matched is None else matched.tail,
        "stored": each.stored,
        "why": each.why,
    }
