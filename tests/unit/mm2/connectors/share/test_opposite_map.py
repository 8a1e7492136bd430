"""The ids of the flow that leads back, read from its map topic on our source."""

from __future__ import annotations

import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import errors as cluster_errors
from mm2.connectors.share import opposite_map
from mm2.formats import map_record
from tests.fakes import opposite, plugin_contexts

TOPIC = opposite.TOPIC


@pytest.fixture
def source():
    return opposite.Source()


@pytest.fixture
def clock():
    return plugin_contexts.Clock()


@pytest.fixture
def found(source, clock):
    made = opposite_map.OppositeMap(
        TOPIC, connect_admin=source.admin, connect_tail=source.tail, clock=clock, flow="west->east"
    )
    yield made
    made.close()
    assert all(each.closed for each in source.tails)


def test_without_the_topic_nobody_is_theirs(source, found):
    assert found.whose([4, 5], 1.0) == frozenset()
    assert source.tails == []


def test_ids_of_every_partition_and_order_are_theirs(source, found):
    source.writes(4)
    source.writes(5, topic="u", partition=3)
    source.says_other_things()
    assert found.whose([3, 4, 5, 6], 1.0) == {4, 5}


def test_what_comes_later_is_read_when_somebody_asks_and_once(source, found):
    source.writes(4)
    assert found.whose([4, 5], 1.0) == {4}
    source.writes(5)
    assert found.whose([4, 5], 1.0) == {4, 5}
    assert len(source.tails) == 1
    source.failures.append(kafka_errors.UnreachableError("away"))
    assert found.whose([4, 5], 1.0) == {4, 5}  # nothing had to be read


def test_a_flow_that_leads_back_may_come_later(source, found):
    assert found.whose([4], 1.0) == frozenset()
    source.writes(4)
    assert found.whose([4], 1.0) == {4}


@pytest.mark.parametrize(
    "error", [kafka_errors.UnreachableError("away"), kafka_errors.NotAuthorizedError("no right")]
)
def test_what_cannot_be_read_is_no_answer(source, found, error):
    source.writes(4)
    source.failures.append(error)
    with pytest.raises(type(error)):
        found.whose([4], 1.0)
    assert found.whose([4], 1.0) == {4}


def test_a_topic_that_we_may_not_look_at_is_not_taken_for_missing(source, found):
    source.writes(4)
    source.cluster.failures["describe_topics", TOPIC] = kafka_errors.NotAuthorizedError("no right")
    with pytest.raises(kafka_errors.NotAuthorizedError):
        found.whose([4], 1.0)


def test_a_broker_that_knows_of_no_topic_at_all_is_not_believed(source, found):
    source.cluster.topics.clear()
    with pytest.raises(errors.RetriableError, match="just started"):
        found.whose([4], 1.0)


def test_a_topic_that_was_cut_is_read_anew_and_no_id_is_forgotten(source, found):
    source.writes(4)
    assert found.whose([4], 1.0) == {4}
    source.log.clear()
    source.writes(5)
    source.failures.append(cluster_errors.LogTruncatedError("cut"))
    with pytest.raises(errors.RetriableError):
        found.whose([5], 1.0)
    assert found.whose([4, 5], 1.0) == {4, 5}
    assert len(source.tails) == 2


def test_a_topic_that_was_there_is_missing_for_a_while_before_it_counts_as_deleted(
    source, found, clock
):
    source.writes(4)
    assert found.whose([4], 1.0) == {4}
    del source.cluster.topics[TOPIC]
    source.failures.append(kafka_errors.TopicMissingError("gone"))
    for after_s in (0.0, 0.0, opposite_map.GONE_S / 2):
        clock.now += after_s
        with pytest.raises(errors.RetriableError):
            found.whose([5], 1.0)
    clock.now += opposite_map.GONE_S
    assert found.whose([4, 5], 1.0) == {4}


@pytest.mark.parametrize("key", [None, b"", b"\x63strange"])
def test_what_nobody_can_read_is_refused_and_not_passed_over(source, found, key):
    source.log.append((key, b"v"))
    source.writes(4)
    for _ in range(2):
        with pytest.raises(errors.FatalError, match=r"offset 0 cannot be read: .* --offset 0"):
            found.whose([4, 5], 1.0)
    source.log.append((key, None))
    assert found.whose([4, 5], 1.0) == {4}


def test_a_deleted_id_is_still_theirs(source, found):
    """What it wrote may stand in the log for as long as its topic is kept."""
    source.writes(4)
    key = map_record.encode_key(map_record.ProducerKey(topic="t", partition=0, producer_id=5))
    source.log.append((key, None))
    assert found.whose([4, 5], 1.0) == {4, 5}
