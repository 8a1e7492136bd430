"""Definitions of worker properties: `COMMON`, `STANDALONE` and `DISTRIBUTED`."""

from __future__ import annotations

from typing import Any

from connect_runtime.api import config_types
from connect_runtime.api.config_def import ConfigDef, Type
from connect_runtime.api.config_validators import (
    CaseInsensitiveValidString,
    Lambda,
    NonEmptyString,
    Range,
    ValidList,
    ValidString,
)
from connect_runtime.base import host_and_origin_rules
from connect_runtime.config import metrics_settings

SIGNATURE_ALGORITHMS = ("HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512")
PROTOCOLS = ("eager", "compatible", "sessioned")
FILE_PATHS_KEY = "file.stream.allowed.paths"
OAUTH_URLS_KEY = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ALLOWLISTED_OVERRIDES = (
    # Credentials, as in the policy Principal.
    "sasl.jaas.config",
    "sasl.mechanism",
    "security.protocol",
    # Client tuning.
    "acks",
    "allow.auto.create.topics",
    "auto.offset.reset",
    "batch.size",
    "buffer.memory",
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "delivery.timeout.ms",
    "enable.idempotence",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "heartbeat.interval.ms",
    "isolation.level",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.strategy",
    "partition.assignment.strategy",
    "partitioner.ignore.keys",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "transaction.timeout.ms",
)
"""Default override allowlist. It excludes addresses of brokers and other endpoints, and classes and
files of the worker."""
_INT_MAX = 2**31 - 1
_MIN_KEY_BITS = 128
"""Minimum signing key size. Java accepts 40 bits, which can be brute-forced from one signed
request."""

_AT_LEAST_0 = Range(at_least=0)
_AT_LEAST_1 = Range(at_least=1)
_NON_EMPTY = NonEmptyString()


def _check_replication_factor(name: str, value: Any) -> None:
    if value is None or (value < 1 and value != -1):
        raise config_types.build_invalid_value_error(
            name, value, "Value must be at least 1, or -1 for the brokers' default"
        )


def _check_key_size(name: str, value: Any) -> None:
    if value is not None and value < _MIN_KEY_BITS:
        raise config_types.build_invalid_value_error(
            name, value, f"Value must be at least {_MIN_KEY_BITS}"
        )


_KEY_SIZE_VALIDATOR = Lambda(_check_key_size, f"[{_MIN_KEY_BITS},...]")
_REPLICATION_VALIDATOR = Lambda(_check_replication_factor, "-1 or [1,...]")


def _define_common_keys() -> ConfigDef:
    keys = ConfigDef()
    keys.define(
        "bootstrap.servers",
        Type.LIST,
        "Brokers for the initial connection to the cluster, as host:port.",
        validator=ValidList(empty_allowed=False),
    )
    for name in ("key.converter", "value.converter"):
        keys.define(name, Type.STRING, "Default converter class.", validator=_NON_EMPTY)
    keys.define(
        "header.converter",
        Type.STRING,
        "Default converter class for headers.",
        default="org.apache.kafka.connect.storage.SimpleHeaderConverter",
        validator=_NON_EMPTY,
    )
    for name in ("key.converter", "value.converter", "header.converter"):
        keys.define(f"{name}.plugin.version", Type.STRING, "Plugin version.", default=None)
    _add_time_keys(
        keys, ("task.shutdown.graceful.timeout.ms", 5000), ("offset.flush.timeout.ms", 5000)
    )
    keys.define(
        "offset.flush.interval.ms",
        Type.LONG,
        "Interval at which offsets are committed.",
        default=60_000,
        validator=_AT_LEAST_0,
    )
    keys.define("plugin.path", Type.LIST, "Folders that contain plugins.", default=None)
    keys.define(
        "plugin.discovery",
        Type.STRING,
        "Java's plugin discovery mode; has no effect.",
        default="hybrid_warn",
        validator=CaseInsensitiveValidString(
            "only_scan", "hybrid_warn", "hybrid_fail", "service_load"
        ),
    )
    keys.define(
        FILE_PATHS_KEY,
        Type.LIST,
        "Files and directories that FileStream connectors may read and write; if empty, these"
        " connectors are disabled.",
        default=[],
    )
    keys.define("config.providers", Type.LIST, "Names of the config providers.", default=[])
    keys.define(
        "connector.client.config.override.policy",
        Type.STRING,
        "Policy for the Kafka client settings that connectors may override. (Java's default: All.)",
        default="Allowlist",
    )
    keys.define(
        "connector.client.config.override.allowlist",
        Type.LIST,
        "Settings that connectors may override if the policy is Allowlist. (Java's default: none.)",
        default=list(ALLOWLISTED_OVERRIDES),
    )
    keys.define(
        OAUTH_URLS_KEY,
        Type.LIST,
        "Token endpoints that connectors may use, in addition to those in the worker's own"
        " properties. (Java: a system property.)",
        default=[],
    )
    for name, text in (
        ("topic.creation.enable", "Whether to create topics for source connectors."),
        ("topic.tracking.enable", "Whether to track the active topics of connectors."),
        ("topic.tracking.allow.reset", "Whether users may reset a connector's active topics."),
    ):
        keys.define(name, Type.BOOLEAN, text, default=True)
    _add_rest_keys(keys)
    return _add_client_keys(keys)


def _add_rest_keys(keys: ConfigDef) -> None:
    keys.define(
        "listeners",
        Type.LIST,
        "Addresses on which the REST API listens. (Java's default: http://:8083, all interfaces.)",
        default=["http://127.0.0.1:8083"],
    )
    keys.define("admin.listeners", Type.LIST, "Addresses of the admin REST API.", default=None)
    for name, text in (
        ("rest.advertised.host.name", "Host name at which other workers connect to this worker."),
        ("rest.advertised.listener", "Protocol with which other workers connect to this worker."),
    ):
        keys.define(name, Type.STRING, text, default=None)
    text = "Port at which other workers connect to this worker."
    keys.define("rest.advertised.port", Type.INT, text, default=None)
    for name in (
        "access.control.allow.origin",
        "access.control.allow.methods",
        "response.http.headers.config",
    ):
        keys.define(name, Type.STRING, "HTTP response headers of the REST API.", default="")
    keys.define(
        host_and_origin_rules.ALLOWED_HOST_NAMES_KEY,
        Type.LIST,
        "Host names, in addition to the worker's own, that requests to the REST API may use: "
        "*.example.org allows all subdomains of example.org, * any name. IP addresses, localhost "
        "and names without a dot are always allowed.",
        default=[],
    )
    keys.define("rest.extension.classes", Type.LIST, "REST API extension classes.", default=[])


def _add_client_keys(keys: ConfigDef) -> ConfigDef:
    keys.define("client.id", Type.STRING, "Client id for brokers.", default="")
    keys.define(
        "client.dns.lookup",
        Type.STRING,
        "Method of resolving broker host names.",
        default="use_all_dns_ips",
        validator=ValidString("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    )
    keys.define(
        "metric.reporters", Type.LIST, "Java's metrics reporters; has no effect.", default=[]
    )
    keys.define("metrics.recording.level", Type.STRING, "Has no effect.", default="INFO")
    keys.define(
        "metrics.num.samples",
        Type.INT,
        "Number of metric samples.",
        default=2,
        validator=_AT_LEAST_1,
    )
    _add_time_keys(keys, ("metrics.sample.window.ms", 30_000))
    keys.define(
        metrics_settings.LISTENER_KEY,
        Type.STRING,
        "Listener for Prometheus, as http://host:port; empty disables it.",
        default="",
        validator=Lambda(metrics_settings.validate_metrics_listener, "http://host:port"),
    )
    return keys


def _add_time_keys(keys: ConfigDef, *times: tuple[str, int]) -> None:
    for name, default in times:
        keys.define(name, Type.LONG, "In milliseconds.", default=default, validator=_AT_LEAST_0)


def _define_standalone_keys() -> ConfigDef:
    return ConfigDef(COMMON).define(
        "offset.storage.file.filename",
        Type.STRING,
        "File that stores the offsets.",
        validator=_NON_EMPTY,
    )


def _define_distributed_keys() -> ConfigDef:
    keys = ConfigDef(COMMON)
    keys.define("group.id", Type.STRING, "Group id of the Connect cluster.", validator=_NON_EMPTY)
    for name in ("config", "offset", "status"):
        keys.define(
            f"{name}.storage.topic", Type.STRING, f"Internal {name} topic.", validator=_NON_EMPTY
        )
        keys.define(
            f"{name}.storage.replication.factor",
            Type.SHORT,
            f"Replication factor of the {name} topic.",
            default=3,
            validator=_REPLICATION_VALIDATOR,
        )
    for name, count in (("offset", 25), ("status", 5)):
        keys.define(
            f"{name}.storage.partitions",
            Type.INT,
            f"Number of partitions of the {name} topic.",
            default=count,
            validator=_REPLICATION_VALIDATOR,
        )
    _add_group_keys(keys)
    _add_connection_keys(keys)
    return _add_security_keys(keys)


def _add_group_keys(keys: ConfigDef) -> None:
    for name, default in (
        ("session.timeout.ms", 10_000),
        ("heartbeat.interval.ms", 3_000),
        ("rebalance.timeout.ms", 60_000),
        ("worker.sync.timeout.ms", 3_000),
        ("worker.unsync.backoff.ms", 300_000),
    ):
        keys.define(name, Type.INT, "In milliseconds.", default=default, validator=_AT_LEAST_0)
    keys.define(
        "scheduled.rebalance.max.delay.ms",
        Type.INT,
        "Maximum delay before the work of a lost worker is reassigned, in milliseconds.",
        default=300_000,
        validator=Range(at_least=0, at_most=_INT_MAX),
    )
    keys.define(
        "connect.protocol",
        Type.STRING,
        "Rebalance protocol of the group.",
        default="sessioned",
        validator=CaseInsensitiveValidString(*PROTOCOLS),
    )
    keys.define(
        "exactly.once.source.support",
        Type.STRING,
        "Whether to enable exactly-once support for source connectors.",
        default="disabled",
        validator=CaseInsensitiveValidString("disabled", "preparing", "enabled"),
    )


def _add_security_keys(keys: ConfigDef) -> ConfigDef:
    keys.define(
        "inter.worker.key.ttl.ms",
        Type.INT,
        "Lifetime of a session key, in milliseconds.",
        default=3_600_000,
        validator=Range(at_least=0, at_most=_INT_MAX),
    )
    for name in ("inter.worker.key.generation.algorithm", "inter.worker.signature.algorithm"):
        keys.define(name, Type.STRING, "Algorithm of session keys.", default="HmacSHA256")
    keys.define(
        "inter.worker.key.size",
        Type.INT,
        "Size of session keys in bits; the default depends on the algorithm.",
        default=None,
        validator=_KEY_SIZE_VALIDATOR,
    )
    keys.define(
        "inter.worker.verification.algorithms",
        Type.LIST,
        "Accepted signature algorithms.",
        default=["HmacSHA256"],
        validator=ValidList(empty_allowed=False),
    )
    return keys.define(
        "security.protocol", Type.STRING, "Protocol for brokers.", default="PLAINTEXT"
    )


def _add_connection_keys(keys: ConfigDef) -> None:
    _add_time_keys(
        keys,
        ("metadata.max.age.ms", 300_000),
        ("reconnect.backoff.ms", 50),
        ("reconnect.backoff.max.ms", 1_000),
        ("retry.backoff.ms", 100),
        ("retry.backoff.max.ms", 1_000),
        ("socket.connection.setup.timeout.ms", 10_000),
        ("socket.connection.setup.timeout.max.ms", 30_000),
        ("request.timeout.ms", 40_000),
        ("metadata.recovery.rebootstrap.trigger.ms", 300_000),
        ("bootstrap.resolve.timeout.ms", 0),
    )
    idle = (
        "Time before an idle connection is closed, in milliseconds; a negative value disables the "
        "limit."
    )
    keys.define("connections.max.idle.ms", Type.LONG, idle, default=540_000)
    for name, size in (("send.buffer.bytes", 131_072), ("receive.buffer.bytes", 32_768)):
        keys.define(
            name,
            Type.INT,
            "Socket buffer size; -1 uses the system's default.",
            default=size,
            validator=Range(at_least=-1),
        )
    keys.define(
        "metadata.recovery.strategy",
        Type.STRING,
        "Action when no known broker is reachable.",
        default="rebootstrap",
        validator=CaseInsensitiveValidString("none", "rebootstrap"),
    )
    for name, text in (
        (
            "internal.topics.automatic.creation.enable",
            "Whether to create missing internal topics.",
        ),
        (
            "metadata.cluster.check.enable",
            "Whether clients check that each broker belongs to the expected cluster.",
        ),
    ):
        keys.define(name, Type.BOOLEAN, text, default=True)


COMMON = _define_common_keys()
STANDALONE = _define_standalone_keys()
DISTRIBUTED = _define_distributed_keys()
