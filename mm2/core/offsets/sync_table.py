"""The offset-syncs topic as a fold, and what it tells of offsets (`OffsetSyncStore` of
MirrorMaker 2, slot by slot).

A bounded number of syncs is kept per partition, ever fewer towards the past, so that translation
is precise near the newest sync and half as precise with every doubling of the distance. In a state
that stands still, later offsets translate to later ones. Over time the same offset may translate
to an earlier one, because a sync between was given up: who publishes keeps that from going back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.core.offsets import translation
from mm2.formats import offset_sync

SLOTS = 64
"""One for each bit of an offset (`SYNCS_PER_PARTITION`)."""
_LONG_END = 1 << 63

Syncs = list[offset_sync.OffsetSync]


@dataclass(slots=True)
class SyncTable:
    """All partitions of one flow.

    Invariants per partition, for slots i < j with different offsets on the source, as far as 64
    bits reach:
    A  slot 0 holds the newest sync.
    B  upstream[i] <= upstream[j] + 2^j - 2^i: not too old for its slot.
    C  upstream[i] >= upstream[j] + 2^max(i - 2, 0): not too close to its neighbour.
    D  slot 63 holds the oldest sync that may be used.

    `keep_history`: what is read before `read_through` is all of use. True only for who knows what
    was published before (KAFKA-15905); else only each partition's last sync is kept of it, so that
    nothing translates to less than it may have before (KAFKA-13659).
    """

    keep_history: bool
    _ready: bool = False
    _partitions: dict[ids.TopicPartition, Syncs] = field(default_factory=dict)

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Fold one record in; None is a tombstone: its partition was never synced.

        Raises `schema_fields.MalformedRecordError`, and holds what it held then.
        """
        if value is None:
            self._partitions.pop(offset_sync.decode_key(key), None)
        else:
            self.add(offset_sync.decode(key, value))

    def add(self, sync: offset_sync.OffsetSync) -> None:
        """As `apply`, of a decoded record."""
        old = self._partitions.get(sync.partition)
        rewound = old is not None and sync.upstream < old[0].upstream
        if old is None or rewound or not (self._ready or self.keep_history):
            self._partitions[sync.partition] = [sync] * SLOTS
        else:
            self._partitions[sync.partition] = _with_newest(old, sync)

    def read_through(self) -> None:
        """The topic was read to where it ended when reading began: now there are answers."""
        self._ready = True

    @property
    def ready(self) -> bool:
        return self._ready

    def translate(self, partition: ids.TopicPartition, upstream: int) -> translation.Translation:
        """`partition` by its name on the source; `upstream` is what a group goes on from.

        Behind a sync only the next offset is sure: what follows it on the source may have been
        filtered, compacted away or a marker. So a group anywhere behind one goes on right after it.
        """
        if not self._ready:
            return translation.Untranslated.NOT_READY
        syncs = self._partitions.get(partition)
        if syncs is None:
            return translation.Untranslated.UNKNOWN
        sync = next((each for each in syncs if each.upstream <= upstream), None)
        if sync is None:
            return translation.Untranslated.TOO_OLD
        if upstream == sync.upstream:
            return translation.Exact(downstream=sync.downstream)
        if upstream == sync.upstream + 1:
            return translation.Exact(downstream=sync.downstream + 1)
        return translation.Earlier(
            downstream=sync.downstream + 1, again_max=upstream - sync.upstream - 1
        )

    def slots(self, partition: ids.TopicPartition) -> tuple[offset_sync.OffsetSync, ...]:
        """Newest to oldest; empty for a partition that was never synced."""
        return tuple(self._partitions.get(partition, ()))

    def partitions(self) -> list[ids.TopicPartition]:
        return sorted(self._partitions)

    def check_invariants(self) -> None:
        for partition, syncs in self._partitions.items():
            assert len(syncs) == SLOTS, partition
            for lower in range(SLOTS - 1):
                one, other = syncs[lower], syncs[lower + 1]
                assert _recent_enough(one, other, i=lower, j=lower + 1), (partition, lower)
                beyond = other.upstream + (1 << max(lower - 2, 0)) >= _LONG_END
                alike = one.upstream == other.upstream
                assert alike or beyond or _far_enough(one, other, lower), (partition, lower)


def _with_newest(old: Syncs, newest: offset_sync.OffsetSync) -> Syncs:
    """Invariant A is repaired first, then B slot by slot, until a slot is as it should be."""
    syncs = [newest, *old[1:]]
    replacement, at = newest, 0
    for slot in range(1, SLOTS):
        if _recent_enough(syncs[slot - 1], syncs[slot], i=slot - 1, j=slot):
            break  # then so are all that follow
        replacement, at = _replacement(syncs, old, slot, replacement=replacement, at=at)
        syncs[slot] = replacement
    return syncs


def _replacement(
    syncs: Syncs, old: Syncs, slot: int, *, replacement: offset_sync.OffsetSync, at: int
) -> tuple[offset_sync.OffsetSync, int]:
    """What may stand in `slot`, and which slot of the old ones is looked at next.

    Of the old syncs one that fits is preferred, so that few are given up: recent ones over those
    of about the same precision, those that already stand in the next slot over both.
    """
    while True:
        candidate = old[at]
        apart = _far_enough(syncs[slot - 1], candidate, slot - 1)
        fits = (
            apart
            and _recent_enough(syncs[slot - 1], candidate, i=slot - 1, j=slot)
            and (slot + 1 == SLOTS or _far_enough(candidate, syncs[slot + 1], slot))
        )
        if fits:
            replacement = candidate
        # The next is the same one, or this one is too close to ever fit further back.
        passed_over = not apart or (at + 1 < SLOTS and candidate is old[at + 1])
        if fits or passed_over:
            at += 1
        if at >= slot or not passed_over:
            return replacement, at


def _recent_enough(
    one: offset_sync.OffsetSync, other: offset_sync.OffsetSync, *, i: int, j: int
) -> bool:
    """Invariant B of `one` in slot i and `other` in slot j. Beyond 64 bits everything is."""
    bound = other.upstream + (1 << j) - (1 << i)
    return one is other or not 0 <= bound < _LONG_END or one.upstream <= bound


def _far_enough(one: offset_sync.OffsetSync, other: offset_sync.OffsetSync, i: int) -> bool:
    """Invariant C of `one` in slot i and `other` behind it. Beyond 64 bits nothing is."""
    bound = other.upstream + (1 << max(i - 2, 0))
    return one is other or (0 <= bound < _LONG_END and one.upstream >= bound)
