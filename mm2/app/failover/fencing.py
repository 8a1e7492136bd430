"""Fences all writers of a flow: a new epoch and an empty transaction under each partition's own
transactional id, markers read back.

Who still believes to copy (a frozen twin, a node cut off) cannot write behind the marker any more.
What stands between what the map knows and the marker is counted: the last batches of an owner that
did not live to record them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.wire.codec import failures, messages, targets
from mm2.app.failover import crews, scans
from mm2.app.looks import partition_ends, sides
from mm2.core import flows
from mm2.core.copy import fence as copy_fence
from mm2.core.failover import fences, whose
from mm2.core.offsets import offset_map
from mm2.pipeline import fenced_partition, single_questions

NO_RIGHT = 53
_RIGHTS = {
    29: "DESCRIBE, READ and WRITE on the topic",
    31: "IDEMPOTENT_WRITE on the cluster",
}
"""What TOPIC_ and CLUSTER_AUTHORIZATION_FAILED say is missing."""
_CONTESTED = copy_fence.FENCED | {copy_fence.INVALID_TXN_STATE}
ANSWER_S = 5.0
"""So long a broker is asked where its partitions end before they are fenced."""


class RefusedError(errors.RetriableError):
    """The target answers, and does not let the partition be fenced."""


class ContestedError(RefusedError):
    """Somebody else took the partition while it was fenced."""


class PartlyFencedError(errors.RetriableError):
    """Time was up before all partitions were fenced."""

    def __init__(
        self,
        said: str,
        fenced: Collection[fences.Fenced],
        *,
        silent: Mapping[ids.TopicPartition, str] | None = None,
        refused: Mapping[ids.TopicPartition, str] | None = None,
    ) -> None:
        """`silent`: those that did not answer, and what failed; `refused`: those that did, and
        what they said. Others were not begun."""
        super().__init__(said)
        self.fenced = fenced
        self.silent = silent or {}
        self.refused = refused or {}


def fence(
    flow: flows.Flow,
    known: offset_map.OffsetMap,
    partitions: Sequence[ids.TopicPartition],
    *,
    crew: crews.Crew,
    timeout_s: float,
) -> list[fences.Fenced]:
    """In this order. Raises `PartlyFencedError` where some of the target does not answer in time,
    and `FatalError` where a right is missing; doing it again does no harm."""

    def work(
        questions: single_questions.SingleQuestions,
        each: ids.TopicPartition,
        end: base_deadline.Deadline,
    ) -> fences.Fenced:
        place = fenced_partition.FencedPartition(
            questions,
            ids.TopicPartition(flow.remote_topic(each.topic), each.partition),
            transactional_id=flow.transactional_id(each),
            clock=crew.clock,
        )
        try:
            return _fence(each, known.partition(each), place, clock=crew.clock, end=end)
        except RefusedError:
            answered.add(each)
            raise

    answered: set[ids.TopicPartition] = set()
    found = crew.run(work, partitions, timeout_s=timeout_s)
    fenced = [found.done[each] for each in sorted(found.done)]
    if found.left:
        failed = {each: why for each, why in found.left.items() if why}
        raise PartlyFencedError(
            f"fencing for {timeout_s:g} s: {found}",
            fenced,
            silent={each: why for each, why in failed.items() if each not in answered},
            refused={each: why for each, why in failed.items() if each in answered},
        )
    return fenced


def to_fence(
    both: sides.TwoSides, known: offset_map.OffsetMap, *, timeout_s: float
) -> dict[ids.TopicPartition, int | errors.ConnectError]:
    """All that anybody ever copied, as long as its mirror exists: that one does not answer for it
    now does not lock its writers out. By partition the broker that leads its mirror, or why that
    is not told. Raises `RetriableError`."""
    mirrors = _mirrors(both.flow, fences.begun(known))
    names = {each.topic for each in mirrors.values()}
    topics = both.target.admin.describe_topics(names, timeout_s)
    led = partition_ends.leaders(mirrors.values(), topics)
    return {
        each: led[mirror]
        for each, mirror in mirrors.items()
        if not isinstance(led[mirror], kafka_errors.TopicMissingError)
    }


def silent(
    both: sides.TwoSides, led: partition_ends.Led, *, clock: base_clock.Clock
) -> dict[ids.TopicPartition, str]:
    """Of these, those whose mirror's leader does not answer for it, and why: who hangs is waited
    for once, and not by each that copies. `led` as `to_fence` tells."""
    names = _mirrors(both.flow, led)
    patience_s = ANSWER_S * len({leader for leader in led.values() if isinstance(leader, int)})
    end = base_deadline.Deadline.after(patience_s, now_s=clock.now_s())
    asked = {names[each]: leader for each, leader in led.items()}
    failed = partition_ends.look(both.target, asked, end=end, clock=clock).failed
    return {
        each: str(failed[name])
        for each, name in names.items()
        if isinstance(failed.get(name), errors.RetriableError)
    }


def _mirrors(
    flow: flows.Flow, partitions: Collection[ids.TopicPartition]
) -> dict[ids.TopicPartition, ids.TopicPartition]:
    return {
        each: ids.TopicPartition(flow.remote_topic(each.topic), each.partition)
        for each in partitions
    }


def _fence(
    partition: ids.TopicPartition,
    known: offset_map.PartitionMap,
    place: fenced_partition.FencedPartition,
    *,
    clock: base_clock.Clock,
    end: base_deadline.Deadline,
) -> fences.Fenced:
    mirror = place.partition
    try:
        locked = place.lock_out()
    except single_questions.AnsweredError as error:
        if error.error_code in _RIGHTS:
            raise _refusal(mirror, error.error_code) from error
        raise
    if isinstance(locked, fenced_partition.Refused):
        if locked.code == NO_RIGHT:
            return fences.unfenced(partition, known)
        raise _refusal(mirror, locked.code)
    if locked is None:
        raise errors.RetriableError(f"fencing {mirror}: our marker did not become readable")
    return fences.fenced(
        partition,
        known,
        producer_id=locked.owner.id,
        epoch=locked.owner.epoch,
        marker=locked.marker,
        tail=_tail(place, known, locked.marker, clock=clock, end=end),
    )


def _refusal(mirror: ids.TopicPartition, code: int) -> errors.ConnectError:
    said = f"fencing {mirror}: {failures.error_name(code)}"
    if (right := _RIGHTS.get(code)) is not None:
        return errors.FatalError(f"{said}; the flow's principal needs {right} there")
    if code in _CONTESTED:
        return ContestedError(f"{said}; somebody else seems to copy it")
    return RefusedError(f"{said}; look at the broker's log")


def _tail(
    place: fenced_partition.FencedPartition,
    known: offset_map.PartitionMap,
    marker: int,
    *,
    clock: base_clock.Clock,
    end: base_deadline.Deadline,
) -> int | None:
    anchor = known.anchor
    if anchor is None:
        return 0
    start = anchor.segment.target_next
    found = whose.Whose(ours=known.producers, start=start, end=marker, keeps_others=False)
    return found.mine if scans.scan(place, found, clock=clock, end=end) else None


def denied(connect: crews.Connect, names: Sequence[str]) -> list[str]:
    """The transactional ids that we have no right to, by whether we are told of their coordinators:
    asked, and nobody is fenced by it. Brokers before 3.0 tell of one at a time, and are asked for
    the first alone. Raises `ConnectError`."""
    if not names:
        return []
    with connect() as questions:
        try:
            message = messages.find_coordinators(targets.TRANSACTION, names)
            found = questions.ask(targets.AnyNode(), message).coordinators
        except failures.UnsupportedVersion:
            message = messages.find_coordinator(targets.TRANSACTION, names[0])
            answer = questions.ask(targets.AnyNode(), message)
            return [names[0]] * (int(answer.error_code) == NO_RIGHT)
    return [str(each.key) for each in found if int(each.error_code) == NO_RIGHT]
