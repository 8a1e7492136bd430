"""Schedule of heartbeats, and the topic to which they are written.

As in MirrorMaker 2, one task writes a flow's heartbeat to the target cluster once per interval. The
heartbeat proves that the worker can write to the target; the replicated copies of the source's
heartbeats prove that records are replicated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mm2.topics import replication_policy

HEARTBEATS_PARTITION = 0
SOURCE_ALIAS_KEY, TARGET_ALIAS_KEY = "sourceClusterAlias", "targetClusterAlias"
HEARTBEAT_OFFSET = {"offset": 0}
"""Constant source offset of every heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSchedule:
    """Schedule of one flow's heartbeats, which are written to partition 0 of `topic`."""

    source: str
    target: str
    interval_s: float
    topic: str = replication_policy.HEARTBEATS_TOPIC

    @property
    def source_partition(self) -> Mapping[str, str]:
        """Connect source partition of the heartbeats. Its fields have the same order as in Java."""
        return {SOURCE_ALIAS_KEY: self.source, TARGET_ALIAS_KEY: self.target}

    def compute_next_heartbeat_s(self, last_s: float | None, now_s: float) -> float:
        """Compute when the next heartbeat is due (monotonic seconds). `last_s` is the time of the
        last heartbeat, or None before the first one.

        As in Java, the first heartbeat is due one interval after the start. If the next heartbeat
        is overdue, one heartbeat is due immediately; missed heartbeats are not sent later.
        """
        return now_s + self.interval_s if last_s is None else max(now_s, last_s + self.interval_s)


def build_task_configs(props: Mapping[str, str], interval_s: float | None) -> list[dict[str, str]]:
    """Build the configuration of the heartbeat task. Returns an empty list if no heartbeats are
    emitted.

    The task has the connector's configuration. `enabled` is ignored, as in Java: a flow that
    replicates nothing still emits heartbeats.
    """
    return [] if interval_s is None else [dict(props)]
