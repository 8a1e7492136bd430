from __future__ import annotations

import pytest

from connect_runtime.storage import internal_topic_settings
from connect_runtime.storage.internal_topic_settings import (
    CreateTopic,
    ExistingTopic,
    InternalTopicKind,
    InvalidTopicSettings,
    TopicAccepted,
    TopicRefused,
)

NAMES = {
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
}
Purpose = InternalTopicKind


def test_the_defaults_are_javas():
    wanted = internal_topic_settings.read_required_topics(
        NAMES | {"group.id": "g", "offset.flush.interval.ms": "9"}
    )
    assert [
        (each.kind, each.name, each.partitions, each.replication_factor, dict(each.settings))
        for each in wanted.topics
    ] == [
        (Purpose.CONFIG, "connect-configs", 1, 3, {"cleanup.policy": "compact"}),
        (Purpose.OFFSET, "connect-offsets", 25, 3, {"cleanup.policy": "compact"}),
        (Purpose.STATUS, "connect-status", 5, 3, {"cleanup.policy": "compact"}),
    ]
    assert wanted.warnings == ()


def test_what_is_set_is_taken_and_what_cannot_be_is_told():
    wanted = internal_topic_settings.read_required_topics(
        NAMES
        | {
            "config.storage.partitions": "7",
            "config.storage.replication.factor": "-1",
            "offset.storage.partitions": "-1",
            "offset.storage.replication.factor": " 1 ",
            "offset.storage.min.insync.replicas": "2",
            "status.storage.partitions": "1",
            "status.storage.cleanup.policy": "delete",
        }
    )
    config, offset, status = wanted.topics
    assert (config.partitions, config.replication_factor) == (1, -1)
    assert (offset.partitions, offset.replication_factor) == (-1, 1)
    assert dict(offset.settings) == {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    assert (status.partitions, dict(status.settings)) == (1, {"cleanup.policy": "compact"})
    assert [each.split()[0] for each in wanted.warnings] == [
        "config.storage.partitions",
        "status.storage.cleanup.policy",
    ]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"offset.storage.topic": "connect-configs"},
         "config.storage.topic and offset.storage.topic are both 'connect-configs'"),
        ({"status.storage.topic": "  "}, "status.storage.topic is missing"),
        ({"status.storage.topic": "a b"}, "status.storage.topic is 'a b', which is not a valid"),
        ({"status.storage.topic": ".."}, "which is not a valid topic name"),
        ({"offset.storage.partitions": "0"}, "offset.storage.partitions is '0'"),
        ({"offset.storage.partitions": "many"}, "offset.storage.partitions is 'many'"),
        ({"config.storage.replication.factor": "-2"}, "config.storage.replication.factor is '-2'"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(changed, told):
    with pytest.raises(InvalidTopicSettings, match="internal topics") as error:
        internal_topic_settings.read_required_topics(NAMES | changed)
    assert told in str(error.value)


def test_every_mistake_is_told_at_once():
    with pytest.raises(InvalidTopicSettings) as error:
        internal_topic_settings.read_required_topics({"offset.storage.partitions": "x"})
    assert str(error.value).count(" is missing") == 3
    assert "offset.storage.partitions is 'x'" in str(error.value)


CONFIG, OFFSET, _ = internal_topic_settings.read_required_topics(NAMES).topics


def test_a_missing_topic_is_made_where_that_is_allowed():
    assert internal_topic_settings.decide_internal_topic_action(OFFSET, None) == CreateTopic(OFFSET)
    refused = internal_topic_settings.decide_internal_topic_action(OFFSET, None, may_create=False)
    assert isinstance(refused, TopicRefused)
    assert "offset.storage.topic is missing" in refused.reason
    assert "internal.topics.automatic.creation.enable" in refused.reason


@pytest.mark.parametrize("policy", ["compact", " Compact "])
def test_a_compacted_topic_will_do(policy):
    seen = ExistingTopic(partitions=1, cleanup_policy=policy)
    assert internal_topic_settings.decide_internal_topic_action(CONFIG, seen) == TopicAccepted()


@pytest.mark.parametrize("policy", ["delete", "compact,delete", ""])
def test_another_cleanup_policy_is_refused_with_the_remedy(policy):
    seen = ExistingTopic(partitions=9, cleanup_policy=policy)
    verdict = internal_topic_settings.decide_internal_topic_action(OFFSET, seen)
    assert isinstance(verdict, TopicRefused)
    for part in ("connect-offsets", "offset.storage.topic", "set cleanup.policy=compact"):
        assert part in verdict.reason


def test_a_policy_that_cannot_be_read_is_told_and_trusted():
    verdict = internal_topic_settings.decide_internal_topic_action(
        OFFSET, ExistingTopic(partitions=3, cleanup_policy=None)
    )
    assert isinstance(verdict, TopicAccepted)
    assert "connect-offsets" in verdict.warnings[0]


def test_a_config_topic_has_one_partition():
    for policy in ("compact", None):
        seen = ExistingTopic(partitions=2, cleanup_policy=policy)
        verdict = internal_topic_settings.decide_internal_topic_action(CONFIG, seen)
        assert isinstance(verdict, TopicRefused)
        assert "2 partitions" in verdict.reason
        assert isinstance(
            internal_topic_settings.decide_internal_topic_action(OFFSET, seen), TopicAccepted
        )
