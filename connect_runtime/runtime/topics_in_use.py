"""Which topics a task uses: said whenever one is used that nobody knows of.

So a topic that is still used after `PUT …/topics/reset` is soon told again (KIP-558; Java:
recordActiveTopic of its worker tasks).
"""

from __future__ import annotations

import math

from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from connect_runtime.core.state import status_records
from connect_runtime.ports import worker

LOOK_AGAIN_S = 1.0
"""A topic that is used all the time is looked for no more often."""


class TopicsInUse:
    """Of one task, for its own thread. Not `tracked`: nothing is said."""

    def __init__(
        self,
        task: ids.ConnectorTaskId,
        *,
        statuses: worker.Statuses,
        clock: base_clock.Clock,
        tracked: bool,
    ) -> None:
        self._task = task
        self._statuses = statuses
        self._clock = clock
        self._tracked = tracked
        self._look_s: dict[str, float] = {}

    def used(self, topic: str) -> None:
        """Records of it came or go. Never waits."""
        now_s = self._clock.now_s()
        if not self._tracked or now_s < self._look_s.get(topic, -math.inf):
            return
        self._look_s[topic] = now_s + LOOK_AGAIN_S
        if self._statuses.knows_topic(self._task.connector, topic):
            return
        self._statuses.put_topic(
            status_records.TopicStatus(
                topic=topic,
                connector=self._task.connector,
                task=self._task.task,
                discovered_ms=self._clock.wall_ms(),
            )
        )
