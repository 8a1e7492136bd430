import re

from connect_runtime.adapters.kafka import matching_topics

NAMES = ["orders-1", "orders-12", "orders-x", "my-orders-1", "__consumer_offsets"]


def test_whole_names_match_in_the_language_of_java():
    found = matching_topics.MatchingTopics(re.compile(r"orders-\d+"), refresh_s=300.0)
    assert found.found(NAMES, 0.0)
    assert found.topics == ("orders-1", "orders-12")
    assert not found.found(reversed(NAMES), 1.0)
    assert found.found([*NAMES, "orders-3"], 2.0)
    every = matching_topics.MatchingTopics(re.compile(r"(?!my).*"), refresh_s=300.0)
    every.found(NAMES, 0.0)
    assert every.topics == ("orders-1", "orders-12", "orders-x")


def test_looked_up_at_once_then_when_due_and_soon_after_a_failure():
    found = matching_topics.MatchingTopics(re.compile("a"), refresh_s=300.0)
    assert found.is_due(-5.0)
    found.found(["a"], 0.0)
    assert not found.is_due(299.0)
    assert found.is_due(300.0)
    found.failed(300.0)
    assert not found.is_due(309.0)
    assert found.is_due(310.0)
