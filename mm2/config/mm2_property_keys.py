"""Keys of `mm2.properties` (Kafka 4.3), and how mm2 handles each key.

A key is used (`flow_config_keys`), mapped to another key (`mm2_properties`), ignored with a
warning, or refused. Keys that have no effect in mm2 are ignored. Keys that would change the data
or the set of replicated topics are refused (`flow_config_keys.REFUSED_KEYS`).
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.base import host_and_origin_rules
from connect_runtime.protocol import security_settings
from mm2.config import (
    client_config_keys,
    connector_checks,
    dedicated_mode,
    flow_config_keys,
    java_class_placeholders,
    mirror_connector_config_keys,
    mm2_only_keys,
)

_OWN_NAME = "has no effect: the name of a flow consists of its two cluster aliases"

IGNORED_KEYS: Mapping[str, str] = {
    **connector_checks.KEYS_WITHOUT_EFFECT,
    **dict.fromkeys(("connector.class", "connector.plugin.version", "name"), _OWN_NAME),
    "config.action.reload": "has no effect: use mm2 reload to read config providers again",
    "tasks.max.enforce": "has no effect: mm2 never creates more than tasks.max tasks",
    **dict.fromkeys(
        (
            "header.converter.plugin.version",
            "key.converter.plugin.version",
            "value.converter.plugin.version",
        ),
        connector_checks.KEYS_WITHOUT_EFFECT["errors.tolerance"],
    ),
}
"""Connector keys that are ignored with a warning."""

ACCEPTED_VALUES: Mapping[str, tuple[str, ...]] = {
    **connector_checks.FIXED_VALUES,
    mirror_connector_config_keys.REPORTERS: ("", java_class_placeholders.JMX_REPORTER),
}
"""Keys whose value is fixed in mm2. Any other value is refused."""

FLOW_ONLY_KEYS = frozenset({flow_config_keys.USE_DEFAULTS_FROM.name, "exactly.once.support"})
"""Keys that MirrorMaker 2 passes to a connector only if they have the prefix of its flow."""

BLACKLIST_KEYS = tuple(connector_checks.RENAMED_KEYS)

CONNECTOR_KEYS = (
    mirror_connector_config_keys.ALL_KEYS - client_config_keys.CLIENT_KEYS - {"config.providers"}
)
"""Keys of the three connectors. Without a prefix, they apply to all flows."""

FLOW_KEYS = (
    CONNECTOR_KEYS | FLOW_ONLY_KEYS | mm2_only_keys.NAMES | set(BLACKLIST_KEYS) | set(IGNORED_KEYS)
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
        host_and_origin_rules.ALLOWED_HOST_NAMES_KEY,
        "rest.extension.classes",
        "ssl.client.auth",
    }
)
FACTOR_KEYS = tuple(each.name for each in flow_config_keys.FACTOR_OPTIONS)
WORKER_FACTOR_KEYS = tuple(
    f"{each}.storage.replication.factor" for each in ("config", "offset", "status")
)
"""Replication factors of the worker's config, offset and status topics."""
EXACTLY_ONCE = "exactly.once.source.support"
NON_WORKER_KEYS = (EXACTLY_ONCE, "tasks.max", "tasks.max.enforce")
"""Keys that Java passes to workers but mm2 does not. `delivery` replaces the first key. The other
keys are connector keys that happen to match a worker prefix."""
RECORD_ERROR_KEYS = ("errors.tolerance", "errors.retry.timeout")
"""Connector keys that are not passed on, because they have no effect in mm2 (the loader warns about
them) and a worker would refuse them."""
RESTART_MAX = "task.restart.max"
"""mm2-only key for the maximum number of consecutive restarts of a failed connector or task; -1:
unlimited."""
REBALANCE_DELAY = "scheduled.rebalance.max.delay.ms"
REBALANCE_DELAY_MS = 5_000
"""Default rebalance delay in YAML, in milliseconds. Java's default is five minutes."""

YAML_DEFAULTS: Mapping[str, str] = {
    dedicated_mode.INTERNAL_REST_KEY: "true",
    "listeners": "http://:0",
}
"""YAML defaults of unprefixed properties: nodes of a group communicate over REST, on any free
port."""

JAVA_FLOW_DEFAULTS: Mapping[str, str] = {
    mirror_connector_config_keys.EMIT_HEARTBEATS: "true",
    mirror_connector_config_keys.EMIT_CHECKPOINTS_S: "60",
    mirror_connector_config_keys.SYNC_GROUPS_S: "60",
    mirror_connector_config_keys.REPLICATION_FACTOR: "2",
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
"""MirrorMaker 2 defaults that differ from the YAML defaults."""

OVERRIDE_POLICY, ALL_OVERRIDES = "connector.client.config.override.policy", "All"
"""Client config override policy of all workers. It allows all overrides, as in MirrorMaker 2,
because the connectors are configured in the operator's file."""
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

BOOTSTRAP_SERVERS = client_config_keys.BOOTSTRAP_SERVERS
SECURITY_PROTOCOL = client_config_keys.SECURITY_PROTOCOL
CLIENT_KEYS = client_config_keys.CLIENT_KEYS
"""Cluster properties and unprefixed properties that are passed to the clusters' clients
(`MirrorClientConfig`)."""

AUTO_OFFSET_RESET = "auto.offset.reset"
REFUSED_CLIENT_KEYS = frozenset({"bootstrap.controllers", "interceptor.classes"})
"""Client properties that are refused. Other unsupported client properties are ignored with a
warning."""

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
"""Client properties that may be set only to the values that mm2 always uses. List values may be in
any order. Java's default key and trust manager algorithms (`pkix`, `sunx509`) are accepted, because
they check certificates as OpenSSL does."""
KNOWN_CLIENT_KEYS = (
    client_config_keys.KNOWN_PROPERTIES | CLIENT_KEYS | {"retries", "security.providers"}
)


def is_validated_property(name: str) -> bool:
    """Return True if a section reader validates this client property. Other properties are ignored
    with a warning."""
    known = (
        client_config_keys.SUPPORTED_PROPERTIES,
        CLIENT_KEYS,
        security_settings.SUPPORTED_KEYS,
        REFUSED_CLIENT_KEYS,
    )
    return any(name in names for names in known)


def is_fixed_value(name: str, value: str) -> bool:
    """Return True if the property is set to the value that is fixed in mm2."""
    return "".join(value.split()).lower() in _FIXED_CLIENT_VALUES.get(name, ())


def explain_ineffective_property(name: str) -> str:
    """Return the reason why a client property has no effect, or "" if the property is unknown."""
    if name == "isolation.level":
        return "has no effect: mm2 replicates only records of committed transactions"
    if name == "retries":
        return "has no effect: mm2 retries for as long as the flow runs"
    if name == "security.providers":
        return "has no effect: it configures Java's TLS"
    return client_config_keys.REFUSED_PROPERTIES.get(name, "")
