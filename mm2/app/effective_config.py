"""The effective configuration of a file: what workers and connectors are given, with its origin.

Made of the plan that `mm2 run` carries out (`flow_plan`), so that nothing is derived twice. Where a
value comes from is found by deriving the plan once more from properties whose values are their own
names. Secrets, and what comes through a provider (`${…}`), are hidden.
"""

from __future__ import annotations

import enum
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.adapters.config import yaml_source
from connect_runtime.api import config_def
from connect_runtime.app.settings import problems, sensitive
from connect_runtime.core.task import worker_keys
from mm2.app import flow_plan
from mm2.app.settings import endpoint_reader, hooks_reader, settings
from mm2.app.settings import mirror_maker_keys as keys
from mm2.core import flows
from mm2.core.configs import (
    checks,
    client_keys,
    connector_configs,
    connector_keys,
    dedicated,
    java_classes,
    own_keys,
    roles,
)
from mm2.core.copy import record_transforms

JSON_VERSION = 1
Plain = str | int | bool | list[str]
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DEFINITIONS: Mapping[str, config_def.ConfigDef] = {
    flow_plan.SOURCE: connector_configs.SOURCE,
    flow_plan.CHECKPOINT: connector_configs.CHECKPOINT,
    flow_plan.HEARTBEAT: connector_configs.HEARTBEAT,
}
_SECTIONS = ("spark", "metrics", endpoint_reader.HEALTH, endpoint_reader.DRILL)
_CLASSES = (
    connector_keys.POLICY,
    connector_keys.TOPIC_FILTER,
    connector_keys.GROUP_FILTER,
    connector_keys.PROPERTY_FILTER,
)
_NOT_SHOWN = {
    *client_keys.CLIENT,
    "config.providers",
    own_keys.ENGINE,
    own_keys.JAVA_STOPPED,
    connector_keys.SOURCE_ALIAS,
    connector_keys.TARGET_ALIAS,
    connector_keys.FORWARDING_ADMIN,
    connector_keys.REPORTERS,
    connector_keys.POLL_TIMEOUT,
}
"""Defaults of keys that act on nothing here, or are always given."""
_OF_STORAGE = tuple(f"{each}.storage." for each in ("config", "offset", "status"))
_FACTOR = "replication.factor"


class Kind(enum.Enum):
    """Where a value comes from: the file, mm2's own default, or that of MirrorMaker 2 and Kafka
    Connect."""

    FILE = "file"
    DEFAULT = "default"
    MM2_DEFAULT = "MM2 default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """`line` and `key` say where the file has the value; 0 and "" where it does not."""

    kind: Kind
    line: int = 0
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """`is_used`: does it have an effect where it is given? Each connector is given the keys of all
    three, as in MirrorMaker 2. `note` is for people."""

    value: Plain = field(repr=False)
    origin: Origin
    is_used: bool = True
    note: str = ""


Section = Mapping[str, Value]
"""By key, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConfig:
    """`connectors` by name; `clients` is given to all of them. `not_created` says why a connector
    does not run. `mirrors`: the flow is enabled; else only its heartbeats are written."""

    mirrors: bool
    worker: Section
    connectors: Mapping[str, Section]
    clients: Section
    not_created: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveConfig:
    """`sections` are those of the process: `rest`, `spark`, `metrics`, …"""

    file: str
    flows: Mapping[str, FlowConfig]
    sections: Mapping[str, Section]


def of(found: settings.Settings, *, environment: Mapping[str, str]) -> EffectiveConfig:
    """Raises `SettingsError` and `ConfigError`, as starting would."""
    plans = flow_plan.plans(found, flow_plan.EVERYTHING, environment=environment)
    return EffectiveConfig(
        file=found.file,
        flows={plan.name: _flow(found.flat, plan) for plan in plans},
        sections={"rest": _rest(found.flat), **_sections(found)},
    )


class _Name(str):
    """The name of a property, in the place of its value."""

    __slots__ = ()


def _origins(
    flat: settings.Flat, derive: Callable[[dedicated.Props], Mapping[str, str]]
) -> Callable[[str], Origin]:
    """Where the value of a derived key comes from."""
    named = derive({key: _Name(key) for key in flat.props})

    def origin(key: str) -> Origin:
        name = named.get(key)
        return _origin(flat, str(name)) if isinstance(name, _Name) else _MM2_DEFAULT

    return origin


def _origin(flat: settings.Flat, name: str) -> Origin:
    """Of a property of the file."""
    if name in flat.defaults:
        return _DEFAULT
    line, key = flat.places[name]
    return Origin(kind=Kind.FILE, line=line, key=key)


_DEFAULT = Origin(kind=Kind.DEFAULT)
_MM2_DEFAULT = Origin(kind=Kind.MM2_DEFAULT)


# Flows


def _flow(flat: settings.Flat, plan: flow_plan.FlowPlan) -> FlowConfig:
    connectors = {name: _connector(flat, plan, name) for name in plan.connectors}
    first = connectors[flow_plan.SOURCE]
    clients = {
        key: value
        for key, value in first.items()
        if _is_of_clients(key) and all(each.get(key) == value for each in connectors.values())
    }
    created = {
        name: dedicated.can_run(name, flat.resolve(config))
        for name, config in plan.connectors.items()
    }
    return FlowConfig(
        mirrors=plan.shown,
        worker=_worker(flat, plan),
        connectors={
            name: {key: value for key, value in each.items() if key not in clients}
            for name, each in connectors.items()
            if created[name]
        },
        clients=clients,
        not_created={
            name: "; ".join(
                message
                for messages in checks.checkpoint(flat.resolve(plan.connectors[name])).values()
                for message in messages
            )
            for name, runs in created.items()
            if not runs
        },
    )


def _worker(flat: settings.Flat, plan: flow_plan.FlowPlan) -> Section:
    origin = _origins(flat, lambda props: dedicated.worker(props, plan.ends))
    as_written = dedicated.worker(flat.props, plan.ends)
    found = {
        key: Value(value=_shown(key, value, as_written.get(key, value)), origin=origin(key))
        for key, value in plan.worker_props.items()
    }
    restart_origin = origin(keys.RESTART_MAX)
    found[keys.RESTART_MAX] = Value(
        value=plan.restart_max,
        origin=restart_origin if restart_origin.kind is Kind.FILE else _DEFAULT,
    )
    for key, default in _defaults(worker_keys.DISTRIBUTED).items():
        if key in found or key in keys.NOT_OF_WORKERS:
            continue
        if key in endpoint_reader.WORKER or key.startswith(_OF_STORAGE):
            found[key] = Value(value=default, origin=_MM2_DEFAULT)
    return _sorted(found)


def _connector(flat: settings.Flat, plan: flow_plan.FlowPlan, name: str) -> Section:
    origin = _origins(flat, lambda props: dedicated.connector(props, plan.ends, name))
    config = plan.connectors[name]
    resolved = flat.resolve(config)
    definition = _DEFINITIONS[name]
    takes_any = any(java_classes.is_python(resolved.get(key, "")) for key in _CLASSES)
    found = {
        key: Value(
            value=_shown(key, resolved[key], value),
            origin=origin(key),
            is_used=takes_any or _is_used(definition, key),
        )
        for key, value in config.items()
    }
    for key, default in _defaults(definition).items():
        if key not in found and key not in _NOT_SHOWN:
            own = key in own_keys.OWN.keys
            found[key] = Value(value=default, origin=_DEFAULT if own else _MM2_DEFAULT)
    found.setdefault(connector_keys.TASKS_MAX, Value(value=1, origin=_MM2_DEFAULT))
    if name == flow_plan.SOURCE:
        flow = connector_configs.source(resolved).flow
        found.setdefault(
            own_keys.TARGET_TOPICS, Value(value=flow.target_topics.value, origin=_DEFAULT)
        )
        reset = "source.consumer.auto.offset.reset"
        if own_keys.START not in found and reset not in found:
            found[own_keys.START] = Value(value=_start(flow), origin=_DEFAULT)
    return _sorted(found)


def _start(flow: flows.Flow) -> str:
    return flow.start.at.value


def _is_of_clients(key: str) -> bool:
    return key.startswith(roles.PREFIXES) and key not in connector_keys.BASE.keys


def _is_used(definition: config_def.ConfigDef, key: str) -> bool:
    if key in client_keys.CLIENT:  # at the top of a connector these act on nothing
        return False
    if key.startswith(roles.CLUSTERS) and _is_of_clients(key):
        return key.partition(".cluster.")[2] in client_keys.CLIENT
    return (
        key in definition.keys
        or key in connector_keys.COMMON
        or key.startswith((*roles.PREFIXES, *record_transforms.FAMILIES, dedicated.PROVIDERS))
    )


def _defaults(definition: config_def.ConfigDef) -> dict[str, Plain]:
    """Of keys that have one that says something."""
    return {
        key: _typed(_text(each.default))
        for key, each in definition.keys.items()
        if each.has_default and each.default not in (None, "", [])
    }


def _text(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, list):
        return ",".join(map(str, default))
    named = java_classes.java_name(default) if isinstance(default, type) else None
    return named or str(default)


# The process


def _rest(flat: settings.Flat) -> Section:
    """How the nodes of a group reach each other."""
    resolved = flat.resolve(flat.props)
    is_on = resolved.get(dedicated.INTERNAL_REST, "false").strip().lower() == "true"
    unused = "" if is_on else f"no effect while {dedicated.INTERNAL_REST} is false"
    found = {
        key: Value(
            value=_shown(key, resolved[key], flat.props[key]),
            origin=_origin(flat, key),
            is_used=is_on or key == dedicated.INTERNAL_REST,
            note=unused if key != dedicated.INTERNAL_REST else "",
        )
        for key in keys.REST
        if key in flat.props
    }
    found.setdefault(dedicated.INTERNAL_REST, Value(value=False, origin=_MM2_DEFAULT))
    if is_on:
        for key, default in _defaults(worker_keys.COMMON).items():
            if key in keys.REST:
                found.setdefault(key, Value(value=default, origin=_MM2_DEFAULT))
    return _sorted(found)


def _sections(found: settings.Settings) -> dict[str, Section]:
    """What mm2 itself is set to."""
    shown: dict[str, Section] = {}
    for name in (*_SECTIONS, hooks_reader.PATH):
        given = found.effective.get(name)
        if isinstance(given, Mapping) and given:
            shown[name] = _sorted(
                {
                    key: Value(value=value, origin=_own_origin(found.flat, f"{name}.{key}"))
                    for key, value in _leaves(given)
                }
            )
    return shown


def _own_origin(flat: settings.Flat, path: str) -> Origin:
    name = f"mm2.{path}"
    if name in flat.places:
        return _origin(flat, name)
    if path.startswith(hooks_reader.PATH):
        return Origin(kind=Kind.FILE, key=path)
    return _DEFAULT


def _leaves(tree: Mapping[str, Any]) -> Iterator[tuple[str, Plain]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{name}", leaf) for name, leaf in _leaves(value))
        else:
            yield key, _typed(value) if isinstance(value, str) else value


def _shown(key: str, value: str, as_written: str) -> Plain:
    """`as_written` has placeholders that `value` has not."""
    if value != as_written or sensitive.is_sensitive(key):
        return problems.HIDDEN
    return _typed(value)


def _typed(text: str) -> Plain:
    """As YAML would read it: true, false, and whole numbers in their usual form."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if _NUMBER.fullmatch(text) else text


def _sorted(found: Mapping[str, Value]) -> Section:
    return {key: found[key] for key in sorted(found)}


# Output


def lines(found: EffectiveConfig) -> Iterator[str]:
    """YAML with the origin of every value as a comment. What a connector is given and does not use
    is left out, unless no other uses it."""
    file = pathlib.PurePath(found.file).name
    yield f"# Effective configuration of {found.file}: what workers and connectors are given."
    yield (
        f"# Origin of each value: a line of {file}; default (of mm2); MM2 default (of "
        "MirrorMaker 2 and Kafka Connect)."
    )
    yield "flows:"
    for name, flow in found.flows.items():
        why = "" if flow.mirrors else "  # not enabled: only its heartbeats are written"
        yield f"  {name}:{why}"
        yield from _section("worker", flow.worker, file, note="the flow's Kafka Connect worker")
        sections = (*flow.connectors.values(), flow.clients)
        used = {key for each in sections for key, value in each.items() if value.is_used}
        for connector, section in flow.connectors.items():
            shown = {k: each for k, each in section.items() if each.is_used or k not in used}
            yield from _section(connector, shown, file)
        for connector, reason in flow.not_created.items():
            yield f"    {connector}: {{}}  # not created: {reason}"
        clients = {key: each for key, each in flow.clients.items() if each.is_used}
        yield from _section("clients", clients, file, note="given to each connector")
    for name, section in found.sections.items():
        yield from _section(name, section, file, indent="")


def _section(
    name: str, section: Section, file: str, *, note: str = "", indent: str = "    "
) -> Iterator[str]:
    yield f"{indent}{name}:{'' if section else ' {}'}{f'  # {note}' if note else ''}"
    for key, value in section.items():
        yield f"{indent}  {_entry(key, value.value)}  # {_comment(key, value, file)}"


def _entry(key: str, value: Plain) -> str:
    shown = value if not isinstance(value, list) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"{key}: {shown}"
    text = yaml_source.render({key: value}).rstrip("\n")
    return text if "\n" not in text else f"{key}: {json.dumps(value, ensure_ascii=False)}"


def _comment(key: str, value: Value, file: str) -> str:
    origin = value.origin
    words = origin.kind.value
    if origin.kind is Kind.FILE:
        words = f"{file}:{origin.line}" if origin.line else file
        if origin.key and origin.key.rpartition("].")[2] != key:
            words += f" {origin.key}"
    if key.endswith(_FACTOR) and value.value == -1:
        words += ": the brokers' default.replication.factor"
    note = value.note or ("" if value.is_used else "not used by this connector")
    return words + (f"; {note}" if note else "")


def as_json(found: EffectiveConfig) -> dict[str, Any]:
    """For programs; `version` says how it reads."""
    return {
        "version": JSON_VERSION,
        "file": found.file,
        "flows": {
            name: {
                "mirrors": flow.mirrors,
                "worker": _as_json(flow.worker),
                "connectors": {each: _as_json(part) for each, part in flow.connectors.items()},
                "clients": _as_json(flow.clients),
                "not_created": dict(flow.not_created),
            }
            for name, flow in found.flows.items()
        },
        **{name: _as_json(section) for name, section in found.sections.items()},
    }


def _as_json(section: Section) -> dict[str, Any]:
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
