"""Pairs of offsets out of anchors, against a log that is copied record by record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.copy import map_writer
from mm2.core.offsets import anchor_steps
from mm2.formats import map_record


def key(era: int = 1, first: int = 0) -> map_record.SegmentKey:
    return map_record.SegmentKey(
        topic="t", partition=0, era=era, ordinal=1, epoch=0, first_source=first
    )


def segment(through: int, target_next: int, *runs: tuple[int, int]) -> map_record.Segment:
    return map_record.Segment(
        leader_epoch=0,
        source_epoch=0,
        owner=bytes(8),
        take_start=0,
        through=through,
        target_next=target_next,
        last_crc=None,
        runs=tuple(map_record.Run(*each) for each in runs),
    )


def test_the_first_anchor_says_where_it_begins():
    steps = anchor_steps.AnchorSteps()
    assert steps.steps(key(), segment(10, 11, (0, 1))) == []
    assert steps.steps(key(), segment(15, 16, (0, 1))) == [(10, 11, 5)]
    assert steps.steps(key(), segment(15, 17, (0, 1))) == []


def test_gaps_of_either_side_are_left_out():
    steps = anchor_steps.AnchorSteps()
    steps.steps(key(), segment(0, 1))
    found = steps.steps(key(), segment(12, 14, (0, 1), (6, 0), (8, 3)))
    # a marker of the source at 5, then markers of ours on the target behind 7
    assert found == [(0, 1, 5), (6, 6, 2), (8, 11, 3)]


def test_a_new_segment_goes_on_where_the_one_before_ended():
    steps = anchor_steps.AnchorSteps()
    steps.steps(key(), segment(0, 1))
    assert steps.steps(key(), segment(5, 6, (0, 1))) == [(0, 1, 5)]
    assert steps.steps(key(first=5), segment(5, 6)) == []
    assert steps.steps(key(first=5), segment(9, 10, (5, 1))) == [(5, 6, 4)]


def test_where_all_was_skipped_nothing_was_copied():
    steps = anchor_steps.AnchorSteps()
    steps.steps(key(), segment(0, 1))
    assert steps.steps(key(), segment(5, 1)) == []
    assert steps.steps(key(), segment(9, 5, (5, -4))) == [(5, 1, 4)]


def test_another_era_begins_anew_and_nothing_is_told_twice():
    steps = anchor_steps.AnchorSteps()
    steps.steps(key(), segment(0, 1))
    steps.steps(key(), segment(5, 6, (0, 1)))
    assert steps.steps(key(era=2), segment(3, 20)) == []
    assert steps.steps(key(era=2), segment(4, 21, (3, 17))) == [(3, 20, 1)]
    assert steps.steps(key(era=2), segment(2, 21)) == [], "an owner that was cut back"


def test_partitions_do_not_know_of_each_other():
    steps = anchor_steps.AnchorSteps()
    steps.steps(key(), segment(5, 6))
    other = map_record.SegmentKey(topic="t", partition=1, era=1, ordinal=1, epoch=0, first_source=0)
    assert steps.steps(other, segment(9, 9)) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["record", "source gap", "target gap", "anchor", "full"]),
            st.integers(1, 4),
        ),
        max_size=60,
    )
)
def test_every_record_is_told_once(events):
    """Against the writer that copies use."""
    writer = map_writer.MapWriter(
        topic="t",
        partition=0,
        era=1,
        ordinal=1,
        epoch=0,
        leader_epoch=0,
        owner=bytes(8),
        take_start=0,
        through=0,
        target_next=1,
    )
    steps = anchor_steps.AnchorSteps()
    told: list[tuple[int, int]] = []
    copied: list[tuple[int, int]] = []

    def anchor() -> None:
        for item in writer.write(0.0).items:
            name = map_record.decode_key(item.key)
            assert isinstance(name, map_record.SegmentKey)
            value = map_record.decode_value(name, item.value or b"")
            assert isinstance(value, map_record.Segment)
            for found in steps.steps(name, value):
                told.extend((found[0] + n, found[1] + n) for n in range(found[2]))

    anchor()
    source, target = 0, 1
    gaps = {"source gap": (1, 0), "target gap": (0, 1)}
    for kind, count in events:
        if kind == "record":
            for _ in range(count):
                writer._add_run(source, target - source)
                writer.through, writer.target_next = source + 1, target + 1
                copied.append((source, target))
                source, target = source + 1, target + 1
        elif kind in gaps:
            more = gaps[kind]
            source, target = source + more[0] * count, target + more[1] * count
        elif kind == "anchor":
            anchor()
        else:
            writer.close_segment(through=writer.through, target_next=target, source_epoch=0)
    anchor()
    assert told == sorted(told)
    assert set(copied) <= set(told)
    assert len(told) == len(set(told))
