"""`mm2 offsets skip`: a record of the offset map that cannot be read is replaced by a tombstone."""

from __future__ import annotations

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from mm2.app.offsets import storing
from mm2.connectors.share import flow_ledger
from mm2.core import flows, naming
from mm2.core.copy import instructions
from mm2.core.offsets import offset_map
from mm2.formats import receipt

LOOK_S = 30.0


class NothingToSkipError(errors.FatalError):
    """The record can be read, was replaced already, or does not exist."""


def skip(
    ledger: flow_ledger.FlowLedger, flow: flows.Flow, offset: int, *, clock: base_clock.Clock
) -> offset_map.Unreadable:
    """Write the receipt, then the tombstone; return what was skipped. The ledger is not open yet.

    Raises `NothingToSkipError`, and `RetriableError` or `FatalError` as the ledger.
    """
    topic = naming.map_topic(flow.source)
    ledger.open(LOOK_S)
    unreadable = ledger.catch_up(LOOK_S).unreadable()
    found = next((each for each in unreadable if each.offset == offset), None)
    if found is None:
        offsets = ", ".join(str(each.offset) for each in unreadable)
        there = f"unreadable records are at offsets {offsets}" if offsets else "none is unreadable"
        raise NothingToSkipError(
            f"{topic} of cluster {flow.target}: the record at offset {offset} is readable, was "
            f"replaced or does not exist; {there}. Nothing was changed"
        )
    about = found.partition or ids.TopicPartition(topic, 0)
    key, value = receipt.encode(
        receipt.Receipt(
            topic=about.topic,
            partition=about.partition,
            id=f"{receipt.ReceiptKind.MAP_RECORD_SKIPPED.value}-{offset}",
            kind=receipt.ReceiptKind.MAP_RECORD_SKIPPED,
            flow=flow.name,
            at_ms=clock.wall_ms(),
            detail=f"{topic}, offset {offset}: {found.why}; key {found.key.hex()}",
        )
    )
    for item in (
        instructions.LogItem(key=key, value=value, receipt=True),
        instructions.LogItem(key=found.key, value=None),
    ):
        storing.append_all(ledger, [item], clock=clock)
    if any(each.offset == offset for each in ledger.catch_up(LOOK_S).unreadable()):
        raise errors.RetriableError(
            f"{topic}: the tombstone for offset {offset} was acknowledged but could not be read "
            "back: run the command again"
        )
    return found
