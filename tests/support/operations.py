"""What operators do to topics: one call each, and whoever asks next sees that it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import confluent_kafka
from confluent_kafka import admin, cimpl

from tests.support import eventually, kafka
from tests.support.kafka import Properties

_SOON_S = 30.0


def grow(properties: Properties, topic: str, partitions: int) -> None:
    client = kafka.admin_client(properties)  # its futures fail when it is collected
    wanted = cimpl.NewPartitions(topic, partitions)

    def ask() -> None:
        """A request whose answer was lost is not repeated: there are as many by now."""
        if kafka.partition_count(properties, topic) < partitions:
            client.create_partitions([wanted])[topic].result(_SOON_S)

    kafka.retried(ask)
    eventually.eventually(lambda: kafka.partition_count(properties, topic) == partitions, _SOON_S)


def delete(properties: Properties, topic: str) -> None:
    kafka.delete_topic(properties, topic)
    eventually.eventually(lambda: topic not in kafka.topics(properties), _SOON_S)


def recreate(
    properties: Properties, topic: str, *, replicas: Sequence[Sequence[int]] | None = None
) -> None:
    """Old brokers take a while to delete what they no longer list. `replicas` as in
    `kafka.create_topic`."""
    delete(properties, topic)

    def created() -> str:
        try:
            return kafka.create_topic(properties, topic, replicas=replicas)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return ""

    eventually.eventually(created, _SOON_S)


def configure(properties: Properties, topic: str, settings: Mapping[str, str]) -> None:
    """Set these overrides, and leave the others."""
    entries = [
        admin.ConfigEntry(name, value, incremental_operation=admin.AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = admin.ConfigResource(
        admin.ConfigResource.Type.TOPIC, topic, incremental_configs=entries
    )
    client = kafka.admin_client(properties)
    kafka.retried(lambda: client.incremental_alter_configs([resource])[resource].result(_SOON_S))


def settings(properties: Properties, topic: str) -> dict[str, str]:
    resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic)
    client = kafka.admin_client(properties)
    found = kafka.retried(lambda: client.describe_configs([resource])[resource].result(_SOON_S))
    return {name: entry.value for name, entry in found.items()}


def delete_records(properties: Properties, topic: str, offset: int, partition: int = 0) -> None:
    """All before `offset`: what retention does, when a test wants it."""
    place = confluent_kafka.TopicPartition(topic, partition, offset)
    client = kafka.admin_client(properties)
    kafka.retried(lambda: client.delete_records([place])[place].result(_SOON_S))
    assert kafka.offsets(properties, topic, partition)[0] == offset
