"""What a checkpoint task knows, and what it makes of it round by round.

First its own checkpoints are read (`CheckpointStore`), then the offset syncs. Whoever knows what
was published before may use all syncs; who does not, those alone that came since (KAFKA-15905).
Where we mirror our map of offsets is exact; by the syncs Java's stretches are translated.

The checkpoints topic is read on, round by round: what others publish that know less (Java, a task
that lingers) is replaced. A round takes some groups after the other, so that few are ever held; of
those that stand where they stood nothing is read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from connect_runtime.base import amounts, errors, ids
from connect_runtime.base import clock as base_clock
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import errors as cluster_errors
from mm2.cluster import group_batches, state_topics
from mm2.cluster import groups as groups_port
from mm2.connectors import board, complaints, record_folds
from mm2.connectors.checkpoints import checkpoint_clients, map_offsets, offset_syncs
from mm2.core.configs import connector_configs
from mm2.core.offsets import checkpoints, translation
from mm2.formats import checkpoint

ATTEMPT_S = 2.0
"""Of one reading of a topic; the next goes on where it ended."""
MISSING_S = 30.0
"""So long a new checkpoints topic may take to be seen everywhere."""
GROUPS_AT_ONCE = 250
POINTS_AT_ONCE = 2_000
FRESH_S = 1.0
"""So old what is known of offsets may be, within a round."""
SYNCS = "reading offset syncs"
MAP = "reading the map of offsets"
GROUPS = "reading the offsets of groups"
PUBLISHED = "reading checkpoints"
_LOG = logging.getLogger(__name__)


class Made(NamedTuple):
    """A new checkpoint; `first` of its group's partition, as far as is known."""

    point: checkpoint.Checkpoint
    first: bool


class CheckpointRounds:
    """One thread's, but for `find`. Asks of nobody before `load`."""

    def __init__(
        self,
        config: connector_configs.CheckpointConfig,
        groups: frozenset[str],
        clients: checkpoint_clients.Clients,
        *,
        clock: base_clock.Clock,
    ) -> None:
        self.table = checkpoints.CheckpointTable(takes_group=groups.__contains__)
        self._changing = threading.Lock()
        self._config = config
        self._groups = groups
        self._clients = clients
        self._clock = clock
        self._complaints = complaints.Complaints(_LOG, clock=clock)
        self._missing_until_s = clock.now_s() + MISSING_S
        self._published: state_topics.TopicTail | None = None
        self._known: bool | None = None
        self._syncs: offset_syncs.OffsetSyncs | None = None
        self._source = clients.source_groups()
        self._seen: groups_port.Seen = {}
        self._left: list[Sequence[str]] = []
        self._made: list[Made] = []
        self._failed = 0
        self._unread: set[str] = set()
        self._beginnings = 0
        self._fresh_until_s = clock.now_s()
        self._map = map_offsets.MapOffsets(
            clients.offset_map, config.flow.topics.takes, flow=config.flow.name, clock=clock
        )
        self._making = checkpoints.Checkpointing(
            source=config.flow.source,
            target=config.flow.target,
            policy=config.flow.policy,
            takes_topic=config.flow.topics.takes,
            translate=self._translate,
            exactly=self._by_map,
            copied=self._copied,
        )

    @property
    def loaded(self) -> bool:
        return self._known is not None and self._syncs is not None and self._syncs.ready

    def load(self) -> bool:
        """Read on; True as soon as `loaded`. Raises `ConnectError`, where asking again may help."""
        if self._known is None:
            self._known = self._load_published()
            if self._known is None:
                return False
        if self._syncs is None:
            self._syncs = offset_syncs.OffsetSyncs(
                self._clients.offset_syncs, keep_history=self._known
            )
        self._syncs.refresh(ATTEMPT_S)
        return self._syncs.ready

    def find(self, text: str, most: int) -> board.GroupsFound:
        """What stands of groups with `text` in their name. Any thread may ask."""
        with self._changing:
            table = self.table
            names = table.groups()
            matching = [name for name in names if text in name]
            return board.GroupsFound(
                known=len(names),
                matching=len(matching),
                groups={name: [*table.group(name).values()] for name in matching[:most]},
            )

    @property
    def under_way(self) -> bool:
        """Does a round go on where the last call ended?"""
        return bool(self._left or self._made)

    @property
    def complete(self) -> bool:
        """Is it through with a round in which all groups could be read, and what they are compared
        with?"""
        return not self.under_way and not self._failed and not self._unread

    def make(self) -> list[Made]:
        """Some of a round's new checkpoints, which stand from now on; a new round begins unless one
        is `under_way`.

        Raises `ConnectError`, which ends the round, where the source does not answer at all;
        troubles with single groups, or with new syncs, are told.
        """
        if not self.under_way:
            self._begin()
        try:
            while self._left and not self._made:
                self._made = self._look(self._left.pop())
        except errors.ConnectError:
            self._left.clear()
            raise
        if not self._left and not self._failed:
            self._complaints.over(GROUPS)
        given, self._made = self._made[:POINTS_AT_ONCE], self._made[POINTS_AT_ONCE:]
        return given

    def _begin(self) -> None:
        """What others published comes before what groups have: else a group that another task saw
        later would seem to have gone back. Raises `LogTruncatedError`: it is to be loaded anew."""
        try:
            if self._published is not None:
                self._trying(PUBLISHED, self._read_published)
        except cluster_errors.LogTruncatedError:
            self._forget_published()
            self._known = None
            raise
        self._left = group_batches.chunked(sorted(self._groups), GROUPS_AT_ONCE)[::-1]
        self._failed = 0

    def _look(self, names: Sequence[str]) -> list[Made]:
        found = self._source.news(names, self._config.common.admin_timeout_s, seen=self._seen)
        failure = found.first_failure()
        if failure is not None:
            self._failed += len(found.failed)
            failing = amounts.counted(self._failed, "group")
            self._complaints.say(GROUPS, f"{failure} ({failing})")
        self._refresh()
        made: list[Made] = []
        for group, positions in sorted(found.done.items()):
            standing = self.table.group(group)
            look = self._making.look(group, positions, standing)
            if not look.final:
                self._seen.pop(group, None)
            made += [Made(point, point.partition not in standing) for point in look.news]
            with self._changing:
                for point in look.news:
                    self.table.publish(point)
        return made

    def _refresh(self) -> None:
        """Groups were asked before: what they have read was mostly copied, and noted, since."""
        syncs = self._syncs
        assert syncs is not None, "it was not loaded"
        if self._clock.now_s() < self._fresh_until_s:
            return
        self._trying(SYNCS, lambda: syncs.refresh(ATTEMPT_S))
        self._trying(MAP, lambda: self._map.refresh(ATTEMPT_S))
        self._fresh_until_s = self._clock.now_s() + FRESH_S
        if self._map.beginnings != self._beginnings:
            self._beginnings = self._map.beginnings
            self._seen.clear()

    def _trying(self, doing: str, refresh: Callable[[], None]) -> None:
        try:
            refresh()
        except cluster_errors.LogTruncatedError:
            raise
        except errors.ConnectError as error:  # what is known is no less true
            self._unread.add(doing)
            self._complaints.say(doing, error)
        else:
            self._unread.discard(doing)
            self._complaints.over(doing)

    def _by_map(self, partition: ids.TopicPartition, upstream: int) -> translation.Translation:
        assert self._syncs is not None, "it was not loaded"
        return self._map.translate(partition, upstream, newest=self._syncs.newest(partition))

    def _copied(self, partition: ids.TopicPartition, upstream: int) -> bool:
        """By the map, or where there is none (or Java has gone on since) by offset syncs."""
        assert self._syncs is not None, "it was not loaded"
        newest = self._syncs.newest(partition)
        copied_to = self._map.copied_to(partition, newest=newest)
        if copied_to is None:
            copied_to = -1 if newest is None else newest.upstream
        return upstream <= copied_to

    def _translate(self, partition: ids.TopicPartition, upstream: int) -> translation.Translation:
        assert self._syncs is not None, "it was not loaded"
        by_map = self._by_map(partition, upstream)
        if isinstance(by_map, translation.Exact):
            return by_map
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
            self._read_published()
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
        groups = amounts.counted(len(self.table.groups()), "group")
        _LOG.info("read the checkpoints of %s", groups)
        return True

    def _read_published(self) -> None:
        assert self._published is not None
        record_folds.fold(self._published.read_to_end(ATTEMPT_S), self._stands)

    def _stands(self, key: bytes, value: bytes | None) -> None:
        """Also what we have published ourselves comes by."""
        with self._changing:
            changed = self.table.apply(key, value)
        if changed is not None:
            self._seen.pop(changed, None)

    def _forget_published(self) -> None:
        self._close_published()
        self._seen.clear()
        self.table = checkpoints.CheckpointTable(takes_group=self._groups.__contains__)

    def _close_published(self) -> None:
        tail, self._published = self._published, None
        if tail is not None:
            tail.close()
