"""How much each partition of a flow moves, as far as that is known here.

Tasks of this process put their figures on the board. Where all of a flow's tasks run here they are
complete; of tasks that run elsewhere nothing is known, and then nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.base import ids
from mm2.connectors import board
from mm2.core.topics import balance


class TaskLoads:
    """One thread's. Rates are those between one question and the next."""

    def __init__(self, flow: str, *, seen: board.Board = board.BOARD) -> None:
        self._flow = flow
        self._seen = seen
        self._before: tuple[float, Mapping[ids.TopicPartition, int]] | None = None

    def rates(self, tasks: int, now_s: float) -> balance.Rates | None:
        """Of a flow of so many tasks; None: they are not all here, or were not the last time.

        A task that started anew counts from nothing again.
        """
        shown = self._seen.seen().tasks.get(self._flow, {})
        if set(shown) != set(range(tasks)):
            self._before = None
            return None
        moved = {each.partition: each.bytes for one in shown.values() for each in one.partitions}
        before, self._before = self._before, (now_s, moved)
        if before is None or now_s <= before[0]:
            return None
        since_s, known = now_s - before[0], before[1]
        return {
            name: (count if count < known.get(name, 0) else count - known.get(name, 0)) / since_s
            for name, count in moved.items()
        }
