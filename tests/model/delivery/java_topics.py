"""What MirrorMaker 2 keeps on the side: its source offset and OffsetSyncs, which ours write too.

Both are told late, or not at all: nobody waits for them.
"""

from __future__ import annotations

from random import Random

from mm2.replication.java_offset_map_reconstruction import JavaOffsetSyncs
from mm2.replication.recovery_instructions import JavaMirrorProgress
from tests.model.delivery.events import Events

LAG_MAX = 6


class JavaTopics:
    """`random` is its own: what is told here disturbs no other schedule."""

    def __init__(self, world: Events, seed: int | str) -> None:
        self._world = world
        self.random = Random(f"java {seed}")
        self.stored: int | None = None
        self.syncs = JavaOffsetSyncs()

    def progress(self) -> JavaMirrorProgress | None:
        if self.stored is None and not self.syncs:
            return None
        next_offset = 0 if self.stored is None else self.stored + 1
        return JavaMirrorProgress(
            next_offset=next_offset, sync=self.syncs.find_sync_below(next_offset)
        )

    def store(self, last: int) -> None:
        """The source offset that was acknowledged last; on its way it may be overtaken."""

        def stored() -> None:
            self._world.note("java", f"stored {last}")
            self.stored = last

        self._world.after(self.random.choice((0.001, 0.05)), stored)

    def sync(self, source: int, target: int) -> None:
        def stored() -> None:
            self._world.note("java", f"sync {source} at {target}")
            self.syncs.add_sync(source, target)

        self._world.after(0.001, stored)


class Told:
    """One of our copies writes what Java would: of each acknowledged batch now and then a sync,
    and every second or so how far it is."""

    def __init__(self, topics: JavaTopics, world: Events) -> None:
        self._topics = topics
        self._world = world
        self._told_at_s = 0.0
        self._told = -1

    def acknowledged(self, source: int, target: int) -> None:
        if self._topics.random.random() < 0.3:
            self._topics.sync(source, target)

    def copied_to(self, position: int, *, now: bool = False) -> None:
        due = now or self._world.now_s - self._told_at_s > self._topics.random.uniform(0.5, 2.0)
        if position > 0 and position != self._told and due:
            self._told, self._told_at_s = position, self._world.now_s
            self._topics.store(position - 1)
