"""What holds a flow back by somebody's wish."""

from __future__ import annotations

import pytest

from connect_runtime.api import errors
from mm2.core import holds
from mm2.core.configs import live


def test_a_paused_flow_pauses_all_its_topics():
    assert holds.Holds(paused=True).pauses("t")
    assert holds.Holds(paused_topics=frozenset({"t"})).pauses("t")
    assert not holds.Holds(paused_topics=frozenset({"t"})).pauses("u")
    assert not holds.NOTHING.pauses("t")


def test_a_flow_is_held_in_one_way():
    assert holds.NOTHING.by is None
    assert holds.Holds(paused=True).by is holds.By.PAUSED
    assert holds.Holds(paused=True, stopped=True).by is holds.By.STOPPED
    assert holds.Holds(paused_topics=frozenset({"t"})).by is None


def test_what_a_configuration_holds_back():
    found = live.holds(
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
    rates = [found.budgets.of_topic(each) for each in ("orders", "olds", "others", "x")]
    assert rates == [1_000_000, None, 2_000_000, None]


def test_a_configuration_that_says_nothing_holds_nothing_back():
    assert live.holds({}, is_paused=False) == holds.NOTHING
    with pytest.raises(errors.ConfigError):
        live.holds({"throttle": "${file:/gone:x}"}, is_paused=False)
    with pytest.raises(errors.ConfigError, match=r"live\.throttle\.topic\.orders is fast"):
        live.holds({"live.throttle.topic.orders": "fast"}, is_paused=False)
