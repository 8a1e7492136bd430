"""A sink task's consumer, against a broker."""

from __future__ import annotations

import pytest

from connect_runtime.base import bounded_regex
from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.config.connector_client_settings import ClientConfig
from connect_runtime.kafka.client_errors import AuthenticationError
from connect_runtime.kafka.task_client_factory import KafkaTaskClients
from connect_runtime.network import keystore_files
from connect_runtime.system.system_clock import SystemClock
from tests.support import eventually, kafka
from tests.support.kafka import Outgoing

pytestmark = pytest.mark.integration

CLOCK = SystemClock()


class Listener:
    def __init__(self) -> None:
        self.assigned: list[TopicPartition] = []
        self.revoked: list[object] = []

    def on_partitions_assigned(self, partitions):
        self.assigned += partitions

    def on_partitions_revoked(self, partitions):
        self.revoked += partitions

    def on_partitions_lost(self, partitions): ...


def made_with(tmp_path, **properties):
    return KafkaTaskClients(
        files=keystore_files.create_store_files(tmp_path), clock=CLOCK
    ).create_consumer(
        ClientConfig(
            client_id="connector-consumer-c-0",
            properties={
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
                **properties,
            },
        )
    )


@pytest.fixture
def consumer(east, topic, tmp_path):
    made = made_with(tmp_path, **east.client_properties(), **{"group.id": topic("group")})
    yield made
    made.close(10.0)


def test_who_is_refused_at_the_door_fails_at_once(east, topic, tmp_path):
    """As in Java: a task that can never join must not look as if it ran."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    consumer = made_with(
        tmp_path,
        **{
            **east.client_properties(),
            "group.id": topic("group"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{login} username="nobody" password="none";',
        },
    )
    consumer.subscribe([topic()], Listener())
    with pytest.raises(AuthenticationError, match="joining the group on"):
        polled_for(consumer, 20.0)
    consumer.close(10.0)


def polled_for(consumer, seconds):
    end_s = CLOCK.now_s() + seconds
    while CLOCK.now_s() < end_s:
        assert consumer.poll(0.1) == []


def test_a_record_that_comes_is_not_kept_until_there_are_more(east, topic, consumer):
    """As in Java: `poll` waits for the first one alone."""
    name = topic()
    kafka.create_topic(east.client_properties(), name)
    listener = Listener()
    consumer.subscribe([name], listener)
    end_s = CLOCK.now_s() + 30.0
    while not listener.assigned and CLOCK.now_s() < end_s:
        assert consumer.poll(0.1) == []
    kafka.produce(
        east.client_properties(), name, [Outgoing(value=each) for each in (b"a", b"b", b"c")]
    )
    begun_s = CLOCK.now_s()
    found = [each.value for each in consumer.poll(60.0)]
    while len(found) < 3:
        found += [each.value for each in consumer.poll(10.0)]
    assert found == [b"a", b"b", b"c"]
    assert CLOCK.now_s() - begun_s < 30.0


def test_what_is_taken_away_within_a_poll_is_not_among_its_records(east, topic, consumer):
    """The task has closed its partition by then; who has it now reads them."""
    name = topic()
    kafka.create_topic(east.client_properties(), name)
    kafka.produce(east.client_properties(), name, [Outgoing(value=b"a")])
    listener = Listener()
    consumer.subscribe([name], listener)
    library, asked = consumer._consumer, []

    class Rebalancing:
        """The library's consumer, which takes all away between two questions."""

        def __getattr__(self, called):
            return getattr(library, called)

        def consume(self, number, timeout_s):
            asked.append(number)
            if number > 1:
                library.unsubscribe()
                eventually.eventually(
                    lambda: not library.consume(1, 0.1) and listener.revoked, 10.0
                )
                return []
            return library.consume(number, timeout_s)

    consumer._consumer = Rebalancing()
    end_s = CLOCK.now_s() + 30.0
    while len(asked) < 2 or asked[-1] == 1:
        assert CLOCK.now_s() < end_s
        found = consumer.poll(1.0)
    consumer._consumer = library
    assert found == []
    assert listener.revoked


def test_a_group_without_an_offset_goes_nowhere_if_it_must_have_one(east, topic, tmp_path):
    """`auto.offset.reset=none`: the task fails, rather than read again or leave out."""
    name = topic()
    kafka.create_topic(east.client_properties(), name)
    given = {"group.id": topic("group"), "auto.offset.reset": "none"}
    consumer = made_with(tmp_path, **east.client_properties(), **given)
    consumer.subscribe([name], Listener())
    with pytest.raises(FatalError, match=r"auto\.offset\.reset=none"):
        polled_for(consumer, 30.0)
    consumer.close(10.0)


def test_a_pattern_is_javas_and_finds_topics_that_come_later(east, topic, tmp_path):
    start = topic("pattern")
    properties = {
        **east.client_properties(),
        "group.id": topic("group"),
        "metadata.max.age.ms": "500",
    }
    consumer, listener = made_with(tmp_path, **properties), Listener()
    consumer.subscribe(bounded_regex.compile_pattern(rf"{start}-\d+"), listener)
    assert consumer.poll(0.1) == []
    for name in (f"{start}-1", f"{start}-x"):
        kafka.create_topic(east.client_properties(), name)
        kafka.produce(east.client_properties(), name, [Outgoing(value=b"v")])
    found = []

    def polled() -> bool:
        found.extend(consumer.poll(0.1))
        return bool(found)

    eventually.eventually(polled, 30.0)
    assert {each.topic for each in found} == {f"{start}-1"}
    assert {each.topic for each in listener.assigned} == {f"{start}-1"}
    consumer.close(10.0)
