"""The kinds of traffic: topic, producer settings and records of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.sandbox.traffic import payloads, topics

LARGE_MESSAGE_BYTES = 8_000_000
_LARGE_TOPIC = {"max.message.bytes": str(LARGE_MESSAGE_BYTES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainKind:
    """One producer's traffic to one topic.

    `settings` are librdkafka's. The backlog has `share` of a large kind's records, `least` at
    least; each live round has `live`.
    """

    topic: topics.Topic
    describe: str
    make: payloads.Make
    settings: Mapping[str, object] = field(default_factory=dict)
    share: float = 1.0
    least: int = 1
    live: int = 20


def _codec(name: str, *, idempotent: bool) -> PlainKind:
    return PlainKind(
        topic=topics.Topic(name=f"codec-{name}", partitions=2),
        describe=f"JSON documents, compression {name}",
        make=payloads.documents,
        settings={
            "compression_type": name,
            "enable_idempotence": idempotent,
            "linger_ms": 10,
        },
        live=40,
    )


PLAIN = (
    _codec("none", idempotent=False),
    _codec("gzip", idempotent=True),
    _codec("snappy", idempotent=False),
    _codec("lz4", idempotent=True),
    _codec("zstd", idempotent=True),
    PlainKind(
        topic=topics.Topic(name="shapes", partitions=3),
        describe="null and empty keys and values, headers of all sorts",
        make=payloads.shapes,
        share=0.05,
        least=432,
    ),
    PlainKind(
        topic=topics.Topic(name="sizes", partitions=2, config=_LARGE_TOPIC),
        describe="records of 1 byte to 5 MB",
        make=payloads.sizes,
        settings={"message_max_bytes": LARGE_MESSAGE_BYTES},
        share=0.002,
        least=16,
        live=1,
    ),
    PlainKind(
        topic=topics.Topic(name="wide", partitions=24),
        describe="small records over many partitions",
        make=payloads.counters,
        settings={"compression_type": "snappy"},
        share=0.5,
        least=240,
        live=48,
    ),
    PlainKind(
        topic=topics.Topic(name="three-days-old", partitions=2),
        describe="documents with timestamps of three days ago",
        make=payloads.three_days_old,
        settings={"compression_type": "lz4", "enable_idempotence": True},
        share=0.1,
        least=100,
    ),
    PlainKind(
        topic=topics.Topic(name="timeless", partitions=1),
        describe="records without a timestamp, and of 1970",
        make=payloads.timeless,
        share=0.02,
        least=100,
        live=5,
    ),
)
TRANSACTIONS = topics.Topic(name="transactions", partitions=4)
TRANSACTIONS_LIVE = 60
JAVA = topics.Topic(name="java-perf", partitions=3)
EMPTY = topics.Topic(name="empty", partitions=2)
TOPICS = (*(kind.topic for kind in PLAIN), TRANSACTIONS, JAVA, EMPTY)
