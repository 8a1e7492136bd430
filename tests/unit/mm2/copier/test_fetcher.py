from __future__ import annotations

import datetime
import math
from types import SimpleNamespace
from typing import Any, cast

import kio.index
import pytest
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from connect_runtime.network.client_requests import RawClientResponse
from connect_runtime.protocol import api_versions, fetch_requests, varints
from connect_runtime.protocol.cluster_metadata import PartitionLeader
from connect_runtime.protocol.fetch_requests import FetchResponsePartition
from mm2.copier import client_properties, fetcher
from mm2.copier.fetcher import Fetcher
from mm2.replication import follower_fetching, throttle
from mm2.replication.partition_state import PartitionPhase
from tests.fakes import copying
from tests.support import kio_bytes

BUDGET_BYTES = 1 << 20


def sides(lent_bytes):
    """A source whose responses' buffers take so much, and a partition that reads from it."""
    world = copying.begun()
    side = Fetcher(
        cast(Any, SimpleNamespace(lent_buffer_bytes=lent_bytes)),
        memory_budget=world.budget,
        execute=lambda copy, found: None,
        on_arrived=lambda copy: None,
        clock=cast(Any, SimpleNamespace(now_s=lambda: 1000.0)),
        throttles=throttle.create_byte_rate_limits(0, {}),
        limits=client_properties.parse_fetch_limits({}),
        can_send=lambda copy: True,
    )
    return world, side


@pytest.mark.parametrize(
    ("queued", "lent_bytes", "moves"),
    [
        (True, 2 * BUDGET_BYTES, True),
        (True, BUDGET_BYTES, False),
        (False, 2 * BUDGET_BYTES, False),
    ],
    ids=["it waits behind others", "there is room", "it is sent at once"],
)
def test_what_would_keep_a_crowded_buffer_moves_out_of_it(queued, lent_bytes, moves):
    world, side = sides(lent_bytes)
    if queued:
        world.offer(copying.batch(0))
    response = bytearray(copying.batch(1))
    found = FetchResponsePartition(
        topic="orders",
        topic_id=bytes(16),
        partition=4,
        error_code=0,
        high_watermark=2,
        last_stable_offset=2,
        log_start_offset=0,
        aborted=[],
        preferred_read_replica=-1,
        diverging_end_offset=-1,
        current_leader=None,
        records=memoryview(response),
    )
    records = side._extract_records(world.copy, found).records
    assert bytes(records) == bytes(response)
    assert (records.obj is not response) == moves


# Reading from replicas

LEADER, NEAR = 1, 2
UNKNOWN_SERVER_ERROR, OUT_OF_RANGE, NOT_AVAILABLE = -1, 1, 9
RESPONSE = kio.index.load_payload_module(1, fetch_requests.FETCH_MIN_VERSION, EntityType.response)


class Source:
    """A cluster of three brokers, one of which leads; fetches are kept until they are answered."""

    lent_bytes = 0

    def __init__(self):
        self.leader = LEADER
        self.unreachable: set[int] = set()
        self.fetches: list[SimpleNamespace] = []
        self.offered: list[tuple[int, int]] = []
        self.refreshes = 0
        self.view = SimpleNamespace(
            brokers={1, 2, 3},
            get_leader=lambda topic, partition: PartitionLeader(self.leader, 5),
        )

    def choose_version(self, node_id, api_key, low, high):
        self.offered.append((low, high))
        return None if node_id in self.unreachable else low

    def get_connection_error(self, node_id):
        return ConnectionError() if node_id in self.unreachable else None

    def refresh_metadata(self):
        self.refreshes += 1

    def get_min_rtt_s(self, node_id):
        return 0.001

    def call_with_encoded_body(self, node_id, *, lane, chunks, done, **_):
        (body,) = chunks
        rack = "b" if body.endswith(varints.encode_compact_string("b") + b"\0") else ""
        self.fetches.append(SimpleNamespace(node_id=node_id, lane=lane, rack=rack, done=done))


class Reading:
    """A partition that is read by a side whose rack is b; `refused` is what its copy was told."""

    def __init__(self, rack="b", **changed):
        self.world = copying.begun(**changed)
        self.source = Source()
        self.refused: list[int] = []
        self.now_s = 1000.0
        copy = self.world.copy
        self.side = Fetcher(
            cast(Any, self.source),
            memory_budget=self.world.budget,
            execute=lambda copy, found: self.refused.append(len(found)),
            on_arrived=lambda copy: None,
            clock=cast(Any, SimpleNamespace(now_s=lambda: self.now_s)),
            throttles=throttle.create_byte_rate_limits(0, {}),
            limits=client_properties.parse_fetch_limits({"client.rack": rack} if rack else {}),
            can_send=lambda copy: True,
        )
        self.side.add_partition(copy)
        self.side.update_partition(copy)

    def asked(self) -> tuple[int, str]:
        """(broker, our rack as it was told) of the one fetch under way."""
        self.side.send_fetches(self.now_s)
        (found,) = self.source.fetches
        return found.node_id, found.rack

    def answer(self, *, error=0, named=-1, diverging=-1, records=b"", end=0, whole=0) -> None:
        """`error` is the partition's, `whole` the response's, which then names no partition."""
        topic, index = self.world.copy.setup.topic, self.world.copy.setup.partition
        part = RESPONSE.PartitionData(
            partition_index=index,
            error_code=ErrorCode(error),
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            aborted_transactions=(),
            preferred_read_replica=named,
            records=records,
            diverging_epoch=RESPONSE.EpochEndOffset(epoch=4, end_offset=diverging),
        )
        topics = (RESPONSE.FetchableTopicResponse(topic=topic, partitions=(part,)),)
        response = RESPONSE.FetchResponse(
            throttle_time=datetime.timedelta(), error_code=ErrorCode(whole), session_id=0,
            responses=() if whole else topics,
        )  # fmt: skip
        self._reply(memoryview(bytearray(kio_bytes.written(response))))

    def break_off(self) -> None:
        """The connection of the fetch under way ends."""
        self._reply(None)

    def _reply(self, body) -> None:
        (sent,), self.source.fetches = self.source.fetches, []
        reply = RawClientResponse(
            body, fetch_requests.FETCH_MIN_VERSION, None, True, sent.node_id, 0.01
        )
        sent.done(reply)

    def follow(self) -> None:
        """The leader names the near replica, which is asked."""
        assert self.asked() == (LEADER, "b")
        self.answer(named=NEAR)
        assert self.asked()[0] == NEAR


def test_without_a_rack_leaders_are_asked_and_told_none():
    assert Reading(rack="").asked() == (LEADER, "")


def test_the_replica_that_the_leader_names_is_read():
    reading = Reading()
    reading.follow()
    batch = copying.batch(0)
    reading.answer(records=batch, end=5)
    assert reading.world.copy.send_queue.queued_batches == 1
    assert reading.asked()[0] == NEAR


@pytest.mark.parametrize(
    "answer",
    [{"error": OUT_OF_RANGE}, {"error": NOT_AVAILABLE}, {"diverging": 0}],
    ids=["out of range", "not available", "diverging"],
)
def test_what_a_replica_says_against_us_is_asked_of_the_leader(answer):
    reading = Reading()
    reading.follow()
    before = reading.world.copy.state.phase
    reading.answer(**answer)
    assert reading.asked() == (LEADER, "")
    assert (reading.refused, reading.world.copy.state.phase) == ([], before)
    reading.answer(error=OUT_OF_RANGE)
    assert reading.refused, "the leader's word counts"


def test_a_replica_that_breaks_off_or_cannot_be_reached_is_left():
    reading = Reading()
    reading.follow()
    reading.break_off()
    assert reading.asked() == (LEADER, "")

    other = Reading()
    assert other.asked() == (LEADER, "b")
    other.source.unreachable.add(NEAR)
    other.answer(named=NEAR)
    other.side.send_fetches(other.now_s)
    assert other.asked() == (LEADER, "")


def test_the_leader_may_name_a_replica_again_after_a_while():
    reading = Reading()
    reading.follow()
    reading.break_off()
    assert reading.asked() == (LEADER, "")
    reading.now_s += follower_fetching.LEADER_ONLY_INITIAL_S
    reading.answer()
    assert reading.asked() == (LEADER, "b")


def test_a_replica_that_the_metadata_do_not_have_yet_holds_nothing_up():
    """A broker that was added. The leader names it in every answer, and then serves nothing."""
    reading = Reading()
    reading.source.view.brokers = {1, 3}
    assert reading.asked() == (LEADER, "b")
    reading.answer(named=NEAR)
    assert reading.source.refreshes == 1
    assert reading.asked() == (LEADER, "")
    reading.answer(records=copying.batch(0), end=5)
    assert reading.world.copy.send_queue.queued_batches == 1
    reading.source.view.brokers = {1, 2, 3}
    reading.now_s += follower_fetching.LEADER_ONLY_INITIAL_S
    reading.side.update_all_partitions()
    reading.answer()
    reading.follow()


def test_a_new_leader_is_asked_itself():
    reading = Reading()
    reading.follow()
    reading.source.leader = 3
    reading.side.update_all_partitions()
    reading.answer(records=copying.batch(0), end=1)
    assert reading.world.copy.send_queue.queued_batches == 0, (
        "it was asked of another broker meanwhile"
    )
    assert reading.asked() == (3, "b")


def test_a_topic_with_a_spent_budget_is_not_asked_for_until_it_has_earned_more():
    reading = Reading(rack="")
    topic = reading.world.copy.setup.topic
    batch = copying.batch(0)
    reading.side.set_throttles(throttle.create_byte_rate_limits(0, {topic: len(batch), "other": 1}))
    reading.asked()
    reading.answer(records=batch, end=10)
    assert reading.source.fetches == []
    reading.now_s += 0.7
    reading.side.send_fetches(reading.now_s)
    assert reading.source.fetches == []
    reading.now_s += 0.1
    reading.side.send_fetches(reading.now_s)
    assert len(reading.source.fetches) == 1


def test_one_answer_does_not_overdraw_a_budget_for_long(monkeypatch):
    asked = []

    def keep(version, **given):
        asked.append((given["max_bytes"], {each.max_bytes for each in given["partitions"]}))
        return b""

    monkeypatch.setattr(fetch_requests, "encode_fetch_request", keep)
    reading = Reading(rack="")
    topic = reading.world.copy.setup.topic
    others = [copying.begun(partition=number) for number in range(10, 13)]
    for each in others:
        reading.side.add_partition(each.copy)
    reading.side.set_throttles(throttle.create_byte_rate_limits(400_000, {topic: 160_000}))
    for _ in range(2):  # only then the first ones know of the last
        reading.side.update_all_partitions()
    reading.side.send_fetches(reading.now_s)
    assert asked == [(200_000, {20_000})]
    for each in others:
        each.copy.paused = True
    reading.side.update_all_partitions()
    reading.side.update_all_partitions()
    reading.answer(end=5)
    assert asked[1:] == [(200_000, {80_000})]


def test_a_budget_that_is_lifted_is_lifted_at_once():
    reading = Reading(rack="")
    topic = reading.world.copy.setup.topic
    reading.side.set_throttles(throttle.create_byte_rate_limits(0, {topic: 1}))
    reading.asked()
    reading.answer(records=copying.batch(0), end=10)
    assert reading.source.fetches == []
    reading.side.set_throttles(throttle.create_byte_rate_limits(0, {}))
    reading.side.send_fetches(reading.now_s)
    assert len(reading.source.fetches) == 1


# Being refused


@pytest.mark.parametrize(
    ("topic_id", "offered"),
    [(bytes(16), (12, 12)), (b"1" * 16, api_versions.FETCH_VERSIONS)],
    ids=["without an id", "with an id"],
)
def test_a_topic_without_an_id_is_read_by_name(topic_id, offered):
    reading = Reading(rack="", source_topic_id=topic_id)
    reading.asked()
    assert reading.source.offered == [offered]


def test_what_a_broker_says_to_a_whole_request_it_says_of_its_partitions():
    reading = Reading(rack="")
    reading.asked()
    reading.answer(whole=UNKNOWN_SERVER_ERROR)
    assert reading.world.standing.phase is PartitionPhase.HALTED
    assert "error -1" in reading.world.standing.reason
    assert reading.source.fetches == []


@pytest.mark.parametrize("code", [6, 74, 75])
def test_who_does_not_lead_any_more_is_not_asked_again_at_once(code):
    reading = Reading(rack="")
    reading.asked()
    reading.answer(error=code)
    assert (reading.source.fetches, reading.source.refreshes) == ([], 1)
    reading.now_s += fetcher.FETCH_RETRY_DELAY_S / 2
    reading.side.send_fetches(reading.now_s)
    assert reading.source.fetches == []
    reading.now_s += fetcher.FETCH_RETRY_DELAY_S
    assert reading.asked() == (LEADER, "")


def test_another_leader_is_asked_at_once():
    reading = Reading(rack="")
    reading.asked()
    reading.answer(error=6)
    reading.source.leader = 3
    reading.side.update_all_partitions()
    assert reading.asked() == (3, "")


@pytest.mark.parametrize("code", sorted(fetcher.SESSION_ERRORS))
def test_a_session_that_a_broker_has_forgotten_begins_anew_at_once(code):
    reading = Reading(rack="")
    reading.asked()
    reading.answer(whole=code)
    assert reading.refused == []
    assert reading.asked()[0] == LEADER


# Since when the source is heard of


def test_a_source_is_heard_of_as_long_as_each_of_its_brokers_answers():
    reading = Reading()
    assert reading.side.find_oldest_response_time_s() == -math.inf
    assert reading.asked()[0] == LEADER
    reading.answer()
    reading.source.fetches = [each for each in reading.source.fetches if "tail" in each.lane]
    assert reading.side.find_oldest_response_time_s() == -math.inf, (
        "what it has from now on is not known yet"
    )
    reading.now_s = 1001.0
    reading.answer()
    reading.now_s = 1002.0
    assert reading.side.find_oldest_response_time_s() == 1001.0
    reading.source.fetches = [each for each in reading.source.fetches if "tail" in each.lane]
    reading.answer(whole=UNKNOWN_SERVER_ERROR)
    assert reading.side.find_oldest_response_time_s() == -math.inf, "it refuses"


def test_of_a_partition_that_is_not_read_nothing_is_heard():
    reading = Reading()
    assert reading.asked()[0] == LEADER
    reading.answer()
    reading.world.copy.paused = True
    reading.side.update_partition(reading.world.copy)
    assert reading.side.find_oldest_response_time_s() == -math.inf
