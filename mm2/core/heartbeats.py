"""When heartbeats are written, and where: the content of one is `formats/heartbeat`'s.

As MirrorMaker 2: a flow's heartbeat is written to the *target*, once per interval by one task, and
says that this flow's worker can write there. That records cross is seen in its mirrored copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mm2.core import naming

PARTITION = 0
SOURCE_KEY, TARGET_KEY = "sourceClusterAlias", "targetClusterAlias"
OFFSET = {"offset": 0}
"""The source offset of every heartbeat: there is no place to go on from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`interval_s` between two of them. They are records of partition 0 of `topic`."""

    source: str
    target: str
    interval_s: float
    topic: str = naming.HEARTBEATS_TOPIC

    @property
    def source_partition(self) -> Mapping[str, str]:
        """The key of its Connect source offset, in the order in which Java writes it."""
        return {SOURCE_KEY: self.source, TARGET_KEY: self.target}

    def next_s(self, last_s: float | None, now_s: float) -> float:
        """When the next is due: the first one interval after the start, as in Java.

        After a gap there is one at once and none are made up for.
        """
        return now_s + self.interval_s if last_s is None else max(now_s, last_s + self.interval_s)


def task_configs(props: Mapping[str, str], interval_s: float | None) -> list[dict[str, str]]:
    """One task with the connector's own configuration; none where nothing is emitted.

    `enabled` is no matter, as in Java: a flow that mirrors nothing still shows that it is there.
    """
    return [] if interval_s is None else [dict(props)]
