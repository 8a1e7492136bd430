"""Derives the effective configuration of workers and connectors, with the origin of each value.

The configuration is derived from the plan that `mm2 run` executes (`flow_connector_configs`). To
trace the origin of a value, the derivation is repeated with each property's value replaced by its
name. Secrets and values of config providers (`${…}`) are hidden.
"""

from __future__ import annotations

import enum
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api.config_def import ConfigDef
from connect_runtime.config import config_errors, worker_config_keys, yaml_parser
from mm2.config import (
    client_config_keys,
    connector_checks,
    dedicated_mode,
    endpoints_section,
    flow_connector_configs,
    hooks_section,
    java_class_placeholders,
    mirror_connector_client_properties,
    mirror_connector_config,
    mirror_connector_config_keys,
    mm2_only_keys,
    mm2_property_keys,
)
from mm2.config.dedicated_mode import Props
from mm2.config.flow_connector_configs import FlowPlan
from mm2.config.mm2_settings import FlatProperties, Mm2Settings
from mm2.replication import record_transforms
from mm2.topics.flow_config import Flow

JSON_VERSION = 1
PlainValue = str | int | bool | list[str]
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DEFINITIONS: Mapping[str, ConfigDef] = {
    flow_connector_configs.SOURCE_CONNECTOR: mirror_connector_config.SOURCE_CONFIG_DEF,
    flow_connector_configs.CHECKPOINT_CONNECTOR: mirror_connector_config.CHECKPOINT_CONFIG_DEF,
    flow_connector_configs.HEARTBEAT_CONNECTOR: mirror_connector_config.HEARTBEAT_CONFIG_DEF,
}
_PROCESS_SECTIONS = (
    "spark",
    "metrics",
    endpoints_section.HEALTH_SECTION,
    endpoints_section.DRILL_SECTION,
)
_CLASS_KEYS = (
    mirror_connector_config_keys.POLICY,
    mirror_connector_config_keys.TOPIC_FILTER,
    mirror_connector_config_keys.GROUP_FILTER,
    mirror_connector_config_keys.PROPERTY_FILTER,
)
_HIDDEN_DEFAULTS = {
    *client_config_keys.CLIENT_KEYS,
    "config.providers",
    mirror_connector_config_keys.ENGINE,
    mirror_connector_config_keys.JAVA_STOPPED_CLEANLY,
    mirror_connector_config_keys.SOURCE_ALIAS,
    mirror_connector_config_keys.TARGET_ALIAS,
    mirror_connector_config_keys.FORWARDING_ADMIN,
    mirror_connector_config_keys.REPORTERS,
    mirror_connector_config_keys.POLL_TIMEOUT,
}
"""Keys whose defaults are not shown because they have no effect or are always set."""
_STORAGE_PREFIXES = tuple(f"{each}.storage." for each in ("config", "offset", "status"))
_FACTOR_KEY = "replication.factor"


class ValueOriginKind(enum.Enum):
    """Kind of origin of a configuration value: the file, mm2's default, or the default of
    MirrorMaker 2 and Connect."""

    FILE = "file"
    DEFAULT = "default"
    MM2_DEFAULT = "MM2 default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOrigin:
    """Where a configuration value comes from: the kind of origin, and the file's line and key."""

    kind: ValueOriginKind
    line: int = 0
    """Line in the file; 0 if the value is a default."""
    key: str = ""
    """Key in the file; empty if the value is a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveValue:
    """A value of the effective configuration, with its origin."""

    value: PlainValue = field(repr=False)
    origin: ValueOrigin
    is_used: bool = True
    """False if the connector ignores the key. As in MirrorMaker 2, each connector receives the keys
    of all three connectors."""
    note: str = ""
    """Comment for the value in the YAML output."""


EffectiveSection = Mapping[str, EffectiveValue]
"""Effective values by key, in sorted order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveFlowConfig:
    """The effective configuration of a flow's worker and connectors."""

    replicates_topics: bool
    """True if the flow is enabled. Otherwise the flow only emits heartbeats."""
    worker: EffectiveSection
    connectors: Mapping[str, EffectiveSection]
    """Connector settings by connector name, without the client properties that all connectors
    share."""
    clients: EffectiveSection
    """Client properties that apply to all connectors."""
    not_created: Mapping[str, str]
    """Connectors that are not started, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveConfig:
    """Effective configuration derived from a configuration file."""

    file: str
    flows: Mapping[str, EffectiveFlowConfig]
    sections: Mapping[str, EffectiveSection]
    """Process settings by section: `rest`, `spark`, `metrics` and others."""


def derive_effective_config(
    found: Mm2Settings, *, environment: Mapping[str, str]
) -> EffectiveConfig:
    """Derive the effective configuration of all flows.

    Raises `SettingsError` or `ConfigError` in the same cases in which `mm2 run` refuses to start.
    """
    plans = flow_connector_configs.plan_flows(
        found, flow_connector_configs.ALL_FLOWS, environment=environment
    )
    return EffectiveConfig(
        file=found.file,
        flows={plan.name: _derive_flow_config(found.flat, plan) for plan in plans},
        sections={"rest": _derive_rest_settings(found.flat), **_derive_mm2_sections(found)},
    )


class _PropertyName(str):
    """The name of a property, which replaces the property's value during a derivation to trace
    where the derived values come from."""

    __slots__ = ()


def _trace_origins(
    flat: FlatProperties, derive: Callable[[Props], Mapping[str, str]]
) -> Callable[[str], ValueOrigin]:
    """Return a function that looks up the origin of a derived key's value."""
    named = derive({key: _PropertyName(key) for key in flat.props})

    def find_key_origin(key: str) -> ValueOrigin:
        name = named.get(key)
        return (
            _find_property_origin(flat, str(name))
            if isinstance(name, _PropertyName)
            else _MM2_DEFAULT_ORIGIN
        )

    return find_key_origin


def _find_property_origin(flat: FlatProperties, name: str) -> ValueOrigin:
    """Return where a flat property comes from: a line of the file, or mm2's default."""
    if name in flat.defaults:
        return _DEFAULT_ORIGIN
    line, key = flat.locations[name]
    return ValueOrigin(kind=ValueOriginKind.FILE, line=line, key=key)


_DEFAULT_ORIGIN = ValueOrigin(kind=ValueOriginKind.DEFAULT)
_MM2_DEFAULT_ORIGIN = ValueOrigin(kind=ValueOriginKind.MM2_DEFAULT)


# Flows


def _derive_flow_config(flat: FlatProperties, plan: FlowPlan) -> EffectiveFlowConfig:
    connectors = {name: _derive_connector_section(flat, plan, name) for name in plan.connectors}
    first = connectors[flow_connector_configs.SOURCE_CONNECTOR]
    clients = {
        key: value
        for key, value in first.items()
        if _is_client_key(key) and all(each.get(key) == value for each in connectors.values())
    }
    created = {
        name: dedicated_mode.can_connector_run(name, flat.resolve(config))
        for name, config in plan.connectors.items()
    }
    return EffectiveFlowConfig(
        replicates_topics=plan.replicates_topics,
        worker=_derive_worker_section(flat, plan),
        connectors={
            name: {key: value for key, value in each.items() if key not in clients}
            for name, each in connectors.items()
            if created[name]
        },
        clients=clients,
        not_created={
            name: "; ".join(
                message
                for messages in connector_checks.find_checkpoint_connector_errors(
                    flat.resolve(plan.connectors[name])
                ).values()
                for message in messages
            )
            for name, runs in created.items()
            if not runs
        },
    )


def _derive_worker_section(flat: FlatProperties, plan: FlowPlan) -> EffectiveSection:
    origin = _trace_origins(
        flat, lambda props: dedicated_mode.derive_worker_config(props, plan.ends)
    )
    as_written = dedicated_mode.derive_worker_config(flat.props, plan.ends)
    found = {
        key: EffectiveValue(
            value=_hide_secret(key, value, as_written.get(key, value)), origin=origin(key)
        )
        for key, value in plan.worker_props.items()
    }
    restart_origin = origin(mm2_property_keys.RESTART_MAX)
    found[mm2_property_keys.RESTART_MAX] = EffectiveValue(
        value=plan.restart_max,
        origin=restart_origin if restart_origin.kind is ValueOriginKind.FILE else _DEFAULT_ORIGIN,
    )
    for key, default in _list_defaults(worker_config_keys.DISTRIBUTED).items():
        if key in found or key in mm2_property_keys.NON_WORKER_KEYS:
            continue
        if key in endpoints_section.WORKER_KEYS or key.startswith(_STORAGE_PREFIXES):
            found[key] = EffectiveValue(value=default, origin=_MM2_DEFAULT_ORIGIN)
    return _sort_section(found)


def _derive_connector_section(flat: FlatProperties, plan: FlowPlan, name: str) -> EffectiveSection:
    origin = _trace_origins(
        flat, lambda props: dedicated_mode.derive_connector_config(props, plan.ends, name)
    )
    config = plan.connectors[name]
    resolved = flat.resolve(config)
    definition = _DEFINITIONS[name]
    takes_any = any(
        java_class_placeholders.is_python_class_name(resolved.get(key, "")) for key in _CLASS_KEYS
    )
    found = {
        key: EffectiveValue(
            value=_hide_secret(key, resolved[key], value),
            origin=origin(key),
            is_used=takes_any or _is_key_used(definition, key),
        )
        for key, value in config.items()
    }
    for key, default in _list_defaults(definition).items():
        if key not in found and key not in _HIDDEN_DEFAULTS:
            own = key in mirror_connector_config_keys.EXTENSION_KEYS.keys
            found[key] = EffectiveValue(
                value=default, origin=_DEFAULT_ORIGIN if own else _MM2_DEFAULT_ORIGIN
            )
    found.setdefault(
        mirror_connector_config_keys.TASKS_MAX, EffectiveValue(value=1, origin=_MM2_DEFAULT_ORIGIN)
    )
    if name == flow_connector_configs.SOURCE_CONNECTOR:
        flow = mirror_connector_config.parse_source_config(resolved).flow
        found.setdefault(
            mm2_only_keys.TARGET_TOPICS.name,
            EffectiveValue(value=flow.target_topics.value, origin=_DEFAULT_ORIGIN),
        )
        reset = "source.consumer.auto.offset.reset"
        if mm2_only_keys.START.name not in found and reset not in found:
            found[mm2_only_keys.START.name] = EffectiveValue(
                value=_derive_start_position(flow), origin=_DEFAULT_ORIGIN
            )
    return _sort_section(found)


def _derive_start_position(flow: Flow) -> str:
    return flow.start.kind.value


def _is_client_key(key: str) -> bool:
    return (
        key.startswith(mirror_connector_client_properties.ALL_PREFIXES)
        and key not in mirror_connector_config_keys.BASE_KEYS.keys
    )


def _is_key_used(definition: ConfigDef, key: str) -> bool:
    if (
        key in client_config_keys.CLIENT_KEYS
    ):  # without a prefix these have no effect in a connector
        return False
    if key.startswith(mirror_connector_client_properties.CLUSTER_PREFIXES) and _is_client_key(key):
        return key.partition(".cluster.")[2] in client_config_keys.CLIENT_KEYS
    return (
        key in definition.keys
        or key in mirror_connector_config_keys.COMMON_KEYS
        or key.startswith(
            (
                *mirror_connector_client_properties.ALL_PREFIXES,
                *record_transforms.KEY_PREFIXES,
                dedicated_mode.PROVIDERS_KEY,
            )
        )
    )


def _list_defaults(definition: ConfigDef) -> dict[str, PlainValue]:
    """Return the non-empty defaults of the defined keys, by key name."""
    return {
        key: _parse_scalar(_format_default(each.default))
        for key, each in definition.keys.items()
        if each.has_default and each.default not in (None, "", [])
    }


def _format_default(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, list):
        return ",".join(map(str, default))
    named = (
        java_class_placeholders.get_java_class_name(default) if isinstance(default, type) else None
    )
    return named or str(default)


# The process


def _derive_rest_settings(flat: FlatProperties) -> EffectiveSection:
    """Derive the effective settings of the REST server for communication between nodes of a
    group."""
    resolved = flat.resolve(flat.props)
    is_on = resolved.get(dedicated_mode.INTERNAL_REST_KEY, "false").strip().lower() == "true"
    unused = "" if is_on else f"has no effect while {dedicated_mode.INTERNAL_REST_KEY} is false"
    found = {
        key: EffectiveValue(
            value=_hide_secret(key, resolved[key], flat.props[key]),
            origin=_find_property_origin(flat, key),
            is_used=is_on or key == dedicated_mode.INTERNAL_REST_KEY,
            note=unused if key != dedicated_mode.INTERNAL_REST_KEY else "",
        )
        for key in mm2_property_keys.REST_KEYS
        if key in flat.props
    }
    found.setdefault(
        dedicated_mode.INTERNAL_REST_KEY, EffectiveValue(value=False, origin=_MM2_DEFAULT_ORIGIN)
    )
    if is_on:
        for key, default in _list_defaults(worker_config_keys.COMMON).items():
            if key in mm2_property_keys.REST_KEYS:
                found.setdefault(key, EffectiveValue(value=default, origin=_MM2_DEFAULT_ORIGIN))
    return _sort_section(found)


def _derive_mm2_sections(found: Mm2Settings) -> dict[str, EffectiveSection]:
    """Derive the effective settings of mm2's own sections."""
    shown: dict[str, EffectiveSection] = {}
    for name in (*_PROCESS_SECTIONS, hooks_section.HOOKS_SECTION):
        given = found.effective.get(name)
        if isinstance(given, Mapping) and given:
            shown[name] = _sort_section(
                {
                    key: EffectiveValue(
                        value=value, origin=_find_section_origin(found.flat, f"{name}.{key}")
                    )
                    for key, value in _flatten_sections(given)
                }
            )
    return shown


def _find_section_origin(flat: FlatProperties, path: str) -> ValueOrigin:
    name = f"mm2.{path}"
    if name in flat.locations:
        return _find_property_origin(flat, name)
    if path.startswith(hooks_section.HOOKS_SECTION):
        return ValueOrigin(kind=ValueOriginKind.FILE, key=path)
    return _DEFAULT_ORIGIN


def _flatten_sections(tree: Mapping[str, Any]) -> Iterator[tuple[str, PlainValue]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{name}", leaf) for name, leaf in _flatten_sections(value))
        else:
            yield key, _parse_scalar(value) if isinstance(value, str) else value


def _hide_secret(key: str, value: str, as_written: str) -> PlainValue:
    """Return the value for display. The value is hidden if it is a secret, or if it differs from
    the text `as_written` in the file because a placeholder was resolved."""
    if value != as_written or config_errors.is_sensitive_key(key):
        return config_errors.HIDDEN_VALUE
    return _parse_scalar(config_errors.redact_secrets_in_value(value))


def _parse_scalar(text: str) -> PlainValue:
    """Parse booleans and whole numbers as YAML does. Other text is returned unchanged."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if _NUMBER.fullmatch(text) else text


def _sort_section(found: Mapping[str, EffectiveValue]) -> EffectiveSection:
    return {key: found[key] for key in sorted(found)}


# Output


def render_yaml(found: EffectiveConfig) -> Iterator[str]:
    """Yield YAML lines, with the origin of every value as a comment.

    A key that a connector does not use is omitted from the connector's section if another connector
    or a client uses it. A key that nothing uses is included, with a comment.
    """
    file = pathlib.PurePath(found.file).name
    yield f"# Effective configuration of workers and connectors of {found.file}."
    yield (
        f"# Origin of each value: a line of {file}; default (of mm2); MM2 default (of "
        "MirrorMaker 2 and Kafka Connect)."
    )
    yield "flows:"
    for name, flow in found.flows.items():
        why = "" if flow.replicates_topics else "  # not enabled: the flow only emits heartbeats"
        yield f"  {name}:{why}"
        yield from _render_section(
            "worker", flow.worker, file, note="the flow's Kafka Connect worker"
        )
        sections = (*flow.connectors.values(), flow.clients)
        used = {key for each in sections for key, value in each.items() if value.is_used}
        for connector, section in flow.connectors.items():
            shown = {k: each for k, each in section.items() if each.is_used or k not in used}
            yield from _render_section(connector, shown, file)
        for connector, reason in flow.not_created.items():
            yield f"    {connector}: {{}}  # not created: {reason}"
        clients = {key: each for key, each in flow.clients.items() if each.is_used}
        yield from _render_section("clients", clients, file, note="for all connectors")
    for name, section in found.sections.items():
        yield from _render_section(name, section, file, indent="")


def _render_section(
    name: str, section: EffectiveSection, file: str, *, note: str = "", indent: str = "    "
) -> Iterator[str]:
    yield f"{indent}{name}:{'' if section else ' {}'}{f'  # {note}' if note else ''}"
    for key, value in section.items():
        yield f"{indent}  {_render_entry(key, value.value)}  # {_render_comment(key, value, file)}"


def _render_entry(key: str, value: PlainValue) -> str:
    shown = value if not isinstance(value, list) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"{key}: {shown}"
    text = yaml_parser.format_yaml({key: value}).rstrip("\n")
    return text if "\n" not in text else f"{key}: {json.dumps(value, ensure_ascii=False)}"


def _render_comment(key: str, value: EffectiveValue, file: str) -> str:
    origin = value.origin
    words = origin.kind.value
    if origin.kind is ValueOriginKind.FILE:
        words = f"{file}:{origin.line}" if origin.line else file
        if origin.key and origin.key.rpartition("].")[2] != key:
            words += f" {origin.key}"
    if key.endswith(_FACTOR_KEY) and value.value == -1:
        words += ": the brokers' default.replication.factor"
    note = value.note or ("" if value.is_used else "not used by this connector")
    return words + (f"; {note}" if note else "")


def render_json(found: EffectiveConfig) -> dict[str, Any]:
    """Render the effective configuration as a JSON document. `version` is the version of the
    document format."""
    return {
        "version": JSON_VERSION,
        "file": found.file,
        "flows": {
            name: {
                "mirrors": flow.replicates_topics,
                "worker": _section_as_json(flow.worker),
                "connectors": {
                    each: _section_as_json(part) for each, part in flow.connectors.items()
                },
                "clients": _section_as_json(flow.clients),
                "not_created": dict(flow.not_created),
            }
            for name, flow in found.flows.items()
        },
        **{name: _section_as_json(section) for name, section in found.sections.items()},
    }


def _section_as_json(section: EffectiveSection) -> dict[str, Any]:
    return {
        key: {
            "value": value.value,
            "origin": value.origin.kind.value,
            **({"line": value.origin.line} if value.origin.line else {}),
            **({"key": value.origin.key} if value.origin.key else {}),
            "used": value.is_used,
        }
        for key, value in section.items()
    }
