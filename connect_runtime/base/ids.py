"""Identifiers of topic partitions and connector tasks, and the rule for topic names."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOPIC_NAME_PATTERN = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_valid_topic_name(name: str) -> bool:
    """Return whether Kafka allows a topic of this name (`Topic.isValid`)."""
    return _TOPIC_NAME_PATTERN.fullmatch(name) is not None and name not in (".", "..")


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition of a topic. Its string form is the same as in Kafka, for example `orders-7`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class ConnectorTaskId:
    """Id of a connector's task. Its string form is the same as in Connect, for example
    `file-source-0`.

    Sorted by connector, then by task number.
    """

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"
