"""What operators set lives in the connector's configuration, beside what the file says."""

from __future__ import annotations

import pytest

from mm2.core.configs import connector_configs, live

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
    assert two["live.throttle.topics"] == "a=1MB,b=2MB"
    assert live.throttle(two, None, topic="a")["live.throttle.topics"] == "b=2MB"
