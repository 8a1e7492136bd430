"""All that is known of one flow's offsets: the map where we have copied, syncs where Java has."""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.base import ids
from mm2.core.offsets import map_translation, offset_map, sync_table, translation


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOffsets:
    """Partitions go by their names on the source. `syncs` None: they could not be read."""

    known: offset_map.OffsetMap
    syncs: sync_table.SyncTable | None = None

    def translate(self, partition: ids.TopicPartition, upstream: int) -> translation.Translation:
        """See `translation.Translate`. A map that the newest sync contradicts counts for nothing:
        Java has mirrored since, perhaps another topic of that name."""
        mine = self.known.partition(partition)
        if self.syncs is None:
            return map_translation.translate(mine, upstream)
        by_syncs = self.syncs.translate(partition, upstream)
        slots = self.syncs.slots(partition)
        if slots and not map_translation.agrees(mine, slots[0]):
            return by_syncs
        return translation.farther(map_translation.translate(mine, upstream), by_syncs)

    def translate_back(
        self, partition: ids.TopicPartition, downstream: int
    ) -> translation.Translation:
        """`downstream` is an offset of the partition's mirror; see `map_translation`. Syncs are too
        few to go back by."""
        mine = self.known.partition(partition)
        slots = self.syncs.slots(partition) if self.syncs is not None else ()
        if slots and not map_translation.agrees(mine, slots[0]):
            return translation.Untranslated.UNKNOWN
        return map_translation.translate_back(mine, downstream)

    def missing(self, partition: ids.TopicPartition, upstream: int) -> int:
        """How far `upstream` lies beyond what was copied, as far as was written down; 0 for what
        was."""
        copied_to = self.known.partition(partition).copied_to
        return 0 if copied_to is None else max(0, upstream - copied_to)
