"""Translated offsets as people, programs and Kafka's own tool read them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mm2.app import columns, figures
from mm2.client import outcomes
from mm2.core.failover import rereads

JSON_VERSION = 1
_COLUMNS = (
    "TOPIC",
    "PARTITION",
    "OFFSET",
    "BASIS",
    "TOPIC-THERE",
    "GOES-ON-AT",
    "READ-AGAIN",
    "OUTCOME",
)
_GROUP = "GROUP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was asked from the cluster `origin` to `destination`, at `at_ms`: of groups, or of
    single places (`groups` None). `silent`: why the flow's source did not answer, "" where it
    did."""

    at_ms: int
    flow: str
    origin: str
    destination: str
    groups: tuple[outcomes.GroupPlaces, ...] | None = None
    places: tuple[outcomes.Place, ...] = ()
    silent: str = ""

    @property
    def rows(self) -> list[tuple[str, outcomes.Place]]:
        """Every place with its group, "" where it has none."""
        if self.groups is None:
            return [("", each) for each in self.places]
        return [(group.group, each) for group in self.groups for each in group.places]

    @property
    def whole(self) -> bool:
        """Is there a place to go on from for everything that was asked?"""
        empty = any(not group.places for group in self.groups or ())
        found = [outcomes.offset_there(place.outcome) for _, place in self.rows]
        return not empty and None not in found


def lines(answer: Answer) -> Iterator[str]:
    """A table, and what has to be said of it."""
    head = _COLUMNS if answer.groups is None else (_GROUP, *_COLUMNS)
    rows = [
        _cells(place, answer) if answer.groups is None else (group, *_cells(place, answer))
        for group, place in answer.rows
    ]
    yield from columns.lines(head, rows)
    yield from notes(answer)


def notes(answer: Answer) -> Iterator[str]:
    """What a table or file does not say: groups without positions, and where positions are
    from."""
    for group in answer.groups or ():
        if not group.places:
            yield f"group {group.group} has no offsets on {answer.origin}"
        if group.basis is outcomes.Basis.CHECKPOINT:
            why = f": {group.silent}" if group.silent else ""
            yield (
                f"group {group.group}: these are the offsets of its last checkpoints, for "
                f"{answer.origin} did not answer{why}. What it read since is read again: how many "
                "records is unknown"
            )
    for place in answer.places:
        if answer.silent and isinstance(place.outcome, outcomes.NotReady):
            yield (
                f"{place.partition}: whether offset {place.offset} is beyond the log end is "
                f"unknown, for {answer.origin} did not answer: {answer.silent}"
            )
        if place.basis is outcomes.Basis.TIME_THERE:
            yield (
                f"{place.partition}: {answer.origin} did not answer, so this is where the time "
                f"begins on {answer.destination}"
            )


def as_csv(answer: Answer) -> str:
    """What `kafka-consumer-groups --reset-offsets --from-file` reads: topic, partition and offset,
    with the group in front where several were asked of. What has no place to go on from is left
    out, as are groups with control characters in their names; `left_out` reports both."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    several = len(answer.groups or ()) > 1
    for group, place in answer.rows:
        offset = outcomes.offset_there(place.outcome)
        if offset is not None and group.isprintable():
            there = place.outcome.partition
            row = (there.topic, there.partition, offset)
            writer.writerow((group, *row) if several else row)
    return out.getvalue()


def left_out(answer: Answer) -> Iterator[str]:
    """A line for each place that `as_csv` has not."""
    for group, place in answer.rows:
        if not group.isprintable():
            yield f"left out: group {group}, {place.partition}: read its name with --json"
        elif outcomes.offset_there(place.outcome) is None:
            whose = f"group {group}, " if group else ""
            yield f"left out: {whose}{place.partition}: {_words(place.outcome)}"


def as_json(answer: Answer) -> dict[str, Any]:
    """For programs; `version` says how it reads."""
    found: dict[str, Any] = {
        "version": JSON_VERSION,
        "flow": answer.flow,
        "from": answer.origin,
        "to": answer.destination,
        "at_ms": answer.at_ms,
    }
    if answer.groups is None:
        return {**found, "places": _places(answer.places)}
    groups = [
        {
            "group": each.group,
            "basis": each.basis.value,
            "silent": each.silent,
            "places": _places(each.places),
        }
        for each in answer.groups
    ]
    return {**found, "groups": groups}


def _places(places: Sequence[outcomes.Place]) -> list[dict[str, Any]]:
    return [
        {
            "topic": place.partition.topic,
            "partition": place.partition.partition,
            "offset": place.offset,
            "basis": place.basis.value,
            "checkpointed_ms": place.written_ms,
            "metadata": place.metadata,
            "outcome": _KINDS[type(place.outcome)].replace(" ", "-"),
            "topic_there": place.outcome.partition.topic,
            "goes_on_at": outcomes.offset_there(place.outcome),
            "read_again_max": _again(place.outcome),
            "log_end": place.outcome.end if isinstance(place.outcome, outcomes.BeyondEnd) else None,
            "why": _why(place.outcome),
        }
        for place in places
    ]


def _cells(place: outcomes.Place, answer: Answer) -> tuple[str, ...]:
    there = outcomes.offset_there(place.outcome)
    again = _again(place.outcome)
    return (
        place.partition.topic,
        str(place.partition.partition),
        figures.UNKNOWN if place.offset is None else str(place.offset),
        _basis(place, answer),
        place.outcome.partition.topic,
        figures.UNKNOWN if there is None else str(there),
        _reread(place.outcome, again),
        _words(place.outcome),
    )


def _basis(place: outcomes.Place, answer: Answer) -> str:
    match place.basis:
        case outcomes.Basis.COMMITTED:
            return "committed"
        case outcomes.Basis.CHECKPOINT:
            written_ms = place.written_ms
            age = "" if written_ms is None else f", {rereads.age(answer.at_ms - written_ms)} old"
            return f"checkpoint{age}"
        case outcomes.Basis.OFFSET:
            return "as given"
        case outcomes.Basis.TIME:
            return f"time on {answer.origin}"
        case outcomes.Basis.TIME_THERE:
            return f"time on {answer.destination}"


def _reread(outcome: outcomes.Outcome, again: int | None) -> str:
    if again is not None:
        return str(again)
    return figures.UNKNOWN if outcomes.offset_there(outcome) is None else "unknown"


_KINDS: dict[type[outcomes.Outcome], str] = {
    outcomes.Exact: "exact",
    outcomes.Earlier: "earlier",
    outcomes.NotReady: "not ready",
    outcomes.TooOld: "too old",
    outcomes.Unknown: "unknown",
    outcomes.BeyondEnd: "beyond the log end",
}


def _words(outcome: outcomes.Outcome) -> str:
    if isinstance(outcome, outcomes.BeyondEnd):
        return f"{_KINDS[type(outcome)]} ({outcome.end})"
    why = _why(outcome)
    return _KINDS[type(outcome)] + (f": {why}" if why else "")


def _why(outcome: outcomes.Outcome) -> str:
    return outcome.why if isinstance(outcome, outcomes.Unknown) else ""


def _again(outcome: outcomes.Outcome) -> int | None:
    """At most so many records are read again; None: nobody knows."""
    match outcome:
        case outcomes.Exact():
            return 0
        case outcomes.Earlier() | outcomes.NotReady():
            return outcome.again_max
        case outcomes.TooOld() | outcomes.Unknown() | outcomes.BeyondEnd():
            return None
