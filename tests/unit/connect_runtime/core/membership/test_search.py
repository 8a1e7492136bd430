from __future__ import annotations

import math
import random

import pytest

from connect_runtime.core.membership import search, settings


@pytest.fixture
def made() -> search.Search:
    return search.Search(settings=settings.Settings(group_id="g"), rng=random.Random(1))


def test_an_unknown_coordinator_is_asked_for_at_once(made):
    assert made.due_s() == -math.inf
    made.asked = 5
    assert made.due_s() == math.inf
    made.found(3)
    assert (made.node, made.asked, made.due_s()) == (3, None, math.inf)
    made.check_invariants()


def test_a_question_that_failed_is_asked_again_later_each_time(made):
    waits = []
    for _ in range(8):
        made.failed(100.0)
        waits.append(made.due_s() - 100.0)
    assert 0.05 < waits[0] < 0.2
    assert max(waits) <= 1.0
    assert waits[-1] > 0.5


def test_a_lost_coordinator_is_asked_for_at_once_but_not_again_and_again(made):
    made.found(3)
    made.heard()
    made.lost(100.0)
    assert (made.node, made.silent_s, made.due_s()) == (None, 100.0, 100.0)
    made.found(3)
    made.lost(101.0)
    assert made.silent_s == 100.0, "nobody has answered since"
    assert made.silence_end_s == 103.0, "a heartbeat's time"
    assert made.due_s() > 101.0


def test_silence_ends_when_one_answers(made):
    made.lost(100.0)
    made.found(4)
    assert made.silent_s == 100.0
    made.heard()
    assert (made.silent_s, made.due_s()) == (None, math.inf)
    assert made.silence_end_s == math.inf
    made.lost(200.0)
    assert [made.silent_s, made.due_s()] == [200.0, 200.0]


def test_older_brokers_are_asked_for_one_group(made):
    assert (made.message().low, made.message().high) == (4, 6)
    made.asked = 1
    made.old_broker()
    assert made.asks_old_way
    assert made.asked is None
    assert (made.message().low, made.message().high) == (1, 3)
