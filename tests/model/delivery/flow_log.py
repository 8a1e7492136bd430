"""The map and incident topics: append order matters; readers fold what is there."""

from __future__ import annotations

import dataclasses
from random import Random

from connect_runtime.base.ids import TopicPartition
from mm2.formats import incident_records, offset_map_records
from mm2.formats.incident_records import Incident
from mm2.formats.offset_map_records import Era, EraKey, NewEraRequest, NewEraRequestKey
from mm2.offsets import offset_map_compaction
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.offsets.offset_map_compaction import MapChange
from mm2.replication import recovery_instructions
from mm2.replication.recovery_instructions import FlowStateRecord, RecoveredState
from tests.model.delivery.events import Events
from tests.model.delivery.java_topics import JavaTopics
from tests.model.delivery.source_log import SourceLog
from tests.model.delivery.target_log import TargetLog

PARTITION = TopicPartition("t", 0)
UPKEEP = 0.3
"""As often, when facts are read, somebody has just tidied the map up, or is still about it."""


class FlowStateLog:
    """Marks what incidents name on the target at the time they are stored, for the judge."""

    def __init__(
        self,
        world: Events,
        target: TargetLog,
        java: JavaTopics | None = None,
        *,
        source: SourceLog,
        seed: int | str,
    ) -> None:
        self._world = world
        self._source = source
        self._random = Random(f"upkeep {seed}")
        self._planned: list[MapChange] = []
        self._target = target
        self.map = OffsetMap()
        self.records: list[tuple[bytes, bytes | None]] = []
        self.incidents: list[Incident] = []
        self._java = java
        self._requests: set[str] = set()

    def append(self, item: FlowStateRecord) -> None:
        if item.incident:
            assert item.value is not None
            self._name(incident_records.decode_incident(item.key, item.value))
            return
        self.records.append((item.key, item.value))
        try:
            self.map.apply_record(item.key, item.value)
        except ValueError as error:
            raise AssertionError(f"recorded what nobody can read: {error}") from error
        key = offset_map_records.decode_map_key(item.key)
        if self._world.tracing and item.value is not None:
            self._world.note(
                "map", f"{key} = {offset_map_records.decode_map_value(key, item.value)}"
            )
        if isinstance(key, EraKey) and item.value is not None:
            era = offset_map_records.decode_map_value(key, item.value)
            assert isinstance(era, Era)
            if era.request and era.request not in self._requests:
                self._requests.add(era.request)
                self._target.life += 1

    def _name(self, stated: Incident) -> None:
        self._world.note("incident", stated)
        self.incidents.append(stated)
        if stated.target is not None:
            for entry in self._target.entries:
                entry.name(stated.target)

    def request(self, request: str, position: str) -> None:
        """What `mm2 topic reset` appends."""
        key = NewEraRequestKey(topic=PARTITION.topic, partition=PARTITION.partition)
        value = NewEraRequest(request=request, position=position)
        encoded = offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(value)
        self.append(FlowStateRecord(key=encoded[0], value=encoded[1]))

    @property
    def partition(self) -> PartitionMap:
        return self.map.get_partition(PARTITION)

    def facts(self, target: int | None) -> RecoveredState:
        """As the store answers: who reads deletes what the newest owner has superseded."""
        if self._random.random() < UPKEEP:
            self._tidy()
        anchor = self.partition.resume_point
        for key in self.partition.list_superseded_keys(anchor.key) if anchor is not None else ():
            self.append(FlowStateRecord(key=offset_map_records.encode_map_key(key), value=None))
        found = recovery_instructions.extract_recovered_state(self.partition, target=target)
        return dataclasses.replace(found, java=self._java.progress()) if self._java else found

    def _tidy(self) -> None:
        """Some of what was planned now, and before, in a map that has hardly any room."""
        late = self._planned if self._random.random() < 0.3 else []
        self._planned = offset_map_compaction.plan_compaction(
            self.partition,
            log_start=self._source.log_start,
            budget_bytes=self._random.choice([0, 400, 1 << 20]),
            changes_max=5,
            segment_bytes=24,
        )
        for each in late + self._planned[: self._random.randint(0, 6)]:
            anchor = self.partition.resume_point
            if anchor is not None and each.key != anchor.key:
                value = (
                    None
                    if each.segment is None
                    else offset_map_records.encode_map_value(each.segment)
                )
                self.append(
                    FlowStateRecord(key=offset_map_records.encode_map_key(each.key), value=value)
                )
