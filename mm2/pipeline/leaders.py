"""Which partitions have no leader, so that nothing of them moves however well their copy stands."""

from __future__ import annotations

import dataclasses

from connect_runtime.wire.codec import cluster_view, failures
from mm2.core.copy import messages, setup, standing


def missing(
    where: setup.PartitionSetup,
    *,
    source: cluster_view.ClusterView,
    target: cluster_view.ClusterView,
) -> str:
    """Which side has no leader for the partition; "" when both have one."""
    return _missing(source, "source", topic=where.topic, partition=where.partition) or _missing(
        target, "mirror", topic=where.remote_topic, partition=where.partition
    )


def _missing(view: cluster_view.ClusterView, side: str, *, topic: str, partition: int) -> str:
    if view.leader(topic, partition) is not None:
        return ""
    seen = view.topic(topic)
    code = seen.error_code if seen is not None else 0
    why = f": {failures.error_name(code)}" if code else ""
    return f"{side} partition {topic}-{partition} has no leader{why}"


def told(gauge: messages.Gauge, without_leader: str) -> messages.Gauge:
    """A copy that could go on, but for its missing leader, waits for that one."""
    if not without_leader or gauge.phase != standing.Phase.COPYING.value:
        return gauge
    return dataclasses.replace(
        gauge, phase=standing.Phase.WAITING.value, reason=gauge.reason or without_leader
    )
