"""Which records of a shared log workers of this make wrote: a header that Java's do not look at."""

from __future__ import annotations

import confluent_kafka

_NAME = "connect_runtime"
HEADERS: list[tuple[str, str | bytes | None]] = [(_NAME, b"")]


def is_ours(message: confluent_kafka.Message) -> bool:
    return any(each[0] == _NAME for each in message.headers() or ())


def wall_ms(message: confluent_kafka.Message) -> int:
    """When it was written; -1 where the record does not say."""
    kind, found = message.timestamp()
    return -1 if kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE else int(found)
