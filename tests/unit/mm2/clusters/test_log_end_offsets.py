"""Each leader is asked for its own partitions, and one that is away holds up no other."""

from __future__ import annotations

import pytest

from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from connect_runtime.system.system_clock import SystemClock
from mm2.clusters import log_end_offsets
from tests.fakes.two_sides import FakeSide

CLOCK = SystemClock()
PLACES = [TopicPartition("t", number) for number in range(4)]


@pytest.fixture
def side() -> FakeSide:
    """Of four partitions the last has no leader."""
    made = FakeSide("west")
    for each in PLACES:
        made.log(each.topic, 3, partition=each.partition)
    made.cluster.topics["t"].partitions = len(PLACES)
    made.cluster.topics["t"].leaders = (1, 2, 1, None)
    return made


def look(side, *more: TopicPartition, raises: bool = False):
    topics = side.admin.describe_topics({"t", *(each.topic for each in more)}, 1.0)
    asked = [*log_end_offsets.list_partitions(topics), *more]
    led = log_end_offsets.find_leaders(asked, topics)
    end = Deadline.after(9.0, now_s=CLOCK.now_s())
    return log_end_offsets.fetch_log_ends(side, led, end=end, clock=CLOCK, raises=raises)


def test_who_has_a_leader_is_answered_for(side):
    found = look(side)
    assert sorted(found.succeeded) == PLACES[:3]
    assert log_end_offsets.list_partitions_without_response(found) == {
        PLACES[3]: "it has no leader"
    }


def test_a_leader_that_is_away_holds_up_no_other(side):
    side.logs.unheard = {PLACES[0]}
    found = look(side, raises=True)
    assert sorted(found.succeeded) == [PLACES[1]]
    assert (
        log_end_offsets.list_partitions_without_response(found)[PLACES[2]]
        == "its broker does not respond"
    )


def test_time_is_shared_among_leaders(side):
    given: list[float] = []
    real = side.logs.fetch_log_bounds

    def ends(partitions, timeout_s):
        given.append(timeout_s)
        return real(partitions, timeout_s)

    side.logs.fetch_log_bounds = ends
    look(side)
    assert given == [pytest.approx(4.5, abs=1), pytest.approx(9.0, abs=1)]


def test_where_none_answers_that_is_raised_to_who_wants_it(side):
    side.logs.unheard = set(PLACES)
    assert look(side).succeeded == {}
    with pytest.raises(RetriableError, match="does not respond"):
        look(side, raises=True)


def test_what_is_not_there_is_missing_and_not_unheard(side):
    beyond, other = TopicPartition("t", 7), TopicPartition("u", 0)
    found = look(side, beyond, other)
    assert isinstance(found.failed[beyond], TopicMissingError)
    assert log_end_offsets.list_partitions_without_response(found).keys() == {PLACES[3]}
