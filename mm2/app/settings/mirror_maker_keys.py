"""The keys of `mm2.properties` that Kafka 4.3 knows, and what becomes of each here.

Three ends: honoured (it stands in `flow_options`), mapped (`mirror_maker` says to what), or told by
name. Who comes with a file that works should not have to change it: what has no effect because mm2
does the thing another way, or not yet, is a warning. What would change the data, or which topics
are mirrored, is refused: `flow_options.REFUSED` has those.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.wire.codec import security_settings
from mm2.app.settings import flow_options as options
from mm2.core.configs import client_keys, client_properties, connector_keys

_NOT_YET = "has no effect yet"
_CHECKPOINTS = f"{_NOT_YET}: checkpoints are not written, offsets of groups not translated"
_HEARTBEATS = f"{_NOT_YET}: heartbeats are not emitted, those of others are mirrored"
_SYNCS = f"{_NOT_YET}: offset syncs are not written; mm2 keeps a map of its own on the target"
_GROUPS = f"{_NOT_YET}: offsets of consumer groups are not synced"
_ACLS = f"{_NOT_YET}: ACLs are not synced"
_ONCE = (
    "has no effect: delivery says how a flow is copied, else exactly once where that is possible"
)
_RECORDS = "has no effect: mm2 copies whole batches and converts no records"
_METRICS = "has no effect: metrics are served for Prometheus, see mm2.metrics.port"
_REMOVED = "has no effect: it was removed in Kafka 4.0"
_OWN_NAME = "has no effect: a flow is called by its two aliases"
_REST = "has no effect: mm2 serves no REST API yet"

WORKER = "has no effect: mm2 runs no Connect worker, and keeps its own topics on the target"

NOTED: Mapping[str, str] = {
    **dict.fromkeys(
        ("checkpoints.topic.replication.factor", "emit.checkpoints.interval.seconds"), _CHECKPOINTS
    ),
    **dict.fromkeys(
        ("emit.heartbeats.interval.seconds", "heartbeats.topic.replication.factor"), _HEARTBEATS
    ),
    **dict.fromkeys(
        (
            "offset-syncs.topic.location",
            "offset-syncs.topic.replication.factor",
            "offset.lag.max",
        ),
        _SYNCS,
    ),
    **dict.fromkeys(
        (
            "refresh.groups.enabled",
            "refresh.groups.interval.seconds",
            "sync.group.offsets.interval.seconds",
        ),
        _GROUPS,
    ),
    "sync.topic.acls.interval.seconds": _ACLS,
    **dict.fromkeys(("exactly.once.support", "exactly.once.source.support"), _ONCE),
    **dict.fromkeys(
        (
            "errors.log.enable",
            "errors.log.include.messages",
            "errors.retry.delay.max.ms",
            "errors.retry.timeout",
            "errors.tolerance",
        ),
        _RECORDS,
    ),
    **dict.fromkeys(("metric.names.formats", "metric.reporters"), _METRICS),
    **dict.fromkeys(("add.source.alias.to.metrics", "use.incremental.alter.configs"), _REMOVED),
    **dict.fromkeys(("connector.class", "connector.plugin.version", "name"), _OWN_NAME),
    "config.action.reload": "has no effect: mm2 reload reads values from providers again",
    "consumer.poll.timeout.ms": "has no effect: mm2 does not poll",
    "tasks.max.enforce": "has no effect: there are never more tasks than tasks.max",
    **dict.fromkeys(
        (
            "header.converter.plugin.version",
            "key.converter.plugin.version",
            "value.converter.plugin.version",
        ),
        _RECORDS,
    ),
}
"""Keys of connectors that are told and dropped, wherever they stand."""

SWITCHED_ON: Mapping[str, str] = {
    "emit.checkpoints.enabled": _CHECKPOINTS,
    "emit.heartbeats.enabled": _HEARTBEATS,
    "emit.offset-syncs.enabled": _SYNCS,
    "sync.group.offsets.enabled": _GROUPS,
    "sync.topic.acls.enabled": _ACLS,
}
"""As `NOTED`, where the value is true."""

_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
_MIRROR = "org.apache.kafka.connect.mirror."
SAME_AS_HERE: Mapping[str, tuple[str, ...]] = {
    "config.property.filter.class": (f"{_MIRROR}DefaultConfigPropertyFilter",),
    "forwarding.admin.class": ("org.apache.kafka.clients.admin.ForwardingAdmin",),
    "group.filter.class": (f"{_MIRROR}DefaultGroupFilter",),
    "header.converter": (_CONVERTER,),
    "key.converter": (_CONVERTER,),
    "predicates": ("",),
    "topic.filter.class": (f"{_MIRROR}DefaultTopicFilter",),
    "transforms": ("",),
    "value.converter": (_CONVERTER,),
}
"""Values that say what is so anyway; any other is refused."""

OURS = frozenset(
    {
        options.BUFFER_MEMORY.name,
        options.DELIVERY.name,
        options.ON_SOURCE_GAP.name,
        options.START.name,
        options.TARGET_TOPICS_NAME,
        options.THROTTLE.name,
        options.TOPIC_THROTTLES.name,
    }
)
"""Keys of flows that Java does not know, and ignores: a file with them still works there."""

FLOW_ONLY = frozenset({options.USE_DEFAULTS_FROM.name, "exactly.once.support"})
"""MirrorMaker 2 hands these to a connector only where they stand in its flow."""

BLACKLISTS = ("config.properties.blacklist", "groups.blacklist", "topics.blacklist")

CONNECTOR = connector_keys.EVERY - client_keys.CLIENT - {"config.providers"}
"""Keys of the three connectors, which hold for all flows where they stand at the top."""

FLOW = CONNECTOR | FLOW_ONLY | OURS | set(BLACKLISTS) | set(NOTED)

REST = frozenset(
    {
        "access.control.allow.methods",
        "access.control.allow.origin",
        "admin.listeners",
        "dedicated.mode.enable.internal.rest",
        "listeners",
        "response.http.headers.config",
        "rest.advertised.host.name",
        "rest.advertised.listener",
        "rest.advertised.port",
        "rest.extension.classes",
        "ssl.client.auth",
    }
)
REST_TEXT = _REST

WORKER_PREFIXES = ("config.storage.", "offset.storage.", "status.storage.", "task.", "worker.")
WORKER_NAMES = frozenset(
    {
        "connect.protocol",
        "connector.client.config.override.policy",
        "exactly.once.source.support",
        "group.id",
        "heartbeat.interval.ms",
        "inter.worker.key.generation.algorithm",
        "inter.worker.key.size",
        "inter.worker.key.ttl.ms",
        "inter.worker.signature.algorithm",
        "inter.worker.verification.algorithms",
        "offset.flush.interval.ms",
        "offset.flush.timeout.ms",
        "plugin.discovery",
        "plugin.path",
        "rebalance.timeout.ms",
        "scheduled.rebalance.max.delay.ms",
        "session.timeout.ms",
        "topic.creation.enable",
        "topic.tracking.allow.reset",
        "topic.tracking.enable",
    }
)

BOOTSTRAP = client_keys.BOOTSTRAP
PROTOCOL = client_keys.PROTOCOL
CLIENT = client_keys.CLIENT
"""`MirrorClientConfig`: what plain properties of a cluster, and those at the top, may hand on."""

RESET = "auto.offset.reset"
REFUSED_OF_CLIENTS = frozenset({"bootstrap.controllers", "interceptor.classes"})
"""The other client properties that are not taken are told, and have no effect."""

_AS_HERE: Mapping[str, tuple[str, ...]] = {
    "acks": ("all", "-1"),
    "enable.auto.commit": ("false",),
    "enable.idempotence": ("true",),
    "isolation.level": ("read_committed",),
    "ssl.enabled.protocols": ("tlsv1.2,tlsv1.3", "tlsv1.3,tlsv1.2"),
    "ssl.keymanager.algorithm": ("pkix", "sunx509"),
    "ssl.protocol": ("tls", "tlsv1.3"),
    "ssl.trustmanager.algorithm": ("pkix", "sunx509"),
}
"""Of lists, both orders. Java's own algorithms check what OpenSSL checks."""
CLIENT_KNOWN = client_properties.KNOWN | CLIENT | {"retries", "security.providers"}


def is_taken(name: str) -> bool:
    """Is this property of a client acted on, or refused with all that belongs to security?"""
    known = (client_properties.TAKEN, CLIENT, security_settings.SUPPORTED, REFUSED_OF_CLIENTS)
    return any(name in names for names in known)


def is_as_here(name: str, value: str) -> bool:
    """Does the property ask for what mm2 does anyway?"""
    return "".join(value.split()).lower() in _AS_HERE.get(name, ())


def why_not(name: str) -> str:
    """Why a client's property has no effect; "" when nobody knows it."""
    if name == "isolation.level":
        return "has no effect: only records of committed transactions are copied"
    if name == "retries":
        return "has no effect: mm2 tries for as long as the flow runs"
    if name == "security.providers":
        return "has no effect: it steers Java's own TLS"
    return client_properties.REFUSED.get(name, "")
