"""The source of a flow in memory, with the map topic of the flow that leads back."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect_runtime.base import errors
from mm2.connectors.share import opposite_ids, opposite_map
from mm2.core import naming
from mm2.formats import map_record
from tests.fakes import admin, checkpoint_clients, plugin_contexts

TOPIC = naming.map_topic("west")
"""Of the flow east->west the opposite map."""


@dataclass
class Source:
    """`log` is that topic's, which comes into being with its first record; `tails` are those that
    were connected, `failures` what reading answers first."""

    cluster: admin.FakeCluster = field(default_factory=admin.FakeCluster)
    log: list[checkpoint_clients.Record] = field(default_factory=list)
    failures: list[errors.ConnectError] = field(default_factory=list)
    tails: list[checkpoint_clients.FakeTail] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.cluster.topics:
            self.cluster.create("t")

    def admin(self) -> admin.FakeAdmin:
        return admin.FakeAdmin(self.cluster)

    def tail(self) -> checkpoint_clients.FakeTail:
        made = checkpoint_clients.FakeTail(topic=TOPIC, log=self.log, failures=self.failures)
        self.tails.append(made)
        return made

    def ids(self) -> opposite_ids.OppositeIds:
        """Whoever asks for them closes them."""
        found = opposite_map.OppositeMap(
            TOPIC,
            connect_admin=self.admin,
            connect_tail=self.tail,
            clock=plugin_contexts.Clock(),
            flow="west->east",
        )
        return opposite_ids.OppositeIds(found, name="east->west")

    def writes(self, producer: int, *, topic: str = "t", partition: int = 0) -> None:
        """The opposite flow stores an id with which it is going to write."""
        key = map_record.ProducerKey(topic=topic, partition=partition, producer_id=producer)
        self._append(key, map_record.Producer(ordinal=1, era=1))

    def says_other_things(self) -> None:
        key = map_record.RequestKey(topic="t", partition=0)
        self._append(key, map_record.Request(request="r", position="latest"))

    def _append(self, key: map_record.MapKey, value: map_record.MapValue) -> None:
        if TOPIC not in self.cluster.topics:
            self.cluster.create(TOPIC)
        self.log.append((map_record.encode_key(key), map_record.encode_value(value)))
