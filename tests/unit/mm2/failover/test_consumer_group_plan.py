from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import (
    CheckpointPair,
    GroupSnapshot,
    MirroredPartition,
    PositionBasis,
    TranslatedPosition,
)
from mm2.failover import consumer_group_plan
from mm2.failover.consumer_group_plan import GroupAction
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState, TargetGroup
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset, UntranslatedReason

HERE = TopicPartition("t", 0)
THERE = TopicPartition("east.t", 0)
Way, State = GroupAction, GroupState
EXACT = ExactOffset(downstream=90)
AWAY = {"unheard": "it has no leader"}


def move(
    outcome=EXACT,
    *,
    committed=100,
    at=None,
    state=None,
    copied_to=1000,
    tail=0,
    log=(0, 500),
    pending=0,
    rewind=False,
    pair=None,
    known_from=None,
    unheard="",
):
    """Of a group with one partition."""
    there = TargetGroup(
        state=state or (State.ABSENT if at is None else State.EMPTY),
        positions={} if at is None else {THERE: OffsetAndMetadata(offset=at)},
    )
    position = None
    if committed is not None:
        position = OffsetAndMetadata(offset=committed, metadata="note")
    group = GroupSnapshot(
        name="g",
        basis=PositionBasis.COMMITTED,
        positions={HERE: position},
        target=there,
        checkpoints={}
        if pair is None
        else {HERE: CheckpointPair(upstream=pair[0], downstream=pair[1])},
    )
    place = None
    if outcome is not None:
        place = TranslatedPosition(partition=THERE, outcome=outcome, known_from=known_from)
    return consumer_group_plan.plan_group_move(
        group,
        lambda _partition, _offset: place,
        mirrored={
            HERE: MirroredPartition(
                partition=HERE, mirror=THERE, copied_to=copied_to, unrecorded=tail
            )
        },
        logs={} if log is None else {THERE: LogBounds(start=log[0], end=log[1], pending=pending)},
        unanswered={THERE: unheard} if unheard else {},
        rewind=rewind,
    )


def only(**kwargs):
    (found,) = move(**kwargs).partitions
    return found


def test_a_position_moves_with_its_note_and_reads_nothing_again():
    found = move()
    assert found.offsets_to_write == {THERE: OffsetAndMetadata(offset=90, metadata="note")}
    assert found.minimum_offsets == {THERE: 90}
    assert (found.max_rereads, found.unreplicated_records, found.unread_records) == (0, 0, 410)


@pytest.mark.parametrize(
    ("given", "way"),
    [
        ({}, Way.MOVES),
        ({"at": 89}, Way.MOVES),
        ({"at": 90}, Way.IS_THERE),
        ({"at": 91}, Way.IS_AHEAD),
        ({"at": 91, "rewind": True}, Way.MOVES),
        ({"at": 500}, Way.IS_AHEAD),
        ({"log": None}, Way.MISSING),
        ({"log": None, **AWAY}, Way.MOVES),
        ({"log": None, "at": 90, **AWAY}, Way.IS_THERE),
        ({"log": None, "at": 91, **AWAY}, Way.IS_AHEAD),
        ({"log": None, "at": 91, "rewind": True, **AWAY}, Way.MOVES),
        ({"log": None, "outcome": UntranslatedReason.TOO_OLD, **AWAY}, Way.UNTRANSLATED),
        ({"log": (0, 89)}, Way.PAST_THE_END),
        ({"log": (0, 90)}, Way.MOVES),
        ({"log": (0, 80), "pending": 9}, Way.PAST_THE_END),
        ({"log": (0, 80), "pending": 10}, Way.MOVES),
        ({"at": 500, "log": (0, 480), "pending": 20}, Way.IS_AHEAD),
        ({"outcome": None}, Way.NOT_MIRRORED),
        ({"outcome": UntranslatedReason.NOT_READY}, Way.UNTRANSLATED),
        ({"committed": None}, Way.NO_OFFSET),
    ],
)
def test_what_becomes_of_a_position(given, way):
    assert only(**given).action is way
    moves = move(**given)
    assert bool(moves.offsets_to_write) == (way is Way.MOVES)
    assert bool(moves.minimum_offsets) == (way in {Way.MOVES, Way.IS_THERE, Way.IS_AHEAD})
    assert bool(moves.rewound_partitions) == bool(given.get("rewind"))


def test_where_nobody_answers_for_the_mirror_the_map_says_the_place():
    """Who had no position there would begin by auto.offset.reset: latest passes all over."""
    found = only(log=None, **AWAY)
    assert (found.target_offset, found.unread, found.unanswered_reason) == (
        90,
        None,
        "it has no leader",
    )


def test_who_stands_beyond_the_end_of_a_log_that_was_cut_is_set_back():
    found = move(at=501, log=(0, 480), pending=20)
    assert found.offsets_to_write[THERE].offset == 90
    assert found.rewound_partitions == {THERE}


def test_what_is_read_again_is_counted():
    assert only(outcome=EarlierOffset(downstream=80, reread_max=20)).max_rereads == 20


def test_what_was_read_and_never_arrived_is_told():
    assert only(copied_to=60).unreplicated == 40


@pytest.mark.parametrize(
    ("again", "tail", "capped"), [(40, 0, 0), (40, 5, 5), (40, 60, 40), (47, 5, 12)]
)
def test_beyond_what_is_recorded_no_more_is_read_again_than_can_have_arrived(again, tail, capped):
    outcome = EarlierOffset(downstream=80, reread_max=again)
    mirrored = MirroredPartition(partition=HERE, mirror=THERE, copied_to=60, unrecorded=tail)
    found = consumer_group_plan.cap_reread_bound(outcome, 100, mirrored)
    assert (found.downstream, getattr(found, "reread_max", 0)) == (80, capped)


@pytest.mark.parametrize("copied_to", [None, 100])
def test_what_is_recorded_is_not_capped(copied_to):
    outcome = EarlierOffset(downstream=80, reread_max=40)
    mirrored = MirroredPartition(partition=HERE, mirror=THERE, copied_to=copied_to)
    assert consumer_group_plan.cap_reread_bound(outcome, 100, mirrored) == outcome


@pytest.mark.parametrize("tail", [0, 5])
def test_what_others_have_bounded_stays_bounded_so(tail):
    """A place among records of both clusters, and a checkpoint."""
    shared = EarlierOffset(downstream=20, reread_max=70)
    assert only(outcome=shared, copied_to=60, tail=tail).max_rereads == 70
    unknown = UntranslatedReason.UNKNOWN
    assert only(outcome=unknown, pair=(90, 70), copied_to=60, tail=tail).max_rereads == 430


def test_what_was_deleted_there_before_it_was_read_is_counted():
    found = only(log=(95, 500))
    assert (found.target_offset, found.deleted, found.unread, found.action) == (
        95,
        5,
        405,
        Way.MOVES,
    )


def test_who_is_older_than_all_that_is_known_goes_on_at_the_first_that_is_left():
    found = only(outcome=UntranslatedReason.TOO_OLD, log=(40, 500))
    assert (found.is_before_map, found.target_offset, found.max_rereads, found.action) == (
        True,
        40,
        460,
        Way.MOVES,
    )
    held = only(outcome=UntranslatedReason.TOO_OLD, log=(40, 480), pending=20)
    assert held.max_rereads == 460


@pytest.mark.parametrize("pair", [(100, 70), (99, 70)])
@pytest.mark.parametrize("outcome", ["UNKNOWN", "TOO_OLD"])
def test_a_checkpoint_says_what_the_map_does_not_know(pair, outcome):
    found = only(outcome=UntranslatedReason[outcome], pair=pair, known_from=70)
    assert (found.is_before_map, found.target_offset, found.max_rereads, found.action) == (
        False,
        70,
        430,
        Way.MOVES,
    )


@pytest.mark.parametrize("known_from", [69, None])
def test_a_checkpoint_behind_what_the_map_still_knows_is_of_a_mirror_before(known_from):
    """Who went on there would miss what stands between."""
    old = UntranslatedReason.TOO_OLD
    found = only(outcome=old, pair=(100, 70), known_from=known_from)
    assert (found.is_before_map, found.target_offset, found.max_rereads, found.action) == (
        True,
        0,
        500,
        Way.MOVES,
    )


@pytest.mark.parametrize(
    ("outcome", "pair"),
    [(UntranslatedReason.UNKNOWN, (101, 70)), (UntranslatedReason.NOT_READY, (99, 70))],
)
def test_a_checkpoint_of_later_says_nothing(outcome, pair):
    assert only(outcome=outcome, pair=pair).action is Way.UNTRANSLATED


def test_the_map_counts_before_checkpoints():
    assert only(pair=(100, 70)).target_offset == 90


@pytest.mark.parametrize("state", [State.ACTIVE, State.FOREIGN, State.UNKNOWN])
def test_nothing_is_written_of_a_group_that_is_not_idle_there(state):
    found = move(state=state)
    assert found.blocking_state is state
    assert found.offsets_to_write == {}


def test_positions_of_a_group_that_is_active_there_count_for_nothing():
    assert only(at=91, state=State.ACTIVE).current_offset is None


@pytest.mark.parametrize(("origin", "again"), [("CHECKPOINTED", 410 + 25), ("COMMITTED", 0)])
def test_a_partition_it_was_reset_to_nowhere_in_may_have_been_read_since(origin, again):
    """What it had committed when the move was begun says nothing of what it read later."""
    other = TopicPartition("t", 1)
    group = GroupSnapshot(
        name="g",
        basis=PositionBasis[origin],
        positions={HERE: OffsetAndMetadata(offset=100), other: None},
    )
    there = LogBounds(start=0, end=25)
    found = consumer_group_plan.plan_group_move(
        group,
        lambda _partition, _offset: TranslatedPosition(partition=THERE, outcome=EXACT),
        mirrored={other: MirroredPartition(partition=other, mirror=other, mirror_bounds=there)},
        logs={THERE: LogBounds(start=0, end=500)},
    )
    assert found.max_rereads == again
