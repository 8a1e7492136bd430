"""A partition about to be taken: what is known of it, and what was stored while taking it."""

from __future__ import annotations

from typing import Any

from mm2.formats import incident_records, offset_map_records
from mm2.formats.incident_records import Incident
from mm2.formats.offset_map_records import Era, MapSegment, MapSegmentKey
from mm2.offsets.offset_map import ResumePoint
from mm2.replication import recovery_instructions
from mm2.replication.outbound_batches import RecordTransform
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.producer_fencing import ProducerFence
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    CommitTransaction,
    EpochEnd,
    FindEpochEnd,
    FindSourceOffset,
    FindTargetEnd,
    InitProducer,
    ProducerIdentity,
    ReadRecoveredState,
    ReadSource,
    ReadTarget,
    RecoveredState,
    SourceLogOffset,
    TargetEnd,
)
from mm2.replication.recovery_outcomes import RecoveryAttempt, RecoveryContext
from tests.fakes import scripts
from tests.fakes.scripts import Log, Played

ME = b"me______"
US = ProducerIdentity(id=7, epoch=3)
OURS = (US.id, US.epoch)
BEFORE = (US.id, US.epoch - 1)
"""The owner before us."""


def where(**changed: Any) -> PartitionSetup:
    given: dict[str, Any] = {
        "flow": "a->b",
        "topic": "orders",
        "remote_topic": "a.orders",
        "partition": 4,
        "transactional_id": "mm2-a-b-orders-4",
    }
    return PartitionSetup(**(given | changed))


def context(transform: RecordTransform | None = None, **changed: Any) -> RecoveryContext:
    return RecoveryContext(
        setup=where(**changed), owner=ME, wall_ms=lambda: scripts.NOW_MS, transform=transform
    )


def attempt(
    known: RecoveredState | None = None,
    *,
    marker: int = 50,
    leader_epoch: int = 2,
    transform: RecordTransform | None = None,
    **changed: Any,
) -> RecoveryAttempt:
    """Fenced by our marker at target offset `marker`; `changed` goes into the setup."""
    fenced = ProducerFence(producer=US, marker_offset=marker, leader_epoch=leader_epoch)
    return RecoveryAttempt(
        context=context(transform, **changed), fence=fenced, state=known or RecoveredState()
    )


def era(**changed: Any) -> Era:
    given: dict[str, Any] = {
        "source_cluster": "",
        "target_cluster": "",
        "source_topic_id": offset_map_records.NO_TOPIC_ID,
        "target_topic_id": offset_map_records.NO_TOPIC_ID,
        "first_source": 0,
        "first_target": 1,
    }
    return Era(**(given | changed))


def anchor(
    through: int,
    target_next: int,
    *,
    number: int = 1,
    order: tuple[int, int] = (1, US.epoch - 1),
    **changed: Any,
) -> ResumePoint:
    """Copied up to source offset `through`; `order` is the owner's (ordinal, epoch)."""
    key = MapSegmentKey(
        topic="orders", partition=4, era=number, ordinal=order[0], epoch=order[1], first_source=0
    )
    given: dict[str, Any] = {
        "leader_epoch": 1,
        "source_epoch": 9,
        "owner": b"before__",
        "acquired_from": 0,
        "last_crc": None,
        "runs": (),
    }
    segment = MapSegment(through=through, target_next=target_next, **(given | changed))
    return ResumePoint(key=key, segment=segment)


def known(found: ResumePoint | None = None, **changed: Any) -> RecoveredState:
    """In era 1, written by us before."""
    given: dict[str, Any] = {"era_number": 1, "era": era(), "producers": {US.id: 1}}
    return RecoveredState(resume_point=found, **(given | changed))


SOURCE_BATCH = scripts.data(100, b"a", leader_epoch=9)


def answers(found: RecoveredState | None = None, **changed: Any) -> dict[Any, Any]:
    """A mirror with our marker at 50, fenced without trouble; the source from 100 on.

    `changed` holds answers by the names of what is asked.
    """
    given: dict[Any, Any] = {
        FindTargetEnd: TargetEnd(offset=50, leader_epoch=2),
        InitProducer: US,
        AddToTransaction: scripts.DONE,
        CommitTransaction: scripts.DONE,
        ReadTarget: Log(scripts.marker(50, OURS, leader_epoch=2)),
        ReadRecoveredState: found or RecoveredState(),
        FindSourceOffset: SourceLogOffset(offset=100),
        FindEpochEnd: EpochEnd(offset=50),
        ReadSource: Log(SOURCE_BATCH, start=100),
    }
    return given | {
        getattr(recovery_instructions, name): answer for name, answer in changed.items()
    }


# What was stored


def incidents(played: Played) -> list[Incident]:
    return [
        incident_records.decode_incident(e.key, e.value or b"") for e in played.stored if e.incident
    ]


def kinds(played: Played) -> list[str]:
    """Of everything stored, in order: "incident", or the kind of map record."""
    return [
        "incident" if each.incident else type(offset_map_records.decode_map_key(each.key)).__name__
        for each in played.stored
    ]


def mapped(played: Played, kind: type) -> list[tuple[Any, Any]]:
    """(key, value) of the map records stored whose keys are of this kind."""
    pairs = [
        (offset_map_records.decode_map_key(e.key), e.value) for e in played.stored if not e.incident
    ]
    return [
        (k, offset_map_records.decode_map_value(k, value or b""))
        for k, value in pairs
        if isinstance(k, kind)
    ]
