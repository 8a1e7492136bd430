"""What one `mm2.properties` makes of each flow: its worker, its connectors, whether it runs.

Dedicated mode derives a whole Connect worker per flow from one flat file. Precedence, names and
what falls through the cracks are Java's to the letter (`MirrorMakerConfig`, reference 1.9): a group
of Java workers and ours must agree on every configuration, or whoever becomes leader rewrites it.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from mm2.core.configs import checks, client_keys, java_classes, own_keys
from mm2.core.configs import connector_keys as keys

CLUSTERS = "clusters"
INTERNAL_REST = "dedicated.mode.enable.internal.rest"
PROVIDERS = "config.providers"
Props = Mapping[str, str]
Resolve = Callable[[Props], Mapping[str, str]]
"""Fills `${…}` in."""

CONNECTORS: Mapping[str, str] = {
    name: java_classes.MIRROR + name
    for name in ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
}
"""The connectors of every flow by name, with their classes, in the order of their configuration."""

_WORKER_PREFIXES = (
    *("offset.storage", "config.storage", "status.storage"),
    *("key.converter", "value.converter", "header.converter"),
    *("task", "worker", "replication.policy"),
)
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CLIENTS = ("producer", "consumer", "admin")
_ROLES = tuple(f"{each}." for each in _CLIENTS)
_AT_THE_TOP = keys.EVERY | frozenset(own_keys.OWN.keys) - {own_keys.LIVE_THROTTLE}
"""What reaches every flow's connectors from the top of the file: Java's keys, and ours."""


@dataclass(frozen=True, slots=True, order=True)
class Ends:
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
        return f"/{_encoded(self.source)}/{_encoded(self.target)}"


def aliases(props: Props) -> tuple[str, ...]:
    """The file's clusters, each once, in its order. `${…}` has to be filled in, as for `flows`."""
    found = (each.strip() for each in props.get(CLUSTERS, "").split(","))
    return tuple(dict.fromkeys(each for each in found if each))


def flows(props: Props, *, near: Collection[str] = ()) -> list[Ends]:
    """The flows that have a worker here: enabled ones, and those that emit heartbeats.

    `near` are the clusters that this node is for (`--clusters`): only flows to them; empty: all.
    A flow that is there for its heartbeats alone has all three connectors, of which only that runs.
    """
    named = aliases(props)
    wanted = set(near) or set(named)
    pairs = [Ends(one, other) for one in named for other in named if one != other]
    return [each for each in pairs if each.target in wanted and _runs(props, each)]


def _runs(props: Props, ends: Ends) -> bool:
    for_all = props.get(keys.EMIT_HEARTBEATS, "true")
    heartbeats = props.get(f"{ends}.{keys.EMIT_HEARTBEATS}", for_all)
    return _is_true(props.get(f"{ends}.{keys.ENABLED}", "")) or _is_true(heartbeats)


def _is_true(text: str) -> bool:
    """`Boolean.parseBoolean`: untrimmed, anything else is false."""
    return text.lower() == "true"


def cluster(props: Props, alias: str) -> dict[str, str]:
    """What holds for one cluster: security is handed on to each kind of client, the top's as well.

    So `C.producer.K` beats `C.K`, which beats `K`.
    """
    found = _stripped(props, f"{alias}.")
    own = {name: found[name] for name in client_keys.CLIENT if name in found}
    top = {name: props[name] for name in client_keys.CLIENT if name in props}
    for name, value in own.items():
        for role in _ROLES:
            found.setdefault(role + name, value)
    for name, value in top.items():
        for prefix in (*_ROLES, ""):
            found.setdefault(prefix + name, value)
    return found


def worker(props: Props, ends: Ends, *, resolve: Resolve = dict) -> dict[str, str]:
    """The configuration of the flow's worker; its group and topics are on the target.

    They carry the source's alias, with dots whatever the policy's separator is.
    """
    found = cluster(props, ends.target)
    for prefix in _WORKER_PREFIXES:
        found.update(_kept(props, prefix))
    found = dict(resolve(found))
    found.update(_kept(props, PROVIDERS))
    topics = {
        kind: f"mm2-{kind}.{ends.source}.internal" for kind in ("offsets", "status", "configs")
    }
    defaults = {
        "client.id": str(ends),
        "group.id": ends.group,
        "offset.storage.topic": topics["offsets"],
        "status.storage.topic": topics["status"],
        "config.storage.topic": topics["configs"],
        **dict.fromkeys(_CONVERTERS, _BYTES),
    }
    return {**defaults, **found}


def connector(props: Props, ends: Ends, name: str) -> dict[str, str]:
    """The configuration of one of `CONNECTORS`; `${…}` stays, for the worker to fill in.

    What stands behind `A->B.` beats all; without it the flow is not enabled.
    """
    found = {key: value for key, value in props.items() if key in _AT_THE_TOP}
    found.update(_kept(props, PROVIDERS))
    found.update(_kept(props, "replication.policy"))
    found.update(_sided(cluster(props, ends.source), "source."))
    found.update(_sided(cluster(props, ends.target), "target."))
    defaults = {
        keys.NAME: name,
        keys.CONNECTOR_CLASS: CONNECTORS[name],
        keys.SOURCE_ALIAS: ends.source,
        keys.TARGET_ALIAS: ends.target,
    }
    found = {**defaults, **found, **_stripped(props, f"{ends}.")}
    found.setdefault(keys.ENABLED, "false")
    return found


def connectors(props: Props, ends: Ends) -> dict[str, dict[str, str]]:
    """All three by name, in the order in which a leader writes them."""
    return {name: connector(props, ends, name) for name in CONNECTORS}


def can_run(name: str, config: Props) -> bool:
    """Is there anything for this one of `CONNECTORS` to do?

    Java configures it all the same, and is refused by the connector, which is told and left at it.
    """
    return name != "MirrorCheckpointConnector" or not checks.checkpoint(config)


def client(props: Props, alias: str, *, resolve: Resolve = dict) -> dict[str, str]:
    """For a `MirrorClient` of one cluster (`MirrorMakerConfig.clientConfig`)."""
    return dict(resolve({**props, **cluster(props, alias)}))


def differences(ours: Props, stored: Props) -> list[str]:
    """The keys in which they differ, for people: values may be secrets, so they are not told.

    Both are as they stand in file and topic: compared with `${…}` filled in, as Java does, a secret
    would make them differ for ever.
    """
    both = {*ours, *stored}
    return sorted(key for key in both if ours.get(key) != stored.get(key))


def _sided(found: Props, prefix: str) -> dict[str, str]:
    """Of one side: what is for one kind of client, and what is for the cluster.

    As in Java, whose expression knows no dot: a key such as `administrator` counts for a client.
    """
    return {
        (prefix if key.startswith(_CLIENTS) else f"{prefix}cluster.") + key: value
        for key, value in found.items()
    }


def _stripped(props: Props, prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value
        for key, value in props.items()
        if key.startswith(prefix) and len(key) > len(prefix)
    }


def _kept(props: Props, prefix: str) -> dict[str, str]:
    return {key: value for key, value in props.items() if key.startswith(prefix)}


def _encoded(alias: str) -> str:
    """As Java's URLEncoder, with blanks as %20: unlike Python's it encodes tildes."""
    return urllib.parse.quote(alias, safe="*-._").replace("~", "%7E")
