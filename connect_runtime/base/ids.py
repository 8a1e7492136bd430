"""Identifiers of topic partitions and connector tasks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition of a topic. Formatted as Kafka does, for example `orders-7`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class ConnectorTaskId:
    """A task of a connector. Formatted as Connect does, for example `file-source-0`.

    Sorted by connector, then by task number.
    """

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"
