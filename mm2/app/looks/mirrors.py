"""What a flow has mirrored, and how far, seen from outside: nobody need be running it.

How far is what the flow's map on the target says. Where the source does not answer, that alone is
known.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import partition_ends, receipts
from mm2.app.looks import sides as app_sides
from mm2.cluster import admin
from mm2.core import flows, naming
from mm2.core.failover import fences, mirroring, seen
from mm2.core.offsets import log_ends, offset_map
from mm2.formats import receipt

SOURCE_S = 10.0
_SOURCE_SHARE = 6
TIMES_S = 5.0
"""Records' times are worth no longer a wait: without them a lag has no age."""

_Ends = Mapping[ids.TopicPartition, log_ends.Ends]
_LOST = frozenset({receipt.ReceiptKind.SOURCE_GONE, receipt.ReceiptKind.NEW_ERA_REQUESTED})


def source_s(timeout_s: float) -> float:
    """A source that has not answered for so long, of a look that may last `timeout_s`, is taken for
    lost."""
    return min(timeout_s, max(SOURCE_S, timeout_s / _SOURCE_SHARE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrors:
    """`mirrored` is what the flow mirrors now, heartbeats left out: they lose nothing. `left_out`
    are topics that it mirrored once, and why it does no more. `silent` says why the source did not
    answer, "" where it did; `untold` are topics whose partitions it does not tell, and why.
    `losses` counts receipts."""

    known: offset_map.OffsetMap = field(repr=False)
    mirrored: tuple[seen.Mirrored, ...]
    silent: str
    losses: int
    left_out: Mapping[str, str] = field(default_factory=dict)
    untold: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What the source says of the flow's topics. `missing`: those that it has no more; `failed`:
    why it does not answer for a partition, `untold`: for a topic."""

    topics: partition_ends.Topics = field(
        default_factory=lambda: admin.PerTopic(done={}, failed={})
    )
    ends: _Ends = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    failed: Mapping[ids.TopicPartition, errors.ConnectError] = field(default_factory=dict)
    untold: Mapping[str, errors.ConnectError] = field(default_factory=dict)


_NOT_ASKED = _Source()


def look(
    sides: app_sides.TwoSides,
    *,
    clock: base_clock.Clock,
    timeout_s: float,
    known: offset_map.OffsetMap | None = None,
    lost: str = "",
) -> Mirrors:
    """`known`: the flow's map, where it was read already; `lost`: why the source is not asked.

    Raises `RetriableError` or `FatalError` where the target does not answer, or one of them
    refuses us.
    """
    end = base_deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    flow = sides.flow
    if known is None:
        known = read_map(sides.target, flow.source, timeout_s)
    losses = _losses(sides.target, flow.source, end.left_s(clock.now_s()))
    begun = fences.begun(known)
    silent, source = lost, _NOT_ASKED
    if not lost:
        try:
            within_s = min(source_s(timeout_s), end.left_s(clock.now_s()))
            topics = {each.topic for each in begun}
            source = _ask_source(sides, topics, clock=clock, timeout_s=within_s)
        except errors.RetriableError as error:
            silent = str(error)
    left_out = _left_out(flow, begun, source)
    partitions = sorted(
        each
        for each in begun.union(partition_ends.of_topics(source.topics))
        if each.topic not in left_out and not naming.is_heartbeats_topic(flow.policy, each.topic)
    )
    return Mirrors(
        known=known,
        mirrored=_mirrored(sides, partitions, known, source=source, left=end, clock=clock),
        silent=silent,
        losses=losses,
        left_out=left_out,
        untold={name: str(why) for name, why in source.untold.items()},
    )


def _left_out(
    flow: flows.Flow, begun: Collection[ids.TopicPartition], source: _Source
) -> Mapping[str, str]:
    why = {
        topic: mirroring.why_left_out(flow, topic, missing=topic in source.missing)
        for topic in {each.topic for each in begun}
    }
    return {topic: found for topic, found in why.items() if found}


def _mirrored(
    sides: app_sides.TwoSides,
    partitions: Sequence[ids.TopicPartition],
    known: offset_map.OffsetMap,
    *,
    source: _Source,
    left: base_deadline.Deadline,
    clock: base_clock.Clock,
) -> tuple[seen.Mirrored, ...]:
    mirror = {each: _mirror(sides.flow, each) for each in partitions}
    targets = sides.target.admin.describe_topics(
        {each.topic for each in mirror.values()}, left.left_s(clock.now_s())
    )
    led = partition_ends.leaders(mirror.values(), targets)
    ends = partition_ends.look(sides.target, led, end=left, clock=clock)
    untold = {mirror[each] for each in mirror.keys() - source.ends}
    newest_ms = sides.target.logs.newest_ms(
        {each: ends.done[each] for each in untold if each in ends.done},
        min(TIMES_S, left.left_s(clock.now_s())),
    )
    looked = mirroring.Looked(
        known=known,
        here=source.ends,
        there=ends.done,
        unknown={each: str(why) for each, why in source.failed.items()},
        unheard=partition_ends.unheard(ends),
        waiting_ms=_waiting_ms(sides.source, mirroring.waits_at(known, source.ends)),
        newest_ms=newest_ms,
        source_ids=_ids(source.topics),
        target_ids=_ids(targets),
    )
    return tuple(looked.mirrored(each, mirror[each]) for each in partitions)


def read_map(side: app_sides.OneSide, source_alias: str, timeout_s: float) -> offset_map.OffsetMap:
    """The whole map of the flow from `source_alias`; empty where there is none.

    Raises `RetriableError` and `FatalError`, also where another release wrote it.
    """
    topic = naming.map_topic(source_alias)
    if topic not in side.topics.list_topics(timeout_s):  # whoever reads one waits for it
        return offset_map.OffsetMap()
    with contextlib.closing(side.map_reader(source_alias)) as reader:
        return reader.read(timeout_s)


def _losses(side: app_sides.OneSide, source_alias: str, timeout_s: float) -> int:
    """How many receipts state a loss, or may: those that cannot be read are counted, too."""
    found = receipts.read(side, source_alias, timeout_s=timeout_s)
    return sum(each.kind in _LOST for each in found.stated) + len(found.unreadable)


def _ask_source(
    sides: app_sides.TwoSides,
    known: Collection[str],
    *,
    clock: base_clock.Clock,
    timeout_s: float,
) -> _Source:
    """Of what the flow mirrors, or has mirrored. What of it does not answer has failed, as long as
    anything does."""
    end = base_deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    side = sides.source
    listed = side.admin.list_topics(timeout_s)
    wanted = {each for each in listed if sides.flow.should_replicate_topic(each)}
    described = side.admin.describe_topics(wanted, end.left_s(clock.now_s()))
    led = partition_ends.leaders(list(partition_ends.of_topics(described)), described)
    ends = partition_ends.look(side, led, end=end, clock=clock, raises=True)
    return _Source(
        topics=described,
        ends=ends.done,
        missing=frozenset(known) - listed,
        failed=ends.failed,
        untold={
            name: error
            for name, error in described.failed.items()
            if not isinstance(error, kafka_errors.TopicMissingError)
        },
    )


def _mirror(flow: flows.Flow, partition: ids.TopicPartition) -> ids.TopicPartition:
    return ids.TopicPartition(flow.remote_topic(partition.topic), partition.partition)


def _ids(topics: partition_ends.Topics) -> Mapping[str, uuid.UUID | None]:
    return {name: topic.topic_id for name, topic in topics.done.items()}


def _waiting_ms(
    side: app_sides.OneSide, begins: Mapping[ids.TopicPartition, int]
) -> mirroring.Times:
    """Times of the oldest records not yet copied."""
    if not begins:
        return {}
    try:
        return side.logs.times_ms(begins, TIMES_S)
    except errors.RetriableError:
        return {}
