"""Kafka's client properties in Java's spelling: which are taken, which are refused, and why.

The names are those of the producer, consumer and admin clients of Kafka 4.3. A property is taken
when something here acts on it; the others are refused by name rather than ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.wire.codec import security_settings
from mm2.core.configs import kinds

_INT_MAX = 2_147_483_647
_DURATION_MS = kinds.whole(0, _INT_MAX)
_SIZE_BYTES = kinds.whole(1, _INT_MAX)
_SOCKET_BYTES = kinds.whole(0, _INT_MAX, or_minus_one=True)

# What shapes connections and requests, with the type of its value.
TAKEN: Mapping[str, kinds.Kind[object]] = {
    "bootstrap.servers": kinds.text("host:port, several separated by commas"),
    "client.dns.lookup": kinds.choice(
        "use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"
    ),
    "client.rack": kinds.text("the rack, or availability zone, that mm2 runs in"),
    "connections.max.idle.ms": kinds.whole(0, _INT_MAX, or_minus_one=True),
    "fetch.max.bytes": _SIZE_BYTES,
    "fetch.max.wait.ms": _DURATION_MS,
    "fetch.min.bytes": kinds.whole(0, _INT_MAX),
    "max.partition.fetch.bytes": _SIZE_BYTES,
    "metadata.max.age.ms": _DURATION_MS,
    "metadata.recovery.strategy": kinds.choice("rebootstrap", "none"),
    "receive.buffer.bytes": _SOCKET_BYTES,
    "reconnect.backoff.max.ms": _DURATION_MS,
    "reconnect.backoff.ms": _DURATION_MS,
    "request.timeout.ms": kinds.whole(1, _INT_MAX),
    "retry.backoff.max.ms": _DURATION_MS,
    "retry.backoff.ms": _DURATION_MS,
    "send.buffer.bytes": _SOCKET_BYTES,
    "socket.connection.setup.timeout.ms": _DURATION_MS,
}

# Keys that begin so are judged as a whole by `security_settings`, unknown ones too.
SECURITY_PREFIXES = ("security.", "sasl.", "ssl.")

_OURS = "cannot be set: copying depends on it, mm2 sets it itself"
_PASSED_THROUGH = "has no meaning here: record batches are passed on as the source has them"
_GROUP = "has no meaning here: mm2 reads without a consumer group of its own"
_JAVA = "is not supported: it names Java classes or Java's own metrics"

_NOT_YET = "is not supported yet: take it away"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("socket.connection.setup.timeout.max.ms",),
        _NOT_YET,
    ),
    **dict.fromkeys(
        (
            "acks",
            "allow.auto.create.topics",
            "check.crcs",
            "enable.idempotence",
            "isolation.level",
            "max.in.flight.requests.per.connection",
            "transaction.timeout.ms",
            "transaction.two.phase.commit.enable",
            "transactional.id",
        ),
        _OURS,
    ),
    **dict.fromkeys(
        (
            "batch.size",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.type",
            "compression.zstd.level",
            "linger.ms",
            "max.request.size",
            "partitioner.adaptive.partitioning.enable",
            "partitioner.availability.timeout.ms",
            "partitioner.ignore.keys",
        ),
        _PASSED_THROUGH,
    ),
    **dict.fromkeys(
        (
            "auto.commit.interval.ms",
            "enable.auto.commit",
            "exclude.internal.topics",
            "group.id",
            "group.instance.id",
            "group.protocol",
            "group.remote.assignor",
            "heartbeat.interval.ms",
            "max.poll.interval.ms",
            "max.poll.records",
            "session.timeout.ms",
            "share.acknowledgement.mode",
            "share.acquire.mode",
        ),
        _GROUP,
    ),
    **dict.fromkeys(
        (
            "interceptor.classes",
            "key.deserializer",
            "key.serializer",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "partition.assignment.strategy",
            "partitioner.class",
            "value.deserializer",
            "value.serializer",
        ),
        _JAVA,
    ),
    "auto.offset.reset": "is not set on a cluster: write start: earliest or latest in the flow",
    "client.id": "cannot be set: mm2 names its clients by flow and task (mm2-east->west-0)",
    "default.api.timeout.ms": "is not set on a cluster: write admin.timeout.ms in the flow",
    "enable.metrics.push": "has no meaning here: mm2 pushes no client metrics to brokers",
    "bootstrap.controllers": "is not supported: mm2 talks to brokers, write bootstrap.servers",
    "buffer.memory": "is not set on a cluster: write buffer.memory in the flow",
    "config.providers": "is not needed: ${env:…}, ${file:…:…} and ${dir:…:…} always work",
    "delivery.timeout.ms": (
        "cannot be set: mm2 tries for as long as the flow runs; of a MirrorMaker 2 of Java it says "
        "how long that is waited for where it did not end in order"
    ),
    "max.block.ms": "cannot be set: mm2 tries for as long as the flow runs",
    "metadata.recovery.rebootstrap.trigger.ms": (
        "has no meaning here: bootstrap.servers are asked as soon as no known broker answers"
    ),
    "metadata.max.idle.ms": "has no meaning here: mm2 keeps the metadata of what it copies",
}

KNOWN = frozenset(TAKEN) | security_settings.SUPPORTED | frozenset(REFUSED)
