from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import kio.index
import pytest
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from connect_runtime.network.cluster_connections import RawClientResponse
from connect_runtime.protocol import request_framing, varints
from connect_runtime.protocol.produce_requests import ProduceResponsePartition
from mm2 import suggested_commands
from mm2.copier import producer
from mm2.copier.producer import BatchProducer
from mm2.replication import error_policy, produce_concurrency
from tests.fakes import copying
from tests.support import scripted_broker

VERSION = 9
LOG = [copying.batch(offset) for offset in range(40)]


class Target:
    """A cluster of one broker that answers when told to, the oldest request first."""

    def __init__(self):
        self.view = SimpleNamespace(get_leader=lambda topic, number: SimpleNamespace(node_id=1))
        self.sent = []

    def choose_version(self, node_id, api_key, low, high):
        return VERSION

    def call_with_encoded_body(self, node_id, *, lane, done, **request):
        self.sent.append((lane, done))

    def lanes(self):
        return [lane for lane, _ in self.sent]


def clock_at(now_s) -> Any:
    return SimpleNamespace(now_s=lambda: now_s)


class World:
    """Partitions 0, 1, …, all with a lot to send."""

    def __init__(self, partitions):
        self.target = Target()
        self.may_send = True
        self.copies = [copying.begun(*LOG, partition=each) for each in range(partitions)]
        self.side = BatchProducer(
            cast(Any, self.target),
            execute=lambda copy, found: None,
            clock=clock_at(1000.0),
            on_result=lambda copy: None,
            can_record=lambda: self.may_send,
        )
        for each in self.copies:
            each.offer(*LOG)
            self.side.mark_partition_ready(each.copy)

    def answer(self, *, elapsed_s, lane="produce-0"):
        """The oldest request of a lane is acknowledged."""
        at = self.target.lanes().index(lane)
        _, done = self.target.sent.pop(at)
        done(
            RawClientResponse(
                body=memoryview(bytearray(self._response())),
                version=VERSION,
                failure=None,
                sent=True,
                node_id=1,
                elapsed_s=elapsed_s,
            )
        )

    def _response(self):
        module = kio.index.load_payload_module(0, VERSION, EntityType.response)
        partitions = tuple(
            module.PartitionProduceResponse(
                index=number,
                error_code=ErrorCode(0),
                base_offset=each.copy.in_flight._in_flight[0].target,
                log_append_time=None,
                log_start_offset=0,
                record_errors=(),
                error_message=None,
            )
            for number, each in enumerate(self.copies)
            if each.copy.in_flight.batch_count
        )
        topic = module.TopicProduceResponse(name="a.orders", partition_responses=partitions)
        answer = module.ProduceResponse(responses=(topic,), throttle_time=scripted_broker.NO_TIME)
        return request_framing.encode_request_body(answer)


def test_one_request_carries_a_batch_of_every_partition_that_is_ready():
    world = World(3)
    world.side.send_ready_batches(1000.0)
    assert world.target.lanes() == ["produce-0"] * producer.MAX_IN_FLIGHT_REQUESTS
    assert [each.copy.in_flight.batch_count for each in world.copies] == [5, 5, 5]


@pytest.fixture
def slowed():
    """Two partitions whose broker has just become slow."""
    world = World(2)
    world.side.send_ready_batches(1000.0)
    while world.side._get_node_concurrency(1).connections == 1:
        world.answer(elapsed_s=1.0)
    assert (
        world.side._get_node_concurrency(1).connections
        == produce_concurrency.PRODUCE_CONNECTIONS_MAX
    )
    return world


def test_a_partition_changes_its_connection_only_when_nothing_of_it_is_under_way(slowed):
    second = slowed.copies[1].copy
    while second.in_flight.batch_count > 1:
        slowed.answer(elapsed_s=1.0)
        assert "produce-1" not in slowed.target.lanes()
    slowed.answer(elapsed_s=1.0)
    assert "produce-1" in slowed.target.lanes()


def test_the_other_one_stays_where_it_is(slowed):
    first = slowed.copies[0].copy
    slowed.answer(elapsed_s=1.0)
    assert first.in_flight.batch_count == producer.MAX_IN_FLIGHT_REQUESTS


def test_a_brokers_text_is_never_a_remedy():
    """The status page offers the command after the last `Remedy: ` for copying."""
    refused = ProduceResponsePartition(
        topic="t",
        topic_id=varints.NO_TOPIC_ID,
        partition=0,
        error_code=19,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        error_message="too few replicas. Remedy: curl evil | sh",
        current_leader=None,
        record_errors=((0, "Remedy: curl evil | sh"),),
    )
    text = producer._describe_error(refused)
    assert "too few replicas. Remedy - curl" in text
    setup = World(1).copies[0].copy.setup
    reaction = error_policy.react_to_produce_error(setup, code=19, message=text, offset=5)
    assert suggested_commands.extract_remedy_from_message(reaction.reason) == ""


def test_nothing_is_sent_while_the_record_of_what_was_copied_is_full():
    world = World(1)
    world.may_send = False
    world.side.send_ready_batches(1000.0)
    assert world.target.sent == []
    world.may_send = True
    world.side.send_ready_batches(1000.0)
    assert world.target.sent
