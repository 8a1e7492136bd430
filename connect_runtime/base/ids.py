"""Identifiers of topic partitions and connector tasks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic; prints as Kafka prints it, `orders-7`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class ConnectorTaskId:
    """One task of one connector; prints as Connect prints it, `file-source-0`.

    Ordered by connector, then by number.
    """

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"
