"""Our settings of a properties file, in the words of `EffectiveSettings.java`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.protocol import security_settings
from mm2.config import client_config_keys
from mm2.config.mm2_settings import Mm2Settings
from mm2.topics import topic_selection
from mm2.topics.flow_config import Flow

COMPARED = frozenset(client_config_keys.SUPPORTED_PROPERTIES) | security_settings.SUPPORTED_KEYS
"""Properties of clients that are acted on: what Java has beyond is told when the file is read."""

_CLIENTS = ("consumer", "producer", "source admin", "target admin")


def flow_settings(
    found: Mm2Settings, flow: Flow, probes: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    clients = found.get_clients(flow)
    return {
        "enabled": True,
        "tasks.max": flow.tasks_max,
        "replication.factor": flow.replication_factor,
        "refresh.topics": flow.refresh_topics_interval_s,
        "sync.topic.configs": flow.sync_topic_configs_interval_s,
        "admin.timeout": flow.admin_timeout_s,
        "remote topics": {topic: flow.format_remote_topic(topic) for topic in probes["topics"]},
        "checkpoints topic": flow.policy.checkpoints_topic(flow.source),
        "topics": [
            topic
            for topic in probes["topics"]
            if topic_selection.should_replicate_topic(flow, topic)
        ],
        "configs": {
            name: [
                flow.config_filter.should_replicate_config_property(name),
                flow.config_filter.should_replicate_source_default(name),
            ]
            for name in probes["configs"]
        },
        "groups": [group for group in probes["groups"] if flow.groups.matches(group)],
        "start": flow.start.kind.value,
        "consumer": dict(clients.consumer.properties),
        "producer": dict(clients.producer.properties),
        "source admin": dict(clients.source_admin.properties),
        "target admin": dict(clients.target_admin.properties),
    }


def comparable(java: Mapping[str, Any]) -> dict[str, Any]:
    """Java's answer for one flow, with what only Java acts on left out."""
    found = dict(java)
    found["start"] = found["consumer"].get("auto.offset.reset", "latest")
    for name in ("refresh.topics", "sync.topic.configs", "admin.timeout"):
        found[name] = _seconds(found[name])
    for name in _CLIENTS:
        found[name] = {key: value.strip() for key, value in found[name].items() if key in COMPARED}
    return found


def differences(ours: Mapping[str, Any], java: Mapping[str, Any]) -> list[str]:
    """One line for each setting that is not the same."""
    return [
        f"{key}: mm2 has {ours.get(key)!r}, Java {java.get(key)!r}"
        for key in sorted({*ours, *java})
        if ours.get(key) != java.get(key)
    ]


def _seconds(duration: str) -> float | None:
    """`PT1M30S`, as `java.time.Duration` writes it; None when it is negative: never."""
    if "-" in duration:
        return None
    total, number = 0.0, ""
    for char in duration.removeprefix("PT"):
        if char.isalpha():
            total += float(number) * {"H": 3600, "M": 60, "S": 1}[char]
            number = ""
        else:
            number += char
    return total
