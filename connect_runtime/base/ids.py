"""Identifiers of topic partitions and connector tasks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a topic. Formatted like Kafka's, for example `orders-7`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class ConnectorTaskId:
    """One task of a connector. Formatted like Connect's, for example `file-source-0`.

    Sorted by connector, then by task number.
    """

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"
