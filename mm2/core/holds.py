"""What holds a flow back because somebody wants it so: it is paused, or throttled."""

from __future__ import annotations

from dataclasses import dataclass, field

from mm2.core import flows


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """`paused`: the whole flow; `paused_topics` are names on the source. `budgets` are those in
    force, of all nodes together."""

    paused: bool = False
    paused_topics: frozenset[str] = frozenset()
    budgets: flows.Budgets = field(default_factory=flows.Budgets)

    def pauses(self, topic: str) -> bool:
        return self.paused or topic in self.paused_topics


NOTHING = Holds()
