"""Output of `mm2 offsets translate`.

Formats: a table, JSON, and the CSV that `kafka-consumer-groups --reset-offsets --from-file` reads.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mm2 import text_format
from mm2.client import translation_outcomes
from mm2.client.translation_outcomes import (
    Basis,
    BeyondEnd,
    Earlier,
    Exact,
    GroupPlaces,
    NotReady,
    Outcome,
    Place,
    TooOld,
    Unknown,
)
from mm2.clusters import reread_estimate

TRANSLATION_JSON_VERSION = 1
_TRANSLATION_COLUMNS = (
    "TOPIC",
    "PARTITION",
    "OFFSET",
    "BASIS",
    "TRANSLATED-TOPIC",
    "TRANSLATED-OFFSET",
    "RE-READS",
    "OUTCOME",
)
_GROUP_COLUMN = "GROUP"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationResult:
    """Translations of the offsets of groups, or of single offsets if `groups` is None."""

    at_ms: int
    """Time of the translation in UTC milliseconds."""
    flow: str
    origin: str
    destination: str
    groups: tuple[GroupPlaces, ...] | None = None
    offsets: tuple[Place, ...] = ()
    source_error: str = ""
    """Why the flow's source did not respond; "" if it responded."""

    @property
    def rows(self) -> list[tuple[str, Place]]:
        """All translated offsets with their group; the group is "" for single offsets."""
        if self.groups is None:
            return [("", each) for each in self.offsets]
        return [(group.group, each) for group in self.groups for each in group.places]

    @property
    def is_complete(self) -> bool:
        """True if every requested offset has a translation."""
        empty = any(not group.places for group in self.groups or ())
        found = [
            translation_outcomes.get_destination_offset(place.outcome) for _, place in self.rows
        ]
        return not empty and None not in found


def format_translation(answer: TranslationResult) -> Iterator[str]:
    """Yield a table of translated offsets, followed by notes."""
    head = _TRANSLATION_COLUMNS if answer.groups is None else (_GROUP_COLUMN, *_TRANSLATION_COLUMNS)
    rows = [
        _build_offset_cells(place, answer)
        if answer.groups is None
        else (group, *_build_offset_cells(place, answer))
        for group, place in answer.rows
    ]
    yield from text_format.format_columns(head, rows)
    yield from format_translation_notes(answer)


def format_translation_notes(answer: TranslationResult) -> Iterator[str]:
    """Yield notes about groups without offsets, and about translations that are less reliable
    because the origin did not respond."""
    for group in answer.groups or ():
        if not group.places:
            yield f"group {group.group} has no offsets on {answer.origin}"
        if group.basis is Basis.CHECKPOINT:
            why = f": {group.cluster_error}" if group.cluster_error else ""
            yield (
                f"group {group.group}: the offsets are from the group's last checkpoints, because "
                f"{answer.origin} did not respond{why}. Later records are re-read; their number "
                "is unknown"
            )
    for place in answer.offsets:
        if answer.source_error and isinstance(place.outcome, NotReady):
            yield (
                f"{place.partition}: it is unknown whether offset {place.offset} is beyond the log "
                f"end, because {answer.origin} did not respond: {answer.source_error}"
            )
        if place.basis is Basis.TIME_ON_DESTINATION:
            yield (
                f"{place.partition}: {answer.origin} did not respond, so the translated offset is "
                f"the first offset at the requested time on {answer.destination}"
            )


def translation_to_csv(answer: TranslationResult) -> str:
    """Format the CSV that `kafka-consumer-groups --reset-offsets --from-file` reads: topic,
    partition and offset, preceded by the group if there are several groups. Offsets without a
    translation and groups with control characters in their names are omitted;
    `list_omitted_offsets` reports them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    several = len(answer.groups or ()) > 1
    for group, place in answer.rows:
        offset = translation_outcomes.get_destination_offset(place.outcome)
        if offset is not None and group.isprintable():
            there = place.outcome.partition
            row = (there.topic, there.partition, offset)
            writer.writerow((group, *row) if several else row)
    return out.getvalue()


def list_omitted_offsets(answer: TranslationResult) -> Iterator[str]:
    """Yield a message for each offset that `translation_to_csv` omits."""
    for group, place in answer.rows:
        if not group.isprintable():
            yield (
                f"omitted: group {group}, {place.partition}: the group's name has control "
                "characters; use --json"
            )
        elif translation_outcomes.get_destination_offset(place.outcome) is None:
            prefix = f"group {group}, " if group else ""
            yield f"omitted: {prefix}{place.partition}: {_describe_outcome(place.outcome)}"


def translation_to_json(answer: TranslationResult) -> dict[str, Any]:
    """Encode the translation as JSON. `version` is the format version."""
    found: dict[str, Any] = {
        "version": TRANSLATION_JSON_VERSION,
        "flow": answer.flow,
        "from": answer.origin,
        "to": answer.destination,
        "at_ms": answer.at_ms,
    }
    if answer.groups is None:
        return {**found, "offsets": _positions_to_json(answer.offsets)}
    groups = [
        {
            "group": each.group,
            "basis": each.basis.value,
            "cluster_error": each.cluster_error,
            "offsets": _positions_to_json(each.places),
        }
        for each in answer.groups
    ]
    return {**found, "groups": groups}


def _positions_to_json(places: Sequence[Place]) -> list[dict[str, Any]]:
    return [
        {
            "topic": place.partition.topic,
            "partition": place.partition.partition,
            "offset": place.offset,
            "basis": place.basis.value,
            "checkpointed_ms": place.written_ms,
            "metadata": place.metadata,
            "outcome": _OUTCOME_NAMES[type(place.outcome)].replace(" ", "-"),
            "translated_topic": place.outcome.partition.topic,
            "translated_offset": translation_outcomes.get_destination_offset(place.outcome),
            "reread_max": _get_reread_bound(place.outcome),
            "log_end": place.outcome.end if isinstance(place.outcome, BeyondEnd) else None,
            "reason": _get_outcome_reason(place.outcome),
        }
        for place in places
    ]


def _build_offset_cells(place: Place, answer: TranslationResult) -> tuple[str, ...]:
    there = translation_outcomes.get_destination_offset(place.outcome)
    again = _get_reread_bound(place.outcome)
    return (
        place.partition.topic,
        str(place.partition.partition),
        text_format.UNKNOWN_NUMBER if place.offset is None else str(place.offset),
        _format_translation_basis(place, answer),
        place.outcome.partition.topic,
        text_format.UNKNOWN_NUMBER if there is None else str(there),
        _format_reread_bound(place.outcome, again),
        _describe_outcome(place.outcome),
    )


def _format_translation_basis(place: Place, answer: TranslationResult) -> str:
    match place.basis:
        case Basis.COMMITTED:
            return "committed"
        case Basis.CHECKPOINT:
            written_ms = place.written_ms
            age = (
                ""
                if written_ms is None
                else f", {reread_estimate.format_age(answer.at_ms - written_ms)} old"
            )
            return f"checkpoint{age}"
        case Basis.OFFSET:
            return "as given"
        case Basis.TIME:
            return f"time on {answer.origin}"
        case Basis.TIME_ON_DESTINATION:
            return f"time on {answer.destination}"


def _format_reread_bound(outcome: Outcome, again: int | None) -> str:
    if again is not None:
        return str(again)
    return (
        text_format.UNKNOWN_NUMBER
        if translation_outcomes.get_destination_offset(outcome) is None
        else "unknown"
    )


_OUTCOME_NAMES: dict[type[Outcome], str] = {
    Exact: "exact",
    Earlier: "earlier",
    NotReady: "not ready",
    TooOld: "too old",
    Unknown: "unknown",
    BeyondEnd: "beyond the log end",
}


def _describe_outcome(outcome: Outcome) -> str:
    if isinstance(outcome, BeyondEnd):
        return f"{_OUTCOME_NAMES[type(outcome)]} ({outcome.end})"
    why = _get_outcome_reason(outcome)
    return _OUTCOME_NAMES[type(outcome)] + (f": {why}" if why else "")


def _get_outcome_reason(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, Unknown) else ""


def _get_reread_bound(outcome: Outcome) -> int | None:
    """Return the maximum number of records that are re-read after resuming at the translated
    offset; None if unknown."""
    match outcome:
        case Exact():
            return 0
        case Earlier() | NotReady():
            return outcome.again_max
        case TooOld() | Unknown() | BeyondEnd():
            return None
