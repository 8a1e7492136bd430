"""What a flow has written down about itself: its map and receipt topics, read and appended.

One thread owns it. Reading folds the map topic and answers with facts; appending keeps the order of
each copy's stream. Who copies a share of the flow keeps what it must know for that share only.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from connect_runtime.base import errors, ids
from mm2.cluster import errors as cluster_errors
from mm2.cluster import flow_log
from mm2.core.copy import facts, instructions
from mm2.core.offsets import offset_map
from mm2.formats import map_record

READ_S = 4.0
"""Shorter than the silence after which copies give their worker up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsWanted:
    """One copy asks for one partition's facts; `target` as in `instructions.ReadFacts`."""

    partition: ids.TopicPartition
    target: int | None
    answer: Callable[[facts.Facts | None, str], None]


JavaProgress = Mapping[ids.TopicPartition, facts.JavaProgress]
ReadJava = Callable[[Collection[ids.TopicPartition]], JavaProgress]
"""What Java's topics say of partitions, as of now; raises `RetriableError` and `FatalError`."""


def is_broken_by(error: errors.ConnectError) -> bool:
    """Must the log be opened again? Where reading only took too long, it goes on where it was."""
    truncated = isinstance(error, cluster_errors.LogTruncatedError)
    return truncated or not isinstance(error, errors.RetriableError)


class FlowLedger:
    """Invariant: the fold holds exactly what was read back from the log, never what was only
    sent."""

    def __init__(
        self,
        log: flow_log.FlowLog,
        *,
        share: Collection[ids.TopicPartition] | None = None,
        java: ReadJava = lambda _: {},
    ) -> None:
        """`share` None: all partitions are kept."""
        self._log = log
        self._keeps = _keeps_all if share is None else _keeper(share)
        self._java = java
        self._map = self._new_map()
        self._wanted: list[FactsWanted] = []

    def open(self, timeout_s: float) -> None:
        """Raises as `flow_log.FlowLog.open`."""
        self._log.open(timeout_s)
        self._map = self._new_map()

    def _new_map(self) -> offset_map.OffsetMap:
        return offset_map.OffsetMap(keeps=self._keeps)

    @property
    def busy(self) -> bool:
        """Is something on its way, so that news of it come soon?"""
        return bool(self._wanted) or self._log.pending > 0

    def close(self, timeout_s: float) -> None:
        self._log.close(timeout_s)

    def append(self, item: instructions.LogItem, *, on_recorded: flow_log.OnRecorded) -> None:
        """Raises as `flow_log.FlowLog.append`."""
        topic = flow_log.LogTopic.RECEIPTS if item.receipt else flow_log.LogTopic.MAP
        self._log.append(topic, item.key, item.value, on_recorded=on_recorded)

    def want(self, wanted: FactsWanted) -> None:
        self._wanted.append(wanted)

    def work(self, timeout_s: float) -> None:
        """Run callbacks of what was stored; answer questions, all with one read to the end.

        Raises `RetriableError` or `FatalError` when the log is broken: open it again.
        """
        self._log.poll(timeout_s)
        if not self._wanted:
            return
        wanted, self._wanted = self._wanted, []
        try:
            self.catch_up()
        except errors.RetriableError as error:
            for each in wanted:
                each.answer(None, str(error))
            if is_broken_by(error):
                raise
            return
        try:
            java = self._java({each.partition for each in wanted})
        except errors.ConnectError as error:
            for each in wanted:
                each.answer(None, f"reading what Java mirrored: {error}")
            return
        for each in wanted:
            each.answer(self._facts(each, java.get(each.partition)), "")

    def _facts(self, wanted: FactsWanted, java: facts.JavaProgress | None) -> facts.Facts:
        for each in self._map.unreadable(wanted.partition):
            return facts.Facts(unreadable=facts.unreadable(each))
        self._clear_superseded(wanted.partition)
        found = facts.from_map(self._map.partition(wanted.partition), target=wanted.target)
        return dataclasses.replace(found, java=java)

    def catch_up(self, timeout_s: float = READ_S) -> offset_map.OffsetMap:
        """The map as of now; for readers on the ledger's own thread. What it says of a partition
        counts only where nothing `unreadable` may concern it.

        Raises `RetriableError` as `flow_log.FlowLog.read_to_end`.
        """
        for record in self._log.read_to_end(timeout_s):
            if record.topic is flow_log.LogTopic.MAP:
                self._map.fold(record.key, record.value, offset=record.offset)
        return self._map

    def _clear_superseded(self, partition: ids.TopicPartition) -> None:
        """Delete older owners' segments above where the newest anchor's Take began."""
        known = self._map.partition(partition)
        anchor = known.anchor
        if anchor is None:
            return
        for key in known.superseded(anchor.key):
            # With no room now it is deleted at the next take-over.
            with contextlib.suppress(cluster_errors.FlowLogFullError):
                self._log.append(
                    flow_log.LogTopic.MAP, map_record.encode_key(key), None, on_recorded=_ignore
                )


def _keeps_all(_: map_record.MapKey) -> bool:
    return True


def _keeper(share: Collection[ids.TopicPartition]) -> Callable[[map_record.MapKey], bool]:
    """Of a share's partitions everything; of the others of its topics what tells whether the topic
    is in progress."""
    kept = frozenset(share)
    topics = {each.topic for each in kept}

    def keeps(key: map_record.MapKey) -> bool:
        if ids.TopicPartition(key.topic, key.partition) in kept:
            return True
        tells = isinstance(key, map_record.EraKey | map_record.RequestKey)
        return tells and key.topic in topics

    return keeps


def _ignore(_error: errors.ConnectError | None) -> None:
    """A lost tombstone is written again at the next take-over."""
