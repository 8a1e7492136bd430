from __future__ import annotations

import datetime

from kio.schema.errors import ErrorCode

from connect_runtime.protocol import request_builders
from connect_runtime.protocol.request_builders import ControllerTarget, CoordinatorKey
from connect_runtime.protocol.request_errors import CoordinatorLookupRefused, RequestTimedOut
from tests.support import init_calls
from tests.support.init_calls import Replies
from tests.support.scripted_broker import Asked

NO_TIME = datetime.timedelta(0)


def coordinators(asked: Asked, node_ids: dict[str, int]) -> None:
    asked.answer(
        asked.response(
            throttle_time=NO_TIME,
            coordinators=tuple(
                asked.module.Coordinator(
                    key=key,
                    node_id=max(0, node_ids[key]),
                    host="",
                    port=0,
                    error_code=ErrorCode(0 if node_ids[key] >= 0 else -node_ids[key]),
                    error_message=None,
                )
                for key in asked.entity.coordinator_keys
            ),
        )
    )


def tx(name: str) -> CoordinatorKey:
    return CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, name)


def test_coordinators_are_looked_up_together_and_cached(world):
    one, two = world.broker(1), world.broker(2)
    one.others, two.others = [two], [one]
    nodes = {f"t{i}": 1 + i % 2 for i in range(40)}
    for broker in (one, two):
        broker.scripts["init_producer_id"] = init_calls.answer_init
        broker.scripts["find_coordinator"] = lambda asked: coordinators(asked, nodes)
    link = world.connect(one.address)
    replies = Replies()
    for _ in range(2):
        replies.clear()
        for name in nodes:
            link.call(
                tx(name),
                request_builders.build_init_producer_id_request(name, 1),
                done=replies.append,
            )
        world.until(lambda: len(replies) == len(nodes))
        assert replies.count_failures() == 0
    for broker in (one, two):
        ids = {a.entity.transactional_id for a in broker.requests("init_producer_id")}
        assert ids == {name for name, node in nodes.items() if node == broker.node_id}
    lookups = one.requests("find_coordinator") + two.requests("find_coordinator")
    assert len(lookups) == 1
    nodes["t0"] = 2
    link.forget_coordinator(request_builders.TRANSACTION_COORDINATOR, "t0")
    replies.clear()
    link.call(tx("t0"), init_calls.init(), done=replies.append)
    world.until(lambda: replies)
    assert replies[0].node_id == 2


def test_a_coordinator_that_is_not_available_yet_is_asked_for_again(world):
    broker = world.broker()
    nodes = {"tx": -15}
    broker.scripts["init_producer_id"] = init_calls.answer_init
    broker.scripts["find_coordinator"] = lambda asked: coordinators(asked, nodes)
    link = world.connect(broker.address)
    replies = Replies()
    link.call(tx("tx"), init_calls.init(), done=replies.append)
    world.settle(3.0)
    nodes["tx"] = 1
    world.until(lambda: replies)
    assert replies[0].failure is None
    assert len(broker.requests("find_coordinator")) < 12


def test_a_refused_coordinator_fails_its_calls_at_once(world):
    broker = world.broker()
    broker.scripts["find_coordinator"] = lambda asked: coordinators(asked, {"tx": -53})
    link = world.connect(broker.address)
    replies = Replies()
    for _ in range(2):
        link.call(tx("tx"), init_calls.init(), done=replies.append)
    assert world.until(lambda: len(replies) == 2) < 2.0
    assert all(isinstance(each.failure, CoordinatorLookupRefused) for each in replies)
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53)" in str(replies[0].failure)


def test_a_coordinator_outside_the_metadata_is_waited_for_without_spinning(world):
    broker = world.broker()
    broker.scripts["find_coordinator"] = lambda asked: coordinators(asked, {"tx": 9})
    link = world.connect(broker.address)
    replies = Replies()
    link.call(tx("tx"), init_calls.init(), done=replies.append, timeout_s=10.0)
    world.until(lambda: replies)
    assert isinstance(replies[0].failure, RequestTimedOut)
    assert len(broker.requests("find_coordinator")) < 40
    assert len(broker.requests("metadata")) < 40


def test_brokers_before_3_0_are_asked_for_one_coordinator_at_a_time(world):
    broker = world.broker()
    broker.ranges["find_coordinator"] = (0, 3)
    broker.scripts["init_producer_id"] = init_calls.answer_init

    def find(asked: Asked) -> None:
        asked.answer(
            asked.response(
                throttle_time=NO_TIME, error_code=0, error_message=None, node_id=1, host="", port=0
            )
        )

    broker.scripts["find_coordinator"] = find
    link = world.connect(broker.address)
    replies = Replies()
    for name in ("a", "b", "c"):
        link.call(tx(name), init_calls.init(), done=replies.append)
    world.until(lambda: len(replies) == 3)
    assert replies.count_failures() == 0
    assert [a.entity.key for a in broker.requests("find_coordinator")] == ["a", "b", "c"]


def test_the_controller_is_a_target_too(world):
    one, two = world.broker(1), world.broker(2)
    one.others = [two]
    one.scripts["init_producer_id"] = init_calls.answer_init
    link = world.connect(one.address)
    replies = Replies()
    link.call(ControllerTarget(), init_calls.init(), done=replies.append)
    world.until(lambda: replies)
    assert replies[0].node_id == 1
