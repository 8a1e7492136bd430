"""Compares what `mm2 config show --json` prints with what is really so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mm2.topics import replication_policy
from mm2.topics.flow_config import Flow

Config = Mapping[str, str]
_WORKER = ("config", "offset", "status")


def differences(
    document: Mapping[str, Any],
    flow: str,
    *,
    configs: Mapping[str, Config],
    replicas: Mapping[str, int],
    default_factors: Mapping[str, int],
    mirrors: Sequence[str] = (),
) -> list[str]:
    """One line for each value that is not as shown.

    `configs`: what each connector of the flow was configured with. `replicas` of topics that the
    flow created, named `cluster:topic`, `mirrors` among them; `default_factors` of the brokers, by
    cluster.
    """
    shown = document["flows"][flow]
    found = []
    if set(shown["connectors"]) != set(configs):
        found.append(f"connectors: {sorted(shown['connectors'])}, really {sorted(configs)}")
    for name, config in configs.items():
        section = {**shown["clients"], **shown["connectors"].get(name, {})}
        found += [f"{name} {line}" for line in _of_connector(section, config)]
    for key, place, cluster, names in topics(shown, flow, mirrors=mirrors):
        value = place[key]["value"]
        factor = default_factors[cluster] if value == -1 else value
        for topic in names:
            really = replicas.get(f"{cluster}:{topic}")
            if really != factor:
                found.append(f"{key}: {value}, {topic} of {cluster} has {really} replicas")
    return found


def _of_connector(section: Mapping[str, Any], config: Config) -> Sequence[str]:
    texts = {key: _text(each["value"]) for key, each in section.items()}
    given = {key for key, each in section.items() if each["origin"] == "file"}
    return [
        f"{key}: {texts.get(key)}, really {config.get(key)}"
        for key in sorted({*config, *given})
        if texts.get(key) != "[hidden]" and texts.get(key) != config.get(key)
    ]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def topics(
    shown: Mapping[str, Any], flow: str, *, mirrors: Sequence[str] = ()
) -> Sequence[tuple[str, Mapping[str, Any], str, Sequence[str]]]:
    """Each replication factor, where it is shown, and the topics that are created with it."""
    source, _, target = flow.partition("->")
    policy = Flow(source=source, target=target).policy
    connectors = shown["connectors"]
    mirror = connectors["MirrorSourceConnector"]
    own = [f"mm2-{name}.{source}.internal" for name in ("offset-map", "incidents")]
    return [
        ("replication.factor", mirror, target, [*own, *mirrors]),
        (
            "offset-syncs.topic.replication.factor",
            mirror,
            source,
            [policy.offset_syncs_topic(target)],
        ),
        (
            "checkpoints.topic.replication.factor",
            connectors["MirrorCheckpointConnector"],
            target,
            [policy.checkpoints_topic(source)],
        ),
        (
            "heartbeats.topic.replication.factor",
            connectors["MirrorHeartbeatConnector"],
            target,
            [replication_policy.HEARTBEATS_TOPIC],
        ),
        *(
            (
                f"{each}.storage.replication.factor",
                shown["worker"],
                target,
                [shown["worker"][f"{each}.storage.topic"]["value"]],
            )
            for each in _WORKER
        ),
    ]
