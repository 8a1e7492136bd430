"""Reading both sides of what must pair: the mirror's tail, and the source along it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mm2.core.copy import (
    fence,
    instructions,
    outcomes,
    pairing,
    refusals,
    retracing,
    setup,
    stops,
    tail,
)
from mm2.formats import record_batch, record_sets

RETRY_S = 30.0
KEPT_BYTES = 64 * 1024
"""Of one read of the tail; many partitions may be paired at a time."""
LOOK_FOR_ROOM_S = 0.05
ROOM_WITHIN_S = 60.0
"""Other partitions' opened batches are acknowledged long before that, or dropped."""
LOOKS = 6
LOOK_AGAIN_S = 0.5
"""What may pass by itself is read so often, so far apart, before it is believed: damage (of the
network, or of one replica), and a log that ends too early (under a new leader, until it knows how
far the old one had got)."""


@dataclass(frozen=True, slots=True)
class Told:
    """Whose the batches are that stood in the way is known now."""


def cut_again() -> outcomes.BeginAgain:
    """An unclean election came in between."""
    return outcomes.BeginAgain(reason="the mirror's log was cut back meanwhile")


def read_tail(
    attempt: outcomes.Attempt,
    *,
    start: int,
    last_crc: int | None = None,
    lost: str = "",
    everybodys: bool = False,
) -> instructions.Script[tail.Tail | outcomes.BeginAgain | outcomes.Fenced]:
    """Our batches on the mirror from `start` to our marker, or `everybodys`; the rest as in
    `tail.Tail`.

    Raises `DamagedBatchError` where one of them cannot be read, however often it is tried.
    """
    ours = frozenset({*attempt.known.producers, attempt.fence.producer.id})
    left = tail.Tail(
        ours=None if everybodys else ours,
        start=start,
        marker=attempt.fence.marker_offset,
        last_crc=last_crc,
        lost=lost,
    )
    idle = 0
    while not left.complete:
        answer = yield instructions.ReadTarget(offset=left.at)
        if isinstance(answer, instructions.Refused) and answer.code == refusals.OFFSET_OUT_OF_RANGE:
            if answer.log_start <= left.at:
                return cut_again()
            left.deleted_before(answer.log_start)
            continue
        if not isinstance(answer, instructions.Records):
            return outcomes.again("reading the tail of the mirror", answer)
        before = left.at
        found = _add(left, answer.records, attempt.fence)
        if isinstance(found, outcomes.Fenced | outcomes.BeginAgain):
            return found
        idle = 0 if left.at > before else idle + 1
        if found is not None:
            if idle >= LOOKS:
                raise found
            yield instructions.Sleep(delay_s=LOOK_AGAIN_S)
        if idle > outcomes.READS_WITHOUT_NEWS:
            return outcomes.stuck("reading the tail of the mirror")
    return left


def _add(
    left: tail.Tail, records: memoryview, fenced: fence.Fence
) -> outcomes.Fenced | outcomes.BeginAgain | record_sets.DamagedBatchError | None:
    """What one read brought; the error where damage stands before the tail's end."""
    try:
        for header, batch in sound(records, start=left.start):
            if fence.is_newer(header, fenced.producer):
                return outcomes.Fenced(than=fenced.producer)
            if _in_markers_place(header, fenced):
                return cut_again()
            left.add(header, batch)
    except record_sets.DamagedBatchError as error:
        return None if left.complete else error
    return None


def _in_markers_place(header: record_batch.BatchHeader, fenced: fence.Fence) -> bool:
    """Does something else stand where our marker was read? What stands before it may then be a
    newer owner's, of whom the facts that we read know nothing."""
    if not fenced.holds or not header.base_offset <= fenced.marker_offset <= header.last_offset:
        return False
    us = fenced.producer
    return (header.producer_id, header.producer_epoch) != (us.id, us.epoch)


def sound(
    records: memoryview, *, start: int
) -> Iterator[tuple[record_batch.BatchHeader, memoryview]]:
    """As `record_sets.batches`; from `start` on a batch whose checksum does not match is damaged,
    too. Brokers do not look when they answer a fetch."""
    for header, batch in record_sets.batches(records):
        if header.base_offset >= start and not record_batch.crc_matches(batch, header):
            why = f"the checksum of its {header.size} bytes does not match"
            raise record_sets.DamagedBatchError(header.base_offset, why)
        yield header, batch


def walk_source(
    attempt: outcomes.Attempt, pairs: pairing.Pairing
) -> instructions.Script[outcomes.BeginAgain | stops.Stop | instructions.Refused | None]:
    """Pair until the tail is used up or does not pair; `Refused` when the source no longer has the
    position.

    One read is made even for an empty tail: it tells whether the source still has our position.
    """
    try:
        return (yield from _walk_source(attempt, pairs))
    finally:
        pairs.close()


def _walk_source(
    attempt: outcomes.Attempt, pairs: pairing.Pairing
) -> instructions.Script[outcomes.BeginAgain | stops.Stop | instructions.Refused | None]:
    need, idle = pairing.Need.SOURCE, 0
    reread = _Reread()
    while need is not pairing.Need.NOTHING:
        if need is pairing.Need.TARGET:
            fed = yield from _feed_target(pairs, reread)
            if not isinstance(fed, pairing.Need):
                return fed
            again = yield from take_turns(pairs, fed)
            if not isinstance(again, pairing.Need):
                return again
            need = again
            continue
        answer = yield from _more_of_source(attempt, pairs)
        if not isinstance(answer, instructions.Records):
            return answer
        before = pairs.position
        again = yield from take_turns(pairs, pairs.feed(answer))
        if not isinstance(again, pairing.Need):
            return again
        need = again
        idle = 0 if pairs.position > before else idle + 1
        if need is pairing.Need.SOURCE and not pairs.strangers and _leads_no_further(pairs, answer):
            if idle >= LOOKS:
                return _no_further(attempt, pairs, end=answer.end)
            yield instructions.Sleep(delay_s=LOOK_AGAIN_S)
        if idle > outcomes.READS_WITHOUT_NEWS:
            return outcomes.stuck("reading the source to pair the mirror's tail")
    return None if pairs.too_large is None else stops.blocked(attempt.where, pairs.too_large)


def take_turns(
    pairs: pairing.Pairing | retracing.Retracing, need: pairing.Need
) -> instructions.Script[pairing.Need | outcomes.BeginAgain]:
    """Go on in large batches with a turn of the copy loop after each part, and wait for room in the
    budget; returns what else is needed."""
    waited = 0
    while need in (pairing.Need.TURN, pairing.Need.ROOM):
        waited = waited + 1 if need is pairing.Need.ROOM else 0
        if waited * LOOK_FOR_ROOM_S > ROOM_WITHIN_S:
            return outcomes.BeginAgain(
                reason="no room in buffer.memory to decode the mirror's tail: others use it"
            )
        yield instructions.Sleep(delay_s=LOOK_FOR_ROOM_S if waited else 0.0)
        need = pairs.go_on()
    return need


def _more_of_source(
    attempt: outcomes.Attempt, pairs: pairing.Pairing
) -> instructions.Script[
    instructions.Records | instructions.Refused | outcomes.BeginAgain | stops.Stop
]:
    if pairs.strangers:
        told = yield from ask_opposite(attempt.context, pairs.strangers)
        if isinstance(told, outcomes.BeginAgain):
            return told
    answer = yield instructions.ReadSource(offset=pairs.position)
    if isinstance(answer, instructions.Refused) and answer.code == refusals.OFFSET_OUT_OF_RANGE:
        return answer
    if not isinstance(answer, instructions.Records):
        return not_read(attempt.where, answer, offset=pairs.position)
    return answer


def ask_opposite(
    context: outcomes.Context, strangers: tuple[int, ...]
) -> instructions.Script[Told | outcomes.BeginAgain]:
    """Whose are the batches of these producers? `context` says it from now on."""
    answer = yield instructions.AskOpposite(producers=strangers)
    if not isinstance(answer, instructions.Theirs):
        found = outcomes.again("asking which producers are the opposite flow's", answer)
        denied = isinstance(answer, instructions.Refused)
        lasting = stops.opposite_unknown(context.where, found.reason, denied=denied)
        return outcomes.BeginAgain(reason=found.reason, lasting=lasting)
    context.opposite.learn(strangers, theirs=answer.producers)
    return Told()


def _leads_no_further(pairs: pairing.Pairing, answer: instructions.Records) -> bool:
    return pairs.obstacle is not None or pairs.position >= answer.end


def _no_further(
    attempt: outcomes.Attempt, pairs: pairing.Pairing, *, end: int
) -> stops.Stop | None:
    if pairs.obstacle is not None:
        return stops.blocked(attempt.where, pairs.obstacle)
    return _tail_ahead(attempt, pairs, end=end)


class _Reread:
    """Of the tail as it was read again: those behind the batch that was asked for came along, and
    are asked for next. Offsets that are looked for grow."""

    def __init__(self) -> None:
        self._batches: Iterator[tuple[record_batch.BatchHeader, memoryview]] = iter(())
        self._next: tuple[record_batch.BatchHeader, memoryview] | None = None

    def keep(self, records: memoryview) -> None:
        self._batches = record_sets.batches(memoryview(bytes(records[:KEPT_BYTES])))
        self._next = None

    def find(self, offset: int) -> tuple[record_batch.BatchHeader, memoryview] | None:
        """The batch that begins there, if it is at hand and sound."""
        try:
            while self._next is None or self._next[0].base_offset < offset:
                self._next = next(self._batches)
        except (StopIteration, record_sets.DamagedBatchError):
            return None
        header, batch = self._next
        sound = header.base_offset == offset and record_batch.crc_matches(batch, header)
        return (header, batch) if sound else None


def _feed_target(
    pairs: pairing.Pairing, reread: _Reread
) -> instructions.Script[pairing.Need | outcomes.BeginAgain]:
    """A batch of the tail again, now to be opened."""
    at_hand = reread.find(pairs.wanted)
    if at_hand is not None:
        return pairs.feed_target(*at_hand)
    doing = "reading the tail of the mirror again"
    for _ in range(outcomes.READS_WITHOUT_NEWS):
        answer = yield instructions.ReadTarget(offset=pairs.wanted)
        if not isinstance(answer, instructions.Records):
            return outcomes.again(doing, answer)
        first = next(record_sets.batches(answer.records), None)
        if first is None and answer.end > pairs.wanted:
            continue  # other partitions have filled the answer
        if first is None or first[0].base_offset != pairs.wanted:
            return cut_again()
        if record_batch.crc_matches(first[1], first[0]):
            reread.keep(answer.records)
            return pairs.feed_target(*first)
        yield instructions.Sleep(delay_s=LOOK_AGAIN_S)  # it was sound when the tail was read
    return outcomes.stuck(doing)


def not_read(
    where: setup.PartitionSetup, answer: instructions.Answer, *, offset: int
) -> outcomes.BeginAgain | stops.Stop:
    """The source gave something else than what it holds at `offset`."""
    if isinstance(answer, instructions.Refused):
        reaction = refusals.fetch(where, code=answer.code, offset=offset)
        if reaction is not None and reaction.stop is not None:
            if reaction.then is refusals.Then.STOP:
                return reaction.stop
            return outcomes.BeginAgain(reason=reaction.reason, lasting=reaction.stop)
    return outcomes.again("reading the source to pair the mirror's tail", answer)


def _tail_ahead(
    attempt: outcomes.Attempt, pairs: pairing.Pairing, *, end: int
) -> stops.Stop | None:
    """The mirror holds more than the source, whose log ends: None where that just does not pair.

    A source that was truncated holds fewer offsets than our records had; one that was compacted
    still counts theirs. Without fences two owners may have written the same.
    """
    why = f"the source ends at {end}, and the mirror has more records from {pairs.unpaired_from} on"
    if pairs.could_be_gone(end) or not attempt.fence.holds:
        pairs.mismatch = why
        return None
    where = attempt.where
    return stops.Stop(
        cause=stops.Cause.NOT_PAIRED,
        message=(
            f"{where.mirror}: what this flow wrote last does not match {where.name}: {why}. The "
            "source was probably truncated. The remedy may write duplicates. "
            f"{stops.skip_remedy(where, behind=min(pairs.position, end))}"
        ),
        retry_after_s=RETRY_S,
    )
