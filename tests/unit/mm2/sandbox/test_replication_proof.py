"""The judge, without brokers: every kind of fault is planted in a log and has to be named."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base.ids import TopicPartition
from mm2.sandbox import log_comparison
from mm2.sandbox.compared_records import (
    BytesDigest,
    RawRecord,
    RecordChunk,
    RecordContent,
    condense_record,
)
from mm2.sandbox.log_comparison import (
    DifferenceKind,
    LogComparison,
    PartitionComparison,
    RecordDifference,
    TopicsComparison,
)

CREATE_TIME, LOG_APPEND_TIME = 1, 2
KIND = DifferenceKind
LONG = bytes(range(256)) * 4


def content(number: int) -> RecordContent:
    return RecordContent(
        b"key-%d" % (number % 7), b"value-%d" % number, (("h", b"1"),), CREATE_TIME, 1_000 + number
    )


def contents(count: int) -> list[RecordContent]:
    return [content(number) for number in range(count)]


def log(of: Sequence[RecordContent], *, first: int = 0, chunk: int = 10) -> Iterator[RecordChunk]:
    raws = [raw(each) for each in of]
    for start in range(0, len(raws), chunk):
        some = raws[start : start + chunk]
        offsets = list(range(first + start, first + start + len(some)))
        yield RecordChunk(
            offsets, some, sum(len(key or b"") + len(value or b"") for key, value, *_ in some)
        )


def raw(of: RecordContent) -> RawRecord:
    """As the client gives it: no headers are None."""
    assert not isinstance(of.key, BytesDigest)
    assert not isinstance(of.value, BytesDigest)
    return (of.key, of.value, list(of.headers) or None, (of.timestamp_type, of.timestamp))


def compared(source: Sequence[RecordContent], target: Sequence[RecordContent]) -> LogComparison:
    """The target's offsets start at 500, so that nobody mixes them up."""
    return log_comparison.compare_logs(
        log(source, chunk=7),
        log(target, first=500),
        find_originals=lambda wanted: log_comparison.find_original_offsets(log(source), wanted),
    )


def difference(
    kind: KIND, source: int | None, target: int | None, *, count: int = 1, fields: tuple = ()
) -> RecordDifference:
    return RecordDifference(
        kind=kind, count=count, source_offset=source, target_offset=target, fields=fields
    )


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 500])
def test_equal_logs_have_no_differences(count):
    outcome = compared(contents(count), contents(count))
    assert outcome.differences == ()
    assert (outcome.source_records, outcome.target_records) == (count, count)
    assert outcome.size == sum(chunk.size for chunk in log(contents(count)))


@pytest.mark.parametrize("place", [0, 1, 49, 98])
def test_one_dropped_is_missing(place):
    target = contents(100)
    del target[place]
    assert compared(contents(100), target).differences == (
        difference(KIND.MISSING, place, 500 + place),
    )


def test_the_last_one_dropped_is_missing_at_the_end():
    assert compared(contents(100), contents(99)).differences == (
        difference(KIND.MISSING, 99, None),
    )


@pytest.mark.parametrize("place", [0, 50, 99])
def test_one_doubled_is_duplicated(place):
    target = contents(100)
    target.insert(place + 1, target[place])
    (found,) = compared(contents(100), target).differences
    assert (found.kind, found.count, found.source_offset) == (KIND.DUPLICATED, 1, place)


def test_a_batch_sent_again_much_later_is_duplicated():
    target = contents(300)
    target[250:250] = target[10:30]
    assert compared(contents(300), target).differences == (
        difference(KIND.DUPLICATED, 10, 750, count=20),
    )


def test_a_copy_that_began_again_at_the_start_doubled_everything():
    assert compared(contents(300), contents(300) * 2).differences == (
        difference(KIND.DUPLICATED, 0, 800, count=300),
    )


def test_two_swapped_are_reordered():
    target = contents(100)
    target[40], target[41] = target[41], target[40]
    (found,) = compared(contents(100), target).differences
    assert (found.kind, found.count) == (KIND.REORDERED, 1)
    assert found.source_offset in (40, 41)
    assert found.target_offset in (540, 541)


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        (("key",), {"key": b"other"}),
        (("key",), {"key": None}),
        (("key",), {"key": b""}),
        (("value",), {"value": b"other"}),
        (("value",), {"value": None}),
        (("value",), {"value": LONG}),
        (("headers",), {"headers": ()}),
        (("headers",), {"headers": (("h", None),)}),
        (("headers",), {"headers": (("h", b""),)}),
        (("headers",), {"headers": (("h", b"1"), ("h", b"1"))}),
        (("timestamp",), {"timestamp": 7}),
        (("timestamp type",), {"timestamp_type": LOG_APPEND_TIME}),
        (("value", "timestamp"), {"value": b"other", "timestamp": 7}),
    ],
)
@pytest.mark.parametrize("place", [0, 60, 99])
def test_one_altered_names_its_fields(fields, change, place):
    target = contents(100)
    target[place] = target[place]._replace(**change)
    assert compared(contents(100), target).differences == (
        difference(KIND.ALTERED, place, 500 + place, fields=fields),
    )


def test_the_order_of_headers_counts():
    one = content(1)._replace(headers=(("a", b"1"), ("b", b"2")))
    two = one._replace(headers=(("b", b"2"), ("a", b"1")))
    (found,) = compared([one], [two]).differences
    assert (found.kind, found.fields) == (KIND.ALTERED, ("headers",))


def test_null_and_empty_are_not_the_same():
    null, empty = content(1)._replace(key=None), content(1)._replace(key=b"")
    assert compared([null], [empty]).differences[0].fields == ("key",)


def test_long_values_that_differ_in_the_last_byte_differ():
    one = content(1)._replace(value=LONG * 100 + b"1")
    two = content(1)._replace(value=LONG * 100 + b"2")
    assert compared([one], [two]).differences[0].fields == ("value",)


def test_a_record_too_many_at_the_end_is_extra():
    target = [*contents(100), content(1_000)]
    assert compared(contents(100), target).differences == (difference(KIND.EXTRA, None, 600),)


def test_aborted_records_that_show_are_extra():
    aborted = [content(number) for number in range(2_000, 2_030)]
    target = contents(100)
    target[20:20] = aborted
    assert compared(contents(100), target).differences == (
        difference(KIND.EXTRA, 20, 520, count=30),
    )


def test_an_empty_target_misses_everything():
    assert compared(contents(100), []).differences == (
        difference(KIND.MISSING, 0, None, count=100),
    )


def test_a_target_of_strangers_is_neither_equal_nor_short():
    strangers = [
        RecordContent(None, b"other-%d" % number, (), CREATE_TIME, number) for number in range(100)
    ]
    outcome = compared(contents(100), strangers)
    assert sum(each.count for each in outcome.differences) == 100


def test_several_faults_are_told_apart():
    source = contents(1_000)
    target = list(source)
    target[900] = target[900]._replace(value=b"other")
    target.insert(800, target[20])
    del target[300:350]
    target[100], target[105] = target[105], target[100]
    outcome = compared(source, target)
    counts = {each.kind: each.count for each in outcome.differences}
    assert counts == {KIND.MISSING: 50, KIND.DUPLICATED: 1, KIND.REORDERED: 2, KIND.ALTERED: 1}
    assert difference(KIND.MISSING, 300, 800, count=50) in outcome.differences


def test_identical_records_are_counted_not_confused():
    same = content(1)
    assert compared([same] * 100, [same] * 100).differences == ()
    assert compared([same] * 100, [same] * 99).differences == (difference(KIND.MISSING, 99, None),)
    (found,) = compared([same] * 99, [same] * 100).differences
    assert (found.kind, found.count) == (KIND.DUPLICATED, 1)


def test_a_hole_wider_than_a_window_is_bridged():
    source = contents(3 * log_comparison.WINDOW_RECORDS)
    hole = 2 * log_comparison.WINDOW_RECORDS
    target = source[:100] + source[100 + hole :]
    assert compared(source, target).differences == (difference(KIND.MISSING, 100, 600, count=hole),)


def test_beyond_what_is_kept_it_is_counted(monkeypatch):
    monkeypatch.setattr(log_comparison, "KEPT_UNMATCHED_MAX", 10)
    outcome = compared(contents(100), contents(70))
    assert outcome.differences == (difference(KIND.MISSING, 70, None, count=30),)
    assert outcome.is_truncated
    assert not compared(contents(100), contents(95)).is_truncated


def test_a_fault_is_found_although_windows_share_nothing(monkeypatch):
    monkeypatch.setattr(log_comparison, "WINDOW_RECORDS", 16)
    monkeypatch.setattr(log_comparison, "WINDOW_RECORDS_MAX", 32)
    source = contents(1_000)
    outcome = compared(source, source[:100] + source[500:])
    counts = {each.kind: each.count for each in outcome.differences}
    gained = counts.get(KIND.EXTRA, 0) + counts.get(KIND.DUPLICATED, 0)
    assert counts[KIND.MISSING] - gained == 400


def test_condensing_keeps_null_empty_and_short_apart():
    short = content(1)._replace(key=None, value=b"")
    assert condense_record(raw(short)) == short
    long = condense_record(raw(content(1)._replace(value=LONG)))
    assert isinstance(long.value, BytesDigest)
    assert long.value.length == len(LONG)


@given(seed=st.integers(0, 10**9), count=st.integers(0, 60), faults=st.integers(0, 6))
def test_differences_are_found_exactly_when_there_are_some(seed, count, faults):
    """And they account for every record: source - missing + duplicated + extra = target."""
    rng = random.Random(seed)
    source = [content(rng.randrange(20)) for _ in range(count)]
    target = list(source)
    for _ in range(faults):
        plant(rng, target)
    outcome = compared(source, target)
    assert (outcome.differences == ()) == (source == target)
    counts = dict.fromkeys(KIND, 0)
    for each in outcome.differences:
        counts[each.kind] += each.count
    gained = counts[KIND.DUPLICATED] + counts[KIND.EXTRA] - counts[KIND.MISSING]
    assert len(target) - len(source) == gained


def plant(rng: random.Random, target: list[RecordContent]) -> None:
    place = rng.randrange(len(target) + 1)
    match rng.randrange(4):
        case 0:
            del target[place : place + rng.randrange(5)]
        case 1:
            target[place:place] = target[: rng.randrange(5)]
        case 2 if place < len(target):
            target[place] = target[place]._replace(timestamp=rng.randrange(10**6))
        case _:
            target.insert(place, content(rng.randrange(40)))


def part(number: int, *differences: RecordDifference, records: int = 10):
    return PartitionComparison(
        source=TopicPartition("orders", number),
        target=TopicPartition("east.orders", number),
        source_records=records,
        target_records=records,
        size=1_500_000,
        differences=differences,
    )


def test_a_comparison_is_equal_when_all_its_partitions_are():
    equal = TopicsComparison(partitions=(part(0), part(1)))
    assert equal.is_equal
    assert (equal.records, equal.size, equal.differing_partitions) == (20, 3_000_000, ())
    wrong = part(1, difference(KIND.MISSING, 4, 3, count=2))
    unequal = TopicsComparison(partitions=(part(0), wrong))
    assert not unequal.is_equal
    assert unequal.differing_partitions == (wrong,)
    assert (unequal.count_differences(KIND.MISSING), unequal.count_differences(KIND.EXTRA)) == (
        2,
        0,
    )


def test_it_prints_a_line_per_topic_and_one_per_fault():
    text = str(
        TopicsComparison(
            partitions=(
                part(0),
                part(1, difference(KIND.ALTERED, 4, None, count=1_200, fields=("value",))),
            )
        )
    )
    assert text.splitlines() == [
        "topic   partitions     records        MB  result",
        "orders           2          20       3.0  DIFFERENT in 1 of 2",
        "  orders-1: altered 1,200 (value), the first at source offset 4, target offset end",
    ]
    assert "all records equal" in str(TopicsComparison(partitions=(part(0),)))
    assert "empty on both sides" in str(TopicsComparison(partitions=(part(0, records=0),)))
