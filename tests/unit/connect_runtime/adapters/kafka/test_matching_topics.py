from connect_runtime.adapters.kafka import matching_topics
from connect_runtime.base import user_pattern

NAMES = ["orders-1", "orders-12", "orders-x", "my-orders-1", "__consumer_offsets"]


def watching(pattern: str) -> matching_topics.MatchingTopics:
    compiled = user_pattern.compile_pattern(pattern)
    return matching_topics.MatchingTopics(compiled, refresh_s=300.0)


def test_whole_names_match_in_the_language_of_java():
    found = watching(r"orders-\d+")
    assert found.found(NAMES, 0.0)
    assert found.topics == ("orders-1", "orders-12")
    assert not found.found(reversed(NAMES), 1.0)
    assert found.found([*NAMES, "orders-3"], 2.0)
    every = watching(r"(?!my).*")
    every.found(NAMES, 0.0)
    assert every.topics == ("orders-1", "orders-12", "orders-x")


def test_looked_up_at_once_then_when_due_and_soon_after_a_failure():
    found = watching("a")
    assert found.is_due(-5.0)
    found.found(["a"], 0.0)
    assert not found.is_due(299.0)
    assert found.is_due(300.0)
    found.failed(300.0)
    assert not found.is_due(309.0)
    assert found.is_due(310.0)
