"""What other configurations mean for a task that runs: nothing, an offer, or a new start.

Java starts all tasks of a connector anew when one of them is configured otherwise. Here a task is
left alone whose own configuration says the same, everything in it resolved, and that is made of
the same: the worker makes converters, transforms and clients of a task from the connector's
configuration, which task configurations do not show (KAFKA-9228).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

_MADE_BY = ("connector.class", "connector.plugin.version", "task.class")
_OF_ALL_TASKS = ("tasks.max", "tasks.max.enforce")
"""How many there may be is nothing to one of them."""


class Verdict(enum.Enum):
    """OFFER: ask the task whether it takes the configuration up."""

    SAME = "same"
    OFFER = "offer"
    RESTART = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a task is, or would be, made from: both configurations, resolved."""

    connector: Mapping[str, str] = field(repr=False)
    task: Mapping[str, str] = field(repr=False)

    def plugins(self) -> list[str | None]:
        """Which code it runs."""
        return [each.get(name) for each in (self.connector, self.task) for name in _MADE_BY]

    def around(self) -> dict[str, str]:
        """What the worker makes of it besides the task."""
        return {name: each for name, each in self.connector.items() if name not in _OF_ALL_TASKS}


def judge(before: Origin, now: Origin, *, moves_itself: bool) -> Verdict:
    """`moves_itself`: a pipeline task, around which the worker makes nothing."""
    if before.plugins() != now.plugins():
        return Verdict.RESTART
    if not moves_itself and before.around() != now.around():
        return Verdict.RESTART
    if before.task == now.task:
        return Verdict.SAME
    return Verdict.OFFER if moves_itself else Verdict.RESTART
