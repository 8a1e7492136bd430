"""Ends of a log are all there, or they are no answer."""

from __future__ import annotations

import socket
from concurrent import futures
from types import SimpleNamespace

import confluent_kafka
import pytest

from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.errors import RetriableError
from connect_runtime.kafka import client_errors, topic_admin
from connect_runtime.kafka.client_errors import TopicMissingError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.system.system_clock import SystemClock
from tests.support import eventually


@pytest.fixture
def silent_broker():
    """Its address: it accepts connections and does not respond."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def silent_admin(silent_broker):
    access = KafkaClusterAccess(name="silent", bootstrap=(silent_broker,))
    admin = TopicAdmin(access, client_id="c", clock=SystemClock())
    yield admin
    admin.close()


def test_a_call_ends_at_its_deadline_while_another_thread_waits_longer(silent_admin):
    clock = SystemClock()

    def read(timeout_s):
        started_s = clock.now_s()
        with pytest.raises(client_errors.UnreachableError, match="silent"):
            silent_admin.get_cluster_id(Deadline.after(timeout_s, now_s=started_s))
        return clock.now_s() - started_s

    with futures.ThreadPoolExecutor(2) as pool:
        long = pool.submit(read, 4.0)
        eventually.eventually(lambda: long.running(), 2.0)
        assert read(0.3) < 2.0
        assert not long.done()
        assert long.result(20.0) > 2.0


def test_closing_aborts_a_running_call(silent_admin):
    clock = SystemClock()
    with futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            silent_admin.get_cluster_id, Deadline.after(60.0, now_s=clock.now_s())
        )
        eventually.eventually(lambda: running.running(), 2.0)
        started_s = clock.now_s()
        silent_admin.close()
        assert clock.now_s() - started_s < 10.0
        with pytest.raises(RetriableError):
            running.result(10.0)


class Clock:
    """Goes on by a second with each look."""

    def __init__(self):
        self.at_s = 0.0

    def now_s(self):
        self.at_s += 1.0
        return self.at_s

    def wall_ms(self):
        raise NotImplementedError


class Client:
    """Answers requests for offsets with these error codes, one a request, or None: with no
    partition; then with offset 7."""

    def __init__(self, *codes, leaders=(0,)):
        self.codes = list(codes)
        self.leaders = list(leaders)
        self.asked = []
        self.described = 0
        self.where = "west"

    def describe_topics(self, names, timeout_s):
        self.described += 1
        partitions = [
            SimpleNamespace(partition_index=number, leader_id=leader)
            for number, leader in enumerate(self.leaders)
        ]
        return {name: SimpleNamespace(error_code=0, partitions=partitions) for name in names}

    def list_offsets(self, leader, queries, timeout_s, *, read_committed):
        assert not read_committed
        ((topic, asked),) = queries.items()
        self.asked.append((leader, [each.partition for each in asked]))
        assert timeout_s <= 5.0
        code = self.codes.pop(0) if self.codes else 0
        if isinstance(code, Exception):
            raise code
        return [
            SimpleNamespace(
                name=topic,
                partitions=[]
                if code is None
                else [
                    SimpleNamespace(partition_index=each.partition, error_code=code, offset=7)
                    for each in asked
                ],
            )
        ]

    def translate_response_error(self, entity, doing):
        return client_errors.translate_error_code(entity.error_code, doing, where=self.where)


@pytest.fixture
def admin(monkeypatch):
    def made(*codes, **options):
        client = Client(*codes, **options)
        monkeypatch.setattr(topic_admin, "AdminClient", lambda *_, **__: client)
        monkeypatch.setattr(topic_admin, "_RETRY_DELAY_S", 0.0)
        access = KafkaClusterAccess(name="west", bootstrap=("b:1",))
        return TopicAdmin(access, client_id="c", clock=Clock())

    return made


MISSING = confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
NOT_LEADER = confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION


def test_each_leader_is_asked_once_for_its_partitions(admin):
    asked = admin(leaders=(1, 2, 1))
    assert asked.list_end_offsets("t", 3, Deadline.after(60.0, now_s=0.0)) == {0: 7, 1: 7, 2: 7}
    assert asked._idle[0].asked == [(1, [0, 2]), (2, [1])]


def test_only_partitions_without_an_answer_are_asked_again(admin):
    asked = admin(0, NOT_LEADER, leaders=(1, 2))
    assert asked.list_end_offsets("t", 2, Deadline.after(60.0, now_s=0.0)) == {0: 7, 1: 7}
    assert asked._idle[0].asked == [(1, [0]), (2, [1]), (2, [1])]


def test_a_leader_that_is_lost_is_looked_up_again(admin):
    lost = client_errors.UnreachableError("lost")
    asked = admin(lost, leaders=(1,))
    assert asked.list_end_offsets("t", 1, Deadline.after(60.0, now_s=0.0)) == {0: 7}
    assert asked._idle[0].described == 2


def test_an_answer_without_a_partition_is_asked_for_again(admin):
    asked = admin(None, leaders=(1,))
    assert asked.list_end_offsets("t", 1, Deadline.after(60.0, now_s=0.0)) == {0: 7}
    assert asked._idle[0].asked == [(1, [0]), (1, [0])]


def test_a_partition_without_a_leader_is_waited_for(admin):
    asked = admin(leaders=(1, -1))
    with pytest.raises(RetriableError, match="no leader for partitions 1"):
        asked.list_end_offsets("t", 2, Deadline.after(30.0, now_s=0.0))
    assert asked._clock.at_s > 30.0


def test_a_broker_that_has_not_heard_of_a_topic_yet_is_asked_again(admin):
    asked = admin(MISSING)
    assert asked.list_end_offsets("t", 1, Deadline.after(60.0, now_s=0.0)) == {0: 7}


def test_a_topic_that_stays_unknown_is_missing_before_all_time_is_over(admin):
    asked = admin(*[MISSING] * 100)
    with pytest.raises(TopicMissingError, match="offsets of t on west"):
        asked.list_start_offsets("t", 1, Deadline.after(1000.0, now_s=0.0))
    assert asked._clock.at_s < 60.0
