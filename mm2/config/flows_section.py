"""Reads the sections `flows` (a list of sources, targets and their settings) and `defaults`.

A flow may override the clusters' client properties with the prefixes of MirrorMaker 2's connectors:
`source.consumer.` for reading, `producer.override.` for writing, and `source.admin.` and
`target.admin.` for administration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.config.yaml_parser import YamlEntry, YamlList, YamlSection
from mm2.config import clusters_section, flow_config_keys, mm2_only_keys, yaml_section_reader
from mm2.config.clusters_section import ClusterEntry, ClusterProperty
from mm2.config.mm2_settings import ClientType, ClusterSettings, FlowClients
from mm2.config.yaml_section_reader import ConfigOption, PlainYaml, ProblemCollector, SectionReader
from mm2.replication import record_transforms
from mm2.topics.config_property_filter import DefaultConfigPropertyFilter
from mm2.topics.flow_config import Flow, FlowThrottles, TargetTopicAccess
from mm2.topics.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from mm2.topics.topic_filters import NameFilter

CONSUMER_PREFIX = "source.consumer."
PRODUCER_PREFIX = "producer.override."
SOURCE_ADMIN_PREFIX = "source.admin."
TARGET_ADMIN_PREFIX = "target.admin."
OVERRIDE_PREFIXES = (CONSUMER_PREFIX, PRODUCER_PREFIX, SOURCE_ADMIN_PREFIX, TARGET_ADMIN_PREFIX)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClientOverrides:
    """Client properties that a flow or section `defaults` sets."""

    path: str
    by_prefix: Mapping[str, tuple[ClusterProperty, ...]]
    """Client properties by prefix. Properties of the flow follow the properties of section
    `defaults`."""


def collect_client_overrides(found: SectionReader) -> ClientOverrides:
    """Collect the section's client properties, whose keys start with one of the
    `OVERRIDE_PREFIXES`."""
    given: dict[str, list[ClusterProperty]] = {prefix: [] for prefix in OVERRIDE_PREFIXES}
    for path, entry in found.find_entries_with_prefix(OVERRIDE_PREFIXES):
        prefix = next(each for each in OVERRIDE_PREFIXES if entry.key.startswith(each))
        own = dataclasses.replace(entry, key=entry.key.removeprefix(prefix))
        given[prefix].append(ClusterProperty(key=f"{path}.{entry.key}", entry=own))
    return ClientOverrides(
        path=found.path, by_prefix={prefix: tuple(each) for prefix, each in given.items()}
    )


def resolve_flow_clients(
    collector: ProblemCollector,
    overrides: ClientOverrides,
    *,
    source: ClusterEntry,
    target: ClusterEntry,
) -> tuple[FlowClients | None, Mapping[str, str]]:
    """Resolve the connection settings of a flow's clients. Returns the settings, and the flow's
    overrides as text with secrets hidden.

    Reports problems. The settings are None if there are any problems.
    """
    shown: dict[str, str] = {}

    def resolve_client_settings(
        cluster: ClusterEntry, role: ClientType, prefix: str
    ) -> ClusterSettings | None:
        own, base = overrides.by_prefix[prefix], cluster.roles.get(role)
        if not own or base is None:
            return base
        given = (*cluster.properties_by_role[None], *cluster.properties_by_role[role], *own)
        made = clusters_section.read_client_settings(
            collector, given, path=overrides.path, line=cluster.line
        )
        if made is not None:
            texts = made.properties.redact_secrets()
            shown.update({prefix + each.entry.key: texts[each.entry.key] for each in own})
        return made

    consumer = resolve_client_settings(source, ClientType.CONSUMER, CONSUMER_PREFIX)
    producer = resolve_client_settings(target, ClientType.PRODUCER, PRODUCER_PREFIX)
    source_admin = resolve_client_settings(source, ClientType.ADMIN, SOURCE_ADMIN_PREFIX)
    target_admin = resolve_client_settings(target, ClientType.ADMIN, TARGET_ADMIN_PREFIX)
    if consumer is None or producer is None or source_admin is None or target_admin is None:
        return None, shown
    found = FlowClients(
        consumer=consumer,
        producer=producer,
        source_admin=source_admin,
        target_admin=target_admin,
    )
    return found, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEntry:
    """An item of the section `flows`."""

    path: str
    lines: Mapping[str, int]
    """Line of each of the `CROSS_CHECKED_KEYS`, or the line of the item if the key is missing."""
    source: str | None
    target: str | None
    enabled: bool
    flow: Flow | None
    """The flow; None if a key is invalid."""
    overrides: ClientOverrides
    effective: dict[str, PlainYaml]
    has_custom_classes: bool = False
    """True if the flow has custom classes. Until they are instantiated
    (`config_loader.apply_custom_classes`), `flow` uses built-in classes in their place."""


CROSS_CHECKED_KEYS = (
    flow_config_keys.SOURCE.name,
    flow_config_keys.TARGET.name,
    flow_config_keys.POLICY.name,
    flow_config_keys.SEPARATOR.name,
    flow_config_keys.TOPICS.name,
    flow_config_keys.SYNC_CONFIGS.name,
)


def read_defaults_section(collector: ProblemCollector, entry: YamlEntry) -> YamlSection | None:
    """Read the section `defaults` and report its problems once, instead of in every flow."""
    section = yaml_section_reader.convert_to_section(collector, entry, path="defaults")
    if section is None:
        return None
    found = SectionReader(collector, section, path="defaults")
    found.get(flow_config_keys.ENABLED)
    classes = [found.get(option) for option in flow_config_keys.CLASS_OPTIONS]
    _read_flow_keys(found, source="", target="")
    found.find_entries_with_prefix(OVERRIDE_PREFIXES)
    ends = dict.fromkeys(
        (flow_config_keys.SOURCE.name, flow_config_keys.TARGET.name),
        "must be set in each flow, not here",
    )
    refused = {**flow_config_keys.REFUSED_KEYS, **ends}
    if any(map(flow_config_keys.is_custom_class, classes)):
        found.accept_remaining_keys(refused=refused, families=flow_config_keys.REFUSED_PREFIXES)
    found.report_unread_keys(refused=refused, families=flow_config_keys.REFUSED_PREFIXES)
    return section


def read_flows_section(
    collector: ProblemCollector, node: YamlList, defaults: YamlSection | None
) -> list[FlowEntry]:
    """Read the section `flows` and report problems. Invalid items are returned too, unless they are
    not sections."""
    found: list[FlowEntry] = []
    for index, item in enumerate(node.items):
        path = f"flows[{index}]"
        if isinstance(item, YamlSection):
            found.append(_read_flow(collector, item, path=path, defaults=defaults))
        else:
            collector.report_error(
                item.line, path, ("must be a section with keys such as from, to and topics")
            )
    return found


def _read_flow(
    collector: ProblemCollector,
    section: YamlSection,
    *,
    path: str,
    defaults: YamlSection | None,
) -> FlowEntry:
    before = len(collector.problems)
    found = SectionReader(collector, section, path=path, defaults=defaults)
    classes = [found.get(option) for option in flow_config_keys.CLASS_OPTIONS]
    custom = any(map(flow_config_keys.is_custom_class, classes))
    source, target = (
        found.get_required(flow_config_keys.SOURCE),
        found.get_required(flow_config_keys.TARGET),
    )
    enabled = found.get(flow_config_keys.ENABLED)
    flow = _read_flow_keys(found, source=source or "", target=target or "")
    overrides = collect_client_overrides(found)
    if custom:
        found.accept_remaining_keys(
            refused=flow_config_keys.REFUSED_KEYS, families=flow_config_keys.REFUSED_PREFIXES
        )
    found.report_unread_keys(
        refused=flow_config_keys.REFUSED_KEYS, families=flow_config_keys.REFUSED_PREFIXES
    )
    return FlowEntry(
        path=path,
        lines={name: found.get_line(name) for name in CROSS_CHECKED_KEYS},
        source=source,
        target=target,
        enabled=enabled,
        flow=flow if len(collector.problems) == before else None,
        overrides=overrides,
        effective=found.effective,
        has_custom_classes=custom,
    )


def _read_flow_keys(found: SectionReader, *, source: str, target: str) -> Flow:
    policy = found.get(flow_config_keys.POLICY)
    replication_factor = _read_connector_keys(found)
    found.get(flow_config_keys.TRANSFORMS)
    found.get(flow_config_keys.PREDICATES)
    found.accept_keys_with_prefix(record_transforms.KEY_PREFIXES)
    if not found.get(flow_config_keys.REFRESH_TOPICS):
        found.warn_if_key_set(
            flow_config_keys.SYNC_CONFIGS_INTERVAL.name, flow_config_keys.SYNC_WITHOUT_REFRESH
        )
    return Flow(
        source=source,
        target=target,
        policy=_read_replication_policy(found, policy, source=source),
        topics=NameFilter(
            include=found.get(flow_config_keys.TOPICS),
            exclude=found.get(flow_config_keys.TOPICS_EXCLUDE),
        ),
        groups=NameFilter(
            include=found.get(flow_config_keys.GROUPS),
            exclude=found.get(flow_config_keys.GROUPS_EXCLUDE),
        ),
        config_filter=DefaultConfigPropertyFilter(
            exclude=found.get(flow_config_keys.PROPERTIES_EXCLUDE),
            source_defaults=found.get(flow_config_keys.USE_DEFAULTS_FROM) == "source",
        ),
        replicate_heartbeats=found.get(flow_config_keys.HEARTBEATS),
        replication_factor=replication_factor,
        tasks_max=found.get(flow_config_keys.TASKS_MAX),
        start=found.get(mm2_only_keys.START.option),
        target_topics=TargetTopicAccess(
            found.get(flow_config_keys.build_target_topics_option(policy))
        ),
        refresh_topics_interval_s=_read_interval_s(
            found, flow_config_keys.REFRESH_TOPICS, flow_config_keys.REFRESH_TOPICS_INTERVAL
        ),
        sync_topic_configs_interval_s=_read_interval_s(
            found, flow_config_keys.SYNC_CONFIGS, flow_config_keys.SYNC_CONFIGS_INTERVAL
        ),
        admin_timeout_s=found.get(flow_config_keys.ADMIN_TIMEOUT) / 1000,
        throttles=FlowThrottles(
            flow=found.get_optional(mm2_only_keys.THROTTLE.option) or 0,
            topics=found.get(mm2_only_keys.TOPIC_THROTTLES.option),
        ),
        **mm2_only_keys.build_single_key_flow_fields(lambda key: found.get(key.option)),
    )


def _read_connector_keys(found: SectionReader) -> int:
    """Read the keys that are passed to the connectors, and return the value of
    `replication.factor`.

    If the file is a properties file (`lenient`), MirrorMaker 2's defaults apply.
    """
    is_properties = found.collector.lenient
    option: ConfigOption[Any]
    for option in flow_config_keys.YAML_DEFAULT_OPTIONS:
        found.get(flow_config_keys.apply_mm2_default(option) if is_properties else option)
    factor: ConfigOption[int] = flow_config_keys.REPLICATION_FACTOR
    if is_properties:
        factor = flow_config_keys.apply_mm2_default(factor)
    value = found.get(factor)
    for option in flow_config_keys.CONNECTOR_OPTIONS:
        if option in flow_config_keys.FACTOR_OPTIONS and not is_properties:
            option = dataclasses.replace(option, default=str(value))
        found.get(option)
    return value


def _read_replication_policy(
    found: SectionReader, policy: str, *, source: str
) -> ReplicationPolicy:
    separator = found.get(flow_config_keys.SEPARATOR)
    same = found.get(flow_config_keys.INTERNAL_SEPARATOR)
    renaming = DefaultReplicationPolicy(
        separator=separator, internal_separator=separator if same else "."
    )
    if flow_config_keys.is_identity_policy(policy):
        return IdentityReplicationPolicy(source_alias=source, defaults=renaming)
    return renaming


def _read_interval_s(
    found: SectionReader,
    enabled: ConfigOption[bool],
    seconds: ConfigOption[int],
) -> float | None:
    interval = found.get(seconds)
    return interval if found.get(enabled) else None
