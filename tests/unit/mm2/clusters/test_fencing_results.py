"""Who is locked out, and who has come back since."""

from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters import fencing_results
from mm2.clusters.cluster_pair_snapshot import MirroredPartition
from mm2.clusters.fencing_results import FencingResult, FencingSummary
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import MapProducer, MapProducerKey
from mm2.offsets.offset_map import OffsetMap
from tests.fakes import copied_map

HERE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
OURS = 70


def known(*, producers: dict[int, int], taken: tuple[int, int] | None = None) -> OffsetMap:
    """Copied under ordinal 1, epoch 0; `producers`: ordinals by id; `taken` by a later owner."""
    found = OffsetMap()
    for key, value in copied_map.log(HERE, through=10, delta=5):
        found.apply_record(key or b"", value)
    for producer, ordinal in producers.items():
        name = MapProducerKey(topic="orders", partition=0, producer_id=producer)
        about = MapProducer(ordinal=ordinal, era=1)
        found.apply_record(
            offset_map_records.encode_map_key(name), offset_map_records.encode_map_value(about)
        )
    if taken is not None:
        era = copied_map.era_key(1, ordinal=taken[0], epoch=taken[1])
        era = dataclasses.replace(era, topic="orders", partition=0)
        found.apply_record(
            offset_map_records.encode_map_key(era),
            offset_map_records.encode_map_value(copied_map.era_of()),
        )
    return found


def fenced(about: OffsetMap, *, producer_id: int = OURS) -> FencingResult:
    return fencing_results.build_fencing_result(
        HERE, about.get_partition(HERE), producer_id=producer_id, epoch=4, marker=18, tail=2
    )


def test_the_next_epoch_of_the_same_id_locks_out():
    found = fenced(known(producers={OURS: 1}))
    assert (found.owner_order, found.marker, found.tail, found.unfenced_reason) == (
        (1, 4),
        18,
        2,
        "",
    )


def test_another_id_locks_nobody_out():
    found = fenced(known(producers={OURS: 1}), producer_id=90)
    assert (found.owner_order, found.unfenced_reason) == (
        (1, 0),
        fencing_results.PRODUCER_ID_EXPIRED,
    )


def test_an_older_id_locks_out_until_a_newer_one_is_used():
    both = {OURS: 1, 71: 2}
    assert fenced(known(producers=both)).unfenced_reason == ""
    assert (
        fenced(known(producers=both, taken=(2, 0))).unfenced_reason
        == fencing_results.PRODUCER_ID_EXPIRED
    )


@pytest.mark.parametrize(
    ("taken", "since"),
    [((1, 3), False), ((1, 4), False), ((1, 5), True), ((2, 0), True), ((0, 9), False)],
)
def test_who_has_a_newer_epoch_or_id_has_taken_it_since(taken, since):
    found = fenced(known(producers={OURS: 1}))
    assert (
        fencing_results.is_partition_acquired_after_fencing(
            known(producers={OURS: 1}, taken=taken), found
        )
        is since
    )


def test_without_the_right_nobody_is_locked_out():
    found = fencing_results.build_unfenced_result(
        HERE, known(producers={OURS: 1}).get_partition(HERE)
    )
    assert (found.marker, found.tail, found.owner_order) == (None, None, (1, 0))
    assert found.unfenced_reason == fencing_results.NOT_AUTHORIZED


def test_nobody_ever_took_what_nobody_copied():
    assert (
        fencing_results.find_newest_owner(OffsetMap().get_partition(HERE))
        == fencing_results.NO_OWNER
    )
    assert fencing_results.list_replicated_partitions(known(producers={})) == {HERE}


def test_what_was_counted_stands_in_for_the_bound_by_offsets():
    mirrored = [
        MirroredPartition(partition=each, mirror=each, copied_to=9, unrecorded=7)
        for each in (HERE, OTHER)
    ]
    locked = fencing_results.summarize_fencing(
        [
            FencingResult(partition=HERE, marker=1, owner_order=(1, 1), tail=2),
            FencingResult(
                partition=OTHER, marker=None, owner_order=(1, 1), tail=None, unfenced_reason="no"
            ),
        ]
    )
    assert locked.unfenced == {OTHER: "no"}
    assert [
        each.unrecorded
        for each in fencing_results.set_exact_unrecorded_record_counts(mirrored, locked)
    ] == [
        2,
        7,
    ]
    assert [
        each.unrecorded
        for each in fencing_results.set_exact_unrecorded_record_counts(mirrored, FencingSummary())
    ] == [7, 7]
