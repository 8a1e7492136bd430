"""The eager assignor: everything was stopped before, everything is handed out anew.

Connectors go round the members in order, tasks go on where the connectors ended; nothing is
remembered between rounds (Java: EagerAssignor).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from connect_runtime.core.assignment import work


def plan(configured: work.Configured, members: Iterable[str]) -> dict[str, work.Work]:
    """What each member runs from now on, by member id; there has to be a member."""
    ordered = sorted(members, key=work.java_order)
    assert ordered, "a group has members"
    given: dict[str, list[work.Item]] = {member: [] for member in ordered}
    for item, member in zip(configured.work().items, itertools.cycle(ordered), strict=False):
        given[member].append(item)
    return {member: work.Work.of(items) for member, items in given.items()}
