"""Must a task wait, because MirrorMaker 2 of Java may still send what it holds (planner).

A worker of Java that is killed leaves nothing behind but what is on the wire. One that is cut off,
or frozen, still holds batches, and sends them when it comes back, for as long as its producer tries
(`delivery.timeout.ms`). Whoever ended a task in order has closed its producer before it said so:
then nothing is waited for. What is sent later than that is found by pairing, not waited for.

What counts is who ran a task's partitions, whatever number they were under: partitions move between
tasks when topics, their number or the leader change. A run has those that its task was given when
it began. A task of ours says RUNNING only once it has waited: what it has then is nobody else's,
until another begins with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.api import context, errors
from connect_runtime.base import ids
from mm2.core.topics import assigned

DELIVERY_TIMEOUT = "delivery.timeout.ms"
DEFAULT_S = 120.0
"""A producer's own default. Connect sets none (2^31-1) where nobody does: then this is enough for a
worker that is cut off, which ends its tasks within a minute."""
_NO_LIMIT_MS = 2**31 - 1
SKEW_S = 600.0
"""Clocks of Java's machines and ours are less apart than this, where long times are compared."""

_Partitions = frozenset[ids.TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A run by a worker of Java that may not have ended; `began_ms` by its clock (wall). `sure`: it
    had partitions of the task that asks; else what it had is not known any more, which makes it no
    other run."""

    worker_id: str
    began_ms: int
    sure: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """What a wait is about: `partitions` are the task's; Java's producer tries for `for_s`; and now
    is `wall_ms`."""

    partitions: Collection[ids.TopicPartition]
    for_s: float
    wall_ms: int


def wait_s(producer: Mapping[str, str]) -> float:
    """How long the producer of Java's task tries, as its properties say."""
    text = producer.get(DELIVERY_TIMEOUT, "").strip()
    given = int(text) if text.isdecimal() else _NO_LIMIT_MS
    return given / 1000 if given < _NO_LIMIT_MS else DEFAULT_S


def left_by_java(runs: context.LastRuns, asks: Asks) -> frozenset[Left]:
    """Whom a task has to wait for."""
    if not runs.others:
        return frozenset()
    settled_ms = _settled(runs, asks.partitions)
    found = set()
    for number, run in runs.others.items():
        if _is_over(run, runs.quiet, asks):
            continue
        had = _had(runs.given.get(number, ()), run)
        if any(
            settled_ms.get(each, -1) < run.began_ms
            for each in asks.partitions
            if had is None or each in had
        ):
            found.add(Left(worker_id=run.worker_id, began_ms=run.began_ms, sure=had is not None))
    return frozenset(found)


def shared_with(
    runs: context.LastRuns, number: int, *, for_s: float, wall_ms: int
) -> tuple[int, ...]:
    """Tasks but this one that a worker of Java runs, as far as it is known; while there are some,
    what Java guarantees is all that holds."""
    asks = Asks(partitions=(), for_s=for_s, wall_ms=wall_ms)
    return tuple(
        sorted(
            each
            for each, run in runs.others.items()
            if each != number
            and run.ended_ms is None
            and run.removed_ms is None
            and not _is_over(run, runs.quiet, asks)
        )
    )


def _is_over(run: context.OthersRun, quiet: context.Quiet | None, asks: Asks) -> bool:
    """Whatever it had: nothing of it is waited for."""
    if run.ended_ms is not None and not run.overlaps:
        return True
    # Who ran it before had lost it, at the latest, when this run began: by one clock.
    if run.ended_ms is not None and run.ended_ms - run.began_ms >= asks.for_s * 1000:
        return True
    long_ms = (asks.for_s + SKEW_S) * 1000
    known_ms = (each for each in (run.ended_ms, run.removed_ms) if each is not None)
    if any(asks.wall_ms - each >= long_ms for each in known_ms):
        return True
    if quiet is None or run.began_ms >= quiet.from_ms:
        return False
    return quiet.to_ms - quiet.from_ms >= long_ms  # no worker of its group lived before ours began


def _settled(
    runs: context.LastRuns, partitions: Collection[ids.TopicPartition]
) -> dict[ids.TopicPartition, int]:
    """Since when (wall, milliseconds) they are ours, of those that were in runs of ours."""
    found: dict[ids.TopicPartition, int] = {}
    for number, began_ms in runs.ours.items():
        given = _in_force(runs.given.get(number, ()), began_ms)
        had = _partitions(given[-1:]) or frozenset()
        for each in had.intersection(partitions):
            found[each] = max(found.get(each, began_ms), began_ms)
    return found


def _had(given: Sequence[context.TaskGiven], run: context.OthersRun) -> _Partitions | None:
    """What the run had; None: it is not known. One that overlaps another that never ended counts
    for that, too, which began earlier."""
    known = _in_force(given, run.began_ms)
    return _partitions(known if run.overlaps else known[-1:])


def _in_force(given: Sequence[context.TaskGiven], at_ms: int) -> Sequence[context.TaskGiven]:
    """What a task had been given by then: it had the last of these."""
    known = [at for at, each in enumerate(given) if 0 <= each.at_ms <= at_ms]
    return given[: known[-1] + 1] if known else ()


def _partitions(given: Iterable[context.TaskGiven]) -> _Partitions | None:
    found: set[ids.TopicPartition] = set()
    any_given = False
    for each in given:
        any_given = True
        props = {key: value for key, value in each.config.items() if value is not None}
        try:
            found.update(assigned.partitions(props))
        except errors.ConnectError:
            return None
    return frozenset(found) if any_given else None
