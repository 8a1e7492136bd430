"""Policies and filters: shipped ones under Java's names, and Python classes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect_runtime.api.errors import ConfigError
from mm2.config import (
    java_class_placeholders,
    mirror_connector_config_keys,
    policy_and_filter_factory,
)
from mm2.topics.replication_policy import DefaultReplicationPolicy, ReplicationPolicy

HERE = __name__
A = {mirror_connector_config_keys.SOURCE_ALIAS: "A"}


class Shouting(DefaultReplicationPolicy):
    """A policy of somebody's."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}.{topic}".upper()


class Nearly:
    """No policy."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return topic


class Listed:
    """All three kinds of filters in one, from keys of its own."""

    def configure(self, props: Mapping[str, str]) -> None:
        if "mine" not in props:
            raise KeyError("mine")
        self.names = props["mine"].split()

    def should_replicate_topic(self, topic: str) -> bool:
        return topic in self.names

    def should_replicate_group(self, group: str) -> bool:
        return group in self.names

    def should_replicate_config_property(self, name: str) -> bool:
        return name in self.names

    def should_replicate_source_default(self, name: str) -> bool:
        return name == self.names[0]


def parsed(props: Mapping[str, str], definition=mirror_connector_config_keys.SOURCE_KEYS):
    return definition.parse(props, load=java_class_placeholders.resolve_class)


def policy(**props: str) -> ReplicationPolicy:
    given = {**A, **{name.replace("_", "."): value for name, value in props.items()}}
    return policy_and_filter_factory.build_replication_policy(given, parsed(given))


def test_the_separator_is_that_of_internal_topics_unless_told_otherwise():
    spelled = {
        mirror_connector_config_keys.SEPARATOR: "__",
        mirror_connector_config_keys.INTERNAL_SEPARATOR: "false",
        **A,
    }
    assert policy() == DefaultReplicationPolicy()
    assert policy(replication_policy_separator="__") == DefaultReplicationPolicy(
        separator="__", internal_separator="__"
    )
    assert policy_and_filter_factory.build_replication_policy(
        spelled, parsed(spelled)
    ) == DefaultReplicationPolicy(separator="__", internal_separator=".")


def test_the_identity_policy_knows_its_source():
    found = policy(replication_policy_class=java_class_placeholders.IDENTITY_POLICY)
    assert found.topic_source("t") == "A"
    assert not found.renames_topics


def test_a_policy_of_the_users_own():
    assert (
        policy(replication_policy_class=f"{HERE}.Shouting").format_remote_topic("A", "t") == "A.T"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{HERE}.Nearly", "the class has no method topic_source"),
        (java_class_placeholders.TOPIC_FILTER, "IdentityReplicationPolicy, or a Python class"),
    ],
)
def test_what_is_no_policy_is_refused(name, words):
    with pytest.raises(ConfigError, match=words):
        policy(replication_policy_class=name)


def test_filters_of_the_users_own():
    props = {**A, "mine": "a b"}
    props |= dict.fromkeys(
        (mirror_connector_config_keys.TOPIC_FILTER, mirror_connector_config_keys.PROPERTY_FILTER),
        f"{HERE}.Listed",
    )
    found = policy_and_filter_factory.build_topic_filter(props, parsed(props))
    assert [found.matches(name) for name in "abc"] == [True, True, False]
    assert "Listed" in found.explain_mismatch("c", key="topics")
    settings = policy_and_filter_factory.build_property_filter(props, parsed(props))
    assert [settings.should_replicate_config_property(name) for name in "abc"] == [
        True,
        True,
        False,
    ]
    assert [settings.should_replicate_source_default(name) for name in "ab"] == [True, False]
    of_groups = {**A, "mine": "g", mirror_connector_config_keys.GROUP_FILTER: f"{HERE}.Listed"}
    assert policy_and_filter_factory.build_group_filter(
        of_groups, parsed(of_groups, mirror_connector_config_keys.CHECKPOINT_KEYS)
    ).matches("g")


def test_a_filter_that_cannot_be_made_is_refused_by_its_key():
    props = {**A, mirror_connector_config_keys.TOPIC_FILTER: f"{HERE}.Listed"}
    with pytest.raises(ConfigError, match=r"topic\.filter\.class.*KeyError"):
        policy_and_filter_factory.build_topic_filter(props, parsed(props))


def test_defaults_come_from_the_source_only_where_it_says_so():
    for given, expected in (("source", True), (" source ", True), ("target", False), ("x", False)):
        props = {**A, mirror_connector_config_keys.USE_DEFAULTS_FROM: given}
        assert (
            policy_and_filter_factory.build_property_filter(
                props, parsed(props)
            ).should_replicate_source_default("x")
            is expected
        )


def test_checkpoints_have_the_topic_filter_of_the_source():
    props = {
        **A,
        mirror_connector_config_keys.TOPICS: "t.*",
        mirror_connector_config_keys.TOPICS_EXCLUDE: "tx",
    }
    found = policy_and_filter_factory.build_topic_filter(
        props, parsed(props, mirror_connector_config_keys.CHECKPOINT_KEYS)
    )
    assert [found.matches(name) for name in ("t1", "tx", "u")] == [True, False, False]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (mirror_connector_config_keys.TOPICS, "a,a", "duplicated"),
        (mirror_connector_config_keys.TOPICS, r"\p{Alpha}", "Invalid value .*topics"),
        (mirror_connector_config_keys.TOPICS_EXCLUDE, "[a", "topics.exclude"),
    ],
)
def test_expressions_that_cannot_be_meant_are_refused(key, value, words):
    props = {**A, key: value}
    with pytest.raises(ConfigError, match=words):
        policy_and_filter_factory.build_topic_filter(
            props, parsed(A, mirror_connector_config_keys.CHECKPOINT_KEYS)
        )
