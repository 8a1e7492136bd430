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


def test_what_the_cluster_would_not_create_is_one_finding_for_one_reason():
    (found,) = state_topics.refused("east->west", {"mm2-configs": "POLICY_VIOLATION"})
    assert (found.code, found.weight) == ("state-topic-refused", findings.Weight.FAILED)
    assert found.text == "the cluster would not create mm2-configs: POLICY_VIOLATION"
    names = ("mm2-configs", "mm2-status")
    alike = {name: f"creating topic {name}: POLICY_VIOLATION" for name in names}
    first, other = state_topics.refused("east->west", {**alike, "z": "creating topic z: odd"})
    assert first.text == (
        "the cluster would not create 2 internal topics: creating it: POLICY_VIOLATION"
    )
    assert first.affects == names
    assert other.affects == ()
