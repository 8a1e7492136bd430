"""A group of one: what a standalone worker tells its herder in place of a group.

The herder of a standalone worker is that of any other. Only its group is missing, so it leads
every round, and is to run everything that is configured: here, at once. Nothing is signed, for
nobody else is there. Rounds are counted all the same: what a status says of before one gives way
to what is said after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.core.assignment import leader, protocol, work
from connect_runtime.core.herder import events, instructions
from connect_runtime.core.state import cluster_config


@dataclass(slots=True, kw_only=True)
class Alone:
    """`url` is where this worker answers. Events must reach the herder in the order given."""

    url: str
    _running: work.Work = work.NO_WORK
    _generation: int = 0
    _closed: bool = False

    def begin(self) -> list[events.Event]:
        """To be told after `Begun`."""
        return [events.JoinAsked(work.NO_WORK)]

    def obey(
        self, order: instructions.Order, config: cluster_config.ClusterConfig
    ) -> list[events.Event]:
        """What a group would come back with; nothing for orders that are not for a group.

        `config` is the newest view.
        """
        if self._closed:
            return []
        match order:
            case instructions.Rejoin():
                return [events.JoinAsked(work.NO_WORK)]
            case instructions.Prepared():
                return [self._round(config)]
            case instructions.GiveUpWork():
                self._running = work.NO_WORK
            case instructions.Close():
                self._closed = True
        return []

    def _round(self, config: cluster_config.ClusterConfig) -> events.RoundCompleted:
        configured = everything(config)
        stop = self._running.without(configured.items)
        self._running = configured
        self._generation += 1
        owners: Mapping[work.Item, str] = dict.fromkeys(configured.items, self.url)
        return events.RoundCompleted(
            generation=self._generation,
            speaks=protocol.Protocol.COMPATIBLE,
            assignment=protocol.Assignment(
                leader=self.url,
                leader_url=self.url,
                config_offset=config.offset,
                assigned=configured,
            ),
            stop=stop,
            leads=True,
            owners=leader.Owners(urls={self.url: self.url}, members=owners),
        )


def everything(config: cluster_config.ClusterConfig) -> work.Work:
    """All connectors, and all tasks whose configs are whole."""
    names = config.connectors()
    return work.Work(
        connectors=tuple(names),
        tasks=tuple(task for name in names for task in config.tasks(name)),
    )
