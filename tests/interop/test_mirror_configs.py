"""The mirror connectors' configurations are Java's: key by key, file by file, task by task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.api import config_types
from connect_runtime.api.config_def import ConfigDef
from connect_runtime.api.errors import ConnectError
from connect_runtime.api.records import SourceOffset
from connect_runtime.base.ids import TopicPartition
from connect_runtime.config import config_providers, connector_config_keys, java_properties
from connect_runtime.config.config_providers import ConfigTransformer
from connect_runtime.config.java_properties import JavaProperty
from mm2.config import (
    client_config_keys,
    connector_checks,
    dedicated_mode,
    mirror_connector_client_properties,
    mirror_connector_config,
    mirror_connector_config_keys,
)
from mm2.config.dedicated_mode import Resolve, SourceAndTarget
from mm2.connectors import connect_offsets
from mm2.offsets import group_selection
from mm2.topics import acl_sync_plan, mirror_topic_plan, task_assignment, topic_selection
from mm2.topics.acl_sync_plan import TopicAcl
from mm2.topics.mirror_topic_plan import (
    ConfigEntry,
    ConfigEntrySource,
    ObservedTopic,
    TopicsSnapshot,
)
from tests.interop import java_mirror_configs, mirror_cases
from tests.interop.java_mirror_configs import Offset, Question
from tests.interop.test_properties import ENVIRONMENT, fill

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

DEFINITIONS = mirror_cases.DEFINITIONS
CROSS = {
    "source": connector_checks.find_source_connector_errors,
    "checkpoint": connector_checks.find_checkpoint_connector_errors,
    "heartbeat": lambda _: {},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mirror")


@pytest.fixture(scope="module")
def java(place: Path) -> dict[str, Any]:
    """Java's answers to everything, from one JVM."""
    asked = Question(
        files=[*fill(place), *mirror_cases.made_files(place / "made", 300)],
        validate=mirror_cases.questions(),
        connectors=mirror_cases.connectors(),
        acls=mirror_cases.acl_questions(),
        settings=mirror_cases.settings(),
        offsets=mirror_cases.offsets(),
    )
    return java_mirror_configs.ask(place, asked, environment=ENVIRONMENT)


def told(definition: ConfigDef) -> list[dict[str, Any]]:
    return [
        {
            "name": key.name,
            "type": str(key.type),
            "required": not key.has_default,
            "default": config_types.format_config_value(key.default, key.type)
            if key.has_default
            else None,
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
    theirs = [
        each
        for each in java["definitions"][kind]
        if each["name"] not in mirror_connector_config_keys.COMMON_KEYS
    ]
    assert told(DEFINITIONS[kind]) == theirs


def test_which_keys_reach_whom_is_javas(java):
    found = java["definitions"]
    assert {each["name"] for each in found["client"]} == client_config_keys.CLIENT_KEYS
    assert {each["name"] for each in found["common"]} == mirror_connector_config_keys.COMMON_KEYS
    assert set(connector_config_keys.CONNECTOR.keys) == mirror_connector_config_keys.COMMON_KEYS


def test_validation_says_what_java_says(java):
    differing = []
    for (kind, props), theirs in zip(mirror_cases.questions(), java["validate"], strict=True):
        values = connector_checks.validate_keys(
            DEFINITIONS[kind], props, cross_key_errors=CROSS[kind](props)
        )
        ours = {each.name: each.error_messages for each in values if each.error_messages}
        expected = {
            name: [_plain(each) for each in messages]
            for name, messages in theirs["errors"].items()
            if name not in mirror_connector_config_keys.COMMON_KEYS
        }
        if ours != expected:
            differing.append((kind, props, ours, expected))
    assert differing == []
    assert sum(bool(theirs["errors"]) for theirs in java["validate"]) > 1000


def _plain(message: str) -> str:
    """Java writes large doubles its own way."""
    return message.replace("9.9999999999E10", "99999999999.0").replace("1.0E20", "1e+20")


def test_exactly_once_is_promised_where_java_promises_it(java):
    for (kind, props), theirs in zip(mirror_cases.questions(), java["validate"], strict=True):
        if kind == "source":
            assert (
                connector_checks.get_exactly_once_support(props).value == theirs["exactly once"]
            ), props


READ: dict[str, Callable[[Mapping[str, str]], Any]] = {
    "source": mirror_connector_config.parse_source_config,
    "checkpoint": mirror_connector_config.parse_checkpoint_config,
    "heartbeat": mirror_connector_config.parse_heartbeat_config,
}
ROLES = {
    "sourceConsumerConfig": mirror_connector_client_properties.SOURCE_CONSUMER,
    "targetConsumerConfig": mirror_connector_client_properties.TARGET_CONSUMER,
    "sourceProducerConfig": mirror_connector_client_properties.SOURCE_PRODUCER,
    "targetProducerConfig": mirror_connector_client_properties.TARGET_PRODUCER,
    "sourceAdminConfig": mirror_connector_client_properties.SOURCE_ADMIN,
    "targetAdminConfig": mirror_connector_client_properties.TARGET_ADMIN,
}


def test_every_client_gets_javas_properties(java):
    for asked, theirs in zip(mirror_cases.connectors(), java["connectors"], strict=True):
        common = READ[asked.kind](asked.properties).common
        for name, role in ROLES.items():
            assert common.resolve_client_properties(role, "role") == theirs[name]


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
    for asked, theirs in zip(mirror_cases.connectors(), java["connectors"], strict=True):
        if asked.kind != "source":
            continue
        found = mirror_connector_config.parse_source_config(asked.properties)
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
    for asked, theirs in zip(mirror_cases.connectors(), java["connectors"], strict=True):
        if asked.kind == "checkpoint":
            found = mirror_connector_config.parse_checkpoint_config(asked.properties)
            assert found.syncs_topic.name == theirs["offsetSyncsTopic"]
            assert found.checkpoints_topic == theirs["checkpointsTopic"]
            assert found.refresh_groups_interval_s == seconds(theirs["refreshGroupsInterval"])
            assert found.emit_interval_s == seconds(theirs["emitCheckpointsInterval"])
            assert found.sync_groups_interval_s == seconds(theirs["syncGroupOffsetsInterval"])
        elif asked.kind == "heartbeat":
            beats = mirror_connector_config.parse_heartbeat_config(asked.properties)
            assert beats.interval_s == seconds(theirs["emitHeartbeatsInterval"])


def test_tasks_get_the_same_shares_in_the_same_words(java):
    """Of partitions that stand in order: Java shares them out as its hash sets happen to."""
    for asked, theirs in zip(mirror_cases.connectors(), java["connectors"], strict=True):
        if asked.kind == "source":
            shares = task_assignment.assign_round_robin(
                [TopicPartition(*each) for each in mirror_cases.PARTITIONS], asked.tasks
            )
            assert (
                task_assignment.build_partition_task_configs(asked.properties, shares)
                == theirs["tasks"]
            )
        elif asked.kind == "checkpoint" and theirs["tasks"]:
            shares_of_groups = [each["task.assigned.groups"].split(",") for each in theirs["tasks"]]
            assert (
                task_assignment.build_group_task_configs(asked.properties, shares_of_groups)
                == theirs["tasks"]
            )
            sizes = [
                len(each)
                for each in group_selection.assign_groups(mirror_cases.GROUPS, asked.tasks)
            ]
            assert sizes == [len(each) for each in shares_of_groups]


def test_both_read_what_either_wrote(java):
    seen = 0
    for asked, theirs in zip(mirror_cases.connectors(), java["connectors"], strict=True):
        for task, read in zip(theirs["tasks"], theirs.get("read", ()), strict=False):
            seen += 1
            if asked.kind == "source":
                ours = task_assignment.parse_partitions(task)
                assert sorted(ours) == sorted(TopicPartition(*each) for each in read)
                assert ",".join(map(str, ours)) == task["task.assigned.partitions"]
            else:
                assert sorted(task_assignment.parse_groups(task)) == sorted(read)
            assert str(task_assignment.parse_task_index(task)) == task["task.index"]
    assert seen > 30


def test_acls_become_what_they_become_in_java_but_for_those_that_are_not_copied(java):
    for asked, theirs in zip(mirror_cases.acl_questions(), java["acls"], strict=True):
        flow = mirror_connector_config.parse_source_config(asked.properties).flow
        found = [TopicAcl.from_fields(*each) for each in asked.bindings]
        ours = acl_sync_plan.derive_mirror_acls(
            flow,
            found,
            mirrored_topics={
                each.name
                for each in found
                if topic_selection.should_replicate_topic(flow, each.name)
            },
        )
        assert [each.to_fields() for each in ours] == _copied(theirs, flow.format_remote_topic("*"))
        assert theirs


def _copied(bindings: list[list[str]], wildcard: str) -> list[tuple[str, ...]]:
    """What ours copies of what Java does, which sends some twice: read access to single topics."""
    found: set[tuple[str, ...]] = set()
    for *resource, operation, permission in bindings:
        operations = {
            ("ALL", "DENY"): ("READ", "DESCRIBE"),
            ("READ", permission): ("READ",),
            ("DESCRIBE", permission): ("DESCRIBE",),
        }.get((operation, permission), ())
        if resource[1] != wildcard:
            found |= {(*resource, each, permission) for each in operations}
    return sorted(found)


FLOW_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": ConfigEntrySource.TOPIC,
    "DYNAMIC_BROKER_CONFIG": ConfigEntrySource.DYNAMIC_BROKER,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": ConfigEntrySource.DYNAMIC_DEFAULT_BROKER,
    "STATIC_BROKER_CONFIG": ConfigEntrySource.STATIC_BROKER,
    "DEFAULT_CONFIG": ConfigEntrySource.DEFAULT,
}


def test_settings_follow_the_source_as_in_java(java):
    """What java sends every time, ours sends where it is not so yet."""
    for asked, theirs in zip(mirror_cases.settings(), java["settings"], strict=True):
        flow = mirror_connector_config.parse_source_config(asked.properties).flow
        ((name, value, source, sensitive, read_only),) = asked.entries
        entry = ConfigEntry(
            value=value,
            source=FLOW_SOURCES[source],
            sensitive=sensitive,
            read_only=read_only,
        )
        there = ConfigEntry(value="2")
        seen = ObservedTopic(name="t", partitions=1, configs={name: entry})
        mirror = ObservedTopic(name="A.t", partitions=1, configs={name: there})
        whole = TopicsSnapshot(topics={"t": seen})
        created = mirror_topic_plan.plan_mirror_topics(
            flow, whole, TopicsSnapshot(topics={}), sync_configs=True
        ).create
        made = {
            key: value
            for key, value in created[0].configs.items()
            if key not in mirror_topic_plan.TIMESTAMP_BOUND_CONFIGS  # which ours sets wide
        }
        assert made == theirs["created"]
        synced = mirror_topic_plan.plan_mirror_topics(
            flow, whole, TopicsSnapshot(topics={"A.t": mirror}), sync_configs=True
        ).alter
        ours: dict[str, str | None] = {}
        for each in synced:
            ours.update(each.set)
            ours.update(dict.fromkeys(each.delete))
        assert ours == theirs["synced"]


CHECK_OFFSETS = {
    "source": connect_offsets.check_source_offsets,
    "checkpoint": connect_offsets.check_checkpoint_offsets,
    "heartbeat": connect_offsets.check_heartbeat_offsets,
}


def refusal(asked: Offset) -> str | None:
    offset = SourceOffset(partition=asked.partition, offset=asked.offset)
    try:
        CHECK_OFFSETS[asked.kind]([offset])
    except ConnectError as error:
        return str(error)
    return None


def test_offsets_may_be_altered_as_in_java(java):
    refused = 0
    for asked, theirs in zip(mirror_cases.offsets(), java["offsets"], strict=True):
        ours = refusal(asked)
        assert ours == theirs
        refused += ours is not None
    assert refused > 50


def test_files_make_the_same_flows_workers_and_connectors(java, place):
    differing = []
    for path, theirs in java["files"].items():
        props = dict(java_properties.parse_properties(Path(path).read_bytes().decode("iso-8859-1")))
        props["plugin.discovery"] = "service_load"  # as the oracle has it
        resolve = resolver(props, place)
        filled = resolve(props)
        if sorted(map(str, dedicated_mode.list_flows(filled))) != sorted(theirs["pairs"]):
            differing.append((path, "flows"))
        for ends in every_pair(dedicated_mode.list_aliases(filled)):
            if (
                dedicated_mode.derive_worker_config(props, ends, resolve=resolve)
                != theirs["workers"][str(ends)]
            ):
                differing.append((path, f"worker {ends}"))
            ours = dedicated_mode.derive_connector_configs(props, ends)
            for kind, config in theirs["connectors"][str(ends)].items():
                if ours[f"Mirror{kind.capitalize()}Connector"] != config:
                    differing.append((path, f"{kind} {ends}"))
        for alias, config in theirs["clients"].items():
            if dedicated_mode.derive_client_properties(props, alias, resolve=resolve) != config:
                differing.append((path, f"client {alias}"))
    assert differing == []
    assert sum(len(each["pairs"]) for each in java["files"].values()) > 300


def every_pair(names: tuple[str, ...]) -> list[SourceAndTarget]:
    return [SourceAndTarget(one, other) for one in names for other in names if one != other]


def resolver(props: Mapping[str, str], folder: Path) -> Resolve:
    entries = {key: JavaProperty(key=key, value=value, line=1) for key, value in props.items()}
    providers = config_providers.read_declared_providers(entries, refuse=print, warn=print)

    filler = ConfigTransformer(environment=ENVIRONMENT, folder=folder, declared=providers)

    def resolve(given: Mapping[str, str]) -> Mapping[str, str]:
        return {key: filler.resolve_placeholders(value).text for key, value in given.items()}

    return resolve
