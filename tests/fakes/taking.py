"""A partition about to be taken: what is known of it, and what was stored while taking it."""

from __future__ import annotations

from typing import Any

from mm2.core.copy import facts, fence, instructions, opening, outcomes, setup
from mm2.core.offsets import offset_map
from mm2.formats import map_record, receipt
from tests.fakes import scripts

ME = b"me______"
US = instructions.ProducerIdentity(id=7, epoch=3)
OURS = (US.id, US.epoch)
BEFORE = (US.id, US.epoch - 1)
"""The owner before us."""


def where(**changed: Any) -> setup.PartitionSetup:
    given: dict[str, Any] = {
        "flow": "a->b",
        "topic": "orders",
        "remote_topic": "a.orders",
        "partition": 4,
        "transactional_id": "mm2-a-b-orders-4",
    }
    return setup.PartitionSetup(**(given | changed))


def context(transform: opening.Transform | None = None, **changed: Any) -> outcomes.Context:
    return outcomes.Context(
        where=where(**changed), owner=ME, wall_ms=lambda: scripts.NOW_MS, transform=transform
    )


def attempt(
    known: facts.Facts | None = None,
    *,
    marker: int = 50,
    leader_epoch: int = 2,
    transform: opening.Transform | None = None,
    **changed: Any,
) -> outcomes.Attempt:
    """Fenced by our marker at target offset `marker`; `changed` goes into the setup."""
    fenced = fence.Fence(producer=US, marker_offset=marker, leader_epoch=leader_epoch)
    return outcomes.Attempt(
        context=context(transform, **changed), fence=fenced, known=known or facts.Facts()
    )


def era(**changed: Any) -> map_record.Era:
    given: dict[str, Any] = {
        "source_cluster": "",
        "target_cluster": "",
        "source_topic_id": map_record.NO_TOPIC_ID,
        "target_topic_id": map_record.NO_TOPIC_ID,
        "first_source": 0,
        "first_target": 1,
    }
    return map_record.Era(**(given | changed))


def anchor(
    through: int,
    target_next: int,
    *,
    number: int = 1,
    order: tuple[int, int] = (1, US.epoch - 1),
    **changed: Any,
) -> offset_map.Anchor:
    """Copied up to source offset `through`; `order` is the owner's (ordinal, epoch)."""
    key = map_record.SegmentKey(
        topic="orders", partition=4, era=number, ordinal=order[0], epoch=order[1], first_source=0
    )
    given: dict[str, Any] = {
        "leader_epoch": 1,
        "source_epoch": 9,
        "owner": b"before__",
        "take_start": 0,
        "last_crc": None,
        "runs": (),
    }
    segment = map_record.Segment(through=through, target_next=target_next, **(given | changed))
    return offset_map.Anchor(key=key, segment=segment)


def known(found: offset_map.Anchor | None = None, **changed: Any) -> facts.Facts:
    """In era 1, written by us before."""
    given: dict[str, Any] = {"era_number": 1, "era": era(), "producers": {US.id: 1}}
    return facts.Facts(anchor=found, **(given | changed))


SOURCE_BATCH = scripts.data(100, b"a", leader_epoch=9)


def answers(found: facts.Facts | None = None, **changed: Any) -> dict[Any, Any]:
    """A mirror with our marker at 50, fenced without trouble; the source from 100 on.

    `changed` holds answers by the names of what is asked.
    """
    given: dict[Any, Any] = {
        instructions.NoteTargetEnd: instructions.TargetEnd(offset=50, leader_epoch=2),
        instructions.InitProducer: US,
        instructions.AddToTransaction: scripts.DONE,
        instructions.CommitTransaction: scripts.DONE,
        instructions.ReadTarget: scripts.Log(scripts.marker(50, OURS, leader_epoch=2)),
        instructions.ReadFacts: found or facts.Facts(),
        instructions.FindSourceOffset: instructions.SourceOffset(offset=100),
        instructions.FindEpochEnd: instructions.EpochEnd(offset=50),
        instructions.ReadSource: scripts.Log(SOURCE_BATCH, start=100),
    }
    return given | {getattr(instructions, name): answer for name, answer in changed.items()}


# What was stored


def receipts(played: scripts.Played) -> list[receipt.Receipt]:
    return [receipt.decode(e.key, e.value or b"") for e in played.stored if e.receipt]


def kinds(played: scripts.Played) -> list[str]:
    """Of everything stored, in order: "receipt", or the kind of map record."""
    return [
        "receipt" if each.receipt else type(map_record.decode_key(each.key)).__name__
        for each in played.stored
    ]


def mapped(played: scripts.Played, kind: type) -> list[tuple[Any, Any]]:
    """(key, value) of the map records stored whose keys are of this kind."""
    pairs = [(map_record.decode_key(e.key), e.value) for e in played.stored if not e.receipt]
    return [
        (k, map_record.decode_value(k, value or b"")) for k, value in pairs if isinstance(k, kind)
    ]
