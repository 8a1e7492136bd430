"""The topics that a flow keeps for itself, as its worker and its connectors are configured."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_runtime.core.state import topic_settings
from mm2.app import effective_config, flow_plan
from mm2.app.settings import settings as app_settings
from mm2.cluster import flow_log
from mm2.core import flows, loops, naming
from mm2.core.configs import connector_configs, dedicated
from mm2.core.configs import connector_keys as keys
from mm2.core.preflight import findings, replication_factors, rights, state_topics

FACTOR = "replication.factor"
_IN_YAML = re.compile(r"^(?:defaults|worker|flows\[[0-9]+\])\.")
_Client = rights.Client


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTopic:
    """How it is wanted, and whose rights on it count; `on_source`: it is there, not on the
    target. `means`: what comes of it when they are missing, "" where the flow does not begin.
    `written`: is it, once it is there?
    """

    wanted: state_topics.StateTopic
    maker: rights.Client
    user: rights.Client
    means: str = ""
    weight: findings.Weight = findings.Weight.FAILED
    written: bool = True

    @property
    def on_source(self) -> bool:
        return self.maker.on_source

    @property
    def need(self) -> rights.Own:
        own = rights.Own(
            name=self.wanted.name,
            maker=self.maker,
            user=self.user,
            judged=self.wanted.refused,
            weight=self.weight,
        )
        return dataclasses.replace(own, means=self.means) if self.means else own


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """What the flow's connectors are told. `checkpoint` None: that one has nothing to do."""

    source: connector_configs.SourceConfig
    checkpoint: connector_configs.CheckpointConfig | None
    heartbeat: connector_configs.HeartbeatConfig


def configured(settings: app_settings.Settings, plan: flow_plan.FlowPlan) -> Configured:
    """Raises `ConfigError` as the connectors would."""
    given = {name: settings.flat.resolve(each) for name, each in plan.connectors.items()}
    checkpoint = given[flow_plan.CHECKPOINT]
    runs = dedicated.can_run(flow_plan.CHECKPOINT, checkpoint)
    return Configured(
        source=connector_configs.source(plan.source),
        checkpoint=connector_configs.checkpoint(checkpoint) if runs else None,
        heartbeat=connector_configs.heartbeat(given[flow_plan.HEARTBEAT]),
    )


class FactorCauses:
    """Where a flow's replication factors come from."""

    def __init__(self, config: effective_config.FlowConfig, *, file: str, target: str) -> None:
        self._config = config
        self._file = pathlib.PurePath(file).name
        self._target = target

    def cause(self, key: str) -> replication_factors.Cause:
        """Of a key of the flow's worker or one of its connectors."""
        worker = self._config.worker.get(key)
        sections = self._config.connectors.values()
        given = (each[key] for each in sections if key in each and each[key].is_used)
        value = worker or next(given, None)
        if value is not None and value.origin.kind is effective_config.Kind.FILE:
            origin = value.origin
            return replication_factors.Cause(
                key=_IN_YAML.sub("", origin.key),
                place=f"{origin.key} ({self._file}:{origin.line})",
            )
        place = f"{self._target}.{key}" if worker is not None else key
        return replication_factors.Cause(key=key, place=place, is_given=False)


def of(plan: flow_plan.FlowPlan, config: Configured) -> list[OwnTopic]:
    """All of a flow; of one for heartbeats alone these, and those of its worker."""
    found = [*map(_of_worker, plan.worker.topics.topics), _heartbeats(config.heartbeat)]
    if plan.shown:
        found += [*_of_flow(config.source.flow), *_of_connectors(config)]
    return found


def read_too(flow: flows.Flow) -> tuple[rights.Resource, ...]:
    """Topics of a flow that leads back: read where mirrors keep their names."""
    if flow.policy.renames_topics:
        return ()
    syncs = flow.policy.offset_syncs_topic(flow.source)
    topic = rights.Kind.TOPIC
    return (
        rights.Resource(client=_Client.CONSUMER, kind=topic, name=loops.opposite_map_topic(flow)),
        rights.Resource(client=_Client.TARGET_ADMIN, kind=topic, name=syncs),
    )


def _of_worker(topic: topic_settings.InternalTopic) -> OwnTopic:
    config = topic.purpose is topic_settings.Purpose.CONFIG
    return OwnTopic(
        wanted=state_topics.StateTopic(
            name=topic.name,
            holds=topic.purpose.holds,
            partitions=1 if config else None,
            replication_factor=topic.replication_factor,
            factor_key=f"{topic.purpose.value}replication.factor",
        ),
        maker=_Client.WORKER,
        user=_Client.WORKER,
    )


def _of_flow(flow: flows.Flow) -> Iterator[OwnTopic]:
    held: Mapping[flow_log.LogTopic, str] = {
        flow_log.LogTopic.MAP: "the places of what was copied",
        flow_log.LogTopic.RECEIPTS: "receipts",
    }
    for kind, name in flow_log.topic_names(flow.source).items():
        yield OwnTopic(
            wanted=state_topics.StateTopic(
                name=name,
                holds=held[kind],
                partitions=1,
                replication_factor=flow.replication_factor,
                factor_key=FACTOR,
            ),
            maker=_Client.TARGET_ADMIN,
            user=_Client.PRODUCER,
        )


def _of_connectors(config: Configured) -> Iterator[OwnTopic]:
    syncs = config.source.syncs_topic
    if syncs is not None:
        yield OwnTopic(
            wanted=_of_java(
                syncs.name,
                "offset syncs",
                factor=config.source.syncs_topic_factor,
                key=keys.SYNCS_TOPIC_FACTOR,
            ),
            maker=_Client.SOURCE_ADMIN if syncs.on_source else _Client.TARGET_ADMIN,
            user=_Client.SOURCE_ADMIN if syncs.on_source else _Client.PRODUCER,
            means="no offset syncs are written: Java's tools translate nothing, mm2's go on",
            weight=findings.Weight.WARNING,
        )
    if config.checkpoint is not None:
        yield OwnTopic(
            wanted=_of_java(
                config.checkpoint.checkpoints_topic,
                "checkpoints",
                factor=config.checkpoint.checkpoints_topic_factor,
                key=keys.CHECKPOINTS_FACTOR,
            ),
            maker=_Client.TARGET_ADMIN,
            user=_Client.WORKER,
            means="no checkpoints are written: groups' positions are not kept on the target",
        )


def _heartbeats(config: connector_configs.HeartbeatConfig) -> OwnTopic:
    return OwnTopic(
        wanted=_of_java(
            naming.HEARTBEATS_TOPIC,
            "heartbeats",
            factor=config.topic_factor,
            key=keys.HEARTBEATS_FACTOR,
        ),
        maker=_Client.TARGET_ADMIN,
        user=_Client.WORKER,
        means="no heartbeats are written",
        weight=findings.Weight.WARNING,
        written=config.interval_s is not None,
    )


def _of_java(name: str, holds: str, *, factor: int, key: str) -> state_topics.StateTopic:
    """One that is used as it is, however it was made."""
    return state_topics.StateTopic(
        name=name,
        holds=holds,
        partitions=1,
        replication_factor=factor,
        factor_key=key,
        refused=False,
    )
