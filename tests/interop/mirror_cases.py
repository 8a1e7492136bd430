"""The cases on which configurations of mirror connectors are compared with Java's."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connect_runtime.config import java_properties
from mm2.config import mirror_connector_config_keys
from tests.interop.java_mirror_configs import Acls, Connector, Offset, Settings

DEFINITIONS = {
    "source": mirror_connector_config_keys.SOURCE_KEYS,
    "checkpoint": mirror_connector_config_keys.CHECKPOINT_KEYS,
    "heartbeat": mirror_connector_config_keys.HEARTBEAT_KEYS,
}
BASE = {"source.cluster.alias": "A", "name": "n", "connector.class": "x"}
VALUES = (
    *("", " ", "x", "true", "FALSE", " true ", "-1", "0", "+7", "1.5", "0.9", "40000"),
    *("99999999999", "99999999999999999999", "a,a", "a,,b", " a , b ", ",", "legacy,new", "source"),
    *("target", "SASL_ssl", "es256", "no.such.Class"),
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
)
LEVELS = (None, "read_committed", "read_uncommitted", "rubbish")


def questions() -> list[tuple[str, dict[str, str]]]:
    """Every key with every value, and what hangs on several keys."""
    found: list[tuple[str, dict[str, str]]] = [("source", {}), ("heartbeat", {})]
    for kind, definition in DEFINITIONS.items():
        found += [(kind, {**BASE, key: value}) for key in definition.keys for value in VALUES]
    found += [("source", {**BASE, **given}) for given in _syncs()]
    found += [("source", {**BASE, **given}) for given in _exactly_once()]
    words = ("true", "false", "FALSE")
    for enabled in (None, *words):
        for emit in (None, *words):
            for syncs in (None, *words):
                given = {
                    mirror_connector_config_keys.ENABLED: enabled,
                    mirror_connector_config_keys.EMIT_CHECKPOINTS: emit,
                    mirror_connector_config_keys.EMIT_SYNCS: syncs,
                }
                found.append(("checkpoint", {**BASE, **_given(given)}))
    return found


def _given(values: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


def _syncs() -> list[dict[str, str]]:
    others = ("offset-syncs.topic.location", "offset-syncs-x", "offset-syncs.x", "offset.lag.max")
    return [
        {
            mirror_connector_config_keys.EMIT_SYNCS: emit,
            **({} if other is None else {other: "source"}),
        }
        for emit in ("true", "false", "FALSE")
        for other in (None, *others)
        if other != "offset.lag.max"
    ]


def _exactly_once() -> list[dict[str, str]]:
    places = ("consumer.isolation.level", "source.consumer.isolation.level")
    return [
        _given(
            {
                mirror_connector_config_keys.EXACTLY_ONCE: once,
                places[0]: one,
                places[1]: two,
                "x": "y",
            }
        )
        | {"source.cluster.isolation.level": "read_committed"}
        for once in ("required", "REQUIRED", "requested")
        for one in LEVELS
        for two in LEVELS
    ]


CONNECTOR_PROPS: tuple[dict[str, str], ...] = (
    {},
    {
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a:9092",
        "source.cluster.security.protocol": "SSL",
        "source.cluster.group.id": "x",
        "target.cluster.bootstrap.servers": "b:9092",
        "consumer.fetch.min.bytes": "1",
        "source.consumer.fetch.min.bytes": "2",
        "consumer.auto.offset.reset": "latest",
        "source.consumer.enable.auto.commit": "true",
        "target.consumer.client.id": "mine",
        "admin.client.id": "theirs",
        "admin.retries": "3",
        "producer.linger.ms": "4",
        "target.producer.linger.ms": "5",
        "source.producer.": "6",
        "offset-syncs.topic.location": "target",
        "refresh.topics.interval.seconds": "-5",
        "sync.topic.acls.enabled": "false",
        "refresh.groups.enabled": "false",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "90",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.interval.seconds": "7200",
        "offset.lag.max": "0",
    },
    {"replication.policy.separator": "__", "admin.timeout.ms": "1500"},
    {
        "replication.policy.separator": "__",
        "replication.policy.internal.topic.separator.enabled": "false",
        "offset-syncs.topic.location": "target",
    },
    {"replication.policy.internal.topic.separator.enabled": "false"},
    {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
)
PARTITIONS = [("t-1", 0), ("t-1", 1), ("t.2-3", 0), ("t.2-3", 1)]
PARTITIONS += [("t0", number) for number in range(8)]
GROUPS = ["a", "b c", "shop-1", "z", "Ünï", "g.1", "g-2"]


def connectors() -> list[Connector]:
    return [
        Connector(
            kind=kind,
            properties={**BASE, **props},
            tasks=tasks,
            partitions=PARTITIONS,
            groups=GROUPS,
        )
        for kind in DEFINITIONS
        for props in CONNECTOR_PROPS
        for tasks in (1, 3, 20)
    ]


def bindings() -> list[tuple[str, ...]]:
    return [
        (resource, name, pattern, "User:a", host, operation, permission)
        for resource in ("TOPIC", "GROUP")
        for name in (
            "orders",
            "*",
            "A.orders",
            "B.orders",
            "heartbeats",
            "__offsets",
            "mm2x.internal",
        )
        for pattern in ("LITERAL", "PREFIXED")
        for host in ("*", "10.0.0.1")
        for operation in ("ALL", "READ", "WRITE", "DESCRIBE", "ALTER", "DELETE", "CREATE")
        for permission in ("ALLOW", "DENY")
    ]


def acl_questions() -> list[Acls]:
    named = {**BASE, "target.cluster.alias": "B"}
    return [
        Acls(properties={**named, **props}, bindings=bindings())
        for props in (*CONNECTOR_PROPS[2:], {}, {"topics": "or.*", "topics.exclude": ".*x"})
    ]


ALIASES = ("A", "B", "us.east")
NAMES = (
    *("bootstrap.servers", "security.protocol", "ssl.truststore.location", "sasl.jaas.config"),
    *(
        "topics",
        "tasks.max",
        "offset.lag.max",
        "replication.policy.separator",
        "replication.policyX",
    ),
    *("offset.storage.topic", "status.storage.x", "config.storage.topic", "task.x", "tasksx"),
    *("workers", "key.converter", "value.converter.x", "group.id", "client.id", "plugin.path"),
    *("producer.acks", "consumer.x", "admin.y", "administrator", "producerx", "consumer", "offset"),
    *("emit.heartbeats.enabled", "enabled", "name", "connector.class", "source.cluster.alias"),
    *(
        "target.cluster.alias",
        "use.defaults.from",
        "exactly.once.source.support",
        "errors.tolerance",
    ),
    *("consumer.security.protocol", "admin.bootstrap.servers", "producer.override.acks", "foo", ""),
    *("source.consumer.x", "source.cluster.bootstrap.servers", "metric.names.formats", "groups"),
)
TYPED = {
    "security.protocol": ("SSL", "plaintext", "SASL_SSL"),
    "enabled": ("true", "True", "false", " true", "yes"),
    "emit.heartbeats.enabled": ("true", "FALSE", "no"),
}


def made_files(folder: Path, count: int) -> list[Path]:
    """Files with keys of every kind in every place; the same each time."""
    chance = random.Random(13)
    prefixes = ["", *(f"{one}." for one in ALIASES)]
    prefixes += [f"{one}->{other}." for one in ALIASES for other in ALIASES if one != other]
    prefixes += ["A->A.", "A->C.", "us."]
    folder.mkdir()
    made = []
    for number in range(count):
        lines = {"clusters": ",".join(chance.sample(ALIASES, chance.randint(1, 3)))}
        for _ in range(chance.randint(0, 40)):
            name = chance.choice(NAMES)
            key = chance.choice(prefixes) + name
            lines[key] = chance.choice(TYPED.get(name, (f"v{len(lines)}", f" w{len(lines)}")))
        lines.pop("", None)
        for alias in ALIASES:  # Java's clients need them
            lines.setdefault(f"{alias}.bootstrap.servers", f"{alias}:9092")
        made.append(folder / f"{number}.properties")
        text = "".join(java_properties.format_property(*pair) + "\n" for pair in lines.items())
        made[-1].write_text(text)
    return made


PROPERTIES = ("retention.ms", "min.insync.replicas", "message.timestamp.type", "segment.bytes")
SOURCES = (
    *("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    *("STATIC_BROKER_CONFIG", "DEFAULT_CONFIG"),
)


def settings() -> list[Settings]:
    """One entry at a time, of every kind."""
    named = {**BASE, "target.cluster.alias": "B"}
    return [
        Settings(
            properties={**named, **props},
            entries=[(name, "1", source, sensitive, read_only)],
        )
        for props in (
            {},
            {mirror_connector_config_keys.USE_DEFAULTS_FROM: "source"},
            {mirror_connector_config_keys.PROPERTIES_EXCLUDE: "re.*"},
            {mirror_connector_config_keys.PROPERTIES_EXCLUDE: ""},
        )
        for name in PROPERTIES
        for source in SOURCES
        for sensitive in (False, True)
        for read_only in (False, True)
    ]


def offsets() -> list[Offset]:
    """Source offsets that may be altered, and many that may not."""
    right: dict[str, dict[str, object]] = {
        "source": {"cluster": "A", "partition": 0, "topic": "t"},
        "checkpoint": {"partition": 0, "topic": "A.t", "group": "g"},
        "heartbeat": {"sourceClusterAlias": "A", "targetClusterAlias": "B"},
    }
    values = ("x", None, 3.5, -1, 0, 7, 2**31, "0", True)
    found: list[tuple[str, Any, Any]] = []
    for kind, partition in right.items():
        changed = [{**partition, key: value} for key in partition for value in values]
        less = [{n: v for n, v in partition.items() if n != key} for key in partition]
        found += [(kind, each, {"offset": 0}) for each in (*changed, *less, {}, None)]
        found += [(kind, partition, {"offset": value}) for value in values]
        found += [(kind, each, None) for each in (partition, {}, None)]
        found.append((kind, partition, {}))
    return [
        Offset(kind=kind, partition=partition, offset=offset) for kind, partition, offset in found
    ]
