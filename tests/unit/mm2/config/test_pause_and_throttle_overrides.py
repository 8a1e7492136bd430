"""What holds a flow back by somebody's wish.

What operators set lives in the connector's configuration, beside what the file says."""

from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from mm2.config import connector_checks, mirror_connector_config, pause_and_throttle_overrides
from mm2.config.pause_and_throttle_overrides import OperatorOverrides, OverrideKind


def test_a_paused_flow_pauses_all_its_topics():
    assert OperatorOverrides(paused=True).is_topic_paused("t")
    assert OperatorOverrides(paused_topics=frozenset({"t"})).is_topic_paused("t")
    assert not OperatorOverrides(paused_topics=frozenset({"t"})).is_topic_paused("u")
    assert not pause_and_throttle_overrides.NO_OVERRIDES.is_topic_paused("t")


def test_a_flow_is_held_in_one_way():
    assert pause_and_throttle_overrides.NO_OVERRIDES.kind is None
    assert OperatorOverrides(paused=True).kind is OverrideKind.PAUSED
    assert OperatorOverrides(paused=True, stopped=True).kind is OverrideKind.STOPPED
    assert OperatorOverrides(paused_topics=frozenset({"t"})).kind is None


def test_what_a_configuration_holds_back():
    found = pause_and_throttle_overrides.parse_overrides(
        {
            "throttle": "20MB",
            "throttle.topics": "o.*=2MB",
            "live.throttle": "10MB",
            "live.throttle.topic.orders": "1MB",
            "live.throttle.topic.olds": "none",
            "live.paused.topic.a": "true",
            "live.paused.topic.b": "true",
            "live.paused.topic.c": "false",
            "topics": "x",
        },
        is_paused=False,
    )
    assert (found.paused, sorted(found.paused_topics)) == (False, ["a", "b"])
    assert found.budgets.flow == 10_000_000
    rates = [found.budgets.get_topic_throttle(each) for each in ("orders", "olds", "others", "x")]
    assert rates == [1_000_000, None, 2_000_000, None]


def test_a_configuration_that_says_nothing_holds_nothing_back():
    assert (
        pause_and_throttle_overrides.parse_overrides({}, is_paused=False)
        == pause_and_throttle_overrides.NO_OVERRIDES
    )
    with pytest.raises(ConfigError):
        pause_and_throttle_overrides.parse_overrides(
            {"throttle": "${file:/gone:x}"}, is_paused=False
        )
    with pytest.raises(ConfigError, match=r"live\.throttle\.topic\.orders is fast"):
        pause_and_throttle_overrides.parse_overrides(
            {"live.throttle.topic.orders": "fast"}, is_paused=False
        )


FILE = {"name": "n", "source.cluster.alias": "A", "throttle": "5MB"}


def test_a_file_that_is_written_again_keeps_what_operators_set():
    stored = pause_and_throttle_overrides.set_throttle(
        pause_and_throttle_overrides.pause_topic(FILE, "orders"), "1MB"
    )
    assert pause_and_throttle_overrides.merge_overrides({**FILE, "topics": "x"}, stored) == {
        **stored,
        "topics": "x",
    }
    assert pause_and_throttle_overrides.merge_overrides(FILE, None) == FILE
    assert pause_and_throttle_overrides.strip_overrides(stored) == FILE


def test_topics_are_paused_and_resumed_each_once():
    both = pause_and_throttle_overrides.pause_topic(
        pause_and_throttle_overrides.pause_topic(
            pause_and_throttle_overrides.pause_topic(FILE, "b"), "a"
        ),
        "b",
    )
    assert pause_and_throttle_overrides.list_paused_topics(both) == ("a", "b")
    assert mirror_connector_config.parse_source_config(both).paused_topics == {"a", "b"}
    assert (
        pause_and_throttle_overrides.resume_topic(
            pause_and_throttle_overrides.resume_topic(both, "a"), "b"
        )
        == FILE
    )
    assert pause_and_throttle_overrides.resume_topic(FILE, "c") == FILE


@pytest.mark.parametrize("topic", [None, "orders"])
def test_a_limit_is_set_changed_and_given_back_to_the_file(topic):
    slow = pause_and_throttle_overrides.set_throttle(FILE, "1MB", topic=topic)
    fast = pause_and_throttle_overrides.set_throttle(slow, "none", topic=topic)
    budgets = [
        mirror_connector_config.parse_source_config(each).flow.throttles for each in (slow, fast)
    ]
    found = [each.flow if topic is None else each.get_topic_throttle(topic) for each in budgets]
    assert found == [1_000_000, None if topic else 0]
    assert pause_and_throttle_overrides.set_throttle(fast, None, topic=topic) == FILE


def test_limits_of_other_topics_stay():
    two = pause_and_throttle_overrides.set_throttle(
        pause_and_throttle_overrides.set_throttle(FILE, "2MB", topic="b"), "1MB", topic="a"
    )
    assert pause_and_throttle_overrides.extract_overrides(two) == {
        "live.throttle.topic.a": "1MB",
        "live.throttle.topic.b": "2MB",
    }
    assert pause_and_throttle_overrides.extract_overrides(
        pause_and_throttle_overrides.set_throttle(two, None, topic="a")
    ) == {"live.throttle.topic.b": "2MB"}


def test_a_limit_that_nobody_understands_is_a_mistake_at_its_key():
    wrong = {**FILE, "live.throttle.topic.orders": "fast"}
    with pytest.raises(ConfigError, match=r"live\.throttle\.topic\.orders is fast"):
        mirror_connector_config.parse_source_config(wrong)
    found = {
        each.name: each.error_messages
        for each in mirror_connector_config.validate_source_config(wrong)
    }
    assert len(found["live.throttle.topic.orders"]) == 1


def test_keys_of_operators_are_known_ones():
    words = dict(
        connector_checks.find_ignored_keys(
            {"live.paused.topic.x": "true", "live.throttle.topic.x": "1MB"}
        )
    )
    assert words == {}
