"""Which flows' workers of a running node go on, end and begin when its file changes: a planner.

A worker's own settings cannot be changed as it runs: then it ends, and another begins. What its
connectors are told can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Props = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerChanges:
    """Names of flows. Who is both in `ends` and in `begins` has to end first."""

    goes_on: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    begins: tuple[str, ...] = ()


def plan(running: Mapping[str, Props], wanted: Mapping[str, Props]) -> WorkerChanges:
    """Both have the workers' properties by flow; who has ended by itself is not `running`."""
    same = {name for name in running if name in wanted and wanted[name] == running[name]}
    return WorkerChanges(
        goes_on=tuple(name for name in running if name in same),
        ends=tuple(name for name in running if name not in same),
        begins=tuple(name for name in wanted if name not in same),
    )
