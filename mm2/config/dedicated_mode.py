"""Derives each flow's worker and connectors from one flat file, as MirrorMaker 2 does.

Dedicated mode derives a whole Connect worker per flow. Precedence, names and omissions are
exactly Java's (`MirrorMakerConfig`): Java workers and ours in one group must agree on every
configuration, or each new leader rewrites it.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from mm2.config import client_keys, connector_checks, java_classes, keys

CLUSTERS_KEY = "clusters"
INTERNAL_REST_KEY = "dedicated.mode.enable.internal.rest"
PROVIDERS_KEY = "config.providers"
Props = Mapping[str, str]
Resolve = Callable[[Props], Mapping[str, str]]
"""Fills `${…}` in."""

CONNECTORS: Mapping[str, str] = {
    name: java_classes.MIRROR_PACKAGE + name
    for name in ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
}
"""The connectors of every flow by name, with their classes, in the order of their configuration."""

_WORKER_PREFIXES = (
    *("offset.storage", "config.storage", "status.storage"),
    *("key.converter", "value.converter", "header.converter"),
    *("task", "worker", "replication.policy"),
)
_CONVERTER_KEYS = ("key.converter", "value.converter", "header.converter")
_BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CLIENT_KINDS = ("producer", "consumer", "admin")
_CLIENT_PREFIXES = tuple(f"{each}." for each in _CLIENT_KINDS)
_TOP_LEVEL_KEYS = keys.ALL_KEYS | frozenset(keys.EXTENSION_KEYS.keys) - {keys.OVERRIDE_THROTTLE}
"""What reaches every flow's connectors from the top of the file: Java's keys, and ours."""


@dataclass(frozen=True, slots=True, order=True)
class SourceAndTarget:
    """The aliases of a flow's two clusters."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def group(self) -> str:
        """The flow's Connect group, on the target unless the file names another."""
        return f"{self.source}-mm2"

    @property
    def rest_path(self) -> str:
        """`/source/target`, percent-encoded: where the flow is behind a shared REST server."""
        return f"/{_url_encode(self.source)}/{_url_encode(self.target)}"


def list_aliases(props: Props) -> tuple[str, ...]:
    """The file's clusters, each once, in its order. `${…}` has to be filled in, as for
    `list_flows`."""
    found = (each.strip() for each in props.get(CLUSTERS_KEY, "").split(","))
    return tuple(dict.fromkeys(each for each in found if each))


def list_flows(props: Props, *, near: Collection[str] = ()) -> list[SourceAndTarget]:
    """The flows that have a worker here: enabled ones, and those that emit heartbeats.

    `near` are the clusters that this node is for (`--clusters`): only flows to them; empty: all.
    A flow that is there for its heartbeats alone has all three connectors, of which only that runs.
    """
    named = list_aliases(props)
    wanted = set(near) or set(named)
    pairs = [SourceAndTarget(one, other) for one in named for other in named if one != other]
    return [each for each in pairs if each.target in wanted and _has_worker(props, each)]


def _has_worker(props: Props, ends: SourceAndTarget) -> bool:
    for_all = props.get(keys.EMIT_HEARTBEATS, "true")
    heartbeats = props.get(f"{ends}.{keys.EMIT_HEARTBEATS}", for_all)
    return _is_true(props.get(f"{ends}.{keys.ENABLED}", "")) or _is_true(heartbeats)


def _is_true(text: str) -> bool:
    """`Boolean.parseBoolean`: untrimmed, anything else is false."""
    return text.lower() == "true"


def derive_cluster(props: Props, alias: str) -> dict[str, str]:
    """What holds for one cluster: security is handed on to each kind of client, the top's as well.

    So `C.producer.K` beats `C.K`, which beats `K`.
    """
    found = _strip_prefix(props, f"{alias}.")
    own = {name: found[name] for name in client_keys.CLIENT_KEYS if name in found}
    top = {name: props[name] for name in client_keys.CLIENT_KEYS if name in props}
    for name, value in own.items():
        for role in _CLIENT_PREFIXES:
            found.setdefault(role + name, value)
    for name, value in top.items():
        for prefix in (*_CLIENT_PREFIXES, ""):
            found.setdefault(prefix + name, value)
    return found


def derive_worker(
    props: Props, ends: SourceAndTarget, *, resolve: Resolve = dict
) -> dict[str, str]:
    """The configuration of the flow's worker; its group and topics are on the target.

    They carry the source's alias, with dots whatever the policy's separator is.
    """
    found = derive_cluster(props, ends.target)
    for prefix in _WORKER_PREFIXES:
        found.update(_filter_by_prefix(props, prefix))
    found = dict(resolve(found))
    found.update(_filter_by_prefix(props, PROVIDERS_KEY))
    topics = {
        kind: f"mm2-{kind}.{ends.source}.internal" for kind in ("offsets", "status", "configs")
    }
    defaults = {
        "client.id": str(ends),
        "group.id": ends.group,
        "offset.storage.topic": topics["offsets"],
        "status.storage.topic": topics["status"],
        "config.storage.topic": topics["configs"],
        **dict.fromkeys(_CONVERTER_KEYS, _BYTE_ARRAY_CONVERTER),
    }
    return {**defaults, **found}


def derive_connector(props: Props, ends: SourceAndTarget, name: str) -> dict[str, str]:
    """The configuration of one of `CONNECTORS`; `${…}` stays, for the worker to fill in.

    What stands behind `A->B.` beats all; without it the flow is not enabled.
    """
    found = {key: value for key, value in props.items() if key in _TOP_LEVEL_KEYS}
    found.update(_filter_by_prefix(props, PROVIDERS_KEY))
    found.update(_filter_by_prefix(props, "replication.policy"))
    found.update(_add_side_prefix(derive_cluster(props, ends.source), "source."))
    found.update(_add_side_prefix(derive_cluster(props, ends.target), "target."))
    defaults = {
        keys.NAME: name,
        keys.CONNECTOR_CLASS: CONNECTORS[name],
        keys.SOURCE_ALIAS: ends.source,
        keys.TARGET_ALIAS: ends.target,
    }
    found = {**defaults, **found, **_strip_prefix(props, f"{ends}.")}
    found.setdefault(keys.ENABLED, "false")
    return found


def derive_connectors(props: Props, ends: SourceAndTarget) -> dict[str, dict[str, str]]:
    """All three by name, in the order in which a leader writes them."""
    return {name: derive_connector(props, ends, name) for name in CONNECTORS}


def can_run(name: str, config: Props) -> bool:
    """Is there anything for this one of `CONNECTORS` to do?

    Java configures it all the same, and is refused by the connector, which is told and left at it.
    """
    return name != "MirrorCheckpointConnector" or not connector_checks.check_checkpoint(config)


def derive_client(props: Props, alias: str, *, resolve: Resolve = dict) -> dict[str, str]:
    """For a `MirrorClient` of one cluster (`MirrorMakerConfig.clientConfig`)."""
    return dict(resolve({**props, **derive_cluster(props, alias)}))


def diff_keys(ours: Props, stored: Props) -> list[str]:
    """The keys in which they differ, for people: values may be secrets, so they are not told.

    Both are as they stand in file and topic: compared with `${…}` filled in, as Java does, a secret
    would make them differ for ever.
    """
    both = {*ours, *stored}
    return sorted(key for key in both if ours.get(key) != stored.get(key))


def _add_side_prefix(found: Props, prefix: str) -> dict[str, str]:
    """Of one side: what is for one kind of client, and what is for the cluster.

    As in Java, whose expression knows no dot: a key such as `administrator` counts for a client.
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


def _url_encode(alias: str) -> str:
    """As Java's URLEncoder, with blanks as %20: unlike Python's it encodes tildes."""
    return urllib.parse.quote(alias, safe="*-._").replace("~", "%7E")
