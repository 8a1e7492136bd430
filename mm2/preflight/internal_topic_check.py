"""Checks the internal topics of a flow against the configuration of its worker and connectors."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_runtime.base import plurals
from connect_runtime.storage.internal_topic_settings import InternalTopic, InternalTopicKind
from mm2.config import (
    dedicated_mode,
    flow_connector_configs,
    mirror_connector_config,
    mirror_connector_config_keys,
)
from mm2.config.effective_config import EffectiveFlowConfig, ValueOriginKind
from mm2.config.flow_connector_configs import FlowPlan
from mm2.config.mirror_connector_config import (
    MirrorCheckpointConfig,
    MirrorHeartbeatConfig,
    MirrorSourceConfig,
)
from mm2.config.mm2_settings import Mm2Settings
from mm2.kafka import kafka_client_interfaces
from mm2.kafka.kafka_client_interfaces import FlowStateTopic
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.preflight.replication_factor_check import ReplicationFactorCause
from mm2.preflight.required_acls import ClientResource, FlowClient, InternalTopicAcls, ResourceKind
from mm2.suggested_commands import ClusterCommands
from mm2.topics import replication_loops, replication_policy
from mm2.topics.flow_config import Flow

_CLEANUP_POLICY_KEY = "cleanup.policy"
_COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedInternalTopic:
    """Expected settings of an internal topic."""

    name: str
    content: str
    """Data that is lost if the topic is lost."""
    partitions: int | None
    """Expected number of partitions; None for any number."""
    replication_factor: int
    """Expected replication factor; -1 for the brokers' default."""
    factor_key: str
    """Key that configures the replication factor."""
    is_required: bool = True
    """True if the flow does not start when the topic's settings differ from the expected
    settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedInternalTopic:
    """An internal topic that exists on a cluster."""

    partitions: int
    cleanup_policy: str | None
    """Cleanup policy of the topic; None if mm2 is not authorized to read it."""


def check_internal_topic(
    flow: str, topic: ExpectedInternalTopic, seen: ObservedInternalTopic, *, tool: ClusterCommands
) -> Iterator[CheckFinding]:
    """Yield the findings about an internal topic whose settings differ from the expected settings.
    `tool` builds the suggested commands for the topic's cluster."""
    severity = CheckSeverity.FAILED if topic.is_required else CheckSeverity.WARNING
    if topic.partitions is not None and seen.partitions != topic.partitions:
        yield CheckFinding(
            subject=flow,
            area=CheckArea.TOPICS,
            severity=severity,
            code="state-topic-partitions",
            text=f"topic {topic.name} has {plurals.format_count(seen.partitions, 'partition')}",
            effect=f"with a partition count other than {topic.partitions}, the order of "
            f"{topic.content} is lost"
            + (", and the flow does not start" if topic.is_required else ""),
            fix="delete the topic if this flow has never run; mm2 creates the topic again",
            command=tool.build_delete_topic_command(topic.name),
        )
    if seen.cleanup_policy is None:
        return
    policies = {each.strip() for each in seen.cleanup_policy.split(",")}
    if policies != {_COMPACT}:
        yield CheckFinding(
            subject=flow,
            area=CheckArea.TOPICS,
            severity=severity,
            code="state-topic-cleanup",
            text=f"topic {topic.name} has {_CLEANUP_POLICY_KEY}={seen.cleanup_policy}",
            effect=f"{topic.content} are deleted after the retention time"
            + (": the flow does not start" if topic.is_required else ""),
            fix=(
                f"set {_CLEANUP_POLICY_KEY}={_COMPACT} on the topic; older records may already be "
                "lost"
            ),
            command=tool.build_set_topic_configs_command(
                topic.name, {_CLEANUP_POLICY_KEY: _COMPACT}
            ),
        )


def report_refused_topics(flow: str, why: Mapping[str, str]) -> Iterator[CheckFinding]:
    """Report topics that the cluster refuses to create, with one finding per reason."""
    by_reason: dict[str, list[str]] = {}
    for name, text in sorted(why.items()):
        by_reason.setdefault(text.replace(f"topic {name}", "it"), []).append(name)
    for reason, names in by_reason.items():
        what = names[0] if len(names) == 1 else plurals.format_count(len(names), "internal topic")
        yield CheckFinding(
            subject=flow,
            area=CheckArea.TOPICS,
            severity=CheckSeverity.FAILED,
            code="state-topic-refused",
            text=f"the cluster refuses to create {what}: {reason}",
            affects=tuple(names) if len(names) > 1 else (),
            effect="the flow does not start",
            fix="correct the cause named in the cluster's error message",
        )


REPLICATION_FACTOR_KEY = "replication.factor"
_YAML_SECTION_PREFIX = re.compile(r"^(?:defaults|worker|flows\[[0-9]+\])\.")
_Client = FlowClient


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicAccess:
    """Use of an internal topic by the flow, and the clients that need access to the topic."""

    expected: ExpectedInternalTopic
    creator: FlowClient
    """Client that creates the topic."""
    user: FlowClient
    """Client that writes and reads the topic."""
    effect: str = ""
    """Effect on the flow if access to the topic is missing; "" if the flow then does not start."""
    severity: CheckSeverity = CheckSeverity.FAILED
    is_written: bool = True
    """True if the flow writes to the topic."""

    @property
    def is_on_source(self) -> bool:
        """True if the topic is on the source cluster."""
        return self.creator.connects_to_source

    @property
    def required_acls(self) -> InternalTopicAcls:
        """ACLs that clients need on the topic."""
        own = InternalTopicAcls(
            name=self.expected.name,
            creator=self.creator,
            user=self.user,
            checks_config=self.expected.is_required,
            severity=self.severity,
        )
        return dataclasses.replace(own, effect=self.effect) if self.effect else own


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConnectorConfigs:
    """Parsed configurations of the flow's connectors. `checkpoint` is None if the checkpoint
    connector does not run."""

    source: MirrorSourceConfig
    checkpoint: MirrorCheckpointConfig | None
    heartbeat: MirrorHeartbeatConfig


def parse_connector_configs(settings: Mm2Settings, plan: FlowPlan) -> FlowConnectorConfigs:
    """Parse the connectors' configurations. Raises `ConfigError` if a connector would reject its
    configuration."""
    given = {name: settings.flat.resolve(each) for name, each in plan.connectors.items()}
    checkpoint = given[flow_connector_configs.CHECKPOINT_CONNECTOR]
    runs = dedicated_mode.can_connector_run(flow_connector_configs.CHECKPOINT_CONNECTOR, checkpoint)
    return FlowConnectorConfigs(
        source=mirror_connector_config.parse_source_config(plan.source_config),
        checkpoint=mirror_connector_config.parse_checkpoint_config(checkpoint) if runs else None,
        heartbeat=mirror_connector_config.parse_heartbeat_config(
            given[flow_connector_configs.HEARTBEAT_CONNECTOR]
        ),
    )


class ReplicationFactorCauses:
    """Configuration settings that determine a flow's replication factors."""

    def __init__(self, config: EffectiveFlowConfig, *, file: str, target: str) -> None:
        self._config = config
        self._file = pathlib.PurePath(file).name
        self._target = target

    def find_cause(self, key: str) -> ReplicationFactorCause:
        """Find the configuration setting from which the flow's worker or connectors take the value
        of `key`."""
        worker = self._config.worker.get(key)
        sections = self._config.connectors.values()
        given = (each[key] for each in sections if key in each and each[key].is_used)
        value = worker or next(given, None)
        if value is not None and value.origin.kind is ValueOriginKind.FILE:
            origin = value.origin
            return ReplicationFactorCause(
                key=_YAML_SECTION_PREFIX.sub("", origin.key),
                place=f"{origin.key} ({self._file}:{origin.line})",
            )
        place = f"{self._target}.{key}" if worker is not None else key
        return ReplicationFactorCause(key=key, place=place, is_given=False)


def list_internal_topics(plan: FlowPlan, config: FlowConnectorConfigs) -> list[InternalTopicAccess]:
    """List the internal topics of a flow. A flow that only emits heartbeats has fewer topics."""
    found = [
        *map(_build_worker_topic, plan.worker.topics.topics),
        _build_heartbeats_topic(config.heartbeat),
    ]
    if plan.replicates_topics:
        found += [*_build_flow_topics(config.source.flow), *_build_connector_topics(config)]
    return found


def list_reverse_flow_topics(flow: Flow) -> tuple[ClientResource, ...]:
    """List the topics of the reverse flow that this flow reads if mirror topics keep the source's
    topic names."""
    if flow.policy.renames_topics:
        return ()
    syncs = flow.policy.offset_syncs_topic(flow.source)
    topic = ResourceKind.TOPIC
    return (
        ClientResource(
            client=_Client.CONSUMER,
            kind=topic,
            name=replication_loops.format_reverse_offset_map_topic(flow),
        ),
        ClientResource(client=_Client.TARGET_ADMIN, kind=topic, name=syncs),
    )


def _build_worker_topic(topic: InternalTopic) -> InternalTopicAccess:
    config = topic.kind is InternalTopicKind.CONFIG
    return InternalTopicAccess(
        expected=ExpectedInternalTopic(
            name=topic.name,
            content=topic.kind.content_description,
            partitions=1 if config else None,
            replication_factor=topic.replication_factor,
            factor_key=f"{topic.kind.value}replication.factor",
        ),
        creator=_Client.WORKER,
        user=_Client.WORKER,
    )


def _build_flow_topics(flow: Flow) -> Iterator[InternalTopicAccess]:
    held: Mapping[FlowStateTopic, str] = {
        FlowStateTopic.MAP: "records of the offset map",
        FlowStateTopic.INCIDENTS: "incidents",
    }
    for kind, name in kafka_client_interfaces.build_flow_state_topic_names(flow.source).items():
        yield InternalTopicAccess(
            expected=ExpectedInternalTopic(
                name=name,
                content=held[kind],
                partitions=1,
                replication_factor=flow.replication_factor,
                factor_key=REPLICATION_FACTOR_KEY,
            ),
            creator=_Client.TARGET_ADMIN,
            user=_Client.PRODUCER,
        )


def _build_connector_topics(config: FlowConnectorConfigs) -> Iterator[InternalTopicAccess]:
    syncs = config.source.syncs_topic
    if syncs is not None:
        yield InternalTopicAccess(
            expected=_build_mm2_topic(
                syncs.name,
                "offset syncs",
                factor=config.source.syncs_topic_factor,
                key=mirror_connector_config_keys.SYNCS_TOPIC_FACTOR,
            ),
            creator=_Client.SOURCE_ADMIN if syncs.on_source else _Client.TARGET_ADMIN,
            user=_Client.SOURCE_ADMIN if syncs.on_source else _Client.PRODUCER,
            effect=(
                "no offset syncs are written: Java tools cannot translate offsets, but mm2's "
                "tools can"
            ),
            severity=CheckSeverity.WARNING,
        )
    if config.checkpoint is not None:
        yield InternalTopicAccess(
            expected=_build_mm2_topic(
                config.checkpoint.checkpoints_topic,
                "checkpoints",
                factor=config.checkpoint.checkpoints_topic_factor,
                key=mirror_connector_config_keys.CHECKPOINTS_FACTOR,
            ),
            creator=_Client.TARGET_ADMIN,
            user=_Client.WORKER,
            effect="no checkpoints are written, so group offsets are not synced to the target",
        )


def _build_heartbeats_topic(config: MirrorHeartbeatConfig) -> InternalTopicAccess:
    return InternalTopicAccess(
        expected=_build_mm2_topic(
            replication_policy.HEARTBEATS_TOPIC,
            "heartbeats",
            factor=config.topic_factor,
            key=mirror_connector_config_keys.HEARTBEATS_FACTOR,
        ),
        creator=_Client.TARGET_ADMIN,
        user=_Client.WORKER,
        effect="no heartbeats are written",
        severity=CheckSeverity.WARNING,
        is_written=config.interval_s is not None,
    )


def _build_mm2_topic(name: str, holds: str, *, factor: int, key: str) -> ExpectedInternalTopic:
    """Build the expected settings of an internal topic that MirrorMaker 2 also uses. The flow uses
    the topic even if its actual settings differ."""
    return ExpectedInternalTopic(
        name=name,
        content=holds,
        partitions=1,
        replication_factor=factor,
        factor_key=key,
        is_required=False,
    )
