"""Topics of Java's formats: made once, as Java makes them, and what stands in the way."""

from __future__ import annotations

import logging

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka.client_errors import NotAuthorizedError, UnsupportedByBrokersError
from mm2.connectors import mirrormaker2_internal_topics
from mm2.connectors.mirrormaker2_internal_topics import Mm2InternalTopic
from tests.fakes.admin import FakeAdmin, FakeCluster


def wanted(factor=1):
    return Mm2InternalTopic(
        name="heartbeats",
        replication_factor=factor,
        factor_key="heartbeats.topic.replication.factor",
    )


def create(cluster, *, factor=1, wait=lambda seconds: pytest.fail("it waits"), waits=print):
    admin = FakeAdmin(cluster)
    mirrormaker2_internal_topics.create_topic(
        wanted(factor), admin, timeout_s=60, wait=wait, on_retry=waits
    )


@pytest.mark.parametrize("factor", [1, -1])
def test_it_is_made_with_one_partition_and_is_compacted(factor):
    cluster = FakeCluster()
    create(cluster, factor=factor)
    topic = cluster.topics["heartbeats"]
    assert (topic.partitions, topic.overrides) == (1, {"cleanup.policy": "compact"})


@pytest.mark.parametrize(("factor", "asked"), [(3, 3), (-1, None)])
def test_its_factor_is_what_is_configured_or_the_brokers(factor, asked):
    assert wanted(factor).topic_to_create.replication_factor == asked


def test_one_that_is_there_stays_as_it_is():
    cluster = FakeCluster()
    cluster.create("heartbeats", partitions=3, cleanup_policy="delete")
    create(cluster, factor=3)
    topic = cluster.topics["heartbeats"]
    assert (topic.partitions, topic.overrides) == (3, {"cleanup.policy": "delete"})


@pytest.mark.parametrize(
    "error", [NotAuthorizedError("no right"), UnsupportedByBrokersError("old")]
)
def test_who_may_not_make_it_goes_on_without(error, caplog):
    cluster = FakeCluster(failures={("create_topics", "heartbeats"): error})
    with caplog.at_level(logging.INFO):
        create(cluster)
    assert f"topic heartbeats not created: {error}; assuming that it exists" in caplog.text
    assert cluster.topics == {}


def test_a_factor_that_the_cluster_cannot_have_is_told_by_its_key():
    with pytest.raises(FatalError, match=r"heartbeats\.topic\.replication\.factor is 3"):
        create(FakeCluster(), factor=3)


def test_a_cluster_that_is_away_is_asked_until_it_answers(caplog):
    cluster = FakeCluster(away=True)
    waits: list[float] = []

    def wait(seconds):
        waits.append(seconds)
        cluster.away = len(waits) < 3
        return False

    told: list[str] = []
    create(cluster, wait=wait, waits=told.append)
    assert waits == [mirrormaker2_internal_topics.CREATE_RETRY_DELAY_S] * 3
    assert [each in caplog.text for each in told] == [True] * 3
    assert "heartbeats" in cluster.topics
    assert all(each.endswith("; retrying") for each in told)
    assert caplog.text.count("; retrying") == 1, "the same is not logged again"


def test_what_the_cluster_cannot_do_now_is_tried_again_too():
    again = RetriableError("NOT_CONTROLLER")
    cluster = FakeCluster(failures={("create_topics", "heartbeats"): again})

    def wait(seconds):
        cluster.failures.clear()
        return False

    create(cluster, wait=wait)
    assert "heartbeats" in cluster.topics


def test_who_is_asked_to_stop_waits_no_longer():
    cluster = FakeCluster(away=True)
    create(cluster, wait=lambda seconds: True)
    assert cluster.topics == {}
