"""The values of a topic's records, read by an ordinary client."""

from __future__ import annotations

from tests.support import kafka
from tests.support.kafka import Properties


def read(client: Properties, topic: str) -> dict[int, list[bytes]]:
    """By partition, in the order of the log; everything that stands there now."""
    return {
        partition: [each.value or b"" for each in records]
        for partition, records in kafka.read_topic(client, topic).items()
    }
