from __future__ import annotations

from mm2.replication.partition_replicator import SourcePosition
from mm2.replication.read_committed_batch_filter import UnreadableBatch
from mm2.replication.send_queue import DroppedBatchPosition
from tests.fakes import scripts

OBSTACLE = UnreadableBatch(offset=12, reason="such a batch")


def test_nothing_is_known_of_a_source_that_was_not_read():
    source = SourcePosition()
    assert (source.position, source.epoch, source.end, source.log_start) == (-1, -1, -1, -1)


def test_beginning_elsewhere_leaves_the_obstacle_behind_and_keeps_what_the_log_is():
    source = SourcePosition(position=12, epoch=3, end=40, log_start=5, obstacle=OBSTACLE)
    source.start_fetching_at(20, epoch=4)
    assert source == SourcePosition(position=20, epoch=4, end=40, log_start=5)


def test_strangers_stand_in_the_way_as_an_obstacle_does():
    source = SourcePosition(unresolved_producers=(7,))
    stuck = [source.is_blocked]
    source.start_fetching_at(20, epoch=4)
    stuck.append(source.is_blocked)
    assert stuck == [True, False]


def test_what_a_fetch_brought_moves_it_up_to_the_first_stranger():
    source = SourcePosition(position=4)
    held = scripts.data(4, b"a", b"b", leader_epoch=3), scripts.data(6, b"c", producer=(9, 0))
    found = source.advance_past_records(
        scripts.records(*held, log_start=2, end=40),
        target_codec=None,
        reverse_producers={-1: False},
        max_bytes=1 << 20,
    )
    assert (source.position, source.epoch, source.log_start, source.end) == (6, 3, 2, 40)
    assert source.unresolved_producers == found.unresolved_producers == (9,)


def test_a_batch_beyond_the_end_of_the_log_is_an_obstacle_at_the_position():
    source = SourcePosition(position=4)
    source.advance_past_records(
        scripts.records(scripts.data(9, b"a"), end=5),
        target_codec=None,
        reverse_producers=None,
        max_bytes=1 << 20,
    )
    assert source.position == 4
    assert source.obstacle is not None
    assert "the last stable offset is 5" in source.obstacle.reason


def test_going_back_is_to_the_batch_that_was_not_sent_and_to_its_own_epoch():
    source = SourcePosition(position=12, epoch=3, obstacle=OBSTACLE)
    source.rewind(DroppedBatchPosition(8, 2))
    assert (source.position, source.epoch, source.obstacle) == (8, 2, None)
