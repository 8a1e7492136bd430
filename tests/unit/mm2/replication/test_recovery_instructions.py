from __future__ import annotations

import dataclasses
import typing

import pytest

from mm2.formats.offset_map_records import (
    Era,
    EraKey,
    MapProducer,
    MapSegment,
    MapSegmentKey,
    NewEraRequest,
    OffsetRun,
)
from mm2.offsets.offset_map import PartitionMap, ResumePoint, SegmentStore
from mm2.replication import recovery_instructions
from mm2.replication.recovery_instructions import (
    AppendToFlowState,
    FlowStateRecord,
    Instruction,
    InstructionAnswer,
    JavaMirrorProgress,
    OpenTransaction,
    ReadRecoveredState,
    RecoveredState,
    UnreadableStateRecord,
)

QUESTIONS = typing.get_args(Instruction)
ANSWERS = typing.get_args(InstructionAnswer)


@pytest.mark.parametrize("kind", [*QUESTIONS, *ANSWERS], ids=lambda kind: kind.__name__)
def test_the_vocabulary_is_values(kind):
    """What is handed from one side to the other is not changed by either."""
    assert dataclasses.is_dataclass(kind)
    assert vars(kind)["__dataclass_params__"].frozen


def test_no_answer_can_be_taken_for_a_question():
    assert not set(QUESTIONS) & set(ANSWERS)
    assert RecoveredState in ANSWERS


def test_every_class_of_the_module_is_a_question_or_an_answer_or_part_of_one():
    parts = {FlowStateRecord, OpenTransaction, JavaMirrorProgress, UnreadableStateRecord}
    defined = {
        each
        for each in vars(recovery_instructions).values()
        if isinstance(each, type) and each.__module__ == recovery_instructions.__name__
    }
    assert defined - parts == set(QUESTIONS) | set(ANSWERS)


def test_what_is_recorded_is_a_map_record_unless_it_says_incident():
    item = FlowStateRecord(key=b"k", value=None)
    assert not item.incident
    assert AppendToFlowState(items=(item,)).token == 0


def test_facts_are_asked_for_without_a_position_unless_one_is_named():
    assert ReadRecoveredState() == ReadRecoveredState(target_offset=None)
    assert ReadRecoveredState(target_offset=0) != ReadRecoveredState()


ERA_KEY = EraKey(topic="orders", partition=7, era=1, ordinal=1, epoch=0)
ERA = Era(
    source_cluster="a",
    target_cluster="b",
    source_topic_id=bytes(16),
    target_topic_id=bytes(16),
    first_source=0,
    first_target=1,
    request="answered",
)
SEGMENT_KEY = MapSegmentKey(topic="orders", partition=7, era=1, ordinal=1, epoch=0, first_source=0)
SEGMENT = MapSegment(
    leader_epoch=0,
    source_epoch=0,
    owner=b"12345678",
    acquired_from=0,
    through=20,
    target_next=22,
    last_crc=None,
    runs=(OffsetRun(0, 1), OffsetRun(10, 2)),
)


SEGMENTS = SegmentStore({SEGMENT_KEY: SEGMENT})


def known(**more):
    return PartitionMap(era_records={ERA_KEY: ERA}, segments=SEGMENTS, **more)


def test_of_a_partition_that_was_never_taken_nothing_is_known():
    for target in (None, 5):
        assert (
            recovery_instructions.extract_recovered_state(PartitionMap(), target=target)
            == RecoveredState()
        )


def test_the_newest_era_and_anchor_are_told():
    found = recovery_instructions.extract_recovered_state(known(), target=None)
    assert (found.era_number, found.era) == (1, ERA)
    assert found.resume_point == ResumePoint(key=SEGMENT_KEY, segment=SEGMENT)
    assert not found.is_era_empty


def test_an_era_begun_by_a_newer_owner_than_the_anchors_is_told():
    newer = EraKey(topic="orders", partition=7, era=1, ordinal=3, epoch=1)
    partition = known()
    partition.era_records[newer] = ERA
    found = recovery_instructions.extract_recovered_state(partition, target=None)
    assert (found.is_era_empty, found.era_ordinal) == (True, 3)


def test_producer_ids_come_with_their_ordinals():
    producers = {
        4711: MapProducer(ordinal=1, era=1),
        9: MapProducer(ordinal=2, era=1),
    }
    assert recovery_instructions.extract_recovered_state(
        known(producers=producers), target=None
    ).producers == {4711: 1, 9: 2}


@pytest.mark.parametrize(("request_id", "told"), [("answered", False), ("new", True)])
def test_only_an_unanswered_request_is_told(request_id, told):
    asked = NewEraRequest(request=request_id, position="latest")
    found = recovery_instructions.extract_recovered_state(known(request=asked), target=None)
    assert found.request == (asked if told else None)


@pytest.mark.parametrize(("target", "source"), [(None, None), (0, 0), (5, 4), (13, 11), (22, 20)])
def test_a_source_position_is_told_for_the_target_offset_that_was_asked_about(target, source):
    found = recovery_instructions.extract_recovered_state(known(), target=target)
    assert (found.source_position, found.target_position) == (source, target)
