"""The user's own flow between two clusters of the sandbox: what of a file a drill keeps.

Everything that says how a flow works stays. What says how to reach and trust the user's clusters
goes, and so do other flows, topics and groups: a drill has one of each, by names of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from mm2.core.configs import dedicated

TOPIC, GROUP = "drill", "drill-group"
_REACHING = ("bootstrap.servers", "security.", "sasl.", "ssl.", "client.rack")
_ROLES = ("consumer.", "producer.", "admin.", "source.", "target.", "override.", "cluster.")
_NAMES = ("topics", "groups")
_EXCLUDES = ("exclude", "blacklist")
_FACTOR = "replication.factor"
_FLOW_FACTORS = ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.")
_WORKER_FACTORS = ("config.storage.", "offset.storage.", "status.storage.")


def sandboxed(
    props: Mapping[str, str], ends: tuple[str, str], bootstraps: tuple[str, str]
) -> dict[str, str]:
    """Properties of MirrorMaker 2's form, for one broker on either side. `props`: the file's, with
    `${…}` filled in; `ends`: aliases of source and target."""
    aliases = [each.strip() for each in props.get(dedicated.CLUSTERS, "").split(",")]
    flow = f"{ends[0]}->{ends[1]}."
    kept = {dedicated.CLUSTERS: ",".join(ends)}
    for key, value in props.items():
        if key == dedicated.CLUSTERS or key.startswith("config.providers"):
            continue
        alias = next((each for each in aliases if key.startswith(f"{each}.")), None)
        if "->" in key.partition(".")[0] and not key.startswith(flow):
            continue
        if alias is not None and alias not in ends:
            continue
        bare = key.removeprefix(flow).removeprefix(f"{alias}.")
        if _reaches(bare) or _names(bare):
            continue
        if not bare.endswith(_FACTOR):
            kept[key] = value
    for alias, servers in zip(ends, bootstraps, strict=True):
        kept[f"{alias}.bootstrap.servers"] = servers
        kept |= {f"{alias}.{each}{_FACTOR}": "1" for each in _WORKER_FACTORS}
    kept |= {f"{flow}{each}{_FACTOR}": "1" for each in _FLOW_FACTORS}
    return kept | {
        f"{flow}enabled": "true",
        f"{flow}topics": TOPIC,
        f"{flow}groups": GROUP,
    }


def _reaches(key: str) -> bool:
    """How a cluster is reached, for whatever client."""
    while key.startswith(_ROLES):
        key = key.partition(".")[2]
    return key.startswith(_REACHING)


def _names(key: str) -> bool:
    """Which topics and groups a flow has."""
    first, _, rest = key.partition(".")
    return first in _NAMES and (not rest or rest in _EXCLUDES)
