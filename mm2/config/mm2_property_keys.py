"""The keys of `mm2.properties` that Kafka 4.3 knows, and how mm2 treats each.

A key is honoured (it is in `flow_keys`), mapped (by `mm2_properties`), ignored with a warning,
or refused. Ignored: what has no effect because mm2 does it another way. Refused: what would
change the data or the set of mirrored topics (`flow_keys.REFUSED_KEYS`).
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.base import request_origin
from connect_runtime.protocol import security_settings
from mm2.config import client_keys, connector_checks, dedicated_mode, flow_keys, java_classes, keys

_OWN_NAME = "has no effect: a flow is called by its two aliases"

IGNORED_KEYS: Mapping[str, str] = {
    **connector_checks.KEYS_WITHOUT_EFFECT,
    **dict.fromkeys(("connector.class", "connector.plugin.version", "name"), _OWN_NAME),
    "config.action.reload": "has no effect: mm2 reload reads values from providers again",
    "tasks.max.enforce": "has no effect: there are never more tasks than tasks.max",
    **dict.fromkeys(
        (
            "header.converter.plugin.version",
            "key.converter.plugin.version",
            "value.converter.plugin.version",
        ),
        connector_checks.KEYS_WITHOUT_EFFECT["errors.tolerance"],
    ),
}
"""Keys of connectors that are told and dropped, wherever they stand."""

ACCEPTED_VALUES: Mapping[str, tuple[str, ...]] = {
    **connector_checks.FIXED_VALUES,
    keys.REPORTERS: ("", java_classes.JMX_REPORTER),
}
"""Values that say what is so anyway; any other is refused."""

EXTENSION_KEYS = frozenset(
    {
        flow_keys.BUFFER_MEMORY.name,
        flow_keys.DELIVERY.name,
        flow_keys.OFFSET_MAP_BYTES.name,
        flow_keys.ON_SOURCE_GAP.name,
        flow_keys.START.name,
        flow_keys.TARGET_TOPICS_NAME,
        flow_keys.THROTTLE.name,
        flow_keys.TOPIC_THROTTLES.name,
        flow_keys.UNREACHABLE_AFTER.name,
    }
)
"""Keys of flows that Java does not know, and ignores: a file with them still works there."""

FLOW_ONLY_KEYS = frozenset({flow_keys.USE_DEFAULTS_FROM.name, "exactly.once.support"})
"""MirrorMaker 2 hands these to a connector only where they stand in its flow."""

BLACKLIST_KEYS = tuple(connector_checks.RENAMED_KEYS)

CONNECTOR_KEYS = keys.ALL_KEYS - client_keys.CLIENT_KEYS - {"config.providers"}
"""Keys of the three connectors, which hold for all flows where they stand at the top."""

FLOW_KEYS = (
    CONNECTOR_KEYS | FLOW_ONLY_KEYS | EXTENSION_KEYS | set(BLACKLIST_KEYS) | set(IGNORED_KEYS)
)

REST_KEYS = frozenset(
    {
        "access.control.allow.methods",
        "access.control.allow.origin",
        "admin.listeners",
        dedicated_mode.INTERNAL_REST_KEY,
        "listeners",
        "response.http.headers.config",
        "rest.advertised.host.name",
        "rest.advertised.listener",
        "rest.advertised.port",
        request_origin.ALLOWED_HOST_NAMES_KEY,
        "rest.extension.classes",
        "ssl.client.auth",
    }
)
FACTOR_KEYS = tuple(each.name for each in flow_keys.FACTOR_OPTIONS)
WORKER_FACTOR_KEYS = tuple(
    f"{each}.storage.replication.factor" for each in ("config", "offset", "status")
)
"""How many replicas the topics have that a flow's connectors and its worker keep."""
EXACTLY_ONCE = "exactly.once.source.support"
NON_WORKER_KEYS = (EXACTLY_ONCE, "tasks.max", "tasks.max.enforce")
"""What a worker is told in Java and ours is not: the first is refused here, since delivery says how
flows are copied; the others are connectors' keys that begin as a worker's do."""
RECORD_ERROR_KEYS = ("errors.tolerance", "errors.retry.timeout")
"""Of connectors; a worker refuses them where it does not do what they say. Here they act on
nothing, which is told."""
RESTART_MAX = "task.restart.max"
"""Ours: how often in a row a flow's failed connectors and tasks are started again, -1: always."""
REBALANCE_DELAY = "scheduled.rebalance.max.delay.ms"
REBALANCE_DELAY_MS = 5_000
"""What files in YAML have in place of Java's five minutes."""

YAML_DEFAULTS: Mapping[str, str] = {
    dedicated_mode.INTERNAL_REST_KEY: "true",
    "listeners": "http://:0",
}
"""What files in YAML have at the top unless they say otherwise: the nodes of a group reach each
other, at any free port."""

JAVA_FLOW_DEFAULTS: Mapping[str, str] = {
    keys.EMIT_HEARTBEATS: "true",
    keys.EMIT_CHECKPOINTS_S: "60",
    keys.SYNC_GROUPS_S: "60",
    keys.REPLICATION_FACTOR: "2",
    **dict.fromkeys(FACTOR_KEYS, "3"),
}
JAVA_REST_DEFAULTS: Mapping[str, str] = {
    dedicated_mode.INTERNAL_REST_KEY: "false",
    "listeners": "http://:8083",
}
JAVA_WORKER_DEFAULTS: Mapping[str, str] = {
    REBALANCE_DELAY: "300000",
    **dict.fromkeys(WORKER_FACTOR_KEYS, "3"),
}
"""What is so in MirrorMaker 2 where nothing is said, and is not so in YAML."""

OVERRIDE_POLICY, ALL_OVERRIDES = "connector.client.config.override.policy", "All"
"""As in MirrorMaker 2: all connectors of these workers come from the operator's own file."""
TOKEN_ENDPOINT_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  # a key

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

BOOTSTRAP_SERVERS = client_keys.BOOTSTRAP_SERVERS
SECURITY_PROTOCOL = client_keys.SECURITY_PROTOCOL
CLIENT_KEYS = client_keys.CLIENT_KEYS
"""`MirrorClientConfig`: what plain properties of a cluster, and those at the top, may hand on."""

AUTO_OFFSET_RESET = "auto.offset.reset"
REFUSED_CLIENT_KEYS = frozenset({"bootstrap.controllers", "interceptor.classes"})
"""The other client properties that are not taken are told, and have no effect."""

_FIXED_CLIENT_VALUES: Mapping[str, tuple[str, ...]] = {
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
KNOWN_CLIENT_KEYS = client_keys.KNOWN_PROPERTIES | CLIENT_KEYS | {"retries", "security.providers"}


def is_supported(name: str) -> bool:
    """Is this property of a client acted on, or refused with all that belongs to security?"""
    known = (
        client_keys.SUPPORTED_PROPERTIES,
        CLIENT_KEYS,
        security_settings.SUPPORTED_KEYS,
        REFUSED_CLIENT_KEYS,
    )
    return any(name in names for names in known)


def is_fixed_value(name: str, value: str) -> bool:
    """Does the property ask for what mm2 does anyway?"""
    return "".join(value.split()).lower() in _FIXED_CLIENT_VALUES.get(name, ())


def explain_no_effect(name: str) -> str:
    """Why a client's property has no effect; "" when nobody knows it."""
    if name == "isolation.level":
        return "has no effect: only records of committed transactions are copied"
    if name == "retries":
        return "has no effect: mm2 tries for as long as the flow runs"
    if name == "security.providers":
        return "has no effect: it steers Java's own TLS"
    return client_keys.REFUSED_PROPERTIES.get(name, "")
