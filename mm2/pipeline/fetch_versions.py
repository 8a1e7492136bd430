"""In which versions of Fetch topics are read: by their ids, or by name where one has no id.

Brokers of Kafka 3.1 to 3.9 on ZooKeeper speak versions that know topics by id only, and give them
no ids while their inter.broker.protocol.version is before 2.8. Java's consumers decide so, too
(`AbstractFetch`, "the maximum version that could be used without topic IDs").
"""

from __future__ import annotations

from collections.abc import Iterable

from connect_runtime.wire.codec import by_topic, versions

BY_NAME = (12, 12)


def of(topic_ids: Iterable[bytes]) -> tuple[int, int]:
    """The lowest and the highest version for one request that reads these topics."""
    return BY_NAME if by_topic.NO_TOPIC_ID in topic_ids else versions.FETCH
