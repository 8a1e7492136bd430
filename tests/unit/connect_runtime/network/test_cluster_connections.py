from __future__ import annotations

import datetime
import gc
import socket
import struct

import pytest

from connect_runtime.network.cluster_connections import ClientResponse
from connect_runtime.protocol import api_versions, request_builders
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorKey,
    LeaderTarget,
    NodeTarget,
)
from connect_runtime.protocol.request_errors import (
    CallQueueFull,
    ConnectionFailed,
    MalformedResponseError,
    RequestTimedOut,
    UnknownBroker,
    UnsupportedVersion,
)
from tests.support import init_calls
from tests.support.init_calls import Replies
from tests.support.scripted_broker import Asked, Link

NO_TIME = datetime.timedelta(0)


def unused_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_call_finds_its_broker_and_answers_outside_call(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = init_calls.answer_init
    link = world.connect(broker.address)
    replies = Replies()
    link.call(AnyNodeTarget(), init_calls.init(), done=replies.append)
    assert replies == []
    world.until(lambda: replies)
    (reply,) = replies
    assert (reply.failure, reply.sent, reply.node_id, reply.version) == (None, True, 1, 3)
    assert (reply.body.producer_id, reply.body.producer_epoch) == (7, 1)
    assert broker.requests("init_producer_id")[0].entity.transactional_id == "tx"
    rtt_s = link.get_min_rtt_s(1)
    assert rtt_s is not None
    assert 0.0 <= rtt_s < 1.0


def test_max_version_caps_and_an_empty_range_fails_by_name(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = init_calls.answer_init
    broker.ranges["end_txn"] = (4, 5)
    link = world.connect(broker.address)
    replies = Replies()
    link.call(AnyNodeTarget(), init_calls.init(), done=replies.append, max_version=1)
    end = request_builders.build_end_txn_request("tx", producer_id=1, epoch=0, committed=True)
    link.call(AnyNodeTarget(), end, done=replies.append)
    world.until(lambda: len(replies) == 2)
    by_failure = {reply.failure is None: reply for reply in replies}
    assert by_failure[True].version == 1
    refused = by_failure[False]
    assert isinstance(refused.failure, UnsupportedVersion)
    assert (refused.sent, refused.node_id) == (False, 1)
    assert "end_txn: this client needs a version from 1 to 3" in str(refused.failure)


def test_many_calls_share_a_connection_in_order_and_none_is_lost(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = init_calls.answer_init
    link = world.connect(broker.address)
    order: list[int] = []
    for number in range(300):
        link.call(NodeTarget(1), init_calls.init(), done=lambda reply, n=number: order.append(n))
    world.until(lambda: len(order) == 300)
    assert order == list(range(300))
    assert len([each for each in broker.links if each.open]) <= 3


def test_an_unanswered_call_times_out_as_sent_and_takes_its_neighbours_along(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = lambda asked: None
    link = world.connect(broker.address)
    replies = Replies()
    for timeout_s in (2.0, 50.0, 60.0):
        link.call(NodeTarget(1), init_calls.init(), done=replies.append, timeout_s=timeout_s)
    took_s = world.until(lambda: len(replies) == 3)
    assert 2.0 <= took_s < 3.0
    first, *others = replies
    assert isinstance(first.failure, RequestTimedOut)
    assert str(first.failure).startswith(
        "init_producer_id: no response within 2 s, waiting for the"
    )
    assert all(isinstance(each.failure, ConnectionFailed) for each in others)
    assert all(each.sent for each in replies)
    world.settle(100.0)
    assert len(replies) == 3


def test_an_unreachable_cluster_times_out_unsent_and_says_what_was_tried(world):
    link = world.connect(unused_address(), unused_address())
    replies = Replies()
    link.call(AnyNodeTarget(), init_calls.init(), done=replies.append, timeout_s=5.0)
    link.call(
        CoordinatorKey(request_builders.GROUP_COORDINATOR, "g"),
        init_calls.init(),
        done=replies.append,
        timeout_s=5.0,
    )
    world.until(lambda: len(replies) == 2)
    for reply in replies:
        assert isinstance(reply.failure, RequestTimedOut)
        assert not reply.sent
        assert "Connection refused while connecting" in str(reply.failure)
    assert len(link.get_connection_errors()) == 2


def test_dead_bootstrap_entries_are_gone_round(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = init_calls.answer_init
    dead = [unused_address() for _ in range(5)]
    link = world.connect(*dead, broker.address)
    replies = Replies()
    link.call(AnyNodeTarget(), init_calls.init(), done=replies.append)
    assert world.until(lambda: replies) < 5.0
    assert replies[0].failure is None
    assert link.get_connection_errors() == {}


def test_attempts_are_spaced_by_the_backoff(world):
    broker = world.broker()
    broker.refuses = True
    accepted: list[int] = []
    accept = broker._accept
    world.poller.unregister(broker._listener)

    def counting(mask: int) -> None:
        accepted.append(mask)
        accept(mask)

    world.poller.register(broker._listener, 1, handler=counting)
    link = world.connect(broker.address)
    link.call(AnyNodeTarget(), init_calls.init(), done=lambda reply: None, timeout_s=60.0)
    turns = world.settle(30.0)
    assert 25 <= len(accepted) <= 60
    assert turns < 1000


def test_a_listener_of_another_kind_is_named_and_not_hammered(world):
    """A SASL listener talks versions with anybody and hangs up at the first real request."""
    broker = world.broker()
    broker.scripts["metadata"] = lambda asked: asked.link.close()
    link = world.connect(broker.address)
    replies = Replies()
    link.call(AnyNodeTarget(), init_calls.init(), done=replies.append, timeout_s=20.0)
    world.until(lambda: replies)
    assert "check whether the listener requires SASL" in str(replies[0].failure)
    assert len(broker.links) < 40


def test_throttle_times_are_honoured_per_connection(world):
    broker = world.broker()
    arrivals: list[float] = []

    def throttle(asked: Asked) -> None:
        arrivals.append(world.clock.time_s)
        init_calls.answer_init(asked, throttle_ms=3000)

    broker.scripts["init_producer_id"] = throttle
    link = world.connect(broker.address)
    replies = Replies()
    link.call(NodeTarget(1), init_calls.init(), done=replies.append)
    world.until(lambda: replies)
    link.call(NodeTarget(1), init_calls.init(), done=replies.append)
    link.call(NodeTarget(1), init_calls.init(), done=replies.append, lane="other")
    world.until(lambda: len(arrivals) == 2)
    assert arrivals[1] - arrivals[0] < 1.0
    world.until(lambda: len(arrivals) == 3)
    assert 3.0 <= arrivals[2] - arrivals[0] < 3.5
    link.apply_throttle_time(1, "other", 10_000)
    link.call(NodeTarget(1), init_calls.init(), done=replies.append, lane="other")
    assert world.until(lambda: len(arrivals) == 4) >= 9.0


def test_no_broker_delays_requests_for_longer_than_a_minute(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = lambda asked: init_calls.answer_init(
        asked, throttle_ms=2**31 - 1
    )
    link = world.connect(broker.address)
    replies = Replies()
    link.call(NodeTarget(1), init_calls.init(), done=replies.append)
    world.until(lambda: replies)
    link.call(NodeTarget(1), init_calls.init(), done=replies.append, timeout_s=100.0)
    assert 55.0 <= world.until(lambda: len(replies) == 2) <= 65.0
    assert replies[1].failure is None


def test_a_throttled_call_may_still_expire(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = lambda asked: init_calls.answer_init(
        asked, throttle_ms=60_000
    )
    link = world.connect(broker.address)
    replies = Replies()
    link.call(NodeTarget(1), init_calls.init(), done=replies.append)
    world.until(lambda: replies)
    link.call(NodeTarget(1), init_calls.init(), done=replies.append, timeout_s=5.0)
    world.until(lambda: len(replies) == 2)
    assert not replies[1].sent
    assert "the connection to 127.0.0.1" in str(replies[1].failure)


def test_an_idle_connection_that_the_broker_closes_is_no_trouble(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = init_calls.answer_init
    link = world.connect(broker.address)
    replies = Replies()
    for round_number in (1, 2, 3):
        link.call(NodeTarget(1), init_calls.init(), done=replies.append)
        world.until(lambda n=round_number: len(replies) == n)
        broker.drop_links()
        world.settle(1.0)
        assert link.get_connection_errors() == {}
    assert replies.count_failures() == 0


def test_connections_are_closed_before_the_broker_would_do_it(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = init_calls.answer_init
    link = world.connect(broker.address, connections_max_idle_s=100.0, metadata_max_age_s=1000.0)
    replies = Replies()
    link.call(NodeTarget(1), init_calls.init(), done=replies.append, lane="seldom")
    world.until(lambda: replies)
    world.settle(90.0)
    assert any(each.open for each in broker.links)
    world.settle(30.0)
    assert not any(each.open for each in broker.links)
    link.call(NodeTarget(1), init_calls.init(), done=replies.append, lane="seldom")
    world.until(lambda: len(replies) == 2)
    assert replies.count_failures() == 0


def test_idling_costs_no_turns(world):
    broker = world.broker()
    link = world.connect(broker.address)
    world.until(lambda: link.view.brokers)
    assert world.settle(100.0) < 60


def test_a_leader_call_waits_until_there_is_one_and_follows_it(world):
    one, two = world.broker(1), world.broker(2)
    one.others, two.others = [two], [one]
    for broker in (one, two):
        broker.scripts["init_producer_id"] = init_calls.answer_init
        broker.topics["t"] = (-1,)
    link = world.connect(one.address)
    link.set_metadata_topics(["t"])
    replies = Replies()
    link.call(LeaderTarget("t", 0), init_calls.init(), done=replies.append)
    world.settle(3.0)
    assert replies == []
    one.topics["t"] = two.topics["t"] = (2,)
    world.until(lambda: replies)
    assert (replies[0].failure, replies[0].node_id) == (None, 2)


def test_what_was_not_sent_goes_to_the_new_leader_when_the_old_one_is_gone(world):
    one, two = world.broker(1), world.broker(2)
    one.others, two.others = [two], [one]
    for broker in (one, two):
        broker.scripts["init_producer_id"] = init_calls.answer_init
        broker.topics["t"] = (2,)
    link = world.connect(one.address)
    link.set_metadata_topics(["t"])
    world.until(lambda: link.view.get_leader("t", 0))
    two.close()
    replies = Replies()
    link.call(LeaderTarget("t", 0), init_calls.init(), done=replies.append, timeout_s=30.0)
    link.call(NodeTarget(2), init_calls.init(), done=replies.append, timeout_s=5.0)
    world.settle(1.0)
    one.topics["t"] = (1,)
    world.until(lambda: len(replies) == 2)
    moved, stayed = sorted(replies, key=lambda reply: reply.failure is not None)
    assert (moved.failure, moved.node_id) == (None, 1)
    assert "a connection to 127.0.0.1" in str(stayed.failure)
    trouble = link.get_connection_error(2)
    assert trouble is not None
    assert "Connection refused" in str(trouble)
    assert link.get_connection_error(1) is None
    assert list(link.get_connection_errors()) == ["broker 2"]
    world.settle(40.0)
    assert link.get_connection_errors() == {}


def test_a_broker_that_one_lane_reaches_again_is_out_of_trouble(world):
    broker = world.broker(1)
    broker.scripts["init_producer_id"] = init_calls.answer_init
    link = world.connect(broker.address)
    world.until(lambda: 1 in link.view.brokers)
    broker.refuses = True
    link.get_broker_connection(1, "fetch").request_connection()
    world.until(lambda: link.get_connection_error(1))
    broker.refuses = False
    world.settle(1.0)
    replies = Replies()
    link.call(NodeTarget(1), init_calls.init(), done=replies.append, timeout_s=30.0)
    world.until(lambda: replies)
    assert replies[0].failure is None
    assert link.get_connection_errors() == {}


def test_a_missing_topic_is_named_when_its_leader_is_waited_for(world):
    broker = world.broker()
    link = world.connect(broker.address)
    link.set_metadata_topics(["nope"])
    replies = Replies()
    link.call(LeaderTarget("nope", 0), init_calls.init(), done=replies.append, timeout_s=3.0)
    world.until(lambda: replies)
    assert "the leader of nope-0 (nope: UNKNOWN_TOPIC_OR_PARTITION (3))" in str(replies[0].failure)


def test_a_frozen_broker_does_not_hold_up_the_metadata(world):
    one, two = world.broker(1), world.broker(2)
    one.others, two.others = [two], [one]
    link = world.connect(one.address, two.address)
    world.until(lambda: len(link.view.brokers) == 2)
    asked = [len(each.requests("metadata")) for each in (one, two)]
    frozen, alive = (one, two) if asked[0] else (two, one)
    frozen.deaf = True
    before = len(alive.requests("metadata"))
    link.refresh_metadata()
    assert world.until(lambda: len(alive.requests("metadata")) > before) < 20.0


def raw(link, node_id: int, chunks, replies, *, version: int = 3, **options) -> None:
    link.call_with_encoded_body(
        node_id,
        lane=options.pop("lane", "raw"),
        api_key=api_versions.API_KEYS["init_producer_id"],
        version=version,
        chunks=chunks,
        done=replies.append,
        **options,
    )


def version_known(world, link, node_id: int = 1) -> None:
    key = api_versions.API_KEYS["init_producer_id"]
    world.until(lambda: link.choose_version(node_id, key, 1, 3) is not None)


def test_raw_bodies_arrive_as_they_were_and_answers_come_back_writable(world):
    broker = world.broker()
    body = bytes(range(256)) * 20_000
    broker.scripts["init_producer_id"] = lambda asked: asked.answer(asked.body[::-1])
    link = world.connect(broker.address)
    world.until(lambda: link.view.brokers)
    assert link.choose_version(1, api_versions.API_KEYS["init_producer_id"], 1, 3) is None
    version_known(world, link)
    replies = Replies()
    chunks = [body[:10], memoryview(body)[10:3_000_000], memoryview(body)[3_000_000:]]
    for _ in range(3):
        raw(link, 1, chunks, replies)
    assert replies == []
    world.until(lambda: len(replies) == 3)
    for reply in replies:
        assert reply.body == body[::-1]
        assert not reply.body.readonly
        assert (reply.failure, reply.sent, reply.version) == (None, True, 3)
    assert [bytes(a.body) for a in broker.requests("init_producer_id")] == [body] * 3


def test_a_raw_call_that_cannot_be_sent_fails_unsent(world):
    broker = world.broker()
    link = world.connect(broker.address)
    world.until(lambda: link.view.brokers)
    version_known(world, link)
    replies = Replies()
    raw(link, 55, [b"x"], replies)
    raw(link, 1, [b"x"], replies, version=77)
    world.until(lambda: len(replies) == 2)
    broker.close()
    world.settle(1.0)
    raw(link, 1, [b"x"], replies)
    world.until(lambda: len(replies) == 3)
    kinds = [type(each.failure) for each in replies]
    assert set(kinds[:2]) == {UnknownBroker, UnsupportedVersion}
    assert kinds[2] is ConnectionFailed
    assert not any(each.sent for each in replies)


def test_a_connection_that_breaks_under_requests_fails_each_once_and_says_sent(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = lambda asked: (
        asked.link.close() if len(broker.requests("init_producer_id")) == 3 else None
    )
    link = world.connect(broker.address)
    world.until(lambda: link.view.brokers)
    version_known(world, link)
    replies = Replies()
    for _ in range(3):
        raw(link, 1, [b"x"], replies)
    world.until(lambda: len(replies) == 3)
    assert all(isinstance(each.failure, ConnectionFailed) for each in replies)
    assert all(each.sent for each in replies)
    world.settle(60.0)
    assert len(replies) == 3


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "the server responds 'HTTP'"),
        (b"\x7f\xff\xff\xff", "the response size of 2147483647 bytes is invalid"),
        (b"\x00\x00\x00\x05\x00\x00\x99\x99\x00", "correlation id 39321"),
        (b"", "closed by the broker"),
    ],
)
def test_nonsense_ends_the_connection_with_a_reason(world, answer, problem):
    broker = world.broker()

    def nonsense(asked: Asked) -> None:
        asked.link.write(answer)
        if not answer:
            asked.link.close()

    broker.scripts["init_producer_id"] = nonsense
    link = world.connect(broker.address)
    world.until(lambda: link.view.brokers)
    version_known(world, link)
    replies = Replies()
    raw(link, 1, [b"x"], replies)
    raw(link, 1, [b"y"], replies)
    world.until(lambda: len(replies) == 2)
    assert all(problem in str(each.failure) for each in replies)


def test_garbage_for_a_message_is_a_failure_of_that_call_alone(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = lambda asked: asked.answer(b"\x01\x02")
    broker.scripts["end_txn"] = lambda asked: asked.answer(
        asked.response(throttle_time=NO_TIME, error_code=0)
    )
    link = world.connect(broker.address)
    replies = Replies()
    link.call(NodeTarget(1), init_calls.init(), done=replies.append)
    end = request_builders.build_end_txn_request("tx", producer_id=1, epoch=0, committed=True)
    link.call(NodeTarget(1), end, done=replies.append)
    world.until(lambda: len(replies) == 2)
    assert isinstance(replies[0].failure, MalformedResponseError)
    assert replies[0].sent
    assert replies[1].failure is None


def test_an_answer_that_keeps_flowing_may_take_longer_than_the_timeout_but_not_for_ever(world):
    broker = world.broker()
    slow: list[tuple[Link, bytes]] = []
    broker.scripts["init_producer_id"] = lambda asked: slow.append(
        (asked.link, asked.frame(bytes(100)))
    )
    link = world.connect(broker.address)
    world.until(lambda: link.view.brokers)
    version_known(world, link)
    replies = Replies()

    def trickle(pieces: int, every_s: float) -> None:
        raw(link, 1, [b"x"], replies, timeout_s=10.0)
        world.until(lambda: slow)
        to, frame = slow.pop()
        for index in range(pieces):
            to.write(frame[index : index + 1])
            world.settle(every_s)
        to.write(frame[pieces:])

    trickle(5, 6.0)
    world.until(lambda: replies)
    assert replies[0].failure is None
    assert 30.0 <= replies[0].elapsed_s < 40.0
    trickle(3, 25.0)
    world.until(lambda: len(replies) == 2)
    assert isinstance(replies[1].failure, RequestTimedOut)
    trickle(10, 6.0)
    world.until(lambda: len(replies) == 3)
    assert isinstance(replies[2].failure, RequestTimedOut)


def test_close_ends_every_request_once_and_later_ones_go_unheard(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = lambda asked: None
    broker.scripts["find_coordinator"] = lambda asked: None
    link = world.connect(broker.address)
    replies = Replies()

    def again(reply: ClientResponse) -> None:
        replies.append(reply)
        link.call(NodeTarget(1), init_calls.init(), done=replies.append)

    link.call(NodeTarget(1), init_calls.init(), done=again)
    link.call(
        CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, "tx"),
        init_calls.init(),
        done=again,
    )
    world.until(lambda: broker.requests("init_producer_id") and broker.requests("find_coordinator"))
    link.call(NodeTarget(1), init_calls.init(), done=again, lane="queued")
    link.close()
    assert len(replies) == 3
    assert sorted(reply.sent for reply in replies) == [False, False, True]
    link.close()
    assert len(replies) == 3


def test_the_number_of_waiting_calls_is_bounded(world):
    link = world.connect(unused_address(), waiting_calls_max=10)
    replies = Replies()
    for _ in range(12):
        link.call(AnyNodeTarget(), init_calls.init(), done=replies.append, timeout_s=5.0)
    assert replies == []
    world.turn()
    assert [type(each.failure) for each in replies] == [CallQueueFull] * 2
    world.until(lambda: len(replies) == 12)


def test_a_bootstrap_address_that_is_none_is_refused_when_made(world):
    with pytest.raises(ValueError, match="'nonsense' is not host:port"):
        world.connect("nonsense")


def test_a_broker_that_wants_a_rebootstrap_is_not_believed(world):
    broker = world.broker()
    broker.scripts["metadata"] = lambda asked: asked.answer(
        asked.response(
            throttle_time=NO_TIME, brokers=(), cluster_id=None, topics=(), error_code=129
        )
    )
    link = world.connect(broker.address)
    world.settle(3.0)
    assert link.view.change_count == 0
    broker.scripts["metadata"] = broker.tell_metadata
    world.until(lambda: link.view.brokers)


def test_the_buffer_of_a_response_that_breaks_off_is_free_at_once(world):
    """Not only when the garbage collector finds the connection."""
    broker = world.broker()

    def claim(asked: Asked) -> None:
        asked.link.write(struct.pack(">i", 200 << 20) + b"x")

    broker.scripts["init_producer_id"] = claim
    link = world.connect(broker.address)
    replies = Replies()
    link.call(AnyNodeTarget(), init_calls.init(), done=replies.append)
    world.until(lambda: link.lent_buffer_bytes)
    gc.disable()
    try:
        broker.drop_links()
        world.until(lambda: replies)
        assert link.lent_buffer_bytes == 0
    finally:
        gc.enable()


def test_metadata_with_an_impossible_broker_is_not_used_and_logged_once(world, caplog):
    broker = world.broker()

    def tell_bootstrap(asked: Asked) -> None:
        m = asked.module
        brokers = (m.MetadataResponseBroker(node_id=-2, host="127.0.0.1", port=1),)
        asked.answer(
            asked.response(
                throttle_time=NO_TIME,
                brokers=brokers,
                cluster_id="c",
                controller_id=1,
                topics=(),
                error_code=0,
            )
        )

    broker.scripts["metadata"] = tell_bootstrap
    link = world.connect(broker.address)
    world.until(lambda: len(broker.requests("metadata")) >= 3)
    assert not link.view.brokers
    assert [each.getMessage() for each in caplog.records if "metadata" in each.getMessage()] == [
        "ignoring the cluster's metadata: metadata response, version 13: the broker id -2 is "
        "negative"
    ]
    broker.scripts["metadata"] = broker.tell_metadata
    world.until(lambda: link.view.brokers)


def test_a_broker_that_has_left_is_forgotten(world):
    first, second = world.broker(), world.broker(2)
    first.others = [second]
    link = world.connect(first.address)
    replies = Replies()
    for each in (first, second):
        each.scripts["init_producer_id"] = init_calls.answer_init
    for node_id in (1, 2):
        world.until(lambda node_id=node_id: node_id in link.view.brokers)
        link.call(NodeTarget(node_id), init_calls.init(), done=replies.append)
    world.until(lambda: len(replies) == 2)
    first.others = []
    second.close()
    link.refresh_metadata()
    world.until(lambda: list(link.view.brokers) == [1])
    world.until(lambda: all(node_id != 2 for node_id, _ in link._brokers._lanes))
    assert any(node_id == 1 for node_id, _ in link._brokers._lanes)
