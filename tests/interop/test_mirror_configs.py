"""The mirror connectors' configurations are Java's: key by key, file by file, task by task."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.adapters.config import properties_source, value_providers
from connect_runtime.api import config_def, config_types
from connect_runtime.app.settings import declared_providers
from connect_runtime.base import ids
from connect_runtime.core.task import connector_keys as common_keys
from mm2.core.configs import checks, client_keys, connector_configs, dedicated, roles
from mm2.core.configs import connector_keys as keys
from mm2.core.groups import relevant
from mm2.core.topics import acls, assigned, split
from tests.interop import java_mirror_configs
from tests.interop.test_properties import ENVIRONMENT, fill

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

DEFINITIONS = {"source": keys.SOURCE, "checkpoint": keys.CHECKPOINT, "heartbeat": keys.HEARTBEAT}
CROSS = {"source": checks.source, "checkpoint": checks.checkpoint, "heartbeat": lambda _: {}}
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
                given = {keys.ENABLED: enabled, keys.EMIT_CHECKPOINTS: emit, keys.EMIT_SYNCS: syncs}
                found.append(("checkpoint", {**BASE, **_given(given)}))
    return found


def _given(values: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


def _syncs() -> list[dict[str, str]]:
    others = ("offset-syncs.topic.location", "offset-syncs-x", "offset-syncs.x", "offset.lag.max")
    return [
        {keys.EMIT_SYNCS: emit, **({} if other is None else {other: "source"})}
        for emit in ("true", "false", "FALSE")
        for other in (None, *others)
        if other != "offset.lag.max"
    ]


def _exactly_once() -> list[dict[str, str]]:
    places = ("consumer.isolation.level", "source.consumer.isolation.level")
    return [
        _given({keys.EXACTLY_ONCE: once, places[0]: one, places[1]: two, "x": "y"})
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


def connectors() -> list[java_mirror_configs.Connector]:
    return [
        java_mirror_configs.Connector(
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


def acl_questions() -> list[java_mirror_configs.Acls]:
    named = {**BASE, "target.cluster.alias": "B"}
    return [
        java_mirror_configs.Acls(properties={**named, **props}, bindings=bindings())
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
        text = "".join(properties_source.render(*pair) + "\n" for pair in lines.items())
        made[-1].write_text(text)
    return made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mirror")


@pytest.fixture(scope="module")
def java(place: Path) -> dict[str, Any]:
    """Java's answers to everything, from one JVM."""
    asked = java_mirror_configs.Question(
        files=[*fill(place), *made_files(place / "made", 300)],
        validate=questions(),
        connectors=connectors(),
        acls=acl_questions(),
    )
    return java_mirror_configs.ask(place, asked, environment=ENVIRONMENT)


def told(definition: config_def.ConfigDef) -> list[dict[str, Any]]:
    return [
        {
            "name": key.name,
            "type": str(key.type),
            "required": not key.has_default,
            "default": config_types.to_text(key.default, key.type) if key.has_default else None,
            "importance": key.importance.value,
            "validator": None if key.validator is None else str(key.validator),
            "group": key.group,
            "width": key.width.value,
            "display": key.display_name,
            "dependents": list(key.dependents),
        }
        for key in definition.keys.values()
    ]


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_definitions_are_javas(java, kind):
    """Texts of our own aside: names in order, types, defaults, checks, importance."""
    theirs = [each for each in java["definitions"][kind] if each["name"] not in keys.COMMON]
    assert told(DEFINITIONS[kind]) == theirs


def test_which_keys_reach_whom_is_javas(java):
    found = java["definitions"]
    assert {each["name"] for each in found["client"]} == client_keys.CLIENT
    assert {each["name"] for each in found["common"]} == keys.COMMON
    assert set(common_keys.CONNECTOR.keys) == keys.COMMON


def test_validation_says_what_java_says(java):
    differing = []
    for (kind, props), theirs in zip(questions(), java["validate"], strict=True):
        values = checks.validate(DEFINITIONS[kind], props, across=CROSS[kind](props))
        ours = {each.name: each.error_messages for each in values if each.error_messages}
        expected = {
            name: [_plain(each) for each in messages]
            for name, messages in theirs["errors"].items()
            if name not in keys.COMMON
        }
        if ours != expected:
            differing.append((kind, props, ours, expected))
    assert differing == []
    assert sum(bool(theirs["errors"]) for theirs in java["validate"]) > 1000


def _plain(message: str) -> str:
    """Java writes large doubles its own way."""
    return message.replace("9.9999999999E10", "99999999999.0").replace("1.0E20", "1e+20")


def test_exactly_once_is_promised_where_java_promises_it(java):
    for (kind, props), theirs in zip(questions(), java["validate"], strict=True):
        if kind == "source":
            assert checks.exactly_once(props).value == theirs["exactly once"], props


READ: dict[str, Callable[[Mapping[str, str]], Any]] = {
    "source": connector_configs.source,
    "checkpoint": connector_configs.checkpoint,
    "heartbeat": connector_configs.heartbeat,
}
ROLES = {
    "sourceConsumerConfig": roles.SOURCE_CONSUMER,
    "targetConsumerConfig": roles.TARGET_CONSUMER,
    "sourceProducerConfig": roles.SOURCE_PRODUCER,
    "targetProducerConfig": roles.TARGET_PRODUCER,
    "sourceAdminConfig": roles.SOURCE_ADMIN,
    "targetAdminConfig": roles.TARGET_ADMIN,
}


def test_every_client_gets_javas_properties(java):
    for asked, theirs in zip(connectors(), java["connectors"], strict=True):
        common = READ[asked.kind](asked.properties).common
        for name, role in ROLES.items():
            assert common.client(role, "role") == theirs[name]


def seconds(duration: str) -> float | None:
    """`PT1M30S`; None for never."""
    if "-" in duration:
        return None
    parts, number = 0.0, ""
    for char in duration.removeprefix("PT"):
        if char.isalpha():
            parts, number = parts + float(number) * {"H": 3600, "M": 60, "S": 1}[char], ""
        else:
            number += char
    return parts


def test_source_configurations_mean_what_they_mean_in_java(java):
    for asked, theirs in zip(connectors(), java["connectors"], strict=True):
        if asked.kind != "source":
            continue
        found = connector_configs.source(asked.properties)
        assert found.syncs_topic is not None
        assert found.syncs_topic.name == theirs["offsetSyncsTopic"]
        assert found.flow.policy.checkpoints_topic(found.flow.source) == theirs["checkpointsTopic"]
        assert found.flow.refresh_topics_interval_s == seconds(theirs["refreshTopicsInterval"])
        assert found.flow.sync_topic_configs_interval_s == seconds(
            theirs["syncTopicConfigsInterval"]
        )
        assert found.sync_acls_interval_s == seconds(theirs["syncTopicAclsInterval"])
        assert found.common.admin_timeout_s == seconds(theirs["adminTimeout"])
        assert str(found.lag_max) == theirs["maxOffsetLag"]


def test_the_others_mean_what_they_mean_in_java(java):
    for asked, theirs in zip(connectors(), java["connectors"], strict=True):
        if asked.kind == "checkpoint":
            found = connector_configs.checkpoint(asked.properties)
            assert found.syncs_topic.name == theirs["offsetSyncsTopic"]
            assert found.checkpoints_topic == theirs["checkpointsTopic"]
            assert found.refresh_groups_interval_s == seconds(theirs["refreshGroupsInterval"])
            assert found.emit_interval_s == seconds(theirs["emitCheckpointsInterval"])
            assert found.sync_groups_interval_s == seconds(theirs["syncGroupOffsetsInterval"])
        elif asked.kind == "heartbeat":
            beats = connector_configs.heartbeat(asked.properties)
            assert beats.interval_s == seconds(theirs["emitHeartbeatsInterval"])


def test_tasks_get_the_same_shares_in_the_same_words(java):
    """Of partitions that stand in order: Java shares them out as its hash sets happen to."""
    for asked, theirs in zip(connectors(), java["connectors"], strict=True):
        if asked.kind == "source":
            shares = split.round_robin(
                [ids.TopicPartition(*each) for each in PARTITIONS], asked.tasks
            )
            assert assigned.partition_configs(asked.properties, shares) == theirs["tasks"]
        elif asked.kind == "checkpoint" and theirs["tasks"]:
            shares_of_groups = [each["task.assigned.groups"].split(",") for each in theirs["tasks"]]
            assert assigned.group_configs(asked.properties, shares_of_groups) == theirs["tasks"]
            sizes = [len(each) for each in relevant.shares(GROUPS, asked.tasks)]
            assert sizes == [len(each) for each in shares_of_groups]


def test_both_read_what_either_wrote(java):
    seen = 0
    for asked, theirs in zip(connectors(), java["connectors"], strict=True):
        for task, read in zip(theirs["tasks"], theirs.get("read", ()), strict=False):
            seen += 1
            if asked.kind == "source":
                ours = assigned.partitions(task)
                assert sorted(ours) == sorted(ids.TopicPartition(*each) for each in read)
                assert ",".join(map(str, ours)) == task["task.assigned.partitions"]
            else:
                assert sorted(assigned.groups(task)) == sorted(read)
            assert str(assigned.index(task)) == task["task.index"]
    assert seen > 30


def test_acls_become_what_they_become_in_java(java):
    for asked, theirs in zip(acl_questions(), java["acls"], strict=True):
        flow = connector_configs.source(asked.properties).flow
        found = [acls.Acl.of(*each) for each in asked.bindings]
        ours = acls.wanted(flow, found)
        assert [each.fields() for each in ours] == _once(theirs)
        assert theirs


def _once(bindings: list[list[str]]) -> list[tuple[str, ...]]:
    """Java sends some twice; they come in the source's order."""
    return sorted({tuple(each) for each in bindings})


def test_files_make_the_same_flows_workers_and_connectors(java, place):
    differing = []
    for path, theirs in java["files"].items():
        props = dict(properties_source.parse(Path(path).read_bytes().decode("iso-8859-1")))
        props["plugin.discovery"] = "service_load"  # as the oracle has it
        resolve = resolver(props, place)
        filled = resolve(props)
        if sorted(map(str, dedicated.flows(filled))) != sorted(theirs["pairs"]):
            differing.append((path, "flows"))
        for ends in every_pair(dedicated.aliases(filled)):
            if dedicated.worker(props, ends, resolve=resolve) != theirs["workers"][str(ends)]:
                differing.append((path, f"worker {ends}"))
            ours = dedicated.connectors(props, ends)
            for kind, config in theirs["connectors"][str(ends)].items():
                if ours[f"Mirror{kind.capitalize()}Connector"] != config:
                    differing.append((path, f"{kind} {ends}"))
        for alias, config in theirs["clients"].items():
            if dedicated.client(props, alias, resolve=resolve) != config:
                differing.append((path, f"client {alias}"))
    assert differing == []
    assert sum(len(each["pairs"]) for each in java["files"].values()) > 300


def every_pair(names: tuple[str, ...]) -> list[dedicated.Ends]:
    return [dedicated.Ends(one, other) for one in names for other in names if one != other]


def resolver(props: Mapping[str, str], folder: Path) -> dedicated.Resolve:
    entries = {
        key: properties_source.Property(key=key, value=value, line=1)
        for key, value in props.items()
    }
    providers = declared_providers.read(entries, refuse=print, warn=print)

    filler = value_providers.ValueProviders(
        environment=ENVIRONMENT, folder=folder, declared=providers
    )

    def resolve(given: Mapping[str, str]) -> Mapping[str, str]:
        return {key: filler.resolve(value).text for key, value in given.items()}

    return resolve
