"""Topics are created and changed by the controller; what it refuses is reported for each topic."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka import admin_client
from connect_runtime.kafka.admin_client import AdminClient
from connect_runtime.kafka.client_errors import UnreachableError, UnsupportedByBrokersError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import api_versions
from connect_runtime.protocol.request_builders import OffsetQuery
from connect_runtime.protocol.topic_requests import ConfigChange, NewTopic
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from tests.support import scripted_broker
from tests.support.scripted_broker import ScriptedBroker

WAIT_S = 20.0


@pytest.fixture
def broker():
    loop = Poller()
    made = ScriptedBroker(loop)

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            loop.poll(0.01)

    running = ThreadGroup(on_unexpected_end=lambda _: None)
    running.start("broker", run)
    yield made
    assert running.stop_all(5.0) == []
    made.close()
    loop.close()


@pytest.fixture
def client(broker):
    access = KafkaClusterAccess(
        name="east", bootstrap=(broker.address,), properties={"request.timeout.ms": "2000"}
    )
    made = AdminClient(access, client_id="me", clock=SystemClock())
    yield made
    made.close()


def topic(name, *, factor=1):
    return NewTopic(
        name=name, partitions=3, replication_factor=factor, configs={"retention.ms": "7"}
    )


class Creation:
    """Answers CreateTopics with these codes by topic, one list a request, and then with none."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.asked = []

    def __call__(self, asked):
        self.asked.append(asked.entity)
        codes = self.codes.pop(0) if self.codes else {}
        results = tuple(
            asked.module.CreatableTopicResult(
                name=each.name,
                error_code=ErrorCode(codes.get(each.name, 0)),
                error_message="says the controller" if each.name in codes else None,
                **({"topic_id": None} if asked.version >= 7 else {}),
                **({"topic_config_error_code": 0, "configs": None} if asked.version >= 5 else {}),
            )
            for each in asked.entity.topics
        )
        asked.answer(asked.response(throttle_time=scripted_broker.NO_TIME, topics=results))


def test_topics_with_names_that_kafka_does_not_allow_are_ignored_with_one_warning(
    broker, client, caplog
):
    broker.topics = dict.fromkeys(("orders.v1", "a" * 250, "a b", "..", "a\nb", "é"), (1,))
    for _ in range(2):
        assert client.list_topics(WAIT_S) == {"orders.v1"}
    (warning,) = caplog.messages
    assert "5 topics with names that Kafka does not allow" in warning


def test_a_topic_is_created_as_described(broker, client):
    broker.scripts["create_topics"] = creation = Creation()
    found = client.create_topics([topic("t"), topic("u", factor=None)], WAIT_S)
    assert [found[name].error_code for name in "tu"] == [0, 0]
    (request,) = creation.asked
    assert [each.replication_factor for each in request.topics] == [1, -1]
    assert request.topics[0].num_partitions == 3
    assert [(each.name, each.value) for each in request.topics[0].configs] == [
        ("retention.ms", "7")
    ]
    assert request.timeout.total_seconds() == 2.0  # no longer than the request is waited for


def test_each_topic_has_its_own_error_with_the_brokers_words(broker, client):
    broker.scripts["create_topics"] = Creation({"b": 17})
    found = client.create_topics([topic("a"), topic("b")], WAIT_S)
    assert not found["a"].error_code
    error = client.translate_response_error(found["b"], "creating topic b")
    assert isinstance(error, FatalError)
    assert "creating topic b on east" in str(error)
    assert "says the controller" in str(error)


def test_a_former_controller_is_not_believed(broker, client):
    broker.scripts["create_topics"] = creation = Creation({"t": 41}, {"t": 41})
    assert not client.create_topics([topic("t")], WAIT_S)["t"].error_code
    assert len(creation.asked) == 3


def test_defaults_need_brokers_that_know_them(broker, client, monkeypatch):
    broker.scripts["create_topics"] = Creation()
    key = api_versions.API_KEYS["create_topics"]
    choose = api_versions.NodeApiVersions.choose_version

    def older(self, api_key, *, low, high):
        known = (
            self
            if api_key != key
            else api_versions.NodeApiVersions(
                address=self.address, ranges={key: api_versions.ApiVersionRange(0, 3)}
            )
        )
        return choose(known, api_key, low=low, high=high)

    monkeypatch.setattr(api_versions.NodeApiVersions, "choose_version", older)
    assert not client.create_topics([topic("t")], WAIT_S)["t"].error_code
    with pytest.raises(UnsupportedByBrokersError, match="newer brokers"):
        client.create_topics([topic("t", factor=None)], WAIT_S)


def test_an_answer_without_a_topic_that_was_asked_for_is_none(broker, client):
    def answer(asked):
        asked.answer(asked.response(throttle_time=scripted_broker.NO_TIME, topics=()))

    broker.scripts["create_topics"] = answer
    with pytest.raises(RetriableError, match="incomplete"):
        client.create_topics([topic("t")], WAIT_S)


def test_a_former_leader_is_not_asked_again_and_again(broker, client):
    broker.scripts["list_offsets"] = lambda asked: asked.link.close()
    with pytest.raises(UnreachableError):
        client.list_offsets(
            broker.node_id,
            {"t": [OffsetQuery(partition=0, timestamp=-1)]},
            5.0,
            read_committed=False,
        )
    assert len(broker.requests("list_offsets")) == 1


def test_an_error_that_a_broker_returned_is_reported_as_such(broker, client):
    broker.scripts["create_topics"] = Creation(*[{"t": 41}] * 1000)
    with pytest.raises(RetriableError) as raised:
        client.create_topics([topic("t")], 0.5)
    assert not isinstance(raised.value, UnreachableError)
    assert str(raised.value).count(" on east") == 1


def test_config_changes_are_single_operations(broker, client):
    seen = []

    def answer(asked):
        seen.append(asked.entity)
        results = tuple(
            asked.module.AlterConfigsResourceResponse(
                error_code=ErrorCode(0),
                error_message=None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in asked.entity.resources
        )
        asked.answer(asked.response(throttle_time=scripted_broker.NO_TIME, responses=results))

    broker.scripts["incremental_alter_configs"] = answer
    change = ConfigChange(set={"retention.ms": "7"}, delete=["cleanup.policy"])
    assert not client.alter_topic_configs({"t": change}, WAIT_S)["t"].error_code
    ((resource,),) = (each.resources for each in seen)
    assert (resource.resource_type, resource.resource_name) == (2, "t")
    assert [(each.name, each.config_operation, each.value) for each in resource.configs] == [
        ("retention.ms", 0, "7"),
        ("cleanup.policy", 1, None),
    ]


@pytest.mark.parametrize("api", ["create_topics", "create_partitions", "incremental_alter_configs"])
@pytest.mark.parametrize("body", [b"", b"\xff" * 40, b"\0" * 400], ids=["none", "ones", "zeros"])
def test_a_malformed_response_is_a_transient_error(broker, client, api, body):
    broker.scripts[api] = lambda asked: asked.answer(body)
    ask = {
        "create_topics": lambda: client.create_topics([topic("t")], 0.5),
        "create_partitions": lambda: client.create_partitions({"t": 4}, 0.5),
        "incremental_alter_configs": lambda: client.alter_topic_configs(
            {"t": ConfigChange(set={"a": "b"})}, 0.5
        ),
    }[api]
    with pytest.raises(RetriableError, match=" on east"):
        ask()


def test_the_controllers_error_is_found_among_others():
    entities = [SimpleNamespace(error_code=code) for code in (0, 41, 17)]
    assert admin_client._find_controller_error(entities) == 41
    assert admin_client._find_controller_error(entities[::2]) == 0
