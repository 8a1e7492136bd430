"""`mm2 offsets skip`: replace a record of the offset map that cannot be read, with a receipt."""

from __future__ import annotations

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from mm2.app.offsets import storing
from mm2.connectors.share import flow_ledger
from mm2.core import flows, naming
from mm2.core.copy import instructions
from mm2.core.offsets import offset_map
from mm2.formats import map_record, receipt

LOOK_S = 30.0


class NothingToSkipError(errors.FatalError):
    """The record can be read, was replaced already, or does not exist; or `--from` is missing, or
    given although the record is not that of an era. Nothing was changed."""


def skip(
    ledger: flow_ledger.FlowLedger,
    flow: flows.Flow,
    offset: int,
    *,
    position: str | None = None,
    clock: base_clock.Clock,
) -> offset_map.Unreadable:
    """Write the receipt, then replace the record; return what was skipped. The ledger is not open
    yet. `position`, required for an era, is where its partition begins again.

    Raises `NothingToSkipError`, and `RetriableError` or `FatalError` as the ledger.
    """
    topic = naming.map_topic(flow.source)
    ledger.open(LOOK_S)
    found = _find(ledger, flow, offset)
    if found.is_era and position is None:
        raise NothingToSkipError(
            f"{topic} of cluster {flow.target}: the record at offset {offset} is that of an era, "
            f"without which {found.partition} can only begin again: add --from, for example "
            "--from earliest. Nothing was changed"
        )
    if position is not None and not found.is_era:
        raise NothingToSkipError(
            f"{topic} of cluster {flow.target}: the record at offset {offset} is not that of an "
            "era, so nothing begins again: leave --from out. Nothing was changed"
        )
    statement = _receipt(found, flow, position, clock=clock)
    storing.append_all(ledger, [statement], clock=clock)
    # As late as can be: another writer may have replaced the record since.
    try:
        _find(ledger, flow, offset)
    except NothingToSkipError:
        undone = instructions.LogItem(key=statement.key, value=None, receipt=True)
        storing.append_all(ledger, [undone], clock=clock)
        raise
    for item in _replacement(found, ledger.catch_up(LOOK_S), position):
        storing.append_all(ledger, [item], clock=clock)
    if any(each.key == found.key for each in ledger.catch_up(LOOK_S).unreadable()):
        raise errors.RetriableError(
            f"{topic}: the tombstone for offset {offset} was acknowledged but could not be read "
            "back: run the command again"
        )
    return found


def _find(ledger: flow_ledger.FlowLedger, flow: flows.Flow, offset: int) -> offset_map.Unreadable:
    """Read to the end, and find the record among those that are unreadable."""
    unreadable = ledger.catch_up(LOOK_S).unreadable()
    found = next((each for each in unreadable if each.offset == offset), None)
    if found is None:
        offsets = ", ".join(str(each.offset) for each in unreadable)
        there = f"unreadable records are at offsets {offsets}" if offsets else "none is unreadable"
        raise NothingToSkipError(
            f"{naming.map_topic(flow.source)} of cluster {flow.target}: the record at offset "
            f"{offset} is readable, was replaced or does not exist; {there}. Nothing was changed"
        )
    return found


def _receipt(
    found: offset_map.Unreadable, flow: flows.Flow, position: str | None, *, clock: base_clock.Clock
) -> instructions.LogItem:
    topic = naming.map_topic(flow.source)
    about = found.partition or ids.TopicPartition(topic, 0)
    again = "" if position is None else f"; the partition begins again from {position}"
    key, value = receipt.encode(
        receipt.Receipt(
            topic=about.topic,
            partition=about.partition,
            id=f"{receipt.ReceiptKind.MAP_RECORD_SKIPPED.value}-{found.offset}",
            kind=receipt.ReceiptKind.MAP_RECORD_SKIPPED,
            flow=flow.name,
            at_ms=clock.wall_ms(),
            detail=(
                f"{topic}, offset {found.offset}, {_kind(found)}: {found.why}; "
                f"key {found.key.hex()}{again}"
            ),
        )
    )
    return instructions.LogItem(key=key, value=value, receipt=True)


def _kind(found: offset_map.Unreadable) -> str:
    match found.known_key:
        case map_record.EraKey(era=number):
            return f"era {number}"
        case map_record.ProducerKey(producer_id=number):
            return f"producer id {number}"
        case map_record.SegmentKey():
            return "a segment of the map"
        case map_record.RequestKey():
            return "a requested reset"
        case _:
            return "of unknown kind"


def _replacement(
    found: offset_map.Unreadable, known: offset_map.OffsetMap, position: str | None
) -> list[instructions.LogItem]:
    """What is written, in order, the record under the unreadable key last.

    Of an era first the request to begin again: without both, its partition would count as new, and
    start somewhere else without a receipt. A producer id stays one of the flow's, in a place of its
    own: it may have written what the target holds.
    """
    tombstone = instructions.LogItem(key=found.key, value=None)
    match found.known_key:
        case map_record.EraKey() as key:
            assert position is not None
            request = map_record.Request(
                request=f"{map_record.LOST_ERA}{found.offset}", position=position
            )
            name = map_record.RequestKey(topic=key.topic, partition=key.partition)
            return [_item(name, request), tombstone]
        case map_record.ProducerKey() as key:
            mine = known.partition(ids.TopicPartition(key.topic, key.partition))
            return [_item(key, map_record.Producer(ordinal=mine.next_ordinal, era=mine.newest_era))]
        case _:
            return [tombstone]


def _item(key: map_record.MapKey, value: map_record.MapValue) -> instructions.LogItem:
    return instructions.LogItem(
        key=map_record.encode_key(key), value=map_record.encode_value(value)
    )
