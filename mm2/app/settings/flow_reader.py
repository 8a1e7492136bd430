"""The `flows` section: a list of source, target and what to mirror; `defaults` go for all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.adapters.config import yaml_source
from mm2.app.settings import flow_clients, reader
from mm2.app.settings import flow_options as options
from mm2.core import filters, flows, naming
from mm2.core.copy import record_transforms


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRead:
    """One item of the list. `flow` is None unless every key of it is right.

    `lines` says where a key stands (the item itself, if it is left out), for checks across items.
    """

    path: str
    lines: Mapping[str, int]
    source: str | None
    target: str | None
    enabled: bool
    flow: flows.Flow | None
    overrides: flow_clients.Overrides
    effective: dict[str, reader.Plain]
    custom: bool = False
    """Has it classes of the user's? Then `flow` has shipped ones in their place (`custom_classes`).
    """


CHECKED_LATER = (
    options.SOURCE.name,
    options.TARGET.name,
    options.POLICY.name,
    options.SEPARATOR.name,
    options.TOPICS.name,
    options.SYNC_CONFIGS.name,
)


def read_defaults(account: reader.Account, entry: yaml_source.Entry) -> yaml_source.Section | None:
    """Notes the mistakes of the section of defaults, once for all flows."""
    section = reader.as_section(account, entry, path="defaults")
    if section is None:
        return None
    found = reader.SectionReader(account, section, path="defaults")
    found.get(options.ENABLED)
    classes = [found.get(option) for option in options.CLASSES]
    _read_keys(found, source="", target="")
    found.family(flow_clients.PREFIXES)
    ends = dict.fromkeys((options.SOURCE.name, options.TARGET.name), "belongs into a flow")
    refused = {**options.REFUSED, **ends}
    if any(map(options.is_custom, classes)):
        found.take_rest(refused=refused, families=options.REFUSED_FAMILIES)
    found.finish(refused=refused, families=options.REFUSED_FAMILIES)
    return section


def read(
    account: reader.Account, node: yaml_source.Listing, defaults: yaml_source.Section | None
) -> list[FlowRead]:
    """Mistakes are noted in `account`; every item that is a section is returned."""
    found: list[FlowRead] = []
    for index, item in enumerate(node.items):
        path = f"flows[{index}]"
        if isinstance(item, yaml_source.Section):
            found.append(_read_flow(account, item, path=path, defaults=defaults))
        else:
            account.note(item.line, path, "has to be a section of keys: from, to, topics, …")
    return found


def _read_flow(
    account: reader.Account,
    section: yaml_source.Section,
    *,
    path: str,
    defaults: yaml_source.Section | None,
) -> FlowRead:
    before = len(account.problems)
    found = reader.SectionReader(account, section, path=path, defaults=defaults)
    classes = [found.get(option) for option in options.CLASSES]
    custom = any(map(options.is_custom, classes))
    source, target = found.require(options.SOURCE), found.require(options.TARGET)
    enabled = found.get(options.ENABLED)
    flow = _read_keys(found, source=source or "", target=target or "")
    overrides = flow_clients.take(found)
    if custom:
        found.take_rest(refused=options.REFUSED, families=options.REFUSED_FAMILIES)
    found.finish(refused=options.REFUSED, families=options.REFUSED_FAMILIES)
    return FlowRead(
        path=path,
        lines={name: found.line_of(name) for name in CHECKED_LATER},
        source=source,
        target=target,
        enabled=enabled,
        flow=flow if len(account.problems) == before else None,
        overrides=overrides,
        effective=found.effective,
        custom=custom,
    )


def _read_keys(found: reader.SectionReader, *, source: str, target: str) -> flows.Flow:
    policy = found.get(options.POLICY)
    replication_factor = _read_whose_defaults_differ(found)
    found.get(options.TRANSFORMS)
    found.get(options.PREDICATES)
    found.take_family(record_transforms.FAMILIES)
    if not found.get(options.REFRESH_TOPICS):
        found.warn_given(options.SYNC_CONFIGS_INTERVAL.name, options.SYNC_WITHOUT_LOOKS)
    return flows.Flow(
        source=source,
        target=target,
        policy=_read_policy(found, policy, source=source),
        topics=filters.NameFilter(
            include=found.get(options.TOPICS), exclude=found.get(options.TOPICS_EXCLUDE)
        ),
        groups=filters.NameFilter(
            include=found.get(options.GROUPS), exclude=found.get(options.GROUPS_EXCLUDE)
        ),
        properties=filters.PropertyFilter(
            exclude=found.get(options.PROPERTIES_EXCLUDE),
            source_defaults=found.get(options.USE_DEFAULTS_FROM) == "source",
        ),
        replicate_heartbeats=found.get(options.HEARTBEATS),
        replication_factor=replication_factor,
        tasks_max=found.get(options.TASKS_MAX),
        start=found.get(options.START),
        target_topics=flows.TargetTopics(found.get(options.target_topics(policy))),
        delivery=flows.Delivery(found.get(options.DELIVERY)),
        on_source_gap=flows.OnSourceGap(found.get(options.ON_SOURCE_GAP)),
        refresh_topics_interval_s=_interval(
            found, options.REFRESH_TOPICS, options.REFRESH_TOPICS_INTERVAL
        ),
        sync_topic_configs_interval_s=_interval(
            found, options.SYNC_CONFIGS, options.SYNC_CONFIGS_INTERVAL
        ),
        admin_timeout_s=found.get(options.ADMIN_TIMEOUT) / 1000,
        buffer_bytes=found.get(options.BUFFER_MEMORY),
        map_bytes=found.get(options.OFFSET_MAP_BYTES),
        unreachable_after_s=found.get(options.UNREACHABLE_AFTER),
        budgets=flows.Budgets(
            flow=found.optional(options.THROTTLE) or 0, topics=found.get(options.TOPIC_THROTTLES)
        ),
    )


def _read_whose_defaults_differ(found: reader.SectionReader) -> int:
    """Read the keys of MirrorMaker 2's connectors; a lenient file is a properties file, which has
    MirrorMaker 2's defaults. Returns `replication.factor`."""
    is_properties = found.account.lenient
    option: reader.Option[Any]
    for option in options.IN_YAML:
        found.get(options.with_mm2_default(option) if is_properties else option)
    factor: reader.Option[int] = options.REPLICATION_FACTOR
    if is_properties:
        factor = options.with_mm2_default(factor)
    value = found.get(factor)
    for option in options.CONNECTORS:
        if option in options.FACTORS and not is_properties:
            option = dataclasses.replace(option, default=str(value))
        found.get(option)
    return value


def _read_policy(
    found: reader.SectionReader, policy: str, *, source: str
) -> naming.ReplicationPolicy:
    separator = found.get(options.SEPARATOR)
    same = found.get(options.INTERNAL_SEPARATOR)
    renaming = naming.DefaultReplicationPolicy(
        separator=separator, internal_separator=separator if same else "."
    )
    if options.is_identity(policy):
        return naming.IdentityReplicationPolicy(source_alias=source, defaults=renaming)
    return renaming


def _interval(
    found: reader.SectionReader,
    enabled: reader.Option[bool],
    seconds: reader.Option[int],
) -> float | None:
    interval = found.get(seconds)
    return interval if found.get(enabled) else None
