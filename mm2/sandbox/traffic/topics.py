"""Topics that traffic goes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import confluent_kafka
from confluent_kafka import cimpl

from mm2.sandbox import clients

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """`config` are topic settings, as Kafka names them."""

    name: str
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)


def create(at: clients.Clients, wanted: Iterable[Topic]) -> None:
    """Create topics, with as many replicas as the brokers make by default."""
    admin = at.admin("traffic-topics")
    new = [
        cimpl.NewTopic(
            each.name,
            each.partitions,
            replication_factor=-1,
            config=dict(each.config),
        )
        for each in wanted
    ]
    for name, created in admin.create_topics(new, operation_timeout=_TIMEOUT_S).items():
        try:
            created.result(_TIMEOUT_S)
        except confluent_kafka.KafkaException as error:
            raise at.explain(error.args[0], f"creating topic {name}") from None
