from __future__ import annotations

import datetime
import math
import random
import uuid
from typing import Any

import kio.index
import pytest
from kio.static.constants import EntityType

from connect_runtime.base.backoff import Backoff
from connect_runtime.network import broker_selection
from connect_runtime.network.broker_selection import NodeConnectionState
from connect_runtime.protocol import cluster_metadata, request_builders
from connect_runtime.protocol.cluster_metadata import (
    ClusterMetadata,
    CoordinatorCache,
    PartitionLeader,
)
from connect_runtime.protocol.request_builders import CoordinatorKey

v12: Any = kio.index.load_payload_module(3, 12, EntityType.response)
ID = uuid.UUID(int=7)


def new_view(max_age_s: float = 300.0) -> ClusterMetadata:
    retry = Backoff(initial_s=0.1, max_s=1.0, jitter=0.0)
    return ClusterMetadata(random.Random(1), retry=retry, max_age_s=max_age_s)


def metadata(topics=(), brokers=(1, 2), controller=1) -> Any:
    return v12.MetadataResponse(
        throttle_time=datetime.timedelta(0),
        brokers=tuple(
            v12.MetadataResponseBroker(node_id=n, host=f"h{n}", port=9092, rack=f"r{n}")
            for n in brokers
        ),
        cluster_id="c",
        controller_id=controller,
        topics=tuple(topics),
    )


def topic(name="t", leaders=((1, 5), (2, 5)), topic_id=ID, error=0) -> Any:
    return v12.MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        partitions=tuple(
            v12.MetadataResponsePartition(
                error_code=0, partition_index=index, leader_id=leader, leader_epoch=epoch
            )
            for index, (leader, epoch) in enumerate(leaders)
        ),
    )


def refreshed(view: ClusterMetadata, response, now_s: float = 0.0) -> tuple[str, ...]:
    asked = view.start_refresh()
    view.apply_response(response, now_s)
    return asked


def test_it_is_due_at_once_then_knows_leaders_ids_and_brokers():
    view = new_view()
    assert view.get_next_refresh_time_s() == -math.inf
    view.set_metadata_topics(["t"])
    assert view.get_leader("t", 0) is None
    assert refreshed(view, metadata([topic()])) == ("t",)
    assert view.get_leader("t", 1) == PartitionLeader(2, 5)
    assert view.get_leader("t", 2) is None
    assert view.controller_id == 1
    assert (view.brokers[2].host, view.brokers[2].port) == ("h2", 9092)
    assert view.get_next_refresh_time_s() == 300.0


def test_only_one_refresh_at_a_time_and_a_failed_one_is_repeated_ever_later():
    view = new_view()
    waits = []
    now_s = 0.0
    for _ in range(5):
        view.start_refresh()
        assert view.get_next_refresh_time_s() == math.inf
        view.on_refresh_failed(now_s)
        waits.append(round(view.get_next_refresh_time_s() - now_s, 3))
        now_s = view.get_next_refresh_time_s()
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0]


@pytest.mark.parametrize(
    "unsettled",
    [
        metadata([topic(error=3, leaders=())]),
        metadata([]),
        metadata([topic(leaders=((1, 5), (-1, 6)))]),
        metadata([topic(leaders=((1, 5), (9, 6)))]),
        metadata(brokers=()),
    ],
    ids=["unknown topic", "not answered", "no leader", "leader not among brokers", "no brokers"],
)
def test_while_something_is_missing_it_asks_again_soon(unsettled):
    view = new_view()
    view.set_metadata_topics(["t"])
    refreshed(view, unsettled, now_s=50.0)
    assert view.get_next_refresh_time_s() == pytest.approx(50.1)
    refreshed(view, unsettled, now_s=50.1)
    assert view.get_next_refresh_time_s() == pytest.approx(50.3)
    refreshed(view, metadata([topic(leaders=((1, 7), (2, 7)))]), now_s=50.3)
    assert view.get_next_refresh_time_s() == pytest.approx(350.3)


def test_requests_for_a_refresh_are_spaced_and_start_anew_after_a_quiet_time():
    view = new_view()
    refreshed(view, metadata(), now_s=0.0)
    for wait_s in (0.1, 0.2, 0.4):
        now_s = view._last_s
        view.request_refresh()
        assert view.get_next_refresh_time_s() == pytest.approx(now_s + wait_s)
        refreshed(view, metadata(), now_s=view.get_next_refresh_time_s())
    refreshed(view, metadata(), now_s=100.0)
    view.request_refresh()
    assert view.get_next_refresh_time_s() == pytest.approx(100.1)


def test_a_request_made_while_one_is_under_way_is_not_lost():
    view = new_view()
    asked = view.start_refresh()
    view.set_metadata_topics(["new"])
    view.apply_response(metadata(), 1.0)
    assert asked == ()
    assert view.get_next_refresh_time_s() == pytest.approx(1.1)
    assert refreshed(view, metadata([topic("new")]), now_s=1.1) == ("new",)


def test_older_epochs_do_not_take_a_leader_back_but_a_recreated_topic_starts_over():
    view = new_view()
    view.set_metadata_topics(["t"])
    refreshed(view, metadata([topic(leaders=((1, 5),))]))
    refreshed(view, metadata([topic(leaders=((2, 4),))]))
    assert view.get_leader("t", 0) == (1, 5)
    refreshed(view, metadata([topic(leaders=((2, 5),))]))
    assert view.get_leader("t", 0) == (2, 5)
    new_id = uuid.UUID(int=8)
    refreshed(view, metadata([topic(leaders=((1, 0),), topic_id=new_id)]))
    assert view.get_leader("t", 0) == (1, 0)


def test_without_topic_ids_an_older_epoch_may_be_a_recreated_topics():
    view = new_view()
    view.set_metadata_topics(["t"])
    refreshed(view, metadata([topic(leaders=((1, 5),), topic_id=None)]))
    again = metadata([topic(leaders=((2, 0),), topic_id=None)])
    for now_s in (1.0, 5.0, 10.9):
        refreshed(view, again, now_s)
        assert view.get_leader("t", 0) == (1, 5)
        assert view.get_next_refresh_time_s() <= now_s + 1.0, "requested again within a second"
    refreshed(view, again, 11.0)
    assert view.get_leader("t", 0) == (2, 0)
    assert view.get_next_refresh_time_s() == 311.0


def test_partitions_that_are_gone_are_not_waited_for():
    view = new_view()
    view.set_metadata_topics(["t"])
    refreshed(view, metadata([topic(leaders=((1, 5), (1, 5)), topic_id=None)]))
    refreshed(view, metadata([topic(leaders=((1, 5), (2, 0)), topic_id=None)]), 1.0)
    assert view.get_next_refresh_time_s() < 300.0
    refreshed(view, metadata([topic(leaders=((1, 5),), topic_id=None)]), 2.0)
    assert view.get_next_refresh_time_s() == 302.0


def test_without_topic_ids_a_deposed_broker_takes_no_leader_back():
    view = new_view()
    view.set_metadata_topics(["t"])
    current = metadata([topic(leaders=((1, 5),), topic_id=None)])
    deposed = metadata([topic(leaders=((2, 4),), topic_id=None)])
    for now_s in range(0, 60, 4):
        refreshed(view, deposed if now_s % 8 else current, float(now_s))
        assert view.get_leader("t", 0) == (1, 5)
    refreshed(view, deposed, 60.0)
    view.set_metadata_topics([])
    view.set_metadata_topics(["t"])
    refreshed(view, deposed, 71.0)
    assert view.get_leader("t", 0) == (2, 4), "nothing newer is known any more"


def test_a_leader_that_a_response_names_counts_if_it_is_newer():
    view = new_view()
    view.set_metadata_topics(["t"])
    refreshed(view, metadata([topic(leaders=((1, 5),))]))
    before = view.change_count
    view.update_leader("t", 0, 2, 5)
    view.update_leader("t", 9, 2, 9)
    view.update_leader("unknown", 0, 2, 9)
    assert (view.change_count, view.get_leader("t", 0)) == (before, (1, 5))
    view.update_leader("t", 0, 2, 6)
    assert (view.change_count, view.get_leader("t", 0)) == (before + 1, (2, 6))
    assert view.get_next_refresh_time_s() == 300.0
    view.update_leader("t", 0, 77, 7)
    assert view.get_leader("t", 0) is None
    assert view.get_next_refresh_time_s() == pytest.approx(0.1)


def test_the_generation_counts_changes_only():
    view = new_view()
    view.set_metadata_topics(["t"])
    refreshed(view, metadata([topic()]))
    before = view.change_count
    refreshed(view, metadata([topic()]))
    assert view.change_count == before
    refreshed(view, metadata([topic()], brokers=(1, 2, 3)))
    assert view.change_count == before + 1


def test_topics_that_nobody_wants_any_more_are_forgotten_and_not_asked_for():
    view = new_view()
    view.set_metadata_topics(["t", "u"])
    refreshed(view, metadata([topic("t"), topic("u", topic_id=uuid.UUID(int=9))]))
    view.set_metadata_topics(["u"])
    assert view.get_topic("t") is None
    assert refreshed(view, metadata([topic("t"), topic("u")])) == ("u",)
    assert view.get_topic("t") is None


def test_brokers_without_topic_ids_give_zero_ids():
    view = new_view()
    view.set_metadata_topics(["t"])
    refreshed(view, metadata([topic(topic_id=None)]))
    found = view.get_topic("t")
    assert found is not None
    assert found.topic_id == bytes(16)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("h:9092", ("h", 9092)),
        (" a.b-c:1 ", ("a.b-c", 1)),
        ("[::1]:9093", ("::1", 9093)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
    ],
)
def test_addresses_come_back(text, parsed):
    assert cluster_metadata.parse_address(text) == parsed
    assert cluster_metadata.format_address(*parsed) == text.strip()


@pytest.mark.parametrize(
    "text", ["", "h", "h:", ":9092", "h:x", "h:0", "h:65536", "::1:9092", "h:٣"]
)
def test_what_is_no_address_is_refused_by_name(text):
    with pytest.raises(ValueError, match=r"is not host:port|has no port"):
        cluster_metadata.parse_address(text)


def node(node_id: int, **fields) -> NodeConnectionState:
    known = {
        "connected": False, "connecting_since_s": None, "in_flight": 0,
        "retry_at_s": -math.inf, "last_attempt_s": -math.inf,
    }  # fmt: skip
    return NodeConnectionState(node_id=node_id, **{**known, **fields})


@pytest.mark.parametrize(
    ("nodes", "chosen"),
    [
        ([], (None, math.inf)),
        ([node(-2), node(-3)], (-2, 100.0)),
        ([node(-2), node(1)], (1, 100.0)),
        ([node(1, connected=True, in_flight=3), node(2, connected=True), node(3)], (2, 100.0)),
        ([node(-2, connected=True), node(1, connected=True, in_flight=9)], (1, 100.0)),
        ([node(1, connecting_since_s=99.5), node(2)], (None, 100.5)),
        ([node(1, connecting_since_s=98.0), node(2)], (2, 100.0)),
        ([node(1, connecting_since_s=98.0)], (None, math.inf)),
        ([node(1, retry_at_s=100.7), node(2, retry_at_s=100.3)], (None, 100.3)),
        (
            [node(each, last_attempt_s=s) for each, s in ((1, 99.0), (2, 98.0), (-2, 97.0))],
            (-2, 100.0),
        ),
    ],
    ids=[
        "nothing known", "bootstrap", "brokers before bootstrap", "least busy", "real ones first",
        "patience", "company for a slow attempt", "only a slow attempt", "backing off",
        "longest ago",
    ],
)  # fmt: skip
def test_whom_to_ask(nodes, chosen):
    assert broker_selection.pick_broker(nodes, 100.0) == chosen


def test_dead_entries_are_gone_round_until_a_live_one_is_found():
    tried: dict[int, float] = {}
    order = []
    for step in range(6):
        now_s = float(step * 10)
        states = [node(n, last_attempt_s=tried.get(n, -math.inf)) for n in (1, 2, -2)]
        chosen, _ = broker_selection.pick_broker(states, now_s)
        assert chosen is not None
        tried[chosen] = now_s
        order.append(chosen)
    assert order == [1, 2, -2, 1, 2, -2]


def tx(name: str) -> CoordinatorKey:
    return CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, name)


def group(name: str) -> CoordinatorKey:
    return CoordinatorKey(request_builders.GROUP_COORDINATOR, name)


@pytest.fixture
def known() -> CoordinatorCache:
    retry = Backoff(initial_s=0.1, max_s=1.0, jitter=0.0)
    return CoordinatorCache(rng=random.Random(1), retry=retry)


def test_who_waits_is_looked_up_in_batches_of_one_kind(known):
    assert known.get_next_lookup_time_s() == math.inf
    for name in ("a", "b", "a"):
        known.request_lookup(tx(name))
    known.request_lookup(group("g"))
    assert known.get_next_lookup_time_s() == -math.inf
    assert known.start_lookup_batch(0.0) == (tx("a"), tx("b"))
    assert known.start_lookup_batch(0.0) == (group("g"),)
    assert known.start_lookup_batch(0.0) == ()
    known.check_invariants()


def test_batches_are_bounded(known):
    for number in range(cluster_metadata.MAX_LOOKUP_BATCH + 1):
        known.request_lookup(tx(str(number)))
    assert len(known.start_lookup_batch(0.0)) == cluster_metadata.MAX_LOOKUP_BATCH
    assert len(known.start_lookup_batch(0.0)) == 1


def test_what_was_found_is_cached_until_it_is_forgotten(known):
    known.request_lookup(tx("a"))
    known.start_lookup_batch(0.0)
    known.request_lookup(tx("a"))
    assert known.start_lookup_batch(0.0) == ()
    known.store_lookup_result(tx("a"), 3)
    assert known.get_coordinator_node_id(tx("a")) == 3
    known.request_lookup(tx("a"))
    assert known.get_next_lookup_time_s() == math.inf
    known.check_invariants()
    known.forget_coordinator(tx("a"))
    known.forget_coordinator(tx("never known"))
    assert known.get_coordinator_node_id(tx("a")) is None
    known.request_lookup(tx("a"))
    assert known.start_lookup_batch(0.0) == (tx("a"),)


def test_failed_lookups_are_repeated_ever_later_until_a_quiet_time(known):
    known.request_lookup(tx("a"))
    waits, now_s = [], 0.0
    for _ in range(3):
        known.retry_lookups(known.start_lookup_batch(now_s), now_s)
        assert known.start_lookup_batch(now_s) == ()
        waits.append(round(known.get_next_lookup_time_s() - now_s, 3))
        now_s = known.get_next_lookup_time_s()
    assert waits == [0.1, 0.2, 0.4]
    known.store_lookup_result(*known.start_lookup_batch(now_s), 1)
    known.forget_coordinator(tx("a"))
    known.retry_lookups((tx("a"),), 100.0)
    assert known.get_next_lookup_time_s() == pytest.approx(100.1)
    known.check_invariants()


def test_a_refused_id_is_nobodys_business_until_somebody_asks_again(known):
    known.request_lookup(tx("a"))
    known.drop_lookup(known.start_lookup_batch(0.0)[0])
    assert (known.get_next_lookup_time_s(), known.get_coordinator_node_id(tx("a"))) == (
        math.inf,
        None,
    )
    known.request_lookup(tx("a"))
    assert known.start_lookup_batch(0.0) == (tx("a"),)


def test_a_lost_broker_takes_its_coordinators_along(known):
    for name, node in (("a", 1), ("b", 2), ("c", 1)):
        known.request_lookup(tx(name))
        known.start_lookup_batch(0.0)
        known.store_lookup_result(tx(name), node)
    known.forget_node(1)
    assert [known.get_coordinator_node_id(tx(name)) for name in "abc"] == [None, 2, None]


@pytest.mark.parametrize("seed", range(20))
def test_an_id_is_cached_or_asked_for_or_waiting_or_unknown(known, seed):
    rng = random.Random(seed)
    under_way: list[CoordinatorKey] = []
    now_s = 0.0
    for _ in range(300):
        now_s += rng.random()
        name = tx(rng.choice("abcd"))
        match rng.randrange(6):
            case 0 | 1:
                known.request_lookup(name)
            case 2:
                known.forget_coordinator(name)
            case 3:
                under_way += known.start_lookup_batch(now_s)
            case 4 if under_way:
                known.store_lookup_result(under_way.pop(), rng.randrange(3))
            case 5 if under_way:
                known.retry_lookups((under_way.pop(),), now_s)
        known.check_invariants()
