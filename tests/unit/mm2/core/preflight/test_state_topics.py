from __future__ import annotations

import dataclasses

import pytest

from mm2.core import commands
from mm2.core.preflight import findings, state_topics

TOOL = commands.Cluster(bootstrap="b:1")
TOPIC = state_topics.StateTopic(
    name="mm2-offset-map.east.internal",
    holds="places",
    partitions=1,
    replication_factor=3,
    factor_key="replication.factor",
)


def judge(
    partitions: int, policy: str | None, topic: state_topics.StateTopic = TOPIC
) -> list[findings.Finding]:
    seen = state_topics.Seen(partitions=partitions, cleanup_policy=policy)
    return list(state_topics.judge("east->west", topic, seen, tool=TOOL))


@pytest.mark.parametrize("policy", ["compact", " compact ", None])
def test_a_topic_as_it_is_wanted_is_fine(policy):
    assert judge(1, policy) == []


def test_any_number_will_do_where_none_is_wanted():
    assert judge(25, "compact", dataclasses.replace(TOPIC, partitions=None)) == []


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_forgets_by_age_is_told_with_the_command_that_mends_it(policy):
    (found,) = judge(1, policy)
    assert (found.word, found.weight, found.code) == (
        findings.Word.TOPICS,
        findings.Weight.FAILED,
        "state-topic-cleanup",
    )
    assert f"cleanup.policy={policy}" in found.text
    assert found.command == (
        "kafka-configs.sh --bootstrap-server b:1 --alter --entity-type topics --entity-name "
        "mm2-offset-map.east.internal --add-config cleanup.policy=compact"
    )


def test_too_many_partitions_are_told():
    (found,) = judge(2, "compact")
    assert (found.code, found.weight) == ("state-topic-partitions", findings.Weight.FAILED)
    assert "--delete" in found.command


def test_a_topic_that_is_used_as_it_is_gets_a_warning():
    found = judge(2, "delete", dataclasses.replace(TOPIC, refused=False))
    assert [each.weight for each in found] == [findings.Weight.WARNING] * 2
    assert not any("does not begin" in each.means for each in found)


def test_more_replicas_than_brokers_are_told_once_for_a_key():
    status = dataclasses.replace(
        TOPIC, name="status", factor_key="status.storage.replication.factor", replication_factor=2
    )
    receipts = dataclasses.replace(TOPIC, name="receipts")
    free = dataclasses.replace(TOPIC, name="free", replication_factor=-1)
    topics = {each.name: each for each in (TOPIC, status, receipts, free)}
    found = list(state_topics.factors("east->west", topics, 1))
    assert [each.text for each in found] == [
        "replication.factor is 3, the cluster of mm2-offset-map.east.internal, receipts has "
        "1 broker",
        "status.storage.replication.factor is 2, the cluster of status has 1 broker",
    ]
    assert {each.code for each in found} == {"replication-factor"}
    assert list(state_topics.factors("east->west", topics, 3)) == []


def test_what_the_cluster_would_not_make_is_told_in_its_words():
    (found,) = state_topics.refused("east->west", {"mm2-configs": "POLICY_VIOLATION"})
    assert (found.code, found.weight) == ("state-topic-refused", findings.Weight.FAILED)
    assert found.text == "the cluster would not make mm2-configs: POLICY_VIOLATION"
