"""What a checkpoint task knows, and what it makes of it round by round.

First its own checkpoints are read (`CheckpointStore`), then the offset syncs. Whoever knows what
was published before may use all syncs; who does not, those alone that came since (KAFKA-15905).
Where we mirror our map of offsets is exact; by the syncs Java's stretches are translated.
"""

from __future__ import annotations

import logging

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import errors as cluster_errors
from mm2.cluster import state_topics
from mm2.connectors import (
    checkpoint_clients,
    complaints,
    map_offsets,
    offset_syncs,
    record_folds,
)
from mm2.core.configs import connector_configs
from mm2.core.offsets import checkpoints, translation
from mm2.formats import checkpoint

ATTEMPT_S = 2.0
"""Of one reading of a topic; the next goes on where it ended."""
MISSING_S = 30.0
"""So long a new checkpoints topic may take to be seen everywhere."""
SYNCS = "reading offset syncs"
MAP = "reading the map of offsets"
GROUPS = "reading the offsets of groups"
_LOG = logging.getLogger(__name__)


class CheckpointRounds:
    """One thread's. Asks of nobody before `load`."""

    def __init__(
        self,
        config: connector_configs.CheckpointConfig,
        groups: frozenset[str],
        clients: checkpoint_clients.Clients,
        *,
        clock: base_clock.Clock,
    ) -> None:
        self.table = checkpoints.CheckpointTable(takes_group=groups.__contains__)
        self._config = config
        self._groups = groups
        self._clients = clients
        self._clock = clock
        self._complaints = complaints.Complaints(_LOG, clock=clock)
        self._missing_until_s = clock.now_s() + MISSING_S
        self._published: state_topics.TopicTail | None = None
        self._syncs: offset_syncs.OffsetSyncs | None = None
        self._source = clients.source_groups()
        self._map = map_offsets.MapOffsets(
            clients.offset_map, config.flow.topics.takes, clock=clock
        )

    @property
    def loaded(self) -> bool:
        return self._syncs is not None and self._syncs.ready

    def load(self) -> bool:
        """Read on; True as soon as `loaded`. Raises `ConnectError`, where asking again may help."""
        if self._syncs is None:
            known = self._load_published()
            if known is None:
                return False
            self._syncs = offset_syncs.OffsetSyncs(self._clients.offset_syncs, keep_history=known)
        self._syncs.refresh(ATTEMPT_S)
        return self._syncs.ready

    def make(self) -> list[checkpoint.Checkpoint]:
        """New checkpoints, which stand from now on. Raises `ConnectError` where the source does
        not answer at all; troubles with single groups, or with new syncs, are told."""
        assert self._syncs is not None, "it was not loaded"
        found = self._source.positions(self._groups, self._config.common.admin_timeout_s)
        failure = found.first_failure()
        if failure is None:
            self._complaints.over(GROUPS)
        else:
            self._complaints.say(GROUPS, f"{failure} ({len(found.failed)} groups)")
        self._refresh(SYNCS, self._syncs)
        self._refresh(MAP, self._map)
        flow = self._config.flow
        making = checkpoints.Checkpointing(
            source=flow.source,
            target=flow.target,
            policy=flow.policy,
            takes_topic=flow.topics.takes,
            translate=self._translate,
        )
        made: list[checkpoint.Checkpoint] = []
        for group, positions in sorted(found.done.items()):
            for point in making.new_checkpoints(group, positions, self.table.group(group)):
                self.table.publish(point)
                made.append(point)
        return made

    def _refresh(self, doing: str, what: offset_syncs.OffsetSyncs | map_offsets.MapOffsets) -> None:
        try:
            what.refresh(ATTEMPT_S)
        except errors.ConnectError as error:  # what is known is no less true
            self._complaints.say(doing, error)
        else:
            self._complaints.over(doing)

    def _translate(self, partition: ids.TopicPartition, upstream: int) -> translation.Translation:
        assert self._syncs is not None, "it was not loaded"
        newest = self._syncs.newest(partition)
        by_map = self._map.translate(partition, upstream, newest=newest)
        return translation.farther(by_map, self._syncs.translate(partition, upstream))

    def close(self) -> None:
        self._source.close()
        self._map.close()
        self._close_published()
        if self._syncs is not None:
            self._syncs.close()

    def _load_published(self) -> bool | None:
        """Are all known that were published? None: not yet."""
        if self._published is None:
            self._published = self._clients.checkpoints()
        try:
            record_folds.fold(self._published.read_to_end(ATTEMPT_S), self.table.apply)
        except cluster_errors.LogTruncatedError as error:
            _LOG.warning("%s", error)
            self._forget_published()
            return None
        except errors.FatalError as error:
            missing = isinstance(error, kafka_errors.TopicMissingError)
            if missing and self._clock.now_s() < self._missing_until_s:
                return None
            _LOG.warning(
                "what was published before is not known (%s); groups behind what is mirrored from "
                "now on get no checkpoint until they catch up",
                error,
            )
            self._forget_published()
            return False
        self._close_published()
        _LOG.info("read the checkpoints of %d groups", len(self.table.groups()))
        return True

    def _forget_published(self) -> None:
        self._close_published()
        self.table = checkpoints.CheckpointTable(takes_group=self._groups.__contains__)

    def _close_published(self) -> None:
        tail, self._published = self._published, None
        if tail is not None:
            tail.close()
