"""What tasks were configured with lately, and since when: a fold over commits of the config topic.

Who looks back on a run by a worker of another make finds here what it ran with. The topic is
compacted: of what was there before it is read, at least the newest is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from connect_runtime.api import context
from connect_runtime.core.state import cluster_config

KEPT = 8
"""For each task; what was given before these is not known any more."""
_Given = Mapping[int, tuple[context.TaskGiven, ...]]
_NOTHING: _Given = MappingProxyType({})


@dataclass(slots=True)
class GivenConfigs:
    """Invariant: no task has more than `KEPT`, or none. Many tasks ask again and again, and sets
    are seldom committed: answers are made then."""

    _found: dict[str, _Given] = field(default_factory=dict)

    def commit(
        self, connector: str, configs: Mapping[int, cluster_config.RawConfig], *, wall_ms: int
    ) -> None:
        """A complete set, which the leader of then wrote at that time by its clock; -1: it is not
        known when, and so nothing of what was before."""
        found = dict(self.of(connector))
        for number, config in configs.items():
            before = found.get(number, ()) if wall_ms >= 0 else ()
            given = context.TaskGiven(config=config, at_ms=wall_ms)
            found[number] = (*before[1 - KEPT :], given)
        self._found[connector] = MappingProxyType(found)

    def forget(self, connector: str) -> None:
        """It is deleted."""
        self._found.pop(connector, None)

    def of(self, connector: str) -> _Given:
        """By number, in the order in which they were given."""
        return self._found.get(connector, _NOTHING)

    def check_invariants(self) -> None:
        for of in self._found.values():
            assert all(0 < len(given) <= KEPT for given in of.values())
