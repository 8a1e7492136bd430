"""Definitions of worker properties: `COMMON`, `STANDALONE` and `DISTRIBUTED`."""

from __future__ import annotations

from typing import Any

from connect_runtime.api import config_def, config_types
from connect_runtime.api.config_def import ConfigDef
from connect_runtime.api.config_validators import (
    CaseInsensitiveValidString,
    Lambda,
    NonEmptyString,
    Range,
    ValidList,
    ValidString,
)
from connect_runtime.base import request_origin
from connect_runtime.config import metrics_settings

Type = config_def.Type
SIGNATURE_ALGORITHMS = ("HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512")
PROTOCOLS = ("eager", "compatible", "sessioned")
FILE_PATHS_KEY = "file.stream.allowed.paths"
OAUTH_URLS_KEY = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ALLOWLISTED_OVERRIDES = (
    # Who the connector is, as under the policy Principal.
    "sasl.jaas.config",
    "sasl.mechanism",
    "security.protocol",
    # What tunes its clients.
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
"""What connectors may override by default: nothing that names brokers, other endpoints, classes or
files of the worker's machine."""
_INT_MAX = 2**31 - 1
_MIN_KEY_BITS = 128
"""Java takes 40: who has seen one signed request could then find the key."""

_AT_LEAST_0 = Range(at_least=0)
_AT_LEAST_1 = Range(at_least=1)
_NON_EMPTY = NonEmptyString()


def _check_replication_factor(name: str, value: Any) -> None:
    if value is None or (value < 1 and value != -1):
        raise config_types.invalid(
            name, value, "Value must be -1 for the brokers' default, or at least 1"
        )


def _check_key_size(name: str, value: Any) -> None:
    if value is not None and value < _MIN_KEY_BITS:
        raise config_types.invalid(name, value, f"Value must be at least {_MIN_KEY_BITS}")


_KEY_SIZE_VALIDATOR = Lambda(_check_key_size, f"[{_MIN_KEY_BITS},...]")
_REPLICATION_VALIDATOR = Lambda(_check_replication_factor, "-1 or [1,...]")


def _define_common_keys() -> ConfigDef:
    keys = ConfigDef()
    keys.define(
        "bootstrap.servers",
        Type.LIST,
        "Brokers to begin with, as host:port.",
        validator=ValidList(empty_allowed=False),
    )
    for name in ("key.converter", "value.converter"):
        keys.define(name, Type.STRING, "The class that converts.", validator=_NON_EMPTY)
    keys.define(
        "header.converter",
        Type.STRING,
        "The class that converts headers.",
        default="org.apache.kafka.connect.storage.SimpleHeaderConverter",
        validator=_NON_EMPTY,
    )
    for name in ("key.converter", "value.converter", "header.converter"):
        keys.define(f"{name}.plugin.version", Type.STRING, "Which version of it.", default=None)
    _add_time_keys(
        keys, ("task.shutdown.graceful.timeout.ms", 5000), ("offset.flush.timeout.ms", 5000)
    )
    keys.define(
        "offset.flush.interval.ms",
        Type.LONG,
        "How often offsets are committed.",
        default=60_000,
        validator=_AT_LEAST_0,
    )
    keys.define("plugin.path", Type.LIST, "Folders to look for plugins in.", default=None)
    keys.define(
        "plugin.discovery",
        Type.STRING,
        "Of Java's class loading: of no effect here.",
        default="hybrid_warn",
        validator=CaseInsensitiveValidString(
            "only_scan", "hybrid_warn", "hybrid_fail", "service_load"
        ),
    )
    keys.define(
        FILE_PATHS_KEY,
        Type.LIST,
        "Files, and folders of files, that FileStream connectors may read and write; if empty,"
        " these connectors are off.",
        default=[],
    )
    keys.define("config.providers", Type.LIST, "Names of providers of values.", default=[])
    keys.define(
        "connector.client.config.override.policy",
        Type.STRING,
        "Which settings of their Kafka clients connectors may override. (Java: All.)",
        default="Allowlist",
    )
    keys.define(
        "connector.client.config.override.allowlist",
        Type.LIST,
        "Settings that connectors may override under the policy Allowlist. (Java: none.)",
        default=list(ALLOWLISTED_OVERRIDES),
    )
    keys.define(
        OAUTH_URLS_KEY,
        Type.LIST,
        "Token endpoints that connectors may name, besides those of the worker's own file. (Java: a"
        " system property.)",
        default=[],
    )
    for name in ("topic.creation.enable", "topic.tracking.enable", "topic.tracking.allow.reset"):
        keys.define(name, Type.BOOLEAN, "Whether that is done.", default=True)
    _add_rest_keys(keys)
    return _add_client_keys(keys)


def _add_rest_keys(keys: ConfigDef) -> None:
    keys.define(
        "listeners",
        Type.LIST,
        "Addresses that the REST API listens on. (Java: http://:8083, every interface.)",
        default=["http://127.0.0.1:8083"],
    )
    keys.define("admin.listeners", Type.LIST, "Where administrators' REST does.", default=None)
    for name in ("rest.advertised.host.name", "rest.advertised.listener"):
        keys.define(name, Type.STRING, "What other workers are told.", default=None)
    keys.define("rest.advertised.port", Type.INT, "What other workers are told.", default=None)
    for name in (
        "access.control.allow.origin",
        "access.control.allow.methods",
        "response.http.headers.config",
    ):
        keys.define(name, Type.STRING, "Of the REST API's answers.", default="")
    keys.define(
        request_origin.ALLOWED_HOST_NAMES_KEY,
        Type.LIST,
        "Host names, besides the worker's own, that requests to the REST API may use:"
        " *.example.org allows every name below example.org, * any name. Addresses, localhost and"
        " names without a dot are always allowed.",
        default=[],
    )
    keys.define("rest.extension.classes", Type.LIST, "Of the REST API.", default=[])


def _add_client_keys(keys: ConfigDef) -> ConfigDef:
    keys.define("client.id", Type.STRING, "How clients call themselves.", default="")
    keys.define(
        "client.dns.lookup",
        Type.STRING,
        "How names are resolved.",
        default="use_all_dns_ips",
        validator=ValidString("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    )
    keys.define("metric.reporters", Type.LIST, "Java's: of no effect here.", default=[])
    keys.define("metrics.recording.level", Type.STRING, "Java's: of no effect.", default="INFO")
    keys.define("metrics.num.samples", Type.INT, "Of metrics.", default=2, validator=_AT_LEAST_1)
    _add_time_keys(keys, ("metrics.sample.window.ms", 30_000))
    keys.define(
        metrics_settings.LISTENER_KEY,
        Type.STRING,
        "Where metrics are served to Prometheus, as http://host:port; empty for nowhere.",
        default="",
        validator=Lambda(metrics_settings.validate_listener, "http://host:port"),
    )
    return keys


def _add_time_keys(keys: ConfigDef, *times: tuple[str, int]) -> None:
    for name, default in times:
        keys.define(name, Type.LONG, "In milliseconds.", default=default, validator=_AT_LEAST_0)


def _define_standalone_keys() -> ConfigDef:
    return ConfigDef(COMMON).define(
        "offset.storage.file.filename",
        Type.STRING,
        "The file that offsets are kept in.",
        validator=_NON_EMPTY,
    )


def _define_distributed_keys() -> ConfigDef:
    keys = ConfigDef(COMMON)
    keys.define("group.id", Type.STRING, "The Connect cluster.", validator=_NON_EMPTY)
    for name in ("config", "offset", "status"):
        keys.define(
            f"{name}.storage.topic", Type.STRING, "An internal topic.", validator=_NON_EMPTY
        )
        keys.define(
            f"{name}.storage.replication.factor",
            Type.SHORT,
            "Its replicas.",
            default=3,
            validator=_REPLICATION_VALIDATOR,
        )
    for name, count in (("offset", 25), ("status", 5)):
        keys.define(
            f"{name}.storage.partitions",
            Type.INT,
            "Its partitions.",
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
        "How long a lost worker's work waits for it.",
        default=300_000,
        validator=Range(at_least=0, at_most=_INT_MAX),
    )
    keys.define(
        "connect.protocol",
        Type.STRING,
        "How work is handed out.",
        default="sessioned",
        validator=CaseInsensitiveValidString(*PROTOCOLS),
    )
    keys.define(
        "exactly.once.source.support",
        Type.STRING,
        "Whether sources write exactly once.",
        default="disabled",
        validator=CaseInsensitiveValidString("disabled", "preparing", "enabled"),
    )


def _add_security_keys(keys: ConfigDef) -> ConfigDef:
    keys.define(
        "inter.worker.key.ttl.ms",
        Type.INT,
        "How long a session key is used.",
        default=3_600_000,
        validator=Range(at_least=0, at_most=_INT_MAX),
    )
    for name in ("inter.worker.key.generation.algorithm", "inter.worker.signature.algorithm"):
        keys.define(name, Type.STRING, "Of session keys.", default="HmacSHA256")
    keys.define(
        "inter.worker.key.size",
        Type.INT,
        "In bits; None: usual.",
        default=None,
        validator=_KEY_SIZE_VALIDATOR,
    )
    keys.define(
        "inter.worker.verification.algorithms",
        Type.LIST,
        "Which signatures count.",
        default=["HmacSHA256"],
        validator=ValidList(empty_allowed=False),
    )
    return keys.define("security.protocol", Type.STRING, "To brokers.", default="PLAINTEXT")


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
    idle = "How long an idle connection is kept, in ms; below 0: for ever."
    keys.define("connections.max.idle.ms", Type.LONG, idle, default=540_000)
    for name, size in (("send.buffer.bytes", 131_072), ("receive.buffer.bytes", 32_768)):
        keys.define(
            name,
            Type.INT,
            "-1: the system's default.",
            default=size,
            validator=Range(at_least=-1),
        )
    keys.define(
        "metadata.recovery.strategy",
        Type.STRING,
        "When no known broker is left.",
        default="rebootstrap",
        validator=CaseInsensitiveValidString("none", "rebootstrap"),
    )
    for name in ("internal.topics.automatic.creation.enable", "metadata.cluster.check.enable"):
        keys.define(name, Type.BOOLEAN, "Whether that is done.", default=True)


COMMON = _define_common_keys()
STANDALONE = _define_standalone_keys()
DISTRIBUTED = _define_distributed_keys()
