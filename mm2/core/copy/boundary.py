"""What happens at a drained boundary: transactions are opened and committed, the fence is renewed.

Scripts for a partition that has nothing in flight. Each returns the target offset behind the marker
that was read (or that a transaction is open), or what went wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.copy import (
    facts,
    fence,
    instructions,
    open_transactions,
    outcomes,
    stops,
    transactions,
)

FENCE_CHECK_S = 10.0
FENCE_CHECK_STEP_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """A marker of ours stands at `next_target - 1` in leader epoch `leader_epoch`."""

    next_target: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The partition stands in a transaction."""


Crossing = instructions.Script[Boundary | Opened | fence.Failure]


def cross(
    step: transactions.Step,
    producer: instructions.ProducerIdentity,
    *,
    next_target: int,
    context: outcomes.Context,
) -> Crossing:
    """The script of a step; `next_target` is where its marker stands at the earliest."""
    match step:
        case transactions.Step.OPEN:
            return open_transaction(producer)
        case transactions.Step.COMMIT:
            return commit(producer, next_target=next_target, context=context)
        case transactions.Step.RENEW:
            return renew(producer, next_target=next_target, context=context)


def commit(
    producer: instructions.ProducerIdentity, *, next_target: int, context: outcomes.Context
) -> Crossing:
    """Commit the open transaction and read its marker."""
    failed = yield from fence.commit(producer)
    if failed is not None:
        return failed
    # Where others write, too, theirs may be open at any time: one look at each renewal will do.
    alone = open_transactions.is_alone(context)
    looks = context if alone else None
    return (yield from _marked(producer, next_target=next_target, looks=looks))


def renew(
    producer: instructions.ProducerIdentity, *, next_target: int, context: outcomes.Context
) -> Crossing:
    """An empty transaction: keeps the fence in the brokers' memory and the transactional id
    alive."""
    failed = yield from fence.empty_transaction(producer)
    if failed is not None:
        return failed
    return (yield from _marked(producer, next_target=next_target, looks=context))


def open_transaction(producer: instructions.ProducerIdentity) -> Crossing:
    failed = yield from fence.add_to_transaction(producer)
    return Opened() if failed is None else failed


def _marked(
    producer: instructions.ProducerIdentity, *, next_target: int, looks: outcomes.Context | None
) -> Crossing:
    """`looks`: it is made sure that readers of committed records get past the marker."""
    marker = yield from fence.read_marker(producer, start=next_target)
    if not isinstance(marker, fence.Marker):
        return marker
    if looks is not None and (yield from open_transactions.hides(marker, looks)):
        return fence.Disturbed(
            reason=f"{looks.where.mirror}: a transaction is open before our marker at "
            f"{marker.offset}: readers of committed records stand still at {marker.last_stable}"
        )
    return Boundary(next_target=marker.offset + 1, leader_epoch=marker.leader_epoch)


def who_fenced_us(
    context: outcomes.Context, *, than: instructions.ProducerIdentity
) -> instructions.Script[bool | stops.Stop]:
    """Did another owner take the partition under a newer identity than `than`, which was ours?

    Watches the map for a Take's deadline: True when an anchor of another owner, newer than ours,
    appears; False when none does, and then it was our own transaction's timeout, a late request or
    an orphan of ours. A `Stop` if the map cannot tell.
    """
    waited_s = 0.0
    while waited_s < FENCE_CHECK_S:
        known = yield from outcomes.read_facts(context)
        if isinstance(known, stops.Stop):
            return known
        if isinstance(known, facts.Facts) and known.anchor is not None:
            key = known.anchor.key
            ours = known.producers.get(than.id)
            newer = ours is not None and (key.ordinal, key.epoch) > (ours, than.epoch)
            if newer and known.anchor.segment.owner != context.owner:
                return True
        yield instructions.Sleep(delay_s=FENCE_CHECK_STEP_S)
        waited_s += FENCE_CHECK_STEP_S
    return False
