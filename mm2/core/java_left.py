"""Must a task wait, because MirrorMaker 2 of Java may still send what it holds (planner).

A worker of Java that is killed leaves nothing behind but what is on the wire. One that is cut off,
or frozen, still holds batches, and sends them when it comes back, for as long as its producer tries
(`delivery.timeout.ms`). Whoever ended a task in order has closed its producer before it said so:
then nothing is waited for. What is sent later than that is found by pairing, not waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.api import context

DELIVERY_TIMEOUT = "delivery.timeout.ms"
DEFAULT_S = 120.0
"""A producer's own default. Connect sets none (2^31-1) where nobody does: then this is enough for a
worker that is cut off, which ends its tasks within a minute."""
_NO_LIMIT_MS = 2**31 - 1
SKEW_S = 600.0
"""Clocks of Java's machines and ours are less apart than this, where they are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A run by a worker of Java that may not have ended; `began_ms` by its clock (wall)."""

    worker_id: str
    began_ms: int


def wait_s(producer: Mapping[str, str]) -> float:
    """How long the producer of Java's task tries, as its properties say."""
    text = producer.get(DELIVERY_TIMEOUT, "").strip()
    given = int(text) if text.isdecimal() else _NO_LIMIT_MS
    return given / 1000 if given < _NO_LIMIT_MS else DEFAULT_S


def left_by_java(runs: context.LastRuns, number: int, *, for_s: float) -> Left | None:
    """Whom task `number` has to wait for, whose producer tries for `for_s`; None: for nobody.

    A task that nobody ever ran waits, too, as its partitions may have been in any other.
    """
    run = runs.others.get(number)
    if run is not None:
        return _left(run, runs.quiet, for_s)
    if number in runs.ours:
        return None
    found = (_left(each, runs.quiet, for_s) for each in runs.others.values())
    return max((each for each in found if each), key=lambda each: each.began_ms, default=None)


def shared_with(runs: context.LastRuns, number: int) -> tuple[int, ...]:
    """Tasks but this one that a worker of Java runs, as far as it is known; while there are some,
    what Java guarantees is all that holds."""
    found = (each for each, run in runs.others.items() if run.ended_ms is None)
    return tuple(sorted(each for each in found if each != number))


def _left(run: context.OthersRun, quiet: context.Quiet | None, for_s: float) -> Left | None:
    if run.ended_ms is not None:
        # Who ran it before had lost it, at the latest, when this run began: by one clock.
        waited = not run.overlaps or run.ended_ms - run.began_ms >= for_s * 1000
    else:
        waited = _long_gone(run, quiet, for_s)
    return None if waited else Left(worker_id=run.worker_id, began_ms=run.began_ms)


def _long_gone(run: context.OthersRun, quiet: context.Quiet | None, for_s: float) -> bool:
    """No worker of its group lived long before ours began."""
    if quiet is None or run.began_ms >= quiet.from_ms:
        return False
    return quiet.to_ms - quiet.from_ms >= (for_s + SKEW_S) * 1000
