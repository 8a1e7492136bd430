from __future__ import annotations

import math
import random

import pytest

from connect_runtime.base import backoff
from connect_runtime.wire.codec import coordinators, targets


def tx(name: str) -> targets.Coordinator:
    return targets.Coordinator(targets.TRANSACTION, name)


def group(name: str) -> targets.Coordinator:
    return targets.Coordinator(targets.GROUP, name)


@pytest.fixture
def known() -> coordinators.Coordinators:
    retry = backoff.Backoff(initial_s=0.1, max_s=1.0, jitter=0.0)
    return coordinators.Coordinators(rng=random.Random(1), retry=retry)


def test_who_waits_is_looked_up_in_batches_of_one_kind(known):
    assert known.due_s() == math.inf
    for name in ("a", "b", "a"):
        known.look_up(tx(name))
    known.look_up(group("g"))
    assert known.due_s() == -math.inf
    assert known.next_batch(0.0) == (tx("a"), tx("b"))
    assert known.next_batch(0.0) == (group("g"),)
    assert known.next_batch(0.0) == ()
    known.check_invariants()


def test_batches_are_bounded(known):
    for number in range(coordinators.BATCH_MAX + 1):
        known.look_up(tx(str(number)))
    assert len(known.next_batch(0.0)) == coordinators.BATCH_MAX
    assert len(known.next_batch(0.0)) == 1


def test_what_was_found_is_cached_until_it_is_forgotten(known):
    known.look_up(tx("a"))
    known.next_batch(0.0)
    known.look_up(tx("a"))
    assert known.next_batch(0.0) == ()
    known.found(tx("a"), 3)
    assert known.node(tx("a")) == 3
    known.look_up(tx("a"))
    assert known.due_s() == math.inf
    known.check_invariants()
    known.forget(tx("a"))
    known.forget(tx("never known"))
    assert known.node(tx("a")) is None
    known.look_up(tx("a"))
    assert known.next_batch(0.0) == (tx("a"),)


def test_failed_lookups_are_repeated_ever_later_until_a_quiet_time(known):
    known.look_up(tx("a"))
    waits, now_s = [], 0.0
    for _ in range(3):
        known.failed(known.next_batch(now_s), now_s)
        assert known.next_batch(now_s) == ()
        waits.append(round(known.due_s() - now_s, 3))
        now_s = known.due_s()
    assert waits == [0.1, 0.2, 0.4]
    known.found(*known.next_batch(now_s), 1)
    known.forget(tx("a"))
    known.failed((tx("a"),), 100.0)
    assert known.due_s() == pytest.approx(100.1)
    known.check_invariants()


def test_a_refused_id_is_nobodys_business_until_somebody_asks_again(known):
    known.look_up(tx("a"))
    known.refused(known.next_batch(0.0)[0])
    assert (known.due_s(), known.node(tx("a"))) == (math.inf, None)
    known.look_up(tx("a"))
    assert known.next_batch(0.0) == (tx("a"),)


def test_a_lost_broker_takes_its_coordinators_along(known):
    for name, node in (("a", 1), ("b", 2), ("c", 1)):
        known.look_up(tx(name))
        known.next_batch(0.0)
        known.found(tx(name), node)
    known.forget_node(1)
    assert [known.node(tx(name)) for name in "abc"] == [None, 2, None]


@pytest.mark.parametrize("seed", range(20))
def test_an_id_is_cached_or_asked_for_or_waiting_or_unknown(known, seed):
    rng = random.Random(seed)
    under_way: list[targets.Coordinator] = []
    now_s = 0.0
    for _ in range(300):
        now_s += rng.random()
        name = tx(rng.choice("abcd"))
        match rng.randrange(6):
            case 0 | 1:
                known.look_up(name)
            case 2:
                known.forget(name)
            case 3:
                under_way += known.next_batch(now_s)
            case 4 if under_way:
                known.found(under_way.pop(), rng.randrange(3))
            case 5 if under_way:
                known.failed((under_way.pop(),), now_s)
        known.check_invariants()
