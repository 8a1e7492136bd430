"""What the topics that Java's MirrorMaker 2 keeps say of a task's partitions, as of now.

The offsets topic of the Connect group, and the offset syncs. Ours write both as well; whoever
wrote, what stands there was acknowledged by the target.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from connect_runtime.api import context
from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import errors as cluster_errors
from mm2.cluster import state_topics
from mm2.connectors import complaints, record_folds
from mm2.core import connect_offsets
from mm2.core.copy import facts, java_syncs
from mm2.formats import offset_sync

READ_S = 3.0
SYNCS = "reading offset syncs"
_LOG = logging.getLogger(__name__)


class JavaProgress:
    """One thread's; `read` is a `flow_ledger.ReadJava`."""

    def __init__(
        self,
        alias: str,
        share: Collection[ids.TopicPartition],
        *,
        offsets: context.OffsetReader,
        syncs: Callable[[], state_topics.TopicTail] | None,
        clock: base_clock.Clock,
    ) -> None:
        """`alias` is the source's; `syncs` None: the flow writes none."""
        self._alias = alias
        self._share = frozenset(share)
        self._offsets = offsets
        self._connect = syncs
        self._tail: state_topics.TopicTail | None = None
        self._syncs: dict[ids.TopicPartition, java_syncs.JavaSyncs] = {}
        self._complaints = complaints.Complaints(_LOG, clock=clock)

    def read(
        self, partitions: Collection[ids.TopicPartition]
    ) -> Mapping[ids.TopicPartition, facts.JavaProgress]:
        """Both topics are read to their ends. Raises `ConnectError`."""
        wanted = sorted(partitions)
        stored: Sequence[Mapping[str, object] | None] = self._offsets.offsets(
            [connect_offsets.source_partition(self._alias, each) for each in wanted]
        )
        self._read_syncs()
        found = {
            each: self._progress(each, connect_offsets.next_offset(offset))
            for each, offset in zip(wanted, stored, strict=True)
        }
        return {name: each for name, each in found.items() if each is not None}

    def close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _progress(
        self, partition: ids.TopicPartition, next_offset: int | None
    ) -> facts.JavaProgress | None:
        syncs = self._syncs.get(partition, java_syncs.JavaSyncs())
        if next_offset is None:
            return facts.JavaProgress(next_offset=0) if syncs else None
        return facts.JavaProgress(next_offset=next_offset, sync=syncs.below(next_offset))

    def _read_syncs(self) -> None:
        """Who may not read them, or has none, goes on without: as if none had been written."""
        if self._connect is None:
            return
        if self._tail is None:
            self._tail = self._connect()
        try:
            found = self._tail.read_to_end(READ_S)
        except (kafka_errors.TopicMissingError, kafka_errors.NotAuthorizedError) as error:
            self._complaints.say(SYNCS, f"{error}; what Java mirrored is paired without them")
            return
        except cluster_errors.LogTruncatedError:
            self.close()
            self._syncs = {}
            raise
        record_folds.fold(found, self._note)

    def _note(self, key: bytes, value: bytes | None) -> None:
        """Raises `schema_fields.MalformedRecordError`."""
        name = offset_sync.decode_key(key)
        if name not in self._share:
            return
        if value is None:
            self._syncs.pop(name, None)
            return
        sync = offset_sync.decode(key, value)
        known = self._syncs.setdefault(name, java_syncs.JavaSyncs())
        known.apply(sync.upstream, sync.downstream)
