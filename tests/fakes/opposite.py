"""The source of a flow in memory, with the map topic of the flow that leads back."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect_runtime.base.errors import ConnectError
from mm2.connectors.reverse_flow_producer_ids import (
    ReverseFlowProducerLookup,
    ReverseOffsetMapReader,
)
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import (
    MapKey,
    MapProducer,
    MapProducerKey,
    MapValue,
    NewEraRequest,
    NewEraRequestKey,
)
from mm2.topics import replication_policy
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.checkpoint_clients import FakeTail, Record
from tests.fakes.plugin_contexts import Clock

TOPIC = replication_policy.format_offset_map_topic("west")
"""Of the flow east->west the opposite map."""


@dataclass
class Source:
    """`log` is that topic's, which comes into being with its first record; `tails` are those that
    were connected, `failures` what reading answers first."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    log: list[Record] = field(default_factory=list)
    failures: list[ConnectError] = field(default_factory=list)
    tails: list[FakeTail] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.cluster.topics:
            self.cluster.create("t")

    def admin(self) -> FakeAdmin:
        return FakeAdmin(self.cluster)

    def tail(self) -> FakeTail:
        made = FakeTail(topic=TOPIC, log=self.log, failures=self.failures)
        self.tails.append(made)
        return made

    def ids(self) -> ReverseFlowProducerLookup:
        """Whoever asks for them closes them."""
        found = ReverseOffsetMapReader(
            TOPIC,
            connect_admin=self.admin,
            connect_tail=self.tail,
            clock=Clock(),
            flow="west->east",
        )
        return ReverseFlowProducerLookup(found, name="east->west")

    def writes(self, producer: int, *, topic: str = "t", partition: int = 0) -> None:
        """The opposite flow stores an id with which it is going to write."""
        key = MapProducerKey(topic=topic, partition=partition, producer_id=producer)
        self._append(key, MapProducer(ordinal=1, era=1))

    def says_other_things(self) -> None:
        key = NewEraRequestKey(topic="t", partition=0)
        self._append(key, NewEraRequest(request="r", position="latest"))

    def _append(self, key: MapKey, value: MapValue) -> None:
        if TOPIC not in self.cluster.topics:
            self.cluster.create(TOPIC)
        self.log.append(
            (offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(value))
        )
