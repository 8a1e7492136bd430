"""What a flow has mirrored, and how far, seen from outside: nobody need be running it.

How far is what the flow's map on the target says. Where the source does not answer, that alone is
known.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import sides as app_sides
from mm2.cluster import state_topics
from mm2.core import flows, naming
from mm2.core.failover import seen
from mm2.core.offsets import log_ends, offset_map
from mm2.formats import map_record, receipt

SOURCE_S = 10.0
"""A source that has not answered for so long is taken for lost."""
TIMES_S = 5.0
"""Records' times are worth no longer a wait: without them a lag has no age."""

_Ends = Mapping[ids.TopicPartition, log_ends.Ends]
_LOST = frozenset({receipt.ReceiptKind.SOURCE_GONE, receipt.ReceiptKind.NEW_ERA_REQUESTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrors:
    """`silent` says why the source did not answer, "" where it did. `losses` counts receipts."""

    known: offset_map.OffsetMap = field(repr=False)
    mirrored: tuple[seen.Mirrored, ...]
    silent: str
    losses: int


def look(sides: app_sides.Sides, *, clock: base_clock.Clock, timeout_s: float) -> Mirrors:
    """Raises `RetriableError` or `FatalError` where the target does not answer, or refuses us."""
    end = base_deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    flow = sides.flow
    known = read_map(sides.target, flow.source, timeout_s)
    losses = _losses(sides.target, flow.source, end.left_s(clock.now_s()))
    silent, here = "", None
    names = {each.topic for each in known.partitions()}
    try:
        wanted = _source_partitions(sides, names, min(SOURCE_S, end.left_s(clock.now_s())))
        here = sides.source.logs.ends(wanted, min(SOURCE_S, end.left_s(clock.now_s()))).done
    except errors.ConnectError as error:
        silent, wanted = str(error), frozenset()
    partitions = sorted(wanted.union(each for each in known.partitions() if _begun(known, each)))
    mirrors = {each: _mirror(flow, each) for each in partitions}
    there = sides.target.logs.ends(set(mirrors.values()), end.left_s(clock.now_s())).done
    copied = {each: _copied_to(known, each) for each in partitions}
    newest = sides.target.logs.newest_ms(there, min(TIMES_S, end.left_s(clock.now_s())))
    waiting = {} if here is None else _waiting(sides.source, here, copied)
    return Mirrors(
        known=known,
        mirrored=tuple(
            seen.Mirrored(
                partition=each,
                mirror=mirrors[each],
                copied_to=copied[each],
                tail=_tail(known, each, there.get(mirrors[each])),
                here=None if here is None else here.get(each),
                there=there.get(mirrors[each]),
                waiting_since_ms=waiting.get(each),
                newest_ms=newest.get(mirrors[each]),
            )
            for each in partitions
        ),
        silent=silent,
        losses=losses,
    )


def read_map(side: app_sides.Side, source_alias: str, timeout_s: float) -> offset_map.OffsetMap:
    """The whole map of the flow from `source_alias`; empty where there is none.

    Raises `RetriableError` and `FatalError`, also where another release wrote it.
    """
    found = offset_map.OffsetMap()
    topic = naming.map_topic(source_alias)
    for record in _read(side, topic, timeout_s):
        if record.key is None:
            continue
        try:
            found.apply(record.key, record.value)
        except (map_record.UnknownVersionError, struct.error, ValueError, IndexError) as error:
            raise errors.FatalError(
                f"reading {topic} of {side.alias} at offset {record.offset}: {error}. Another "
                "release, or another program, wrote it: use that release"
            ) from error
    return found


def _read(side: app_sides.Side, topic: str, timeout_s: float) -> list[state_topics.TopicRecord]:
    try:
        return side.topics.read_topic(topic, timeout_s)
    except kafka_errors.TopicMissingError:
        return []


def _losses(side: app_sides.Side, source_alias: str, timeout_s: float) -> int:
    stated: dict[bytes, receipt.Receipt] = {}
    for record in _read(side, naming.receipts_topic(source_alias), timeout_s):
        if record.key is not None and record.value is not None:
            stated[record.key] = receipt.decode(record.key, record.value)
    return sum(each.kind in _LOST for each in stated.values())


def _source_partitions(
    sides: app_sides.Sides, known: Collection[str], timeout_s: float
) -> frozenset[ids.TopicPartition]:
    """All that the source has of what the flow mirrors, or has mirrored."""
    listed = sides.source.admin.list_topics(timeout_s)
    wanted = {each for each in listed if sides.flow.should_replicate_topic(each)}
    described = sides.source.admin.describe_topics(wanted.union(known) & listed, timeout_s)
    return frozenset(
        ids.TopicPartition(name, number)
        for name, topic in described.done.items()
        for number in range(topic.partitions)
    )


def _mirror(flow: flows.Flow, partition: ids.TopicPartition) -> ids.TopicPartition:
    return ids.TopicPartition(flow.remote_topic(partition.topic), partition.partition)


def _begun(known: offset_map.OffsetMap, partition: ids.TopicPartition) -> bool:
    return bool(known.partition(partition).eras)


def _copied_to(known: offset_map.OffsetMap, partition: ids.TopicPartition) -> int | None:
    found = known.partition(partition)
    anchor = found.anchor
    if anchor is not None:
        return anchor.segment.through
    eras = found.eras
    return eras[max(eras)].first_source if eras else None


def _tail(
    known: offset_map.OffsetMap, partition: ids.TopicPartition, there: log_ends.Ends | None
) -> int:
    """By offsets, behind what the flow has recorded."""
    anchor = known.partition(partition).anchor
    if anchor is None or there is None:
        return 0
    return max(0, there.end - anchor.segment.target_next)


def _waiting(
    side: app_sides.Side, here: _Ends, copied: Mapping[ids.TopicPartition, int | None]
) -> Mapping[ids.TopicPartition, int]:
    """Times of the oldest records not yet copied."""
    begins = {each: max(copied.get(each) or 0, ends.start) for each, ends in here.items()}
    lagging = {each: at for each, at in begins.items() if at < here[each].end}
    try:
        return side.logs.times_ms(lagging, TIMES_S)
    except errors.ConnectError:
        return {}
