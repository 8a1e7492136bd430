"""The keys of `mm2.properties` that Kafka 4.3 knows, and what becomes of each here.

Three ends: honoured (it stands in `flow_options`), mapped (`mirror_maker` says to what), or told by
name. Who comes with a file that works should not have to change it: what has no effect because mm2
does the thing another way, or not yet, is a warning. What would change the data, or which topics
are mirrored, is refused: `flow_options.REFUSED` has those.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.base import request_origin
from connect_runtime.wire.codec import security_settings
from mm2.app.settings import flow_options as options
from mm2.core.configs import (
    answers,
    client_keys,
    client_properties,
    connector_keys,
    dedicated,
    java_classes,
)

_OWN_NAME = "has no effect: a flow is called by its two aliases"

NOTED: Mapping[str, str] = {
    **answers.WITHOUT_EFFECT,
    **dict.fromkeys(("connector.class", "connector.plugin.version", "name"), _OWN_NAME),
    "config.action.reload": "has no effect: mm2 reload reads values from providers again",
    "tasks.max.enforce": "has no effect: there are never more tasks than tasks.max",
    **dict.fromkeys(
        (
            "header.converter.plugin.version",
            "key.converter.plugin.version",
            "value.converter.plugin.version",
        ),
        answers.WITHOUT_EFFECT["errors.tolerance"],
    ),
}
"""Keys of connectors that are told and dropped, wherever they stand."""

SAME_AS_HERE: Mapping[str, tuple[str, ...]] = {
    **answers.ONLY,
    connector_keys.REPORTERS: ("", java_classes.JMX_REPORTER),
}
"""Values that say what is so anyway; any other is refused."""

OURS = frozenset(
    {
        options.BUFFER_MEMORY.name,
        options.DELIVERY.name,
        options.OFFSET_MAP_BYTES.name,
        options.ON_SOURCE_GAP.name,
        options.START.name,
        options.TARGET_TOPICS_NAME,
        options.THROTTLE.name,
        options.TOPIC_THROTTLES.name,
        options.UNREACHABLE_AFTER.name,
    }
)
"""Keys of flows that Java does not know, and ignores: a file with them still works there."""

FLOW_ONLY = frozenset({options.USE_DEFAULTS_FROM.name, "exactly.once.support"})
"""MirrorMaker 2 hands these to a connector only where they stand in its flow."""

BLACKLISTS = tuple(answers.RENAMED)

CONNECTOR = connector_keys.EVERY - client_keys.CLIENT - {"config.providers"}
"""Keys of the three connectors, which hold for all flows where they stand at the top."""

FLOW = CONNECTOR | FLOW_ONLY | OURS | set(BLACKLISTS) | set(NOTED)

REST = frozenset(
    {
        "access.control.allow.methods",
        "access.control.allow.origin",
        "admin.listeners",
        dedicated.INTERNAL_REST,
        "listeners",
        "response.http.headers.config",
        "rest.advertised.host.name",
        "rest.advertised.listener",
        "rest.advertised.port",
        request_origin.ALLOWED_NAMES,
        "rest.extension.classes",
        "ssl.client.auth",
    }
)
FACTORS = tuple(each.name for each in options.FACTORS)
WORKER_FACTORS = tuple(
    f"{each}.storage.replication.factor" for each in ("config", "offset", "status")
)
"""How many replicas the topics have that a flow's connectors and its worker keep."""
EXACTLY_ONCE = "exactly.once.source.support"
NOT_OF_WORKERS = (EXACTLY_ONCE, "tasks.max", "tasks.max.enforce")
"""What a worker is told in Java and ours is not: the first is refused here, since delivery says how
flows are copied; the others are connectors' keys that begin as a worker's do."""
ABOUT_RECORDS = ("errors.tolerance", "errors.retry.timeout")
"""Of connectors; a worker refuses them where it does not do what they say. Here they act on
nothing, which is told."""
RESTART_MAX = "task.restart.max"
"""Ours: how often in a row a flow's failed connectors and tasks are started again, -1: always."""
REBALANCE_DELAY = "scheduled.rebalance.max.delay.ms"
REBALANCE_DELAY_MS = 5_000
"""What files in YAML have in place of Java's five minutes."""

IN_YAML: Mapping[str, str] = {dedicated.INTERNAL_REST: "true", "listeners": "http://:0"}
"""What files in YAML have at the top unless they say otherwise: the nodes of a group reach each
other, at any free port."""

OF_JAVA_FLOWS: Mapping[str, str] = {
    connector_keys.EMIT_HEARTBEATS: "true",
    connector_keys.EMIT_CHECKPOINTS_S: "60",
    connector_keys.SYNC_GROUPS_S: "60",
    connector_keys.REPLICATION_FACTOR: "2",
    **dict.fromkeys(FACTORS, "3"),
}
OF_JAVA_REST: Mapping[str, str] = {dedicated.INTERNAL_REST: "false", "listeners": "http://:8083"}
OF_JAVA_WORKERS: Mapping[str, str] = {
    REBALANCE_DELAY: "300000",
    **dict.fromkeys(WORKER_FACTORS, "3"),
}
"""What is so in MirrorMaker 2 where nothing is said, and is not so in YAML."""

OVERRIDE_POLICY, ALL_OVERRIDES = "connector.client.config.override.policy", "All"
"""As in MirrorMaker 2: all connectors of these workers come from the operator's own file."""
ISSUER = "sasl.oauthbearer.token.endpoint.url"

WORKER_PREFIXES = ("config.storage.", "offset.storage.", "status.storage.", "task.", "worker.")
WORKER_NAMES = frozenset(
    {
        "connect.protocol",
        OVERRIDE_POLICY,
        EXACTLY_ONCE,
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
