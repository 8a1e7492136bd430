"""Eras: where a partition's history on the target begins, and begins anew.

Scripts and records for the first start, for an operator's request and for what can no longer be
compared. Everything that is found is stored before the copy goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mm2.core.copy import (
    facts,
    fence,
    instructions,
    opening,
    outcomes,
    pairing,
    setup,
    stops,
    walk,
)
from mm2.formats import map_record, receipt, record_sets


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEra:
    """A new era must begin at source offset `source`, with the receipts that say why.

    `learned` is stored first: what is known of the era before it. Where others copied a stretch of
    it already, `begins` says where that stands (source, target), and `runs` and `seams` are its
    map.
    """

    source: int
    reason: str
    source_epoch: int = -1
    receipts: tuple[receipt.Receipt, ...] = ()
    learned: tuple[instructions.LogItem, ...] = ()
    request: str = ""
    begins: tuple[int, int] | None = None
    runs: tuple[map_record.Run, ...] = ()
    seams: tuple[pairing.Seam, ...] = ()


def first_start(attempt: outcomes.Attempt) -> instructions.Script[outcomes.Outcome]:
    """No progress of ours exists: the mirror must be empty unless others may write to it too."""
    if attempt.where.target_topics is setup.TargetTopics.EXCLUSIVE:
        refusal = yield from _must_be_empty(attempt)
        if refusal is not None:
            return refusal
    start = yield from _resolve_start(attempt.where.start)
    if not isinstance(start, int):
        return start
    return (yield from begin_era(attempt, NewEra(source=start, reason=map_record.FIRST_START)))


def requested_era(attempt: outcomes.Attempt) -> instructions.Script[outcomes.Outcome]:
    """An operator asked to begin anew, wherever the partition stood before."""
    request, anchor = attempt.known.request, attempt.known.anchor
    assert request is not None
    start = yield from _resolve_start(request.position)
    if not isinstance(start, int):
        return start
    last = anchor.segment if anchor is not None else None
    marker = attempt.fence.tail_end  # in a mirror made again it stands before the anchor
    stated = statement(
        attempt,
        kind=receipt.ReceiptKind.NEW_ERA_REQUESTED,
        target=(min(last.target_next, marker) if last else 0, marker),
        source=(last.through, start) if last and last.through < start else None,
        detail=f"new era from {request.position}, source offset {start}",
        of=request.request,
    )
    era = NewEra(
        source=start,
        reason=f"requested from {request.position}",
        receipts=(stated,),
        request=request.request,
    )
    return (yield from begin_era(attempt, era))


def _must_be_empty(
    attempt: outcomes.Attempt,
) -> instructions.Script[outcomes.BeginAgain | outcomes.Fenced | stops.Stop | None]:
    """None when nothing but control batches stands before our marker and nothing was deleted.

    Raises `DamagedBatchError` where that cannot be read, however often it is tried.
    """
    deleted = "its log no longer starts at 0, so records were deleted from it"
    reading = "reading the mirror from its start"
    at = idle = 0
    while at < attempt.fence.tail_end:
        answer = yield instructions.ReadTarget(offset=at)
        told = answer if isinstance(answer, instructions.Records | instructions.Refused) else None
        if told is not None and told.log_start > 0:
            return _not_empty(attempt.where, deleted)
        if not isinstance(answer, instructions.Records):
            return outcomes.again(reading, answer)  # an unclean election cut the log back, say
        before = at
        at, found = _looked_through(attempt, answer.records, start=at)
        if isinstance(found, outcomes.Fenced | stops.Stop):
            return found
        idle = 0 if at > before else idle + 1
        if found is not None:
            if idle >= walk.LOOKS:
                raise found
            yield instructions.Sleep(delay_s=walk.LOOK_AGAIN_S)
        if idle > outcomes.READS_WITHOUT_NEWS:
            return outcomes.stuck(reading)
    return None


def _looked_through(
    attempt: outcomes.Attempt, held: memoryview, *, start: int
) -> tuple[int, outcomes.Fenced | stops.Stop | record_sets.DamagedBatchError | None]:
    """Up to which offset one read was looked through, and what was met there, if anything."""
    at = start
    try:
        for header, _ in walk.sound(held, start=start):
            if fence.is_newer(header, attempt.fence.producer):
                return at, outcomes.Fenced(than=attempt.fence.producer)
            if header.base_offset > attempt.fence.marker_offset:
                return attempt.fence.tail_end, None  # a newer owner's stands behind our marker
            if not header.is_control and header.record_count > 0:
                why = f"it holds records at offset {header.base_offset}"
                return at, _not_empty(attempt.where, why)
            at = header.last_offset + 1
    except record_sets.DamagedBatchError as error:
        return at, error if at < attempt.fence.tail_end else None
    return at, None


def _not_empty(where: setup.PartitionSetup, why: str) -> stops.Stop:
    rebuild = where.operator.rebuild(where.flow, where.topic)
    delete = where.operator.target.delete_topic(where.remote_topic)
    lost = f"rebuild the lost offset map ({rebuild}), or " if rebuild else ""
    return stops.Stop(
        cause=stops.Cause.NOT_EMPTY,
        message=(
            f"{where.mirror}: this flow has not replicated to it yet, but {why}. If these records "
            f"are this flow's, {lost}delete the mirror topic ({delete}) and restart the flow. The "
            f"remedy keeps them and appends. {stops.reset_remedy(where, position=where.start)}"
        ),
    )


def _resolve_start(position: str) -> instructions.Script[int | outcomes.BeginAgain]:
    """The source offset to begin at; `position` as in `map_record.Request`, of a timestamp that of
    the first record so young."""
    if position in ("earliest", "latest"):
        return (yield from _offset_of(position))
    if position.startswith(map_record.AT_OFFSET):
        start = yield from _offset_of("earliest")
        return (
            max(start, int(position.removeprefix(map_record.AT_OFFSET)))
            if isinstance(start, int)
            else start
        )
    # The end first: what is appended between the two questions must not be left out.
    end = yield from _offset_of("latest")
    if not isinstance(end, int):
        return end
    found = yield from _offset_of(position)
    if not isinstance(found, int):
        return found
    return end if found < 0 else found


def _offset_of(position: str) -> instructions.Script[int | outcomes.BeginAgain]:
    found = yield instructions.FindSourceOffset(position=position)
    if not isinstance(found, instructions.SourceOffset):
        return outcomes.again(f"finding the source offset of {position}", found)
    return found.offset


# Writing down what was found


def begin_era(attempt: outcomes.Attempt, era: NewEra) -> instructions.Script[outcomes.Outcome]:
    """The producer id, receipts, the era: each stored before the next; then the partition is
    ours."""
    where, fenced = attempt.where, attempt.fence
    number = attempt.known.era_number + 1
    target = fenced.marker_offset + 1
    first_source, first_target = era.begins or (era.source, target)
    key = map_record.EraKey(
        topic=where.topic,
        partition=where.partition,
        era=number,
        ordinal=attempt.ordinal,
        epoch=fenced.producer.epoch,
    )
    value = map_record.Era(
        source_cluster=where.source_cluster,
        target_cluster=where.target_cluster,
        source_topic_id=where.source_topic_id,
        target_topic_id=where.target_topic_id,
        first_source=first_source,
        first_target=first_target,
        filter_hash=opening.filter_hash(attempt.context.transform),
        request=era.request,
        reason=era.reason,
    )
    failed: outcomes.BeginAgain | stops.Stop | None
    failed = yield from settle_id(attempt, era=number)
    if failed is None:
        receipts = [_receipt_item(each) for each in era.receipts]
        failed = yield from write_down([*era.learned, *receipts, _map_item(key, value)])
    if failed is not None:
        return failed
    return outcomes.Taken(
        producer=fenced.producer,
        leader_epoch=fenced.leader_epoch,
        era=number,
        ordinal=attempt.ordinal,
        take_start=first_source,
        source=era.source,
        target=target,
        source_epoch=era.source_epoch,
        runs=era.runs,
        seams=era.seams,
        fenced=fenced.holds,
    )


def write_down(
    items: Sequence[instructions.LogItem],
) -> instructions.Script[outcomes.BeginAgain | None]:
    """Each record is stored before the next is asked for."""
    for item in items:
        answer = yield instructions.Record(items=(item,))
        if not isinstance(answer, instructions.Done):
            return outcomes.again("recording the take-over", answer)
    return None


def settle_id(
    attempt: outcomes.Attempt, *, era: int
) -> instructions.Script[outcomes.BeginAgain | stops.Stop | None]:
    """Our producer id is recorded, in a place of its own and the newest; before anything that bears
    its place.

    Two may have read the same map, where nobody is fenced or where one slept until the id that it
    was given had expired. Below another's place our anchors would count for nothing.
    """
    items = producer_items(attempt, era=era)
    if not items:
        return None
    ours = attempt.fence.producer.id
    failed = yield from write_down(items)
    if failed is not None:
        return failed
    known = yield from outcomes.read_facts(attempt.context)
    if not isinstance(known, facts.Facts):
        return known
    others = [place for each, place in known.producers.items() if each != ours]
    if max(others, default=0) >= attempt.ordinal:
        return outcomes.BeginAgain(reason="another owner took the partition at the same time")
    return None


def producer_items(attempt: outcomes.Attempt, *, era: int) -> list[instructions.LogItem]:
    """The producer id's record if it is new, with a receipt if nothing fenced the ids before it."""
    where, known, fenced = attempt.where, attempt.known, attempt.fence
    if known.producers.get(fenced.producer.id) == attempt.ordinal:
        return []
    items = []
    if known.producers and fenced.holds:
        start = known.anchor.segment.target_next if known.anchor is not None else 0
        stated = statement(
            attempt,
            kind=receipt.ReceiptKind.UNFENCED_TAKE_OVER,
            target=(start, fenced.marker_offset),
            detail=(
                f"transactional id {where.transactional_id} now has producer id "
                f"{fenced.producer.id}: a writer with an older id is not fenced"
            ),
        )
        items.append(_receipt_item(stated))
    key = map_record.ProducerKey(
        topic=where.topic, partition=where.partition, producer_id=fenced.producer.id
    )
    items.append(_map_item(key, map_record.Producer(ordinal=attempt.ordinal, era=era)))
    return items


def statement(
    attempt: outcomes.Attempt,
    *,
    kind: receipt.ReceiptKind,
    detail: str,
    source: receipt.Range | None = None,
    target: receipt.Range | None = None,
    of: str = "",
) -> receipt.Receipt:
    """A receipt for this partition; its id makes a repeated statement replace itself, but for one
    that is made `of` another request."""
    where = attempt.where
    place = source or target or (0, 0)
    return receipt.Receipt(
        topic=where.topic,
        partition=where.partition,
        id="-".join(filter(None, (kind.value, str(place[0]), str(place[1]), of))),
        kind=kind,
        flow=where.flow,
        at_ms=attempt.context.wall_ms(),
        detail=detail,
        source=source,
        target=target,
    )


def _map_item(key: map_record.MapKey, value: map_record.MapValue) -> instructions.LogItem:
    return instructions.LogItem(
        key=map_record.encode_key(key), value=map_record.encode_value(value)
    )


def _receipt_item(stated: receipt.Receipt) -> instructions.LogItem:
    key, value = receipt.encode(stated)
    return instructions.LogItem(key=key, value=value, receipt=True)
