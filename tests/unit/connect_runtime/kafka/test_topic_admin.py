"""Ends of a log are all there, or they are no answer."""

from __future__ import annotations

import socket
from concurrent import futures
from types import SimpleNamespace
from unittest import mock

import confluent_kafka
import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.timing import Deadline
from connect_runtime.kafka import client_errors, librdkafka_clients, topic_admin
from connect_runtime.kafka.client_errors import TopicMissingError
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.system.clock import SystemClock
from tests.support import eventually


def waiting(count):
    return {confluent_kafka.TopicPartition("t", each): futures.Future() for each in range(count)}


def answer(future, offset):
    future.set_result(SimpleNamespace(offset=offset))


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
        eventually.eventually(silent_admin._metadata_lock.locked, 2.0)
        assert read(0.3) < 2.0
        assert not long.done()
        assert long.result(20.0) > 2.0


def test_closing_aborts_a_running_call(silent_admin):
    clock = SystemClock()
    with futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            silent_admin.get_cluster_id, Deadline.after(60.0, now_s=clock.now_s())
        )
        eventually.eventually(silent_admin._metadata_lock.locked, 2.0)
        started_s = clock.now_s()
        silent_admin.close()
        assert clock.now_s() - started_s < 10.0
        with pytest.raises(RetriableError):
            running.result(10.0)


def test_librdkafka_refreshes_only_after_the_brokers_were_listed(silent_admin, monkeypatch):
    refreshed = []
    monkeypatch.setattr(
        silent_admin._client, "list_topics", lambda timeout: refreshed.append(timeout)
    )
    clock = SystemClock()
    silent_admin._find_another_broker(Deadline.after(0.3, now_s=clock.now_s()))
    assert refreshed == []
    monkeypatch.setattr(silent_admin._metadata, "list_brokers", lambda timeout_s: [1])
    silent_admin._find_another_broker(Deadline.after(0.3, now_s=clock.now_s()))
    assert len(refreshed) == 1


def test_the_answer_comes_when_every_leader_has_answered():
    asked = waiting(3)
    whole = topic_admin._combine_offset_futures(asked)
    for number, future in enumerate(asked.values()):
        assert not whole.done()
        answer(future, number * 10)
    assert whole.result(0) == {0: 0, 1: 10, 2: 20}


def test_a_leader_that_did_not_answer_is_a_time_out_and_no_offset():
    asked = waiting(2)
    whole = topic_admin._combine_offset_futures(asked)
    first, second = asked.values()
    answer(first, -1001)
    answer(second, 7)
    with pytest.raises(confluent_kafka.KafkaException) as failed:
        whole.result(0)
    assert client_errors.is_retriable(failed.value.args[0])


def test_the_first_error_is_the_answer():
    asked = waiting(2)
    whole = topic_admin._combine_offset_futures(asked)
    first, second = asked.values()
    second.set_exception(ValueError("no"))
    answer(first, 7)
    with pytest.raises(ValueError, match="no"):
        whole.result(0)


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
    """Answers with these errors, one a request, then with offset 7; no brokers, no metadata."""

    def __init__(self, *codes):
        self.codes = list(codes)

    def list_offsets(self, asked, **_):
        found = waiting(len(asked))
        for future in found.values():
            if self.codes:
                error = confluent_kafka.KafkaError(self.codes.pop(0))
                future.set_exception(confluent_kafka.KafkaException(error))
            else:
                answer(future, 7)
        return found

    def list_topics(self, **_):
        return None

    def poll(self, _):
        return 0


@pytest.fixture
def admin(monkeypatch):
    def made(*codes):
        monkeypatch.setattr(
            librdkafka_clients, "create_admin_client", lambda *_, **__: Client(*codes)
        )
        monkeypatch.setattr(topic_admin, "MetadataClient", mock.Mock())
        access = KafkaClusterAccess(name="west", bootstrap=("b:1",))
        return TopicAdmin(access, client_id="c", clock=Clock())

    return made


MISSING = confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_broker_that_has_not_heard_of_a_topic_yet_is_asked_again(admin):
    asked = admin(MISSING, MISSING)
    assert asked.list_end_offsets("t", 1, Deadline.after(60.0, now_s=0.0)) == {0: 7}


def test_a_topic_that_stays_unknown_is_missing_before_all_time_is_over(admin):
    asked = admin(*[MISSING] * 100)
    with pytest.raises(TopicMissingError, match="offsets of t on west"):
        asked.list_start_offsets("t", 1, Deadline.after(1000.0, now_s=0.0))
    assert asked._clock.at_s < 30.0
