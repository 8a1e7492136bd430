"""Creates the topics of the test traffic."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import confluent_kafka
from confluent_kafka import cimpl

from connect_runtime.kafka.client_errors import TopicExistsError
from mm2.sandbox import sandbox_clients
from mm2.sandbox.sandbox_clients import SandboxClients

_CREATE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficTopic:
    """A topic to create; `config` contains Kafka topic settings."""

    name: str
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)


def create_topics(clients: SandboxClients, topics: Iterable[TrafficTopic]) -> None:
    """Create topics with the brokers' default replication factor.

    Raises `ConnectError` if a topic exists or cannot be created.
    """
    admin = clients.create_admin_client("traffic-topics")
    new = [
        cimpl.NewTopic(
            each.name,
            each.partitions,
            replication_factor=-1,
            config=dict(each.config),
        )
        for each in topics
    ]
    times_asked = itertools.count(1)

    def create_missing_topics() -> None:
        repeats = next(times_asked) > 1
        for name, created in admin.create_topics(new, operation_timeout=_CREATE_TIMEOUT_S).items():
            doing = f"creating topic {name}"
            try:
                created.result(_CREATE_TIMEOUT_S)
            except TimeoutError:
                raise clients.create_timeout_error(doing) from None
            except confluent_kafka.KafkaException as error:
                ours = clients.create_error(error.args[0], doing)
                if not (repeats and isinstance(ours, TopicExistsError)):
                    raise ours from None

    sandbox_clients.retry_transient_errors(create_missing_topics)
