"""Derives the worker and connector configurations of each flow from flat properties.

As in MirrorMaker 2's dedicated mode, each flow has its own Connect worker. Precedence, names and
omissions are exactly the same as in Java's `MirrorMakerConfig`. If Java and mm2 workers in one
group derived different configurations, each new leader would rewrite the configurations.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from mm2.config import (
    client_config_keys,
    connector_checks,
    java_class_placeholders,
    mirror_connector_config_keys,
)
from mm2.topics import replication_policy

CLUSTERS_KEY = "clusters"
INTERNAL_REST_KEY = "dedicated.mode.enable.internal.rest"
PROVIDERS_KEY = "config.providers"
Props = Mapping[str, str]
Resolve = Callable[[Props], Mapping[str, str]]
"""Function that resolves the placeholders `${…}` in property values."""

CONNECTORS: Mapping[str, str] = {
    name: java_class_placeholders.MIRROR_PACKAGE + name
    for name in ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
}
"""Names and classes of the connectors of every flow, in the order in which a leader configures
them."""

_WORKER_PREFIXES = (
    *("offset.storage", "config.storage", "status.storage"),
    *("key.converter", "value.converter", "header.converter"),
    *("task", "worker", "replication.policy"),
)
_CONVERTER_KEYS = ("key.converter", "value.converter", "header.converter")
_BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CLIENT_KINDS = ("producer", "consumer", "admin")
_CLIENT_PREFIXES = tuple(f"{each}." for each in _CLIENT_KINDS)
_TOP_LEVEL_KEYS = mirror_connector_config_keys.ALL_KEYS | frozenset(
    mirror_connector_config_keys.EXTENSION_KEYS.keys
) - {mirror_connector_config_keys.OVERRIDE_THROTTLE}
"""Unprefixed keys of Java and mm2 that apply to the connectors of all flows."""


@dataclass(frozen=True, slots=True, order=True)
class SourceAndTarget:
    """Aliases of a flow's source and target clusters."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def worker_group_id(self) -> str:
        """Default group id of the flow's Connect workers."""
        return f"{self.source}-mm2"

    @property
    def rest_path(self) -> str:
        """Path of the flow on the shared REST server: `/source/target`, percent-encoded."""
        return f"/{_url_encode_alias(self.source)}/{_url_encode_alias(self.target)}"


def list_aliases(props: Props) -> tuple[str, ...]:
    """Return the cluster aliases that the properties list, without duplicates. Placeholders in
    `props` must already be resolved."""
    found = (each.strip() for each in props.get(CLUSTERS_KEY, "").split(","))
    return tuple(dict.fromkeys(each for each in found if each))


def list_flows(props: Props, *, target_aliases: Collection[str] = ()) -> list[SourceAndTarget]:
    """List the flows that need a worker: enabled flows and flows that emit heartbeats.

    Placeholders in `props` must already be resolved. If `target_aliases` is not empty, only flows
    to these targets are returned (`--clusters`). A flow that only emits heartbeats has all three
    connectors, but only the heartbeat connector runs.
    """
    named = list_aliases(props)
    wanted = set(target_aliases) or set(named)
    pairs = [SourceAndTarget(one, other) for one in named for other in named if one != other]
    return [each for each in pairs if each.target in wanted and _needs_connect_worker(props, each)]


def _needs_connect_worker(props: Props, ends: SourceAndTarget) -> bool:
    for_all = props.get(mirror_connector_config_keys.EMIT_HEARTBEATS, "true")
    heartbeats = props.get(f"{ends}.{mirror_connector_config_keys.EMIT_HEARTBEATS}", for_all)
    return _parse_java_boolean(
        props.get(f"{ends}.{mirror_connector_config_keys.ENABLED}", "")
    ) or _parse_java_boolean(heartbeats)


def _parse_java_boolean(text: str) -> bool:
    """Parse a boolean as Java's `Boolean.parseBoolean` does: `true` in upper or lower case is true,
    and any other text is false. The text is not trimmed."""
    return text.lower() == "true"


def derive_cluster_properties(props: Props, alias: str) -> dict[str, str]:
    """Derive the properties of one cluster, with security keys copied to each client type.

    `C.producer.K` takes precedence over `C.K`, which takes precedence over `K`.
    """
    found = _strip_prefix(props, f"{alias}.")
    own = {name: found[name] for name in client_config_keys.CLIENT_KEYS if name in found}
    top = {name: props[name] for name in client_config_keys.CLIENT_KEYS if name in props}
    for name, value in own.items():
        for role in _CLIENT_PREFIXES:
            found.setdefault(role + name, value)
    for name, value in top.items():
        for prefix in (*_CLIENT_PREFIXES, ""):
            found.setdefault(prefix + name, value)
    return found


def derive_worker_config(
    props: Props, ends: SourceAndTarget, *, resolve: Resolve = dict
) -> dict[str, str]:
    """Derive the configuration of the flow's Connect worker, whose group and internal topics are on
    the target cluster.

    The names of the group and topics contain the source alias, always with dots as separators.
    """
    found = derive_cluster_properties(props, ends.target)
    for prefix in _WORKER_PREFIXES:
        found.update(_filter_by_prefix(props, prefix))
    found = dict(resolve(found))
    found.update(_filter_by_prefix(props, PROVIDERS_KEY))
    topics = {
        kind: replication_policy.format_connect_topic(kind, ends.source)
        for kind in replication_policy.CONNECT_TOPIC_KINDS
    }
    defaults = {
        "client.id": str(ends),
        "group.id": ends.worker_group_id,
        "offset.storage.topic": topics["offsets"],
        "status.storage.topic": topics["status"],
        "config.storage.topic": topics["configs"],
        **dict.fromkeys(_CONVERTER_KEYS, _BYTE_ARRAY_CONVERTER),
    }
    return {**defaults, **found}


def derive_connector_config(props: Props, ends: SourceAndTarget, name: str) -> dict[str, str]:
    """Derive the configuration of one of the `CONNECTORS`, with placeholders `${…}` unresolved.

    Keys with the prefix `A->B.` take precedence. `enabled` defaults to false.
    """
    found = {key: value for key, value in props.items() if key in _TOP_LEVEL_KEYS}
    found.update(_filter_by_prefix(props, PROVIDERS_KEY))
    found.update(_filter_by_prefix(props, "replication.policy"))
    found.update(_add_side_prefix(derive_cluster_properties(props, ends.source), "source."))
    found.update(_add_side_prefix(derive_cluster_properties(props, ends.target), "target."))
    defaults = {
        mirror_connector_config_keys.NAME: name,
        mirror_connector_config_keys.CONNECTOR_CLASS: CONNECTORS[name],
        mirror_connector_config_keys.SOURCE_ALIAS: ends.source,
        mirror_connector_config_keys.TARGET_ALIAS: ends.target,
    }
    found = {**defaults, **found, **_strip_prefix(props, f"{ends}.")}
    found.setdefault(mirror_connector_config_keys.ENABLED, "false")
    return found


def derive_connector_configs(props: Props, ends: SourceAndTarget) -> dict[str, dict[str, str]]:
    """Derive the configurations of all three connectors, by name and in the order of
    `CONNECTORS`."""
    return {name: derive_connector_config(props, ends, name) for name in CONNECTORS}


def can_connector_run(name: str, config: Props) -> bool:
    """Return True if the connector can run. The checkpoint connector can run only if checkpoints
    and offset syncs are enabled.

    Java creates the connector even if it cannot run. The connector then rejects its configuration,
    and Java only logs the error.
    """
    return (
        name != "MirrorCheckpointConnector"
        or not connector_checks.find_checkpoint_connector_errors(config)
    )


def derive_client_properties(
    props: Props, alias: str, *, resolve: Resolve = dict
) -> dict[str, str]:
    """Derive the properties for a `MirrorClient` of one cluster
    (`MirrorMakerConfig.clientConfig`)."""
    return dict(resolve({**props, **derive_cluster_properties(props, alias)}))


def diff_config_keys(ours: Props, stored: Props) -> list[str]:
    """Return the keys whose values differ between the configuration derived from the file and the
    stored configuration.

    Values are not returned because they may be secrets. Placeholders `${…}` are compared
    unresolved. Java resolves them in only one of the configurations; in Java, values with
    placeholders therefore always differ.
    """
    both = {*ours, *stored}
    return sorted(key for key in both if ours.get(key) != stored.get(key))


def _add_side_prefix(found: Props, prefix: str) -> dict[str, str]:
    """Prefix client properties with `source.` or `target.`, and other keys with `source.cluster.`
    or `target.cluster.`.

    As in Java, the client type is matched without a trailing dot: `administrator` counts as a
    client key.
    """
    return {
        (prefix if key.startswith(_CLIENT_KINDS) else f"{prefix}cluster.") + key: value
        for key, value in found.items()
    }


def _strip_prefix(props: Props, prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value
        for key, value in props.items()
        if key.startswith(prefix) and len(key) > len(prefix)
    }


def _filter_by_prefix(props: Props, prefix: str) -> dict[str, str]:
    return {key: value for key, value in props.items() if key.startswith(prefix)}


def _url_encode_alias(alias: str) -> str:
    """Percent-encode an alias as Java's URLEncoder does, including tildes, except that spaces
    become %20."""
    return urllib.parse.quote(alias, safe="*-._").replace("~", "%7E")
