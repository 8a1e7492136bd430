"""A round counts once everything before its end is acknowledged."""

from __future__ import annotations

import pytest

from mm2.core.groups import acknowledged_rounds

FIRST, SECOND, THIRD = (acknowledged_rounds.Round(at_s=each, groups=2) for each in (1, 2, 3))


@pytest.fixture
def rounds():
    made = acknowledged_rounds.AcknowledgedRounds()
    yield made
    made.check_invariants()


def test_a_round_without_news_counts_at_once(rounds):
    assert rounds.take() is None
    rounds.end(FIRST)
    assert rounds.take() is FIRST
    assert rounds.take() is None


def test_a_round_waits_for_its_own_records(rounds):
    rounds.send(2)
    rounds.end(FIRST)
    rounds.acknowledge(1)
    assert rounds.take() is None
    rounds.acknowledge(1)
    assert rounds.take() is FIRST


def test_a_round_without_news_waits_for_those_before(rounds):
    rounds.send(1)
    rounds.end(FIRST)
    rounds.end(SECOND)
    assert rounds.take() is None
    rounds.acknowledge(1)
    assert rounds.take() is SECOND, "nothing new came in between"


def test_acknowledgements_that_always_come_late_make_rounds_count_all_the_same(rounds):
    rounds.send(1)
    for found in (FIRST, SECOND):
        rounds.end(found)
        rounds.send(1)
        rounds.acknowledge(1)
        assert rounds.take() is found
    rounds.end(THIRD)
    assert rounds.take() is None
    rounds.acknowledge(1)
    assert rounds.take() is THIRD


def test_while_nothing_is_acknowledged_no_more_is_kept_than_there_are_records(rounds):
    for at_ms in range(100):
        rounds.end(acknowledged_rounds.Round(at_s=at_ms, groups=0))
    rounds.send(1)
    for at_ms in range(100):
        rounds.end(acknowledged_rounds.Round(at_s=at_ms, groups=0))
    assert len(rounds._waiting) == 2
