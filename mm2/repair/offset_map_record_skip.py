"""`mm2 offsets skip`: replaces an unreadable record of the offset map and records an incident."""

from __future__ import annotations

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.formats import incident_records, offset_map_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.formats.offset_map_records import (
    EraKey,
    MapKey,
    MapProducer,
    MapProducerKey,
    MapSegmentKey,
    MapValue,
    NewEraRequest,
    NewEraRequestKey,
)
from mm2.offsets.offset_map import OffsetMap, UnreadableMapRecord
from mm2.repair import flow_state_writes
from mm2.replication.recovery_instructions import FlowStateRecord
from mm2.topics import replication_policy
from mm2.topics.flow_config import Flow

READ_TIMEOUT_S = 30.0


class NothingToSkipError(FatalError):
    """Raised if the record cannot be skipped: it is readable, already replaced or missing, or the
    `position` argument does not fit. Nothing was changed. A position is required for the record of
    an era (mirror generation) and rejected for other records."""


def skip_unreadable_record(
    store: FlowStateStore,
    flow: Flow,
    offset: int,
    *,
    position: str | None = None,
    clock: Clock,
) -> UnreadableMapRecord:
    """Record an incident, then append a record that supersedes the unreadable offset map record at
    `offset` (a tombstone, or a producer id record with a new ordinal). Returns the skipped record.

    `store` (the flow's offset map and incident topics) must not be open yet. `position` is the
    source position at which the partition restarts. It is required for an era (mirror generation)
    record and rejected for other records. Raises `NothingToSkipError`, and `RetriableError` or
    `FatalError` if the topics cannot be read or written.
    """
    topic = replication_policy.format_offset_map_topic(flow.source)
    store.open(READ_TIMEOUT_S)
    found = _find_unreadable_record(store, flow, offset)
    if found.is_era_record and position is None:
        raise NothingToSkipError(
            f"{topic} of cluster {flow.target}: the record at offset {offset} is an era (mirror "
            f"generation). If it is skipped, {found.partition} must restart at a position that you "
            "choose: add --from, for example --from earliest. Nothing was changed"
        )
    if position is not None and not found.is_era_record:
        raise NothingToSkipError(
            f"{topic} of cluster {flow.target}: the record at offset {offset} is not an era "
            "(mirror generation), so no partition is restarted: omit --from. Nothing was changed"
        )
    statement = _build_incident(found, flow, position, clock=clock)
    flow_state_writes.append_records(store, [statement], clock=clock)
    # As late as possible: another writer may have replaced the record since.
    try:
        _find_unreadable_record(store, flow, offset)
    except NothingToSkipError:
        undone = FlowStateRecord(key=statement.key, value=None, incident=True)
        flow_state_writes.append_records(store, [undone], clock=clock)
        raise
    for item in _build_replacement_records(
        found, store.read_offset_map_to_end(READ_TIMEOUT_S), position
    ):
        flow_state_writes.append_records(store, [item], clock=clock)
    if any(
        each.key == found.key
        for each in store.read_offset_map_to_end(READ_TIMEOUT_S).list_unreadable_records()
    ):
        raise RetriableError(
            f"{topic}: the tombstone for offset {offset} was acknowledged but could not be read "
            "back: run the command again"
        )
    return found


def _find_unreadable_record(store: FlowStateStore, flow: Flow, offset: int) -> UnreadableMapRecord:
    """Read the store (the flow's offset map and incident topics) to its end and return the
    unreadable record at `offset`."""
    unreadable = store.read_offset_map_to_end(READ_TIMEOUT_S).list_unreadable_records()
    found = next((each for each in unreadable if each.offset == offset), None)
    if found is None:
        offsets = ", ".join(str(each.offset) for each in unreadable)
        there = f"unreadable records are at offsets {offsets}" if offsets else "all are readable"
        raise NothingToSkipError(
            f"{replication_policy.format_offset_map_topic(flow.source)} of cluster "
            f"{flow.target}: the record "
            f"at offset {offset} is readable, was replaced or does not exist; {there}. Nothing was "
            "changed"
        )
    return found


def _build_incident(
    found: UnreadableMapRecord, flow: Flow, position: str | None, *, clock: Clock
) -> FlowStateRecord:
    topic = replication_policy.format_offset_map_topic(flow.source)
    about = found.partition or TopicPartition(topic, 0)
    again = "" if position is None else f"; the partition restarts from {position}"
    key, value = incident_records.encode_incident(
        Incident(
            topic=about.topic,
            partition=about.partition,
            id=f"{IncidentKind.MAP_RECORD_SKIPPED.value}-{found.offset}",
            kind=IncidentKind.MAP_RECORD_SKIPPED,
            flow=flow.name,
            at_ms=clock.wall_ms(),
            detail=(
                f"{topic}, offset {found.offset}, {_describe_record_kind(found)}: {found.why}; "
                f"key {found.key.hex()}{again}"
            ),
        )
    )
    return FlowStateRecord(key=key, value=value, incident=True)


def _describe_record_kind(found: UnreadableMapRecord) -> str:
    """Describe the kind of an unreadable offset map record, which is derived from the record's
    key."""
    match found.decoded_key:
        case EraKey(era=number):
            return f"era {number}"
        case MapProducerKey(producer_id=number):
            return f"producer id {number}"
        case MapSegmentKey():
            return "a segment of the map"
        case NewEraRequestKey():
            return "a requested reset"
        case _:
            return "of unknown kind"


def _build_replacement_records(
    found: UnreadableMapRecord, known: OffsetMap, position: str | None
) -> list[FlowStateRecord]:
    """Build the records to write, in order. The last one has the key of the unreadable record and
    replaces it.

    An era (mirror generation) record is preceded by a request to restart the partition at
    `position`. Without the request, the partition would be treated as new, and replication would
    start at the flow's default position without an incident. If the unreadable record contained a
    producer id, that id is stored again with a new ordinal (rank among the flow's producer ids),
    because the target may contain records written with it.
    """
    tombstone = FlowStateRecord(key=found.key, value=None)
    match found.decoded_key:
        case EraKey() as key:
            assert position is not None
            request = NewEraRequest(
                request=f"{offset_map_records.LOST_ERA_REQUEST_PREFIX}{found.offset}",
                position=position,
            )
            name = NewEraRequestKey(topic=key.topic, partition=key.partition)
            return [_build_log_item(name, request), tombstone]
        case MapProducerKey() as key:
            mine = known.get_partition(TopicPartition(key.topic, key.partition))
            return [
                _build_log_item(key, MapProducer(ordinal=mine.next_ordinal, era=mine.newest_era))
            ]
        case _:
            return [tombstone]


def _build_log_item(key: MapKey, value: MapValue) -> FlowStateRecord:
    return FlowStateRecord(
        key=offset_map_records.encode_map_key(key), value=offset_map_records.encode_map_value(value)
    )
