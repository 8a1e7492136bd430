"""What holds a flow back because somebody wants it so: it is paused, or throttled."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.core import flows


class By(enum.Enum):
    """How an operator holds a whole flow: with `mm2 pause`; or with `mm2 failover`, or over REST,
    and then it has no tasks meanwhile. So a connector of it, over REST."""

    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """`paused`: the whole flow, which is also so while it is `stopped`; `paused_topics` are names
    on the source. `budgets` are those in force, of all nodes together. `beside`: of the flow's
    connectors other than its source connector those that are held, by name."""

    paused: bool = False
    stopped: bool = False
    paused_topics: frozenset[str] = frozenset()
    budgets: flows.Budgets = field(default_factory=flows.Budgets)
    beside: Mapping[str, By] = field(default_factory=dict)

    @property
    def by(self) -> By | None:
        """How the whole flow is held; None where it is not."""
        if self.stopped:
            return By.STOPPED
        return By.PAUSED if self.paused else None

    def pauses(self, topic: str) -> bool:
        return self.paused or topic in self.paused_topics


NOTHING = Holds()
