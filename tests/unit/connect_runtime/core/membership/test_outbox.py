from __future__ import annotations

import random

import pytest

from connect_runtime.core.membership import instructions, outbox, search, settings, standing
from connect_runtime.wire.codec import targets


@pytest.fixture
def box() -> outbox.Outbox:
    options = settings.Settings(group_id="g")
    found = search.Search(settings=options, rng=random.Random(1))
    found.found(3)
    generation = standing.Generation(number=4, member_id="m", protocol="sessioned")
    return outbox.Outbox(settings=options, search=found, generation=generation)


def test_everything_is_told_once_and_in_order(box):
    box.note("something")
    token = box.prepare()
    assert box.take() == [
        instructions.Note("group g: something"),
        instructions.PrepareJoin(token),
    ]
    assert box.take() == []


def test_each_request_has_a_token_of_its_own(box):
    tokens = [
        box.prepare(),
        box.find(),
        box.join([("default", b"")], reason="why"),
        box.sync({}),
        box.heartbeat(),
        box.leave("why"),
    ]
    assert len(set(tokens)) == len(tokens)
    assert [each.token for each in box.take()] == tokens


def test_requests_go_where_they_belong_with_the_time_that_they_may_take(box):
    box.find()
    box.join([("default", b"")], reason="why")
    box.sync({})
    box.heartbeat()
    box.leave("why")
    sent = {each.message.api: each for each in box.take() if isinstance(each, instructions.Send)}
    assert {api: (each.lane, each.timeout_s) for api, each in sent.items()} == {
        "find_coordinator": (instructions.BEATING, 40.0),
        "join_group": (instructions.JOINING, 65.0),
        "sync_group": (instructions.JOINING, 65.0),
        "heartbeat": (instructions.BEATING, 10.0),
        "leave_group": (instructions.BEATING, 10.0),
    }
    assert sent.pop("find_coordinator").to == targets.AnyNode()
    assert {each.to for each in sent.values()} == {targets.Node(3)}
