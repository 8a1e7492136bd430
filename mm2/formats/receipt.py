"""Receipts: durable statements that something was lost, skipped, doubled or could not be ruled out;
and of what operators did to the flow.

Topic `mm2-receipts.<alias>.internal` on the target, compacted, one partition. Key and value are
compact JSON, so that any console consumer reads them:

    key    {"v":1,"topic":…,"partition":…,"id":…}
    value  {"v":1,"kind":…,"source":[from,to),"target":[from,to),"at_ms":…,"flow":…,"detail":…}

Ranges are null where they do not apply. What is about no single partition has partition -1, and
topic "" where it is about the whole flow.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 1
NO_PARTITION = -1


class ReceiptKind(enum.Enum):
    """What a receipt states about its ranges."""

    UNFENCED_TAKE_OVER = "unfenced-take-over"
    """The transactional id had another producer id than recorded: nothing fenced the older one."""
    NOT_PAIRED = "not-paired"
    """Target [from, to) may hold source records that are copied again behind it."""
    SOURCE_GONE = "source-gone"
    """Source [from, to) was deleted by the source before it was copied, or before it could be
    compared."""
    DOUBLED_BY_JAVA = "doubled-by-java"
    """Every record of target [from, to) stands before it, too: MirrorMaker 2 wrote it again after a
    crash, or another owner beside it."""
    TAKEN_FROM_JAVA = "taken-from-java"
    """MirrorMaker 2 stored that it had copied source [from, to), or what the text names; nobody
    compared."""
    NEW_ERA_REQUESTED = "new-era-requested"
    """An operator started a new era; what lies between the two positions is theirs to answer
    for."""
    OPERATOR_ACTION = "operator-action"
    """An operator paused, resumed, throttled, restarted or reconfigured the flow, or a topic of it;
    the text says who. It has no ranges, and says nothing about what was copied."""
    MAP_RECORD_SKIPPED = "map-record-skipped"
    """An operator skipped a record of the offset map that could not be read; the text says where.
    Its partition is the one that the record names, or else that of the map's topic. No ranges."""


Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One statement about one source partition; `topic` is the source's, offsets are [from, to).

    An operator's action is about a topic, or with topic "" about the flow: its partition is
    `NO_PARTITION`.
    """

    topic: str
    partition: int
    id: str
    kind: ReceiptKind
    flow: str
    at_ms: int
    detail: str
    source: Range | None = None
    target: Range | None = None


class UnknownVersionError(Exception):
    """A receipt was written by a release that this one does not know."""


def encode(receipt: Receipt) -> tuple[bytes, bytes]:
    """(key, value)"""
    key = {
        "v": VERSION,
        "topic": receipt.topic,
        "partition": receipt.partition,
        "id": receipt.id,
    }
    value = {
        "v": VERSION,
        "kind": receipt.kind.value,
        "source": receipt.source,
        "target": receipt.target,
        "at_ms": receipt.at_ms,
        "flow": receipt.flow,
        "detail": receipt.detail,
    }
    return _compact(key), _compact(value)


def decode(key: bytes, value: bytes) -> Receipt:
    """Raises `UnknownVersionError`, or `ValueError`/`KeyError` for what is no receipt at all."""
    names, fields = json.loads(key), json.loads(value)
    for part in (names, fields):
        if part["v"] != VERSION:
            raise UnknownVersionError(f"receipt of version {part['v']}")
    return Receipt(
        topic=names["topic"],
        partition=names["partition"],
        id=names["id"],
        kind=ReceiptKind(fields["kind"]),
        flow=fields["flow"],
        at_ms=fields["at_ms"],
        detail=fields["detail"],
        source=_range(fields["source"]),
        target=_range(fields["target"]),
    )


def _range(value: list[int] | None) -> Range | None:
    return (value[0], value[1]) if value is not None else None


def _compact(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
