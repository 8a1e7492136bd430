from __future__ import annotations

import dataclasses
import json
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.core.copy import (
    ages,
    budget,
    crossing,
    facts,
    instructions,
    limits,
    messages,
    partition,
    setup,
    source_batches,
    standing,
    stops,
)
from mm2.core.offsets import offset_map
from mm2.formats import map_record
from tests.support import examples

NUMBERS = st.integers(-1, 1 << 62)
I16, I32 = st.integers(0, (1 << 15) - 1), st.integers(0, (1 << 31) - 1)
TEXTS = st.text(max_size=20)
TOPIC_IDS = st.binary(min_size=16, max_size=16)

setups = st.builds(
    setup.PartitionSetup,
    flow=TEXTS,
    topic=TEXTS,
    remote_topic=TEXTS,
    partition=I32,
    transactional_id=TEXTS,
    source_topic_id=TOPIC_IDS,
    target_topic_id=TOPIC_IDS,
    source_cluster=TEXTS,
    target_cluster=TEXTS,
    start=TEXTS,
    target_topics=st.sampled_from(setup.TargetTopics),
    delivery=st.sampled_from(setup.Delivery),
    on_source_gap=st.sampled_from(setup.OnSourceGap),
    old_after_ms=NUMBERS,
    renew_after_s=st.floats(0, 1e9),
    target_codec=st.none() | st.integers(0, 4),
    opposite_map=TEXTS,
)
accesses = st.builds(
    messages.ClusterAccess,
    alias=TEXTS,
    bootstrap=st.lists(TEXTS, max_size=3).map(tuple),
    security=st.dictionaries(TEXTS, TEXTS | st.none() | st.booleans(), max_size=3),
    client_id=TEXTS,
    properties=st.dictionaries(TEXTS, TEXTS, max_size=3),
)
configurations = st.builds(
    messages.Configure,
    flow=TEXTS,
    task=I32,
    owner=st.binary(min_size=8, max_size=8),
    source=accesses,
    target=accesses,
    partitions=st.lists(setups, max_size=3).map(tuple),
    budget_bytes=NUMBERS,
    throttle_bytes_s=NUMBERS,
    topic_throttles=st.dictionaries(TEXTS, NUMBERS, max_size=2),
    granted=st.booleans(),
    unreachable_after_s=st.integers(5, 3600),
)
eras = st.builds(
    map_record.Era,
    source_cluster=TEXTS,
    target_cluster=TEXTS,
    source_topic_id=TOPIC_IDS,
    target_topic_id=TOPIC_IDS,
    first_source=NUMBERS,
    first_target=NUMBERS,
    filter_hash=st.integers(0, (1 << 64) - 1),
    request=TEXTS,
    reason=TEXTS,
)
anchors = st.builds(
    offset_map.Anchor,
    key=st.builds(
        map_record.SegmentKey,
        topic=TEXTS,
        partition=I32,
        era=I32,
        ordinal=I32,
        epoch=I16,
        first_source=st.just(0),
    ),
    segment=st.builds(
        map_record.Segment,
        leader_epoch=I32,
        source_epoch=I32,
        owner=st.binary(min_size=8, max_size=8),
        take_start=NUMBERS,
        through=NUMBERS,
        target_next=NUMBERS,
        last_crc=st.none() | st.integers(0, (1 << 32) - 1),
        runs=st.lists(st.builds(map_record.Run, I32, NUMBERS), max_size=3).map(tuple),
    ),
)
known = st.builds(
    facts.Facts,
    era_number=I32,
    era=st.none() | eras,
    anchor=st.none() | anchors,
    untaken=st.booleans(),
    era_ordinal=I32,
    producers=st.dictionaries(NUMBERS, I32, max_size=3),
    request=st.none() | st.builds(map_record.Request, request=TEXTS, position=TEXTS),
    source_position=st.none() | NUMBERS,
    target_position=st.none() | NUMBERS,
    unreadable=st.none() | st.builds(facts.UnreadableRecord, offset=NUMBERS, why=TEXTS),
    java=st.none()
    | st.builds(
        facts.JavaProgress,
        next_offset=NUMBERS,
        sync=st.none() | st.tuples(NUMBERS, NUMBERS),
    ),
)
items = st.builds(
    instructions.LogItem,
    key=st.binary(max_size=30),
    value=st.none() | st.binary(max_size=30),
    receipt=st.booleans(),
)
gauges = st.builds(
    messages.Gauge,
    index=I32,
    phase=st.sampled_from([each.value for each in standing.Phase]),
    records=NUMBERS,
    bytes=NUMBERS,
    copied_to=NUMBERS,
    source_end=NUMBERS,
    log_start=NUMBERS,
    age_ms=NUMBERS,
    oldest_ms=NUMBERS,
    transactional=st.booleans(),
    arrived=st.builds(ages.Ages, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    reason=TEXTS,
    cause=TEXTS,
    unrecorded_s=st.sampled_from([None, math.inf, 0.0, 4.5]),
)
WHERE = setup.PartitionSetup(
    flow="a->b", topic="orders", remote_topic="a.orders", partition=7, transactional_id="mm2-x"
)


def over_the_channel(message):
    return json.loads(json.dumps(message))


@settings(max_examples=examples.of(50))
@given(configurations)
def test_a_configuration_survives_json(sent):
    message = over_the_channel(messages.configure(sent))
    assert message["type"] == "configure"
    assert messages.read_configure(message) == sent


def test_security_settings_are_not_printed():
    access = messages.ClusterAccess(
        alias="a", bootstrap=("h:9092",), security={"password": "hunter2"}, client_id="c"
    )
    assert "hunter2" not in repr(access)


@settings(max_examples=examples.of(50))
@given(known, I32)
def test_facts_survive_json(sent, number):
    message = over_the_channel(messages.facts_answer(number, sent))
    assert (message["type"], message["id"]) == ("facts", number)
    assert messages.read_facts(message) == sent


def test_a_map_that_could_not_be_read_is_an_answer_that_did_not_come():
    message = over_the_channel(messages.facts_answer(3, None, failure="target is away"))
    assert messages.read_facts(message) == instructions.Unanswered(reason="target is away")


@pytest.mark.parametrize("target", [None, 0, 500])
def test_facts_are_asked_for_by_number_and_partition(target):
    message = over_the_channel(messages.read_request(9, WHERE, target=target))
    assert message == {
        "type": "read",
        "id": 9,
        "topic": "orders",
        "partition": 7,
        "target": target,
    }


@given(st.lists(items, max_size=5), NUMBERS)
def test_the_ordered_stream_survives_json(sent, first):
    message = over_the_channel(messages.record(first, sent))
    assert (message["type"], message["first"]) == ("record", first)
    assert messages.read_record(message) == sent


PULSE = crossing.Pulse(
    counts=tuple(range(crossing.BUCKETS)), sum_ms=3, ahead_ms=4, crossed_s=5.0, idle_s=6.0
)


@settings(max_examples=examples.of(50))
@given(st.lists(gauges, max_size=5))
def test_gauges_survive_json(sent):
    message = over_the_channel(messages.gauges(sent, troubles={}, pulse=PULSE, now_s=9.0))
    assert message["type"] == "gauges"
    assert messages.read_gauges(message, 0.0) == sent
    assert messages.read_pulse(message, 0.0) == PULSE


def test_moments_are_moved_to_the_clock_of_who_reads_them():
    """Each process, and each machine, has a monotonic clock of its own."""
    gauge = dataclasses.replace(gauge_of(copy_of(WHERE)), unrecorded_s=7.0)
    message = over_the_channel(messages.gauges([gauge], troubles={}, pulse=PULSE, now_s=9.0))
    (found,) = messages.read_gauges(message, 991.0)
    assert found.unrecorded_s == 998.0
    pulse = messages.read_pulse(message, 991.0)
    assert (pulse.crossed_s, pulse.idle_s) == (996.0, 997.0)
    empty = messages.gauges([], troubles={}, pulse=crossing.Pulse(), now_s=9.0)
    assert messages.read_pulse(over_the_channel(empty), 991.0) == crossing.Pulse()


def test_a_message_that_is_read_late_makes_no_moment_younger():
    shift = messages.ClockShift()

    def read(*, sent_s: float, read_s: float) -> float:
        message = over_the_channel(
            messages.gauges([], troubles={}, pulse=crossing.Pulse(crossed_s=100.0), now_s=sent_s)
        )
        return messages.read_pulse(message, shift.note(message, read_s)).crossed_s

    assert read(sent_s=100.0, read_s=1_000.0) == 1_000.0
    assert read(sent_s=101.0, read_s=1_300.0) == 1_000.0, "the reader stood still for 299 s"
    assert read(sent_s=400.0, read_s=1_299.0) == 999.0, "the first one was late, too"
    # The sender's clock is the slower one: what was seen long ago counts no more.
    assert read(sent_s=1_000.0, read_s=1_901.0) == 999.0
    assert read(sent_s=1_700.0, read_s=2_601.0) == 1_001.0


def test_a_gauge_of_another_length_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        messages.read_gauges({"now_s": 1.0, "partitions": [[0, "copying"]]}, 1.0)


def copy_of(where):
    return partition.PartitionCopy(
        where,
        owner=b"12345678",
        held=budget.Budget(limit_bytes=1000),
        joining=limits.Joining(),
        random=Random(1),
        wall_ms=lambda: 0,
    )


def gauge_of(copy, index=0):
    return messages.gauge(index, copy)


def test_the_gauge_of_a_copy_that_has_not_begun():
    found = gauge_of(copy_of(WHERE), 4)
    assert (found.index, found.phase, found.reason) == (4, "waiting", "not started")
    assert (found.copied_to, found.source_end, found.log_start) == (-1, -1, -1)
    assert (found.records, found.bytes, found.cause) == (0, 0, "")
    assert (found.batches, found.made, found.spared) == (0, 0, 0)
    assert (found.newest_ms, found.unrecorded_s) == (-1, None)
    assert not found.transactional


def test_ages_are_told_by_one_gauge_alone():
    copy = copy_of(WHERE)
    some = ages.Ages(records=2, sum_ms=30, min_ms=10, max_ms=20)
    copy.counters.arrived = copy.counters.stored = some
    told = gauge_of(copy)
    assert (told.arrived, told.stored) == (some, some)
    after = gauge_of(copy)
    assert (after.arrived, after.stored) == (ages.NONE, ages.NONE)


def test_the_gauge_of_a_copy_names_why_it_stopped():
    copy = copy_of(WHERE)
    copy.standing.stop = stops.blocked(WHERE, source_batches.Obstacle(offset=5, why="damaged"))
    assert gauge_of(copy).cause == "corrupt-batch"


@given(producers=st.lists(NUMBERS, max_size=5))
def test_whose_producers_they_are_is_asked_and_answered(producers):
    asked = json.loads(json.dumps(messages.opposite_request(4, producers)))
    assert asked == {"type": "opposite?", "id": 4, "producers": producers}
    told = json.loads(json.dumps(messages.opposite_answer(4, set(producers))))
    assert (told["type"], told["id"]) == ("opposite", 4)
    assert messages.read_opposite(told) == instructions.Theirs(producers=frozenset(producers))


def test_an_opposite_map_that_cannot_be_read_is_no_answer():
    told = json.loads(json.dumps(messages.opposite_answer(4, None, failure="gone")))
    assert messages.read_opposite(told) == instructions.Unanswered(reason="gone")
    told = json.loads(json.dumps(messages.opposite_answer(4, None, failure="no", denied=True)))
    assert messages.read_opposite(told) == instructions.Refused(code=29, message="no")
