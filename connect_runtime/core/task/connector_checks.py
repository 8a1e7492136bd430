"""What is wrong with a connector's configuration that no key shows alone; what clients may be told.

Each check adds to `values`, which are by key. Java: AbstractHerder and DistributedHerder, their
validateConnectorConfig; SinkConnectorConfig.validate.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from connect_runtime.api import config_def, config_infos, config_types
from connect_runtime.core.task import client_settings, connector_config, worker_config

Config = Mapping[str, str | None]
Values = dict[str, config_def.ConfigValue]
_Kind = client_settings.ClientKind
_GROUP = f"{_Kind.CONSUMER.override_prefix}group.id"
_SECRET = re.compile(r"password|passphrase|secret|jaas\.config|\.key$|certificate|token|credential")


def add(values: Values, name: str, message: str, *, value: str | None = None) -> None:
    """One more error on a key, which may be one that nobody has defined."""
    found = values.setdefault(name, config_def.ConfigValue(name=name, value=value))
    found.error_messages.append(message)


def nulls(values: Values, config: Config) -> None:
    for name, value in config.items():
        if value is None:
            add(values, name, "Null value can not be supplied as the configuration value.")


def topics(values: Values, config: Config) -> None:
    """Of a sink."""
    for name, message in connector_config.topics_at_odds(config).items():
        add(values, name, message)


def consumer_group(values: Values, config: Config, *, workers: str) -> None:
    """A sink's group must not be `workers`, the group that the workers are in."""
    if _GROUP in config:
        group = config[_GROUP]
        if group == workers:
            message = f"Consumer group {group} conflicts with Connect worker group {workers}"
            add(values, _GROUP, message, value=group)
    elif f"connect-{values['name'].value}" == workers:
        name = values["name"].value
        message = (
            f"Consumer group for sink connector named {name} conflicts with Connect worker group"
            f" {workers}"
        )
        add(values, "name", message)


def not_offered(values: Values, config: Config, *, carried_out: Collection[str] = ()) -> None:
    """Keys that have an error already get no second one. `carried_out`: by the connector."""
    found = {name: each.value for name, each in values.items() if not each.error_messages}
    for name, message in connector_config.not_offered(found, config).items():
        if name not in carried_out:
            add(values, name, message, value=config.get(name))


def token_endpoints(values: Values, config: Config, worker: worker_config.WorkerConfig) -> None:
    """Keys that overrides of a client have are told by `overrides`."""
    for name, message in client_settings.refused_endpoints(worker, config).items():
        if not any(name in client_settings.overridden([name], kind) for kind in _Kind):
            add(values, name, message, value=config.get(name))


def overrides(
    worker: worker_config.WorkerConfig, config: Config, *, sink: bool
) -> list[config_infos.ConfigInfo]:
    """Every override of a client that the connector has, with the policy's error."""
    found = []
    for kind in _clients(config, sink=sink):
        refused = {
            **client_settings.refused_endpoints(worker, config),
            **client_settings.refused_overrides(worker, config, kind),
        }
        for name, key in client_settings.overridden(config, kind).items():
            value = config_infos.ConfigValueInfo(
                name=name,
                value=config_types.HIDDEN if _SECRET.search(key) else config[name],
                recommended_values=(),
                errors=(refused[name],) if name in refused else (),
                visible=True,
            )
            found.append(config_infos.ConfigInfo(definition=None, value=value))
    return found


def _clients(config: Config, *, sink: bool) -> list[client_settings.ClientKind]:
    """Those that a connector with this configuration has."""
    if sink:
        dead_letters = (config.get(connector_config.DEAD_LETTERS) or "").strip()
        return [_Kind.PRODUCER, _Kind.ADMIN, _Kind.CONSUMER] if dead_letters else [_Kind.CONSUMER]
    found = [_Kind.PRODUCER]
    own_offsets = bool((config.get("offsets.storage.topic") or "").strip())
    if own_offsets or any(each.startswith(connector_config.TOPIC_CREATION) for each in config):
        found.append(_Kind.ADMIN)
    return [*found, _Kind.CONSUMER] if own_offsets else found
