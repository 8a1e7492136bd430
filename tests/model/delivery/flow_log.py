"""The map and receipt topics: append order is everything; readers fold what is there when asked."""

from __future__ import annotations

import dataclasses
from random import Random

from connect_runtime.base import ids
from mm2.core.copy import facts, instructions
from mm2.core.offsets import map_upkeep, offset_map
from mm2.formats import map_record, receipt
from tests.model.delivery import events, java_topics, source_log, target_log

PARTITION = ids.TopicPartition("t", 0)
UPKEEP = 0.3
"""As often, when facts are read, somebody has just tidied the map up, or is still about it."""


class FlowLog:
    """Marks what receipts name on the target at the time they are stored, for the judge."""

    def __init__(
        self,
        world: events.Events,
        target: target_log.TargetLog,
        java: java_topics.JavaTopics | None = None,
        *,
        source: source_log.SourceLog,
        seed: int | str,
    ) -> None:
        self._world = world
        self._source = source
        self._random = Random(f"upkeep {seed}")
        self._planned: list[map_upkeep.Change] = []
        self._target = target
        self.map = offset_map.OffsetMap()
        self.records: list[tuple[bytes, bytes | None]] = []
        self.receipts: list[receipt.Receipt] = []
        self._java = java
        self._requests: set[str] = set()

    def append(self, item: instructions.LogItem) -> None:
        if item.receipt:
            assert item.value is not None
            self._name(receipt.decode(item.key, item.value))
            return
        self.records.append((item.key, item.value))
        try:
            self.map.apply(item.key, item.value)
        except ValueError as error:
            raise AssertionError(f"recorded what nobody can read: {error}") from error
        key = map_record.decode_key(item.key)
        if self._world.tracing and item.value is not None:
            self._world.note("map", f"{key} = {map_record.decode_value(key, item.value)}")
        if isinstance(key, map_record.EraKey) and item.value is not None:
            era = map_record.decode_value(key, item.value)
            assert isinstance(era, map_record.Era)
            if era.request and era.request not in self._requests:
                self._requests.add(era.request)
                self._target.life += 1

    def _name(self, stated: receipt.Receipt) -> None:
        self._world.note("receipt", stated)
        self.receipts.append(stated)
        if stated.target is not None:
            for entry in self._target.entries:
                entry.name(stated.target)

    def request(self, request: str, position: str) -> None:
        """What `mm2 topic reset` appends."""
        key = map_record.RequestKey(topic=PARTITION.topic, partition=PARTITION.partition)
        value = map_record.Request(request=request, position=position)
        encoded = map_record.encode_key(key), map_record.encode_value(value)
        self.append(instructions.LogItem(key=encoded[0], value=encoded[1]))

    @property
    def partition(self) -> offset_map.PartitionMap:
        return self.map.partition(PARTITION)

    def facts(self, target: int | None) -> facts.Facts:
        """As the ledger answers: who reads deletes what the newest owner has superseded."""
        if self._random.random() < UPKEEP:
            self._tidy()
        anchor = self.partition.anchor
        for key in self.partition.superseded(anchor.key) if anchor is not None else ():
            self.append(instructions.LogItem(key=map_record.encode_key(key), value=None))
        found = facts.from_map(self.partition, target=target)
        return dataclasses.replace(found, java=self._java.progress()) if self._java else found

    def _tidy(self) -> None:
        """Some of what was planned now, and before, in a map that has hardly any room."""
        late = self._planned if self._random.random() < 0.3 else []
        self._planned = map_upkeep.plan(
            self.partition,
            log_start=self._source.log_start,
            budget_bytes=self._random.choice([0, 400, 1 << 20]),
            changes_max=5,
            segment_bytes=24,
        )
        for each in late + self._planned[: self._random.randint(0, 6)]:
            anchor = self.partition.anchor
            if anchor is not None and each.key != anchor.key:
                value = None if each.segment is None else map_record.encode_value(each.segment)
                self.append(instructions.LogItem(key=map_record.encode_key(each.key), value=value))
