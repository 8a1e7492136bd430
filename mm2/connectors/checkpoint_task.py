"""MirrorCheckpointTask: emits checkpoints of its groups and optionally syncs group offsets.

At start the task reads the published checkpoints (`CheckpointStore`), then the offset syncs. If
the published checkpoints could be read, all syncs are used; otherwise only syncs written since
the start (KAFKA-15905). Offsets of records that mm2 replicated are translated exactly by the
offset map, those of Java by offset syncs.

The checkpoints topic is read on in every round, and outdated checkpoints of other writers
(Java, a task that has not ended yet) are replaced. Rounds process groups in batches and skip
groups whose offsets have not changed. Unlike Java's task, this one retries whatever it cannot
read, and reports why no checkpoints are emitted.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from connect_runtime.api import schema
from connect_runtime.api.errors import ConfigError
from connect_runtime.api.records import RecordMetadata, SourceRecord
from connect_runtime.api.task import SourceTask
from connect_runtime.base import plurals
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.config import java_classes, mirror_connector_config
from mm2.config.mirror_connector_config import MirrorCheckpointConfig
from mm2.connectors import connect_offsets, connector_metrics, status_registry
from mm2.connectors.connector_clients import (
    CheckpointClients,
    CheckpointClientsFactory,
    KafkaCheckpointClients,
)
from mm2.connectors.connector_metrics import CheckpointMetrics
from mm2.connectors.group_offset_writer import GroupOffsetWriter
from mm2.connectors.stall_log import RateLimitedWarnings
from mm2.connectors.status_registry import (
    CheckpointGroupsSnapshot,
    GroupSearchResult,
    SnapshotPublisher,
)
from mm2.connectors.translation_sources import OffsetMapFollower, OffsetSyncsFollower
from mm2.formats import mm2_records
from mm2.formats.mm2_records import Checkpoint
from mm2.kafka import consumer_groups, state_topic_reader
from mm2.kafka.client_interfaces import LogTruncatedError, ReportedPositions, TopicTail
from mm2.offsets import translation
from mm2.offsets.checkpoint_rules import (
    AcknowledgedRounds,
    CheckpointRound,
    CheckpointRules,
    CheckpointTable,
)
from mm2.offsets.translation import ExactOffset, TranslatedOffset
from mm2.topics import assignment

TOPIC_READ_TIMEOUT_S = 2.0
"""Of one reading of a topic; the next goes on where it ended."""
TOPIC_VISIBILITY_TIMEOUT_S = 30.0
"""So long a new checkpoints topic may take to be seen everywhere."""
MAX_GROUPS_PER_STEP = 250
MAX_CHECKPOINTS_PER_STEP = 2_000
MAX_OFFSETS_AGE_S = 1.0
"""So old what is known of offsets may be, within a round."""
READING_OFFSET_SYNCS = "reading offset syncs"
READING_OFFSET_MAP = "reading the map of offsets"
READING_GROUP_OFFSETS = "reading the offsets of groups"
READING_CHECKPOINTS = "reading checkpoints"
_LOG = logging.getLogger(__name__)


class NewCheckpoint(NamedTuple):
    """A new checkpoint; `first` of its group's partition, as far as is known."""

    point: Checkpoint
    first: bool


class CheckpointRounds:
    """One thread's, but for `find`. Asks of nobody before `load`."""

    def __init__(
        self,
        config: MirrorCheckpointConfig,
        groups: frozenset[str],
        clients: CheckpointClients,
        *,
        clock: Clock,
    ) -> None:
        self.table = CheckpointTable(takes_group=groups.__contains__)
        self._changing = threading.Lock()
        self._config = config
        self._groups = groups
        self._clients = clients
        self._clock = clock
        self._complaints = RateLimitedWarnings(_LOG, clock=clock)
        self._missing_until_s = clock.now_s() + TOPIC_VISIBILITY_TIMEOUT_S
        self._published: TopicTail | None = None
        self._known: bool | None = None
        self._syncs: OffsetSyncsFollower | None = None
        self._source = clients.source_groups()
        self._seen: ReportedPositions = {}
        self._left: list[Sequence[str]] = []
        self._made: list[NewCheckpoint] = []
        self._failed = 0
        self._unread: set[str] = set()
        self._beginnings = 0
        self._fresh_until_s = clock.now_s()
        self._map = OffsetMapFollower(
            clients.offset_map, config.flow.topics.takes, flow=config.flow.name, clock=clock
        )
        self._making = CheckpointRules(
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
            self._syncs = OffsetSyncsFollower(self._clients.offset_syncs, keep_history=self._known)
        self._syncs.refresh(TOPIC_READ_TIMEOUT_S)
        return self._syncs.ready

    def find(self, text: str, most: int) -> GroupSearchResult:
        """What stands of groups with `text` in their name. Any thread may ask."""
        with self._changing:
            table = self.table
            names = table.groups()
            matching = [name for name in names if text in name]
            return GroupSearchResult(
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

    def make(self) -> list[NewCheckpoint]:
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
        except ConnectError:
            self._left.clear()
            raise
        if not self._left and not self._failed:
            self._complaints.over(READING_GROUP_OFFSETS)
        given, self._made = (
            self._made[:MAX_CHECKPOINTS_PER_STEP],
            self._made[MAX_CHECKPOINTS_PER_STEP:],
        )
        return given

    def _begin(self) -> None:
        """What others published comes before what groups have: else a group that another task saw
        later would seem to have gone back. Raises `LogTruncatedError`: it is to be loaded anew."""
        try:
            if self._published is not None:
                self._trying(READING_CHECKPOINTS, self._read_published)
        except LogTruncatedError:
            self._forget_published()
            self._known = None
            raise
        self._left = consumer_groups.split_into_chunks(sorted(self._groups), MAX_GROUPS_PER_STEP)[
            ::-1
        ]
        self._failed = 0

    def _look(self, names: Sequence[str]) -> list[NewCheckpoint]:
        found = self._source.news(names, self._config.common.admin_timeout_s, seen=self._seen)
        failure = found.first_failure()
        if failure is not None:
            self._failed += len(found.failed)
            failing = plurals.format_count(self._failed, "group")
            self._complaints.say(READING_GROUP_OFFSETS, f"{failure} ({failing})")
        self._refresh()
        made: list[NewCheckpoint] = []
        for group, positions in sorted(found.done.items()):
            standing = self.table.group(group)
            look = self._making.look(group, positions, standing)
            if not look.final:
                self._seen.pop(group, None)
            made += [NewCheckpoint(point, point.partition not in standing) for point in look.news]
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
        self._trying(READING_OFFSET_SYNCS, lambda: syncs.refresh(TOPIC_READ_TIMEOUT_S))
        self._trying(READING_OFFSET_MAP, lambda: self._map.refresh(TOPIC_READ_TIMEOUT_S))
        self._fresh_until_s = self._clock.now_s() + MAX_OFFSETS_AGE_S
        if self._map.beginnings != self._beginnings:
            self._beginnings = self._map.beginnings
            self._seen.clear()

    def _trying(self, doing: str, refresh: Callable[[], None]) -> None:
        try:
            refresh()
        except LogTruncatedError:
            raise
        except ConnectError as error:  # what is known is no less true
            self._unread.add(doing)
            self._complaints.say(doing, error)
        else:
            self._unread.discard(doing)
            self._complaints.over(doing)

    def _by_map(self, partition: TopicPartition, upstream: int) -> TranslatedOffset:
        assert self._syncs is not None, "it was not loaded"
        return self._map.translate(partition, upstream, newest=self._syncs.newest(partition))

    def _copied(self, partition: TopicPartition, upstream: int) -> bool:
        """By the map, or where there is none (or Java has gone on since) by offset syncs."""
        assert self._syncs is not None, "it was not loaded"
        newest = self._syncs.newest(partition)
        copied_to = self._map.copied_to(partition, newest=newest)
        if copied_to is None:
            copied_to = -1 if newest is None else newest.upstream
        return upstream <= copied_to

    def _translate(self, partition: TopicPartition, upstream: int) -> TranslatedOffset:
        assert self._syncs is not None, "it was not loaded"
        by_map = self._by_map(partition, upstream)
        if isinstance(by_map, ExactOffset):
            return by_map
        return translation.choose_closest(by_map, self._syncs.translate(partition, upstream))

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
        except LogTruncatedError as error:
            _LOG.warning("%s", error)
            self._forget_published()
            return None
        except FatalError as error:
            missing = isinstance(error, TopicMissingError)
            if missing and self._clock.now_s() < self._missing_until_s:
                return None
            _LOG.warning(
                "what was published before is not known (%s); groups behind what is mirrored from "
                "now on get no checkpoint until they catch up",
                error,
            )
            self._forget_published()
            return False
        groups = plurals.format_count(len(self.table.groups()), "group")
        _LOG.info("read the checkpoints of %s", groups)
        return True

    def _read_published(self) -> None:
        assert self._published is not None
        state_topic_reader.apply_records(
            self._published.read_to_end(TOPIC_READ_TIMEOUT_S), self._stands
        )

    def _stands(self, key: bytes, value: bytes | None) -> None:
        """Also what we have published ourselves comes by."""
        with self._changing:
            changed = self.table.apply(key, value)
        if changed is not None:
            self._seen.pop(changed, None)

    def _forget_published(self) -> None:
        self._close_published()
        self._seen.clear()
        self.table = CheckpointTable(takes_group=self._groups.__contains__)

    def _close_published(self) -> None:
        tail, self._published = self._published, None
        if tail is not None:
            tail.close()


POLL_INTERVAL_S = 1.0
"""No poll waits longer, whatever the intervals: only between polls can the task be paused."""
ROUND_RETRY_DELAY_S = 5.0
"""What could not be done is tried again after this time, or sooner if the interval is shorter."""
LOADING_STATE = "reading what was synced and published"
EMITTING_CHECKPOINTS = "making checkpoints"
WRITING_GROUP_OFFSETS = "writing offsets of groups"
_T = TypeVar("_T")
_CHECKPOINTS_PARTITION = 0
_CONNECT_OFFSET = {connect_offsets.OFFSET_KEY: 0}
_UNKNOWN_TASK_NUMBER = "?"
_UNKNOWN_TASK_INDEX = -1


class MirrorCheckpointTask(SourceTask):
    """Java's of the same name. Its records' Connect offsets say nothing, and are never read."""

    def __init__(self, make_clients: CheckpointClientsFactory = KafkaCheckpointClients) -> None:
        self._make_clients = make_clients
        self._topic = ""
        self._rounds: CheckpointRounds | None = None
        self._sync: GroupOffsetWriter | None = None
        self._place: SnapshotPublisher[CheckpointGroupsSnapshot] | None = None
        self._acknowledged = AcknowledgedRounds()
        self._stored: deque[None] = deque()
        """One for each record that was stored and is not counted yet; any thread adds to it."""
        self._emit_interval_s = self._sync_interval_s = math.inf
        self._emit_due_s = self._sync_due_s = 0.0

    def version(self) -> str:
        return java_classes.KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`. Nothing is asked of the clusters yet."""
        config = mirror_connector_config.parse_checkpoint(props)
        groups = assignment.parse_groups(props)
        number = assignment.parse_task_index(props)
        if config.emit_interval_s is None:
            raise ConfigError("the task of a connector that writes no checkpoints")
        context = self.context
        self._complaints = RateLimitedWarnings(_LOG, clock=context.clock)
        self._metrics = CheckpointMetrics(
            connector_metrics.build_metrics_owner(context.task_id, config.common),
            clock=context.clock,
        )
        context.add_metrics(self._metrics.families)
        clients = self._make_clients(
            config,
            clock=context.clock,
            gone=lambda: context.wait(0.0),
            task=_UNKNOWN_TASK_NUMBER if number is None else number,
        )
        self._topic = config.checkpoints_topic
        self._rounds = CheckpointRounds(config, groups, clients, clock=context.clock)
        self._place = status_registry.REGISTRY.groups(
            config.flow.name, _UNKNOWN_TASK_INDEX if number is None else number
        )
        self._shown = CheckpointGroupsSnapshot(
            round_s=None,
            since_s=context.clock.now_s(),
            writes=config.sync_groups_interval_s is not None,
            find=self._rounds.find,
        )
        self._place.put(self._shown)
        self._emit_interval_s = config.emit_interval_s
        if config.sync_groups_interval_s is not None:
            self._sync_interval_s = config.sync_groups_interval_s
            self._sync = GroupOffsetWriter(
                clients.target_groups(),
                clients.target_admin(),
                clients.target_logs(),
                timeout_s=config.common.admin_timeout_s,
            )
        self._emit_due_s = self._sync_due_s = context.clock.now_s()

    def stop(self) -> None:
        if self._place is not None:
            self._place.leave()
        for each in (self._rounds, self._sync):
            if each is not None:
                each.close()
        self._rounds = self._sync = None

    def poll(self) -> Sequence[SourceRecord] | None:
        assert self._rounds is not None, "it was not started"
        self._show_round()
        now_s = self.context.clock.now_s()
        if self._rounds.under_way:
            return self._emit(self._rounds)
        due_s = self._emit_due_s if self._sync is None else min(self._emit_due_s, self._sync_due_s)
        if now_s < due_s:
            self.context.wait(min(due_s - now_s, POLL_INTERVAL_S))
            return None
        if not self._rounds.loaded:
            self._load(self._rounds)
            return None
        if now_s >= self._emit_due_s:
            return self._emit(self._rounds)
        self._sync_groups(self._rounds)
        return None

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self._stored.append(None)
        if metadata is None or record.timestamp is None:
            return
        late_ms = self.context.clock.wall_ms() - record.timestamp
        self._metrics.acknowledged(mm2_records.decode_checkpoint_key(record.key), max(0, late_ms))

    def _load(self, rounds: CheckpointRounds) -> None:
        """As long as it is not done neither are checkpoints made nor groups written."""
        done = self._tried(LOADING_STATE, rounds.load)
        if not done:
            again_s = self.context.clock.now_s() + min(ROUND_RETRY_DELAY_S, self._emit_interval_s)
            self._emit_due_s = self._sync_due_s = again_s

    def _emit(self, rounds: CheckpointRounds) -> list[SourceRecord]:
        """Once at start, too: what changed while no task ran."""
        made = self._tried(EMITTING_CHECKPOINTS, rounds.make)
        now_s = self.context.clock.now_s()
        pause_s = self._emit_interval_s
        self._emit_due_s = now_s + (min(ROUND_RETRY_DELAY_S, pause_s) if made is None else pause_s)
        at_ms = self.context.clock.wall_ms()
        self._acknowledged.send(len(made or ()))
        if made is not None and rounds.complete:
            groups = len(rounds.table.groups())
            self._acknowledged.end(CheckpointRound(at_s=now_s, groups=groups))
            self._show_round()
        return [_build_checkpoint_record(each, self._topic, at_ms=at_ms) for each in made or ()]

    def _sync_groups(self, rounds: CheckpointRounds) -> None:
        sync = self._sync
        assert sync is not None
        found = self._tried(WRITING_GROUP_OFFSETS, lambda: sync.run(rounds.table))
        if found is not None and found.written:
            groups = plurals.format_count(found.written, "group")
            _LOG.debug("wrote offsets of %s on the target", groups)
        if found is not None and not found.refused:
            written_s = self.context.clock.now_s()
            self._show(dataclasses.replace(self._shown, written_s=written_s))
        self._sync_due_s = self.context.clock.now_s() + self._sync_interval_s

    def _show_round(self) -> None:
        """The last one of which the target has all checkpoints."""
        while self._stored:
            self._stored.popleft()
            self._acknowledged.acknowledge(1)
        found = self._acknowledged.take()
        if found is not None:
            clock = self.context.clock
            self._show(
                dataclasses.replace(
                    self._shown,
                    round_s=found.at_s,
                    round_ms=clock.wall_ms() - round((clock.now_s() - found.at_s) * 1000),
                    groups=found.groups,
                )
            )

    def _show(self, shown: CheckpointGroupsSnapshot) -> None:
        """Everybody who looks at the board."""
        if self._place is not None:
            self._shown = shown
            self._place.put(shown)

    def _tried(self, doing: str, ask: Callable[[], _T]) -> _T | None:
        """None when it failed, which is told unless the task is being stopped."""
        try:
            found = ask()
        except ConnectError as error:
            if not self.context.wait(0.0):
                self._complaints.say(doing, f"{error}; it is tried again")
            return None
        self._complaints.over(doing)
        return found


def _build_checkpoint_record(made: NewCheckpoint, topic: str, *, at_ms: int) -> SourceRecord:
    """Its Connect offset never changes: it is stored once, with the first record."""
    point = made.point
    key, value = mm2_records.encode_checkpoint(point)
    place = connect_offsets.build_checkpoint_partition(point.group, point.partition)
    return SourceRecord(
        topic=topic,
        kafka_partition=_CHECKPOINTS_PARTITION,
        key_schema=schema.BYTES_SCHEMA,
        key=key,
        value_schema=schema.BYTES_SCHEMA,
        value=value,
        timestamp=at_ms,
        source_partition=place if made.first else None,
        source_offset=_CONNECT_OFFSET if made.first else None,
    )
