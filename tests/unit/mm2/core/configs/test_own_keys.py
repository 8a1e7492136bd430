"""Keys that Java ignores."""

from __future__ import annotations

import pytest

from connect_runtime.api import errors
from mm2.core.configs import connector_keys, own_keys


def test_none_of_them_is_javas():
    assert connector_keys.EVERY.isdisjoint(own_keys.OWN.keys)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("start", "tomorrow", "earliest, latest"),
        ("throttle", "1", "bytes per second"),
        ("live.throttle", "slow", "or none"),
        ("throttle.topics", "x.*", "EXPRESSION=RATE"),
        ("throttle.topics", "[=1MB", "regular expression"),
        ("delivery", "twice", "auto, transactional, at-least-once"),
        ("target.topics", "public", "exclusive, shared"),
        ("on.source.gap", "cry", "continue, fail"),
        ("buffer.memory", "1", "at least"),
        ("offset.map.bytes", "1", "at least"),
        ("unreachable.after.seconds", "3", "at least"),
        ("mm2.engine", "storm", "spark, inline"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_allowed(name, value, words):
    with pytest.raises(errors.ConfigError, match=words):
        own_keys.OWN.parse({name: value})


def test_defaults_say_nothing():
    found = own_keys.OWN.parse({})
    assert found["start"] is None
    assert found["target.topics"] is None
    assert found["throttle.topics"] == []
