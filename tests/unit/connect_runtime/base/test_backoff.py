from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base.backoff import Backoff


def test_delays_double_up_to_the_bound_and_start_again_after_reset():
    machine = Backoff(initial_s=0.1, max_s=1.0, jitter=0.0)
    rng = random.Random(1)
    assert [machine.next_delay_s(rng) for _ in range(6)] == pytest.approx(
        [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    )
    machine.reset()
    assert machine.next_delay_s(rng) == pytest.approx(0.1)


@given(attempts=st.integers(0, 5000), seed=st.integers(0, 1000))
def test_jitter_spreads_and_never_exceeds_the_bound(attempts, seed):
    machine = Backoff(initial_s=0.05, max_s=1.0, attempts=attempts)
    delay_s = machine.next_delay_s(random.Random(seed))
    assert 0.05 * 0.8 <= delay_s <= 1.0


def test_two_clients_that_fail_together_do_not_come_back_together():
    delays = {Backoff(initial_s=1, max_s=9).next_delay_s(random.Random(s)) for s in range(9)}
    assert len(delays) == 9
