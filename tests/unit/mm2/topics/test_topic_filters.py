from __future__ import annotations

import pytest

from connect_runtime.base import bounded_regex
from connect_runtime.base.bounded_regex import PatternError
from mm2.topics import config_property_filter, topic_filters
from mm2.topics.config_property_filter import CustomConfigPropertyFilter
from mm2.topics.topic_filters import CustomNameFilter


def test_by_default_every_topic_but_internal_and_replica_ones_is_taken():
    topics = topic_filters.compile_topic_filter()
    assert topics.matches("orders")
    assert topics.matches("orders-internal")
    for excluded in ("mm2-offsets.A.internal", "y.replica", "__consumer_offsets"):
        assert not topics.matches(excluded)


def test_by_default_console_and_connect_groups_are_left_out():
    groups = topic_filters.compile_group_filter()
    assert groups.matches("billing")
    for excluded in ("console-consumer-1", "connect-sink", "__x"):
        assert not groups.matches(excluded)


def test_a_name_is_matched_whole():
    topics = topic_filters.compile_topic_filter(["orders"], [])
    assert topics.matches("orders")
    assert not topics.matches("orders2")
    assert not topics.matches("my-orders")


def test_alternatives_inside_an_item_are_matched_whole_too():
    topics = topic_filters.compile_topic_filter(["a|ab", "x"], [])
    assert topics.matches("ab")
    assert topics.matches("x")
    assert not topics.matches("xab")


def test_an_empty_list_matches_nothing():
    assert not topic_filters.compile_topic_filter([], []).matches("orders")
    assert topic_filters.compile_topic_filter([".*"], []).matches("__consumer_offsets")


def test_exclusion_wins():
    topics = topic_filters.compile_topic_filter(["orders.*"], ["orders-test"])
    assert topics.matches("orders-live")
    assert not topics.matches("orders-test")


def test_properties_are_synced_unless_excluded():
    properties = config_property_filter.compile_config_property_filter()
    assert properties.should_replicate_config_property("retention.ms")
    assert not properties.should_replicate_config_property("min.insync.replicas")
    assert properties.should_replicate_config_property("min.insync.replicas.x")
    assert not properties.source_defaults


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("a++b", "aab"),
        ("(?>a|ab)c", "ac"),
        ("(?i)ORDERS", "orders"),
        (r"[\w.]+", "a.b"),
        (r"[]a]x".replace("]a", r"\]a"), "ax"),
        (r"[^\[]", "x"),
        (r"a\[b", "a[b"),
        ("a{1,3}", "aaa"),
    ],
)
def test_what_both_dialects_share_works(pattern, name):
    assert bounded_regex.compile_pattern(pattern).fullmatch(name)


def test_shorthand_classes_are_ascii_as_in_java():
    assert not bounded_regex.compile_pattern(r"\w").fullmatch("é")
    assert not bounded_regex.compile_pattern(r"\d").fullmatch("\u0661")


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        (r"\p{Alpha}+", "[a-zA-Z]"),
        (r"\P{Alpha}+", "[^a-zA-Z]"),
        (r"\Qa.b\E", "backslash"),
        (r"a\h", "blank"),
        ("(?<name>x)", "(?P<name>"),
        ("[a-z&&[^b]]", "one plain"),
        ("[a-z&&b]", "one plain"),
        ("[a[bc]]", "one plain"),
        ("[]a]", r"\]"),
        ("(unclosed", "not a regular expression"),
        ("*", "not a regular expression"),
        ("a{99999999999999}", "not a regular expression"),
        ("a|(?i)b", "not a regular expression"),
        ("ends in \\", "not a regular expression"),
    ],
)
def test_what_python_cannot_do_is_refused_with_advice(pattern, advice):
    with pytest.raises(PatternError) as caught:
        topic_filters.compile_patterns(["fine", pattern])
    assert caught.value.pattern == pattern
    assert advice in caught.value.reason


def test_items_are_stripped_as_java_strips_them():
    assert topic_filters.compile_patterns([" orders "]).matches("orders")


def test_the_first_item_that_matches_is_named():
    found = topic_filters.compile_patterns(["a", "b.*", "b"])
    assert [found.find_first_match(name) for name in ("b", "a", "c")] == ["b.*", "a", None]


def test_why_a_name_is_taken_or_not():
    found = topic_filters.compile_topic_filter(["x", "a.*"], ["ab"])
    assert found.explain_match("abc", key="topics") == "topics includes a.*"
    found = topic_filters.compile_topic_filter(["a.*"], ["ab"])
    assert found.explain_mismatch("x", key="topics") == "not matched by topics: a.*"
    assert found.explain_mismatch("ab", key="topics") == "topics.exclude includes ab"
    assert (
        topic_filters.compile_topic_filter([])
        .explain_mismatch("x", key="topics")
        .endswith("nothing")
    )


def test_what_a_class_of_the_users_says_counts():
    names = CustomNameFilter("mine.Filter", lambda name: name == "a")
    assert (names.matches("a"), names.matches("b"), names.patterns) == (True, False, (".*",))
    assert "mine.Filter" in names.explain_mismatch("b", key="groups")
    assert (
        names.explain_match("a", key="groups")
        == "the filter class mine.Filter for groups accepts a"
    )
    settings = CustomConfigPropertyFilter(
        "mine.Settings", lambda _: False, lambda name: name == "a"
    )
    assert (
        settings.should_replicate_config_property("a"),
        settings.should_replicate_source_default("a"),
    ) == (False, True)


def test_a_list_of_expressions_is_bounded():
    names = [f"t{at}" for at in range(topic_filters.PATTERNS_MAX + 1)]
    with pytest.raises(PatternError, match="has 4,001 expressions; allowed: at most 4,000"):
        topic_filters.compile_patterns(names)
    assert topic_filters.compile_patterns(["|".join(names[:2_000])]).matches("t7")
