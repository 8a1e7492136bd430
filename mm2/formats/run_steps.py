"""Runs of the offset map as they are stored: steps from one to the next, in signed varints.

A run is a pair: the source offset at which it begins, and target less source from there on.
"""

from __future__ import annotations

from collections.abc import Iterable

from mm2.formats import varints


def append(
    out: bytearray, runs: Iterable[tuple[int, int]], *, previous: tuple[int, int] | None
) -> None:
    """`previous` is the run before the first one; None: they begin a segment."""
    source, delta = previous or (0, 0)
    for run in runs:
        varints.append_signed(out, run[0] - source)
        varints.append_signed(out, run[1] - delta)
        source, delta = run


def read(data: bytes, at: int, *, count: int) -> list[tuple[int, int]]:
    """So many runs from position `at` on, which begin a segment. Raises as `varints` does."""
    runs: list[tuple[int, int]] = []
    source = delta = 0
    for _ in range(count):
        step, at = varints.read_signed(data, at)
        change, at = varints.read_signed(data, at)
        source, delta = source + step, delta + change
        runs.append((source, delta))
    return runs
