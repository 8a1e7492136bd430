"""Identifiers of topic partitions and connector tasks, and the rules for names of topics and
connectors."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOPIC_NAME_PATTERN = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_valid_topic_name(name: str) -> bool:
    """Return whether Kafka allows a topic of this name (`Topic.isValid`)."""
    return _TOPIC_NAME_PATTERN.fullmatch(name) is not None and name not in (".", "..")


MAX_CONNECTOR_NAME_BYTES = 255
"""Maximum size of a connector name in UTF-8. Java has no limit, but the group protocol cannot
encode more than 32,767 bytes."""


def is_connector_name_too_long(name: str) -> bool:
    """Return whether a connector name exceeds `MAX_CONNECTOR_NAME_BYTES`."""
    return len(name.encode("utf-8", "surrogatepass")) > MAX_CONNECTOR_NAME_BYTES


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
