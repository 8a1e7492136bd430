"""A source task's producer, against a broker."""

from __future__ import annotations

import pytest

from connect_runtime.config.connector_client_settings import ClientConfig
from connect_runtime.kafka.client_errors import AuthenticationError
from connect_runtime.kafka.task_client_factory import KafkaTaskClients
from connect_runtime.network import keystore_files
from connect_runtime.system.system_clock import SystemClock
from connect_runtime.worker.task_client_interfaces import ProducerRecord
from tests.support import eventually, kafka

pytestmark = pytest.mark.integration

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
def wrote(east, topic, tmp_path):
    """What became of a record, with these settings."""
    name, made = topic(), []
    kafka.create_topic(east.client_properties(), name)

    def write(**properties):
        producer = KafkaTaskClients(
            files=keystore_files.create_store_files(tmp_path), clock=SystemClock()
        ).create_producer(
            ClientConfig(
                client_id="connector-producer-c-0",
                properties={**east.client_properties(), **properties},
            )
        )
        made.append(producer)
        told = []
        record = ProducerRecord(
            topic=name, partition=None, key=None, value=b"v", timestamp=None, headers=()
        )
        producer.send(record, on_delivered=lambda found, error: told.append(error or found.offset))
        eventually.eventually(lambda: told, 20.0)
        return told[0]

    yield write
    for each in made:
        each.close(1.0)


def test_a_record_is_taken(wrote):
    assert wrote() == 0


def test_who_is_refused_at_the_door_hears_of_it_at_once(wrote):
    """As in Java: a task that can never write must not look as if it ran."""
    error = wrote(
        **{
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{LOGIN} username="nobody" password="none";',
        }
    )
    assert isinstance(error, AuthenticationError)
    assert "check sasl.mechanism" in str(error)
