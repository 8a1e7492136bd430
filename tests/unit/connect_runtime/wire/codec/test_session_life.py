from __future__ import annotations

import math
import random

import pytest

from connect_runtime.wire.codec import session_life


def begun(life_s):
    life = session_life.SessionLife()
    life.begun(life_s, 1000.0, random.Random(3))
    return life


def test_an_endless_session_is_never_renewed():
    assert (begun(None).renew_at_s, begun(None).ends_s) == (math.inf, math.inf)


def test_a_session_is_renewed_before_its_end_and_not_while_that_goes_on():
    life = begun(100.0)
    assert 1085.0 <= life.renew_at_s <= 1095.0
    assert life.ends_s == 1100.0
    life.renewing()
    assert life.renew_at_s == math.inf
    life.begun(None, 1090.0, random.Random(3))
    assert life.ends_s == math.inf


@pytest.mark.parametrize(("now_s", "in_time"), [(1090.0, True), (1099.0, True), (1099.9, False)])
def test_what_has_to_be_waited_for_is_waited_for_until_shortly_before_the_end(now_s, in_time):
    life = begun(100.0)
    assert life.postpone(now_s) is in_time
    assert now_s <= life.renew_at_s <= max(now_s, min(now_s + 1.0, life.ends_s))
