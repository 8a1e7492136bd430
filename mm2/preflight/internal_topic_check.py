"""Checks the internal topics of a flow, as its worker and its connectors are configured."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_runtime.base import plurals
from connect_runtime.storage.internal_topic_settings import InternalTopic, InternalTopicKind
from mm2.config import dedicated_mode, flow_plan, keys, mirror_connector_config
from mm2.config.effective_config import EffectiveFlowConfig, ValueOriginKind
from mm2.config.flow_plan import FlowPlan
from mm2.config.mirror_connector_config import (
    MirrorCheckpointConfig,
    MirrorHeartbeatConfig,
    MirrorSourceConfig,
)
from mm2.config.mm2_settings import Mm2Settings
from mm2.kafka import client_interfaces
from mm2.kafka.client_interfaces import FlowLogTopic
from mm2.operator_commands import ClusterCommands
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.preflight.replication_factor_check import ReplicationFactorCause
from mm2.preflight.required_acls import ClientResource, FlowClient, InternalTopicAcls, ResourceKind
from mm2.topics import naming, replication_loops
from mm2.topics.flow_config import Flow

_CLEANUP_POLICY_KEY = "cleanup.policy"
_COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedInternalTopic:
    """`holds`: what would be lost with it. `partitions` None: any number will do.

    `replication_factor` -1 leaves it to the brokers; `factor_key` sets it. `report_refused_topics`:
    is a flow refused to run with one that is made otherwise?"""

    name: str
    holds: str
    partitions: int | None
    replication_factor: int
    factor_key: str
    refused: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedInternalTopic:
    """A topic that is there. `cleanup_policy` None: it may not be read."""

    partitions: int
    cleanup_policy: str | None


def check_internal_topic(
    flow: str, topic: ExpectedInternalTopic, seen: ObservedInternalTopic, *, tool: ClusterCommands
) -> Iterator[CheckFinding]:
    """`tool` is the cluster that the topic is on."""
    weight = CheckSeverity.FAILED if topic.refused else CheckSeverity.WARNING
    if topic.partitions is not None and seen.partitions != topic.partitions:
        yield CheckFinding(
            subject=flow,
            word=CheckArea.TOPICS,
            weight=weight,
            code="state-topic-partitions",
            text=f"topic {topic.name} has {plurals.format_count(seen.partitions, 'partition')}",
            means=f"it must have {topic.partitions}: the order of {topic.holds} is lost"
            + (", and the flow does not begin" if topic.refused else ""),
            mend="delete it if this flow has never run: it is made anew",
            command=tool.delete_topic(topic.name),
        )
    if seen.cleanup_policy is None:
        return
    policies = {each.strip() for each in seen.cleanup_policy.split(",")}
    if policies != {_COMPACT}:
        yield CheckFinding(
            subject=flow,
            word=CheckArea.TOPICS,
            weight=weight,
            code="state-topic-cleanup",
            text=f"topic {topic.name} has {_CLEANUP_POLICY_KEY}={seen.cleanup_policy}",
            means=f"{topic.holds} are deleted by age"
            + (": the flow does not begin" if topic.refused else ""),
            mend=f"set {_CLEANUP_POLICY_KEY}={_COMPACT} on it, and look for what is lost already",
            command=tool.set_topic(topic.name, {_CLEANUP_POLICY_KEY: _COMPACT}),
        )


def report_refused_topics(flow: str, why: Mapping[str, str]) -> Iterator[CheckFinding]:
    """Of topics that the cluster would not make, by their names; one finding for one reason."""
    by_reason: dict[str, list[str]] = {}
    for name, text in sorted(why.items()):
        by_reason.setdefault(text.replace(f"topic {name}", "it"), []).append(name)
    for reason, names in by_reason.items():
        what = names[0] if len(names) == 1 else plurals.format_count(len(names), "internal topic")
        yield CheckFinding(
            subject=flow,
            word=CheckArea.TOPICS,
            weight=CheckSeverity.FAILED,
            code="state-topic-refused",
            text=f"the cluster would not create {what}: {reason}",
            affects=tuple(names) if len(names) > 1 else (),
            means="the flow does not start",
            mend="change what the cluster's answer names",
        )


REPLICATION_FACTOR_KEY = "replication.factor"
_YAML_SECTION_PREFIX = re.compile(r"^(?:defaults|worker|flows\[[0-9]+\])\.")
_Client = FlowClient


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicUse:
    """How it is wanted, and whose rights on it count; `on_source`: it is there, not on the
    target. `means`: what comes of it when they are missing, "" where the flow does not begin.
    `written`: is it, once it is there?
    """

    wanted: ExpectedInternalTopic
    maker: FlowClient
    user: FlowClient
    means: str = ""
    weight: CheckSeverity = CheckSeverity.FAILED
    written: bool = True

    @property
    def on_source(self) -> bool:
        return self.maker.on_source

    @property
    def need(self) -> InternalTopicAcls:
        own = InternalTopicAcls(
            name=self.wanted.name,
            maker=self.maker,
            user=self.user,
            judged=self.wanted.refused,
            weight=self.weight,
        )
        return dataclasses.replace(own, means=self.means) if self.means else own


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConnectorConfigs:
    """What the flow's connectors are told. `checkpoint` None: that one has nothing to do."""

    source: MirrorSourceConfig
    checkpoint: MirrorCheckpointConfig | None
    heartbeat: MirrorHeartbeatConfig


def parse_connector_configs(settings: Mm2Settings, plan: FlowPlan) -> FlowConnectorConfigs:
    """Raises `ConfigError` as the connectors would."""
    given = {name: settings.flat.resolve(each) for name, each in plan.connectors.items()}
    checkpoint = given[flow_plan.CHECKPOINT_CONNECTOR]
    runs = dedicated_mode.can_run(flow_plan.CHECKPOINT_CONNECTOR, checkpoint)
    return FlowConnectorConfigs(
        source=mirror_connector_config.parse_source(plan.source),
        checkpoint=mirror_connector_config.parse_checkpoint(checkpoint) if runs else None,
        heartbeat=mirror_connector_config.parse_heartbeat(given[flow_plan.HEARTBEAT_CONNECTOR]),
    )


class ReplicationFactorCauses:
    """Where a flow's replication factors come from."""

    def __init__(self, config: EffectiveFlowConfig, *, file: str, target: str) -> None:
        self._config = config
        self._file = pathlib.PurePath(file).name
        self._target = target

    def cause(self, key: str) -> ReplicationFactorCause:
        """Of a key of the flow's worker or one of its connectors."""
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


def list_internal_topics(plan: FlowPlan, config: FlowConnectorConfigs) -> list[InternalTopicUse]:
    """All of a flow; of one for heartbeats alone these, and those of its worker."""
    found = [
        *map(_build_worker_topic, plan.worker.topics.topics),
        _build_heartbeats_topic(config.heartbeat),
    ]
    if plan.shown:
        found += [*_build_flow_topics(config.source.flow), *_build_connector_topics(config)]
    return found


def list_reverse_flow_topics(flow: Flow) -> tuple[ClientResource, ...]:
    """Topics of a flow that leads back: read where mirrors keep their names."""
    if flow.policy.renames_topics:
        return ()
    syncs = flow.policy.offset_syncs_topic(flow.source)
    topic = ResourceKind.TOPIC
    return (
        ClientResource(
            client=_Client.CONSUMER,
            kind=topic,
            name=replication_loops.reverse_offset_map_topic(flow),
        ),
        ClientResource(client=_Client.TARGET_ADMIN, kind=topic, name=syncs),
    )


def _build_worker_topic(topic: InternalTopic) -> InternalTopicUse:
    config = topic.purpose is InternalTopicKind.CONFIG
    return InternalTopicUse(
        wanted=ExpectedInternalTopic(
            name=topic.name,
            holds=topic.purpose.holds,
            partitions=1 if config else None,
            replication_factor=topic.replication_factor,
            factor_key=f"{topic.purpose.value}replication.factor",
        ),
        maker=_Client.WORKER,
        user=_Client.WORKER,
    )


def _build_flow_topics(flow: Flow) -> Iterator[InternalTopicUse]:
    held: Mapping[FlowLogTopic, str] = {
        FlowLogTopic.MAP: "the places of what was copied",
        FlowLogTopic.INCIDENTS: "incidents",
    }
    for kind, name in client_interfaces.name_flow_log_topics(flow.source).items():
        yield InternalTopicUse(
            wanted=ExpectedInternalTopic(
                name=name,
                holds=held[kind],
                partitions=1,
                replication_factor=flow.replication_factor,
                factor_key=REPLICATION_FACTOR_KEY,
            ),
            maker=_Client.TARGET_ADMIN,
            user=_Client.PRODUCER,
        )


def _build_connector_topics(config: FlowConnectorConfigs) -> Iterator[InternalTopicUse]:
    syncs = config.source.syncs_topic
    if syncs is not None:
        yield InternalTopicUse(
            wanted=_build_mm2_topic(
                syncs.name,
                "offset syncs",
                factor=config.source.syncs_topic_factor,
                key=keys.SYNCS_TOPIC_FACTOR,
            ),
            maker=_Client.SOURCE_ADMIN if syncs.on_source else _Client.TARGET_ADMIN,
            user=_Client.SOURCE_ADMIN if syncs.on_source else _Client.PRODUCER,
            means="no offset syncs are written: Java's tools translate nothing, mm2's go on",
            weight=CheckSeverity.WARNING,
        )
    if config.checkpoint is not None:
        yield InternalTopicUse(
            wanted=_build_mm2_topic(
                config.checkpoint.checkpoints_topic,
                "checkpoints",
                factor=config.checkpoint.checkpoints_topic_factor,
                key=keys.CHECKPOINTS_FACTOR,
            ),
            maker=_Client.TARGET_ADMIN,
            user=_Client.WORKER,
            means="no checkpoints are written: groups' positions are not kept on the target",
        )


def _build_heartbeats_topic(config: MirrorHeartbeatConfig) -> InternalTopicUse:
    return InternalTopicUse(
        wanted=_build_mm2_topic(
            naming.HEARTBEATS_TOPIC,
            "heartbeats",
            factor=config.topic_factor,
            key=keys.HEARTBEATS_FACTOR,
        ),
        maker=_Client.TARGET_ADMIN,
        user=_Client.WORKER,
        means="no heartbeats are written",
        weight=CheckSeverity.WARNING,
        written=config.interval_s is not None,
    )


def _build_mm2_topic(name: str, holds: str, *, factor: int, key: str) -> ExpectedInternalTopic:
    """One that is used as it is, however it was made."""
    return ExpectedInternalTopic(
        name=name,
        holds=holds,
        partitions=1,
        replication_factor=factor,
        factor_key=key,
        refused=False,
    )
