"""How a flow stands: what `mm2 status` and `mm2 lag` tell, whoever has seen it.

A process that runs the flow makes it of what it shows; where none does, it is made of what both
clusters hold. It goes through JSON on its way from a process, as it does to programs.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import ids
from mm2.core import health, reachability, time_to_loss
from mm2.core.copy import ages, stops

JSON_VERSION = 1
CLUSTERS = "clusters"
"""Stands in `FlowReport.seen_by` for both clusters; a process is "process" and its id."""

NOTHING_KNOWN = time_to_loss.Outlook(kind=time_to_loss.Kind.UNKNOWN)


class State(enum.Enum):
    """Of a flow."""

    PLANNING = "PLANNING"
    """Its process has begun, and copies nothing yet."""
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    """For good: until somebody resumes or starts it."""
    FAILED = "FAILED"
    NOT_RUNNING = "NOT_RUNNING"
    """No process, on whichever machine, is in its group."""
    UNKNOWN = "UNKNOWN"
    """Its target does not answer."""


COPYING = "copying"
STANDING = frozenset({"stopped", "fenced"})
"""States of partitions: of those that move, and of those that stand still until somebody acts."""
_OTHER_LOG = frozenset({stops.Cause.RECREATED.value, stops.Cause.SOURCE_TRUNCATED.value})
FAILED = "FAILED"
"""Connect's word for a task that does not go on by itself."""
UNSEEN = ""
"""A partition's state that only the process that copies it knows. With a reason, its logs show that
something is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition of the source. Offsets and times are None while unknown.

    `state` is a word of `overview`, or `UNSEEN`. `start` and `end` (last stable offset) are of the
    source's log, `copied_to` is the next offset to copy, None also where nothing was copied yet.
    `waiting_since_ms` is the timestamp of the oldest record not yet copied. `since_ms`: since when
    it is in this state. `cause`: the code of a stop (`stops.Cause`), "" where nobody knows one.
    """

    topic: str
    partition: int
    mirror: str
    state: str = UNSEEN
    reason: str = ""
    cause: str = ""
    since_ms: int | None = None
    copied_to: int | None = None
    start: int | None = None
    end: int | None = None
    waiting_since_ms: int | None = None
    outlook: time_to_loss.Outlook = NOTHING_KNOWN

    @property
    def place(self) -> ids.TopicPartition:
        return ids.TopicPartition(self.topic, self.partition)

    @property
    def lag_records(self) -> int | None:
        """By offsets: an upper bound where the log has gaps. None where it is unknown, and where
        the source's log is another than the one that was replicated: its offsets do not compare."""
        if self.end is None or self.cause in _OTHER_LOG:
            return None
        if self.copied_to is None:
            return None if self.start is None else self.end - self.start
        return max(0, self.end - max(self.copied_to, self.start or 0))

    def lag_ms(self, now_ms: int) -> int | None:
        """Age of the oldest record not yet copied, 0 if none, never negative; None also where it
        lies in the future."""
        if self.lag_records == 0:
            return 0
        if self.waiting_since_ms is None:
            return None
        return ages.age_ms(self.waiting_since_ms, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of the flow's source connector. `node` is the worker that has it, "" for none;
    `restarts` are None where nobody counts them."""

    number: int
    state: str
    node: str = ""
    reason: str = ""
    restarts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that went wrong: when it was seen first, None if nobody noted that, and when it was
    resolved, None while it lasts."""

    text: str
    at_ms: int | None = None
    resolved_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Partitions of one topic that are stopped for one reason, since the first of them was.
    `reason` is that of the first, `state` as in `Partition`."""

    topic: str
    state: str
    reason: str
    partitions: tuple[int, ...]
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReport:
    """As of `at_ms`, UTC. `since_ms`: since when it is in its state. `elsewhere` counts partitions
    that whoever saw it knows nothing of. `troubles` are the last ones, newest first. `unreachable`
    are clusters of the flow, or brokers of theirs, that do not answer. `crossed`: when its last
    batch was replicated, None where only a process that replicates some of it can tell. `unseen`:
    why the partitions that are `elsewhere` could not be looked at, "" where nobody tried."""

    flow: str
    seen_by: tuple[str, ...]
    at_ms: int
    state: State
    reason: str = ""
    since_ms: int | None = None
    nodes: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()
    partitions: tuple[Partition, ...] = ()
    elsewhere: int = 0
    troubles: tuple[Trouble, ...] = ()
    warnings: tuple[str, ...] = ()
    unreachable: tuple[reachability.Unreachable, ...] = ()
    crossed: health.Crossed | None = None
    unseen: str = ""

    def lost_cluster(self, side: reachability.Side) -> reachability.Unreachable | None:
        """The whole cluster on that side, where it does not answer."""
        found = (each for each in self.unreachable if each.side is side and not each.broker)
        return next(found, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Over some partitions: sum and maximum of what is known, None where nothing is. `complete` and
    `dated` say whether the lag and the age of all is, else they are lower bounds."""

    records: int | None
    ms: int | None
    complete: bool
    dated: bool


def lag(partitions: Sequence[Partition], now_ms: int) -> Lag:
    """Of all of them together."""
    records = [each.lag_records for each in partitions]
    lags_ms = [each.lag_ms(now_ms) for each in partitions]
    known, known_ms = _known(records), _known(lags_ms)
    return Lag(
        records=sum(known) if known else None,
        ms=max(known_ms, default=None),
        complete=len(known) == len(partitions),
        dated=len(known_ms) == len(partitions),
    )


def soonest(partitions: Sequence[Partition]) -> time_to_loss.Outlook | None:
    """Of what will be lost first; None: nothing is known to be."""
    kinds = (time_to_loss.Kind.GONE, time_to_loss.Kind.RUNS_OUT)
    found = [each.outlook for each in partitions if each.outlook.kind in kinds]
    return min(found, key=lambda each: each.left_ms or 0, default=None)


def halts(partitions: Sequence[Partition]) -> list[Halt]:
    """What is stopped until somebody acts, each topic and reason once: reasons that differ only in
    the number of their partition are alike."""
    found: dict[tuple[str, str], list[Partition]] = {}
    for each in partitions:
        if each.state in STANDING:
            found.setdefault((each.topic, unnumbered(each.place, each.reason)), []).append(each)
    return [
        Halt(
            topic=topic,
            state=parts[0].state,
            reason=parts[0].reason,
            partitions=tuple(each.partition for each in parts),
            since_ms=min((each.since_ms for each in parts if each.since_ms), default=None),
        )
        for (topic, _), parts in found.items()
    ]


def unnumbered(place: ids.TopicPartition, text: str) -> str:
    """The text with the topic in the place of the partition's name."""
    named = rf"(?<![\w.-]){re.escape(place.topic)}-{place.partition}(?!\d)"
    return re.sub(named, lambda _: place.topic, text)


def past_troubles(report: FlowReport) -> list[Trouble]:
    """Without what still halts a partition: that is reported as it is now."""
    lasting = {
        unnumbered(each.place, each.reason) for each in report.partitions if each.state in STANDING
    }
    return [each for each in report.troubles if not any(why in each.text for why in lasting)]


def by_topic(partitions: Sequence[Partition]) -> dict[str, list[Partition]]:
    """In order of names and numbers."""
    found: dict[str, list[Partition]] = {}
    for each in sorted(partitions, key=lambda each: (each.topic, each.partition)):
        found.setdefault(each.topic, []).append(each)
    return found


def _known(values: Sequence[int | None]) -> list[int]:
    return [each for each in values if each is not None]


# JSON


def as_json(report: FlowReport) -> dict[str, Any]:
    """`read` has the way back. Lags are told beside what they are made of."""
    return {
        **_fields(report),
        "state": report.state.value,
        "tasks": [_fields(each) for each in report.tasks],
        "partitions": [_partition_json(each, report.at_ms) for each in report.partitions],
        "troubles": [_fields(each) for each in report.troubles],
        "unreachable": [{**_fields(each), "side": each.side.value} for each in report.unreachable],
        "crossed": None if report.crossed is None else _crossed_json(report.crossed),
        **lag_json(lag(report.partitions, report.at_ms)),
    }


def lag_json(found: Lag) -> dict[str, Any]:
    """Not known, they are lower bounds."""
    return {
        "lag_records": found.records,
        "lag_records_known": found.complete,
        "lag_ms": found.ms,
        "lag_ms_known": found.dated,
    }


def _crossed_json(crossed: health.Crossed) -> dict[str, Any]:
    last = crossed.last
    return {
        "begun_ms": crossed.begun_ms,
        "last": None if last is None else {"at_ms": last.at_ms, "by": last.by.name},
    }


def _read_crossed(found: Mapping[str, Any]) -> health.Crossed:
    last = found["last"]
    return health.Crossed(
        begun_ms=found["begun_ms"],
        last=None
        if last is None
        else health.Crossing(at_ms=last["at_ms"], by=health.By[last["by"]]),
    )


def _partition_json(each: Partition, now_ms: int) -> dict[str, Any]:
    outlook = each.outlook
    return {
        **_fields(each),
        "outlook": {
            **_fields(outlook),
            "kind": outlook.kind.value,
            "by": None if outlook.by is None else outlook.by.value,
        },
        "lag_records": each.lag_records,
        "lag_ms": each.lag_ms(now_ms),
    }


def _fields(each: Any) -> dict[str, Any]:
    """Those of a dataclass, as they are: there may be thousands of partitions."""
    return {name: getattr(each, name) for name in each.__dataclass_fields__}


def read(found: Mapping[str, Any]) -> FlowReport:
    """Raises `KeyError`, `TypeError` or `ValueError` for what is no report of this release."""
    plain = {key: found[key] for key in FlowReport.__dataclass_fields__}
    return FlowReport(
        **plain
        | {
            "seen_by": tuple(plain["seen_by"]),
            "state": State(plain["state"]),
            "nodes": tuple(plain["nodes"]),
            "tasks": tuple(Task(**each) for each in plain["tasks"]),
            "partitions": tuple(_read_partition(each) for each in plain["partitions"]),
            "troubles": tuple(Trouble(**each) for each in plain["troubles"]),
            "warnings": tuple(plain["warnings"]),
            "unreachable": tuple(
                reachability.Unreachable(**each | {"side": reachability.Side(each["side"])})
                for each in plain["unreachable"]
            ),
            "crossed": None if plain["crossed"] is None else _read_crossed(plain["crossed"]),
        }
    )


def _read_partition(found: Mapping[str, Any]) -> Partition:
    plain = {key: found[key] for key in Partition.__dataclass_fields__}
    outlook = dict(plain["outlook"])
    outlook["kind"] = time_to_loss.Kind(outlook["kind"])
    outlook["by"] = None if outlook["by"] is None else time_to_loss.By(outlook["by"])
    return Partition(**plain | {"outlook": time_to_loss.Outlook(**outlook)})
