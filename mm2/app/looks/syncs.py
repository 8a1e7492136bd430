"""The offset syncs of a flow, as they stand: sparse, and the only word of it on its source."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.base import ids
from mm2.app.looks import sides
from mm2.connectors import record_folds
from mm2.formats import offset_sync

Syncs = Mapping[ids.TopicPartition, tuple[offset_sync.OffsetSync, ...]]
"""By the partition's name on the flow's source, as they were written."""


def read(side: sides.OneSide, topic: str, timeout_s: float) -> Syncs:
    """All that the topic still holds; what cannot be read is passed over, as by Java's readers.
    Raises `RetriableError` and `FatalError`."""
    found: dict[ids.TopicPartition, tuple[offset_sync.OffsetSync, ...]] = {}

    def note(key: bytes, value: bytes | None) -> None:
        if value is not None:
            sync = offset_sync.decode(key, value)
            found[sync.partition] = (*found.get(sync.partition, ()), sync)

    if topic in side.topics.list_topics(timeout_s):  # whoever reads what is not there waits for it
        record_folds.fold(side.topics.read_topic(topic, timeout_s), note)
    return found
