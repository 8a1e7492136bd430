"""What operators set lives in the connector's configuration, beside what the file says."""

from __future__ import annotations

import pytest

from connect_runtime.api import errors
from mm2.core.configs import answers, connector_configs, live

FILE = {"name": "n", "source.cluster.alias": "A", "throttle": "5MB"}


def test_a_file_that_is_written_again_keeps_what_operators_set():
    stored = live.throttle(live.pause(FILE, "orders"), "1MB")
    assert live.kept({**FILE, "topics": "x"}, stored) == {**stored, "topics": "x"}
    assert live.kept(FILE, None) == FILE
    assert live.without(stored) == FILE


def test_topics_are_paused_and_resumed_each_once():
    both = live.pause(live.pause(live.pause(FILE, "b"), "a"), "b")
    assert live.paused(both) == ("a", "b")
    assert connector_configs.source(both).paused == {"a", "b"}
    assert live.resume(live.resume(both, "a"), "b") == FILE
    assert live.resume(FILE, "c") == FILE


@pytest.mark.parametrize("topic", [None, "orders"])
def test_a_limit_is_set_changed_and_given_back_to_the_file(topic):
    slow = live.throttle(FILE, "1MB", topic=topic)
    fast = live.throttle(slow, "none", topic=topic)
    budgets = [connector_configs.source(each).flow.budgets for each in (slow, fast)]
    found = [each.flow if topic is None else each.of_topic(topic) for each in budgets]
    assert found == [1_000_000, None if topic else 0]
    assert live.throttle(fast, None, topic=topic) == FILE


def test_limits_of_other_topics_stay():
    two = live.throttle(live.throttle(FILE, "2MB", topic="b"), "1MB", topic="a")
    assert live.only(two) == {"live.throttle.topic.a": "1MB", "live.throttle.topic.b": "2MB"}
    assert live.only(live.throttle(two, None, topic="a")) == {"live.throttle.topic.b": "2MB"}


def test_a_limit_that_nobody_understands_is_a_mistake_at_its_key():
    wrong = {**FILE, "live.throttle.topic.orders": "fast"}
    with pytest.raises(errors.ConfigError, match=r"live\.throttle\.topic\.orders is fast"):
        connector_configs.source(wrong)
    found = {each.name: each.error_messages for each in connector_configs.validate_source(wrong)}
    assert len(found["live.throttle.topic.orders"]) == 1


def test_keys_of_operators_are_known_ones():
    words = dict(answers.told({"live.paused.topic.x": "true", "live.throttle.topic.x": "1MB"}))
    assert words == {}
