"""How far a sink task has come in each of its partitions, and what of that may be committed.

An offset is that of the next record. Java: WorkerSinkTask's currentOffsets, lastCommittedOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import ids

Offsets = Mapping[ids.TopicPartition, int]


@dataclass(slots=True)
class SinkOffsets:
    """Invariant: both hold the same partitions, those that are assigned."""

    _current: dict[ids.TopicPartition, int] = field(default_factory=dict)
    _committed: dict[ids.TopicPartition, int] = field(default_factory=dict)

    @property
    def assigned(self) -> frozenset[ids.TopicPartition]:
        return frozenset(self._current)

    def assign(self, positions: Offsets) -> None:
        """These partitions begin at these offsets."""
        self._current.update(positions)
        self._committed.update(positions)

    def revoke(self, partitions: Iterable[ids.TopicPartition]) -> None:
        for each in partitions:
            self._current.pop(each, None)
            self._committed.pop(each, None)

    def deliver(self, partition: ids.TopicPartition, behind: int) -> None:
        """The task has the record before this offset, and all before it."""
        if partition in self._current:
            self._current[partition] = behind

    def rewind(self, offsets: Offsets) -> None:
        """Consumption goes on from here, which counts as committed, too."""
        for each, offset in offsets.items():
            if each in self._current:
                self._current[each] = self._committed[each] = offset

    def current(self) -> dict[ids.TopicPartition, int]:
        return dict(self._current)

    def back_to_committed(self) -> dict[ids.TopicPartition, int]:
        """Where to consume from again, since what came later cannot be committed."""
        self._current = dict(self._committed)
        return dict(self._committed)

    def committed(self, offsets: Offsets) -> None:
        for each, offset in offsets.items():
            if each in self._committed:
                self._committed[each] = offset

    def to_commit(
        self, answer: Mapping[object, object], asked: Offsets
    ) -> tuple[dict[ids.TopicPartition, int], list[str]]:
        """What may be committed of a task's answer, and what is wrong with the rest of it.

        If any of it is news, all that was asked about is committed, idle partitions where they
        began: one that begins at its end would else begin at a later end, next time.
        """
        wanted: dict[ids.TopicPartition, int] = {}
        wrong = []
        for each, offset in answer.items():
            if not isinstance(each, ids.TopicPartition) or each not in asked:
                wrong.append(f"{each} was not asked about, its offset is not committed")
            elif not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
                wrong.append(f"{each}: {offset!r} is no offset")
            elif offset > asked[each]:
                wrong.append(f"{each}: {offset} is beyond {asked[each]}, which was delivered last")
            elif offset != self._committed.get(each):
                wanted[each] = offset
        known = {each: self._committed[each] for each in asked if each in self._committed}
        return ({**known, **wanted} if wanted else {}), wrong

    def check_invariants(self) -> None:
        assert self._current.keys() == self._committed.keys()
