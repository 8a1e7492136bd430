from __future__ import annotations

import math
import random
from typing import Any

import pytest

from connect_runtime.wire.codec import failures, oauth_settings, token_keeper, token_request

TROUBLE = failures.ConnectionFailed("id:443", "closed")


def keeper(**changed: Any) -> token_keeper.TokenKeeper:
    oauth = oauth_settings.OAuth(
        endpoint="http://id/token", client_id="mm2", client_secret="x", **changed
    )
    return token_keeper.TokenKeeper(oauth, random.Random(3))


def with_token(life_s: float, **changed: float) -> token_keeper.TokenKeeper:
    """It received a token at 0."""
    found = keeper(**changed)
    found.want(0.0)
    found.asked()
    found.received(token_request.Token(text="one", life_s=life_s), 0.0)
    return found


def test_nobody_asks_before_somebody_wants():
    found = keeper()
    assert found.due_s() == math.inf
    assert found.want(5.0) is None
    assert found.due_s() <= 5.0
    found.asked()
    assert (found.due_s(), found.want(6.0)) == (math.inf, None)


@pytest.mark.parametrize(
    ("life_s", "earliest_s", "latest_s"),
    [(3600.0, 2880.0, 3060.0), (400.0, 100.0, 100.0), (100.0, 80.0, 85.0), (4.0, 3.2, 3.4)],
    ids=["a share", "before the buffer", "too short for the buffer", "very short"],
)
def test_a_token_is_used_and_refreshed_before_its_end(life_s, earliest_s, latest_s):
    found = with_token(life_s)
    assert found.want(0.0) == found.current(life_s * 0.97) == "one"
    assert earliest_s <= found.due_s() <= latest_s
    assert found.current(life_s) is None


def test_a_refresh_that_fails_leaves_the_token_and_is_tried_again():
    found = with_token(100.0)
    found.asked()
    found.failed(TROUBLE, 85.0)
    assert found.want(86.0) == "one"
    assert 85.0 < found.due_s() <= 86.0
    found.asked()
    found.received(token_request.Token(text="two", life_s=100.0), 87.0)
    assert (found.want(150.0), found.trouble) == ("two", None)


def test_without_a_token_the_trouble_is_told_between_tries_which_grow_apart():
    found = keeper(retry_s=1.0, retry_max_s=10.0)
    now_s, waits = 0.0, []
    for _ in range(6):
        assert found.want(now_s) is None
        assert found.due_s() <= now_s
        found.asked()
        found.failed(TROUBLE, now_s)
        assert found.want(now_s) is TROUBLE
        assert found.due_s() == math.inf, "only who wants a token makes it ask again"
        waited_s = next(s for s in range(1, 20) if found.want(now_s + s) is None)
        waits.append(waited_s)
        now_s += waited_s
    assert waits[0] < waits[2] < waits[4]
    assert waits[-1] <= 10


def test_a_token_that_brokers_refuse_is_dropped_and_the_next_one_is_not_hurried():
    found = with_token(3600.0, retry_s=1.0)
    refusal = failures.AuthenticationFailed("b:9092", "no")
    found.refused("another", refusal, 10.0)
    assert found.current(10.0) == "one"
    found.refused("one", refusal, 10.0)
    assert found.current(10.0) is None
    assert found.want(10.0) is refusal
    assert found.want(12.0) is None
    assert found.due_s() <= 12.0


def test_what_was_accepted_makes_the_next_trouble_a_new_one():
    found = with_token(3600.0, retry_s=1.0, retry_max_s=60.0)
    for number in range(5):
        found.failed(TROUBLE, 100.0 * number)
    assert found.due_s() - 400.0 > 5.0
    found.accepted()
    found.failed(TROUBLE, 1000.0)
    assert found.due_s() <= 1002.0


def test_a_session_that_the_token_does_not_outlive_wants_the_next_one():
    found = with_token(100.0)
    assert found.outlives(60.0, 50.0)
    before_s = found.due_s()
    assert before_s > 50.0
    assert not found.outlives(100.0, 50.0)
    assert found.due_s() == 50.0


def test_an_issuer_that_gives_the_same_token_again_is_asked_ever_more_seldom():
    found = with_token(100.0, retry_s=0.1, retry_max_s=10.0)
    now_s, asked = 85.0, 0
    while now_s < 95.0:
        assert not found.outlives(100.0, now_s)
        if found.due_s() <= now_s:
            found.asked()
            found.received(token_request.Token(text="one", life_s=100.0 - now_s), now_s)
            asked += 1
        now_s += 0.25
    assert 1 < asked < 10
    found.asked()
    found.received(token_request.Token(text="two", life_s=100.0), now_s)
    assert found.outlives(100.0, now_s)
