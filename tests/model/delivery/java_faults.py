"""Faults of who takes over from MirrorMaker 2; each is put in the place of what it bends."""

from __future__ import annotations

from mm2.formats.record_codec import BatchRecord
from mm2.replication.java_offset_map_reconstruction import (
    JavaOffsetSyncs,
    MapReconstruction,
    SyncOffsets,
)
from mm2.replication.recovery_instructions import Script
from mm2.replication.recovery_outcomes import RecoveryAttempt, RetryRecovery
from mm2.replication.takeover_from_java import JavaCopyStart


class SteppingBackUnseen(MapReconstruction):
    """Believes that Java never writes anything twice."""

    def _find_earlier_matches(self, digest: int) -> list[int]:
        del digest
        return []


class DoublesCounted(MapReconstruction):
    """Counts records instead of comparing them."""

    def _store_match(self, record: BatchRecord, at: int) -> None:
        doubled = at < self._matched_to < len(self._offsets)
        super()._store_match(record, self._matched_to if doubled else at)


class LastPlaceBelieved(MapReconstruction):
    """Goes on where Java was last, however far it had been before."""

    @property
    def position(self) -> int:
        place = min(self._candidates, default=0)
        if place < min(self._matched_to, len(self._offsets)):
            return self._offsets[place]
        return super().position


class OneWriterOnly(MapReconstruction):
    """Does not look where another one, who wrote side by side, had come to."""

    def _find_following_matches(self, digest: int, places: object) -> list[int] | None:
        return super()._find_following_matches(digest, places) if places is self._candidates else []


class OnlyCommitted(MapReconstruction):
    """Does not know that Java reads what is not committed."""

    def _add_source_batch(self, entry: object, *, needed: bool) -> None:
        if needed:
            super()._add_source_batch(entry, needed=needed)  # type: ignore[arg-type]  # the base knows it


def newest(self: JavaOffsetSyncs, next_offset: int) -> SyncOffsets | None:
    """The newest OffsetSync, whatever was copied before it."""
    return next((each for each in reversed(self._syncs) if each[0] < next_offset), None)


def believe_any_sync(
    attempt: RecoveryAttempt, *, resume_target: int
) -> Script[JavaCopyStart | RetryRecovery | None]:
    """Takes what our own owners told for Java's word."""
    yield from ()
    java = attempt.state.java
    if java is None or java.sync is None or java.sync[1] < resume_target:
        return None
    return JavaCopyStart(source=java.sync[0], target=java.sync[1])
