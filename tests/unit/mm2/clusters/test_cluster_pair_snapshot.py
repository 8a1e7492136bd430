from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters import cluster_pair_snapshot
from mm2.clusters.cluster_pair_snapshot import MirroredPartition
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.log_start_and_end_offsets import LogBounds


def mirrored(**given):
    partition = TopicPartition("t", 0)
    return MirroredPartition(partition=partition, mirror=TopicPartition("east.t", 0), **given)


@pytest.mark.parametrize(
    ("copied_to", "here", "lag"),
    [
        (5, (0, 12), 7),
        (12, (0, 12), 0),
        (15, (0, 12), 0),  # truncated: found elsewhere
        (5, (8, 12), 4),  # what retention took cannot be copied any more
        (None, (3, 12), 9),
        (5, None, None),
    ],
)
def test_lag_in_records(copied_to, here, lag):
    ends = None if here is None else LogBounds(start=here[0], end=here[1])
    assert mirrored(copied_to=copied_to, source_bounds=ends).lag_records == lag


@pytest.mark.parametrize(
    ("end", "waiting_since_ms", "lag_ms"),
    [(12, 400, 600), (12, None, None), (5, 400, 0), (12, 1400, 0)],
)
def test_lag_in_time_is_the_age_of_the_oldest_record_not_copied(end, waiting_since_ms, lag_ms):
    ends = LogBounds(start=0, end=end)
    found = mirrored(copied_to=5, source_bounds=ends, waiting_since_ms=waiting_since_ms)
    assert found.lag_ms(1000) == lag_ms


def test_of_two_positions_the_further_counts():
    one, two, three = (TopicPartition("t", number) for number in range(3))
    at = [OffsetAndMetadata(offset=offset) for offset in range(3)]
    found = cluster_pair_snapshot.merge_higher_positions(
        {one: at[1], two: at[1], three: None}, {one: at[2], two: at[0], three: at[0]}
    )
    assert found == {one: at[2], two: at[1], three: at[0]}
    assert cluster_pair_snapshot.merge_higher_positions({one: at[1]}, {one: None, two: None}) == {
        one: at[1],
        two: None,
    }
