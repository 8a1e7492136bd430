"""MirrorCheckpointTask: emits checkpoints of the consumer groups that are assigned to the task and
optionally syncs group offsets.

At startup the task reads the published checkpoints (`CheckpointTable`), then the offset syncs. If
the published checkpoints can be read, all syncs are used; otherwise only syncs written after the
start are used (KAFKA-15905). Offsets of records replicated by mm2 are translated exactly with the
offset map, offsets of records replicated by Java with offset syncs.

Every round (one pass over all groups) reads new records of the checkpoints topic and replaces
outdated checkpoints of other writers (Java, or a previous task that is still running). Rounds
process groups in batches and skip groups whose offsets have not changed. Unlike Java's task, this
task retries failed reads and reports why no checkpoints are emitted.
"""

from __future__ import annotations

import dataclasses
import functools
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
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.config import java_class_placeholders, mirror_connector_config
from mm2.config.mirror_connector_config import MirrorCheckpointConfig
from mm2.connectors import connect_offsets, connector_metrics, status_registry
from mm2.connectors.connector_kafka_clients import (
    CheckpointClients,
    CheckpointClientsFactory,
    KafkaCheckpointClients,
)
from mm2.connectors.connector_metrics import CheckpointMetrics
from mm2.connectors.group_offset_sync_writer import GroupOffsetWriter
from mm2.connectors.offset_map_and_sync_trackers import OffsetMapTracker, OffsetSyncsTracker
from mm2.connectors.rate_limited_error_logging import RateLimitedWarnings
from mm2.connectors.status_registry import (
    CheckpointGroupsSnapshot,
    GroupSearchResult,
    SnapshotPublisher,
)
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.formats.primitive_types import StringTooLongError
from mm2.kafka import consumer_groups
from mm2.kafka.kafka_client_interfaces import LogTruncatedError, ReportedPositions, TopicTail
from mm2.kafka.state_topic_reader import RecordApplier
from mm2.offsets import offset_translation
from mm2.offsets.checkpoint_rules import (
    AcknowledgedRounds,
    CheckpointRound,
    CheckpointRules,
    CheckpointTable,
)
from mm2.offsets.offset_translation import ExactOffset, TranslatedOffset
from mm2.topics import replication_policy, task_assignment, topic_selection
from mm2.topics.flow_config import Flow

TOPIC_READ_TIMEOUT_S = 2.0
"""Time limit of one read of a topic, in seconds. The next read continues where the previous one
stopped."""
TOPIC_VISIBILITY_TIMEOUT_S = 30.0
"""Maximum time in seconds for which a new checkpoints topic may be missing from the metadata of
some brokers."""
MAX_GROUPS_PER_STEP = 250
MAX_CHECKPOINTS_PER_STEP = 2_000
MAX_OFFSETS_AGE_S = 1.0
"""Maximum age in seconds of offset syncs and the offset map within a round (one pass over all
groups). Older ones are refreshed."""
READING_OFFSET_SYNCS = "reading offset syncs"
READING_OFFSET_MAP = "reading the offset map"
READING_GROUP_OFFSETS = "reading group offsets"
READING_CHECKPOINTS = "reading checkpoints"
_LOG = logging.getLogger(__name__)


class NewCheckpoint(NamedTuple):
    """A checkpoint to emit, with the key and value of its record."""

    checkpoint: Checkpoint
    key: bytes
    value: bytes
    is_first: bool
    """True if this is the group's first checkpoint for the partition."""


class CheckpointCalculator:
    """Computes a task's new checkpoints in rounds. A round is one pass over all groups of the task.

    Not thread-safe except for `find_groups`. No request is sent before `load_published_state` is
    called.
    """

    def __init__(
        self,
        config: MirrorCheckpointConfig,
        groups: frozenset[str],
        clients: CheckpointClients,
        *,
        clock: Clock,
    ) -> None:
        self._config = config
        self._groups = groups
        self.table = self._create_checkpoint_table()
        self._table_lock = threading.Lock()
        self._clients = clients
        self._clock = clock
        self._warnings = RateLimitedWarnings(_LOG, clock=clock)
        self._visible_until_s = clock.now_s() + TOPIC_VISIBILITY_TIMEOUT_S
        self._published: TopicTail | None = None
        self._applier = RecordApplier(self._apply_published_checkpoint)
        self._has_history: bool | None = None
        self._syncs: OffsetSyncsTracker | None = None
        self._source = clients.create_source_groups_client()
        self._last_positions: ReportedPositions = {}
        self._remaining_chunks: list[Sequence[str]] = []
        self._unsent: list[NewCheckpoint] = []
        self._failed_groups = 0
        self._failed_reads: set[str] = set()
        self._map_resets = 0
        self._refresh_due_s = clock.now_s()
        self._takes_topic = functools.lru_cache(_CACHED_TOPICS_MAX)(
            functools.partial(topic_selection.should_checkpoint_topic, config.flow)
        )
        self._map = OffsetMapTracker(
            clients.create_offset_map_reader,
            self._takes_topic,
            flow=config.flow.name,
            clock=clock,
        )
        self._rules = CheckpointRules(
            source=config.flow.source,
            policy=config.flow.policy,
            takes_topic=self._takes_topic,
            translate=self._translate_offset,
            translate_exactly=self._translate_with_offset_map,
            is_replicated=self._is_record_replicated,
        )

    @property
    def is_loaded(self) -> bool:
        """True once the published checkpoints and the offset syncs have been read."""
        return self._has_history is not None and self._syncs is not None and self._syncs.is_ready

    def load_published_state(self) -> bool:
        """Continue loading the published checkpoints and offset syncs. Returns True once both are
        loaded. Raises `ConnectError` if a retry may succeed."""
        if self._has_history is None:
            self._has_history = self._load_published_checkpoints()
            if self._has_history is None:
                return False
        if self._syncs is None:
            self._syncs = OffsetSyncsTracker(
                self._clients.create_offset_syncs_reader,
                self._takes_topic,
                keep_history=self._has_history,
            )
        self._syncs.refresh(TOPIC_READ_TIMEOUT_S)
        return self._syncs.is_ready

    def find_groups(self, text: str, max_groups: int) -> GroupSearchResult:
        """Find at most `max_groups` groups whose names contain `text`, with their checkpoints.
        Thread-safe."""
        with self._table_lock:
            table = self.table
            names = table.list_groups()
            matching = [name for name in names if text in name]
            return GroupSearchResult(
                total_count=len(names),
                matching_count=len(matching),
                groups={
                    name: [*table.get_group_checkpoints(name).values()]
                    for name in matching[:max_groups]
                },
            )

    @property
    def is_in_progress(self) -> bool:
        """True if the current pass over all groups is not finished."""
        return bool(self._remaining_chunks or self._unsent)

    @property
    def is_complete(self) -> bool:
        """True if the last pass over all groups is finished, and all groups and their offsets could
        be read."""
        return not self.is_in_progress and not self._failed_groups and not self._failed_reads

    def compute_checkpoints(self) -> list[NewCheckpoint]:
        """Compute the next batch of new checkpoints of the current round (a pass over all groups),
        and record them as published.

        If no round is in progress, a new round is started. Raises `ConnectError` and ends the round
        if the source does not respond. Failures of single groups or of reading syncs are logged.
        """
        if not self.is_in_progress:
            self._begin_round()
        try:
            while self._remaining_chunks and not self._unsent:
                self._unsent = self._compute_group_checkpoints(self._remaining_chunks.pop())
        except ConnectError:
            self._remaining_chunks.clear()
            raise
        if not self._remaining_chunks and not self._failed_groups:
            self._warnings.reset(READING_GROUP_OFFSETS)
        checkpoints, self._unsent = (
            self._unsent[:MAX_CHECKPOINTS_PER_STEP],
            self._unsent[MAX_CHECKPOINTS_PER_STEP:],
        )
        return checkpoints

    def _begin_round(self) -> None:
        """Start a round (a pass over all groups), and first read the checkpoints that other tasks
        have published.

        If group offsets were read first, another task could publish a newer checkpoint in between.
        The older group offset would then look like a rewind of the group. Raises
        `LogTruncatedError` if the published checkpoints must be loaded again.
        """
        try:
            if self._published is not None:
                self._run_refresh_or_log_warning(
                    READING_CHECKPOINTS, self._read_published_checkpoints
                )
        except LogTruncatedError:
            self._forget_published_checkpoints()
            self._has_history = None
            raise
        self._remaining_chunks = consumer_groups.split_into_chunks(
            sorted(self._groups), MAX_GROUPS_PER_STEP
        )[::-1]
        self._failed_groups = 0

    def _compute_group_checkpoints(self, names: Sequence[str]) -> list[NewCheckpoint]:
        results = self._source.fetch_changed_committed_offsets(
            names, self._config.common.admin_timeout_s, seen=self._last_positions
        )
        failure = results.get_first_failure()
        if failure is not None:
            self._failed_groups += len(results.failed)
            failing = plurals.format_count(self._failed_groups, "group")
            self._warnings.warn(READING_GROUP_OFFSETS, f"{failure} ({failing})")
        self._refresh_offsets()
        checkpoints_made: list[NewCheckpoint] = []
        for group, positions in sorted(results.succeeded.items()):
            checkpoints = self.table.get_group_checkpoints(group)
            outcome = self._rules.find_new_group_checkpoints(group, positions, checkpoints)
            if not outcome.is_final:
                self._last_positions.pop(group, None)
            try:
                made = [
                    NewCheckpoint(
                        point,
                        *mirrormaker2_records.encode_checkpoint(point),
                        is_first=point.partition not in checkpoints,
                    )
                    for point in outcome.checkpoints
                ]
            except StringTooLongError as error:
                self._failed_groups += 1
                self._warnings.warn(READING_GROUP_OFFSETS, f"group {group[:100]}…: {error}")
                continue
            checkpoints_made += made
            with self._table_lock:
                for point in outcome.checkpoints:
                    self.table.store_published_checkpoint(point)
        return checkpoints_made

    def _refresh_offsets(self) -> None:
        """Refresh offset syncs and the offset map. Call after reading group offsets: most of the
        committed offsets can then be translated."""
        syncs = self._syncs
        assert syncs is not None, "call load_published_state first"
        if self._clock.now_s() < self._refresh_due_s:
            return
        self._run_refresh_or_log_warning(
            READING_OFFSET_SYNCS, lambda: syncs.refresh(TOPIC_READ_TIMEOUT_S)
        )
        self._run_refresh_or_log_warning(
            READING_OFFSET_MAP, lambda: self._map.refresh(TOPIC_READ_TIMEOUT_S)
        )
        self._refresh_due_s = self._clock.now_s() + MAX_OFFSETS_AGE_S
        if self._map.reset_count != self._map_resets:
            self._map_resets = self._map.reset_count
            self._last_positions.clear()

    def _run_refresh_or_log_warning(self, doing: str, refresh: Callable[[], None]) -> None:
        try:
            refresh()
        except LogTruncatedError:
            raise
        except ConnectError as error:  # the state that was read before remains valid
            self._failed_reads.add(doing)
            self._warnings.warn(doing, error)
        else:
            self._failed_reads.discard(doing)
            self._warnings.reset(doing)

    def _translate_with_offset_map(
        self, partition: TopicPartition, upstream: int
    ) -> TranslatedOffset:
        assert self._syncs is not None, "call load_published_state first"
        return self._map.translate(
            partition, upstream, newest=self._syncs.get_newest_sync(partition)
        )

    def _is_record_replicated(self, partition: TopicPartition, upstream: int) -> bool:
        """Return True if the record at a source offset has been replicated to the target, according
        to the offset map. Offset syncs are used if there is no offset map, or if Java has
        replicated records since the map's last entry."""
        assert self._syncs is not None, "call load_published_state first"
        newest = self._syncs.get_newest_sync(partition)
        copied_to = self._map.get_next_source_offset(partition, newest=newest)
        if copied_to is None:
            copied_to = -1 if newest is None else newest.upstream
        return upstream <= copied_to

    def _translate_offset(self, partition: TopicPartition, upstream: int) -> TranslatedOffset:
        assert self._syncs is not None, "call load_published_state first"
        by_map = self._translate_with_offset_map(partition, upstream)
        if isinstance(by_map, ExactOffset):
            return by_map
        return offset_translation.choose_closest_translation(
            by_map, self._syncs.translate(partition, upstream)
        )

    def close(self) -> None:
        self._source.close()
        self._map.close()
        self._close_checkpoints_reader()
        if self._syncs is not None:
            self._syncs.close()

    def _load_published_checkpoints(self) -> bool | None:
        """Read the published checkpoints. Returns True when all have been read, False if they
        cannot be read, and None if the read must be continued."""
        if self._published is None:
            self._published = self._clients.create_checkpoints_reader()
        try:
            self._read_published_checkpoints()
        except LogTruncatedError as error:
            _LOG.warning("%s", error)
            self._forget_published_checkpoints()
            return None
        except FatalError as error:
            is_missing = isinstance(error, TopicMissingError)
            if is_missing and self._clock.now_s() < self._visible_until_s:
                return None
            _LOG.warning(
                "published checkpoints cannot be read (%s); only offset syncs written from now on "
                "are used, so a group that is further behind receives no checkpoint until it has "
                "caught up",
                error,
            )
            self._forget_published_checkpoints()
            return False
        groups = plurals.format_count(len(self.table.list_groups()), "group")
        _LOG.info("read the checkpoints of %s", groups)
        return True

    def _read_published_checkpoints(self) -> None:
        assert self._published is not None
        self._published.read_to_end(TOPIC_READ_TIMEOUT_S, self._applier.apply_record)

    def _apply_published_checkpoint(self, key: bytes, value: bytes | None) -> None:
        """Update the table of published checkpoints from a record of the checkpoints topic. This
        task may have written the record."""
        with self._table_lock:
            changed = self.table.apply_record(key, value)
        if changed is not None:
            self._last_positions.pop(changed, None)

    def _forget_published_checkpoints(self) -> None:
        self._close_checkpoints_reader()
        self._last_positions.clear()
        self.table = self._create_checkpoint_table()

    def _create_checkpoint_table(self) -> CheckpointTable:
        return CheckpointTable(
            group_filter=self._groups.__contains__,
            topic_filter=functools.partial(_is_mirror_topic, self._config.flow),
        )

    def _close_checkpoints_reader(self) -> None:
        tail, self._published = self._published, None
        if tail is not None:
            tail.close()


def _is_mirror_topic(flow: Flow, topic: str) -> bool:
    """Return True if a target topic can be a mirror topic of the flow. Without this check, a
    checkpoint by another writer could change group offsets of topics that are not mirror topics."""
    replicated = replication_policy.map_topic_to_source(
        flow.policy, topic, source_alias=flow.source, target_alias=flow.target
    )
    return not replication_policy.is_cycle(flow.policy, replicated, target_alias=flow.target)


POLL_INTERVAL_S = 1.0
"""Maximum duration of a poll in seconds. It is short because a worker can pause the task only
between polls."""
ROUND_RETRY_DELAY_S = 5.0
"""Delay in seconds after a failed round (one pass over all groups), unless the emit interval is
shorter."""
LOADING_STATE = "loading offset syncs and checkpoints"
EMITTING_CHECKPOINTS = "emitting checkpoints"
WRITING_GROUP_OFFSETS = "writing group offsets"
_T = TypeVar("_T")
_CHECKPOINTS_PARTITION = 0
_CACHED_TOPICS_MAX = 100_000
"""Size of the cache of topic filter results. It exceeds the number of topics of any flow: rounds
process groups in a constant order, so a round that evicts entries leaves no hits for the next
round."""
_CONNECT_OFFSET = {connect_offsets.OFFSET_KEY: 0}
_UNKNOWN_TASK_NUMBER = "?"
_UNKNOWN_TASK_INDEX = -1


class MirrorCheckpointTask(SourceTask):
    """MirrorMaker 2's checkpoint task. The Connect offsets of its records are constant and are
    never read."""

    def __init__(self, create_clients: CheckpointClientsFactory = KafkaCheckpointClients) -> None:
        self._make_clients = create_clients
        self._topic = ""
        self._rounds: CheckpointCalculator | None = None
        self._offset_writer: GroupOffsetWriter | None = None
        self._publisher: SnapshotPublisher[CheckpointGroupsSnapshot] | None = None
        self._acknowledged = AcknowledgedRounds()
        self._stored_records: deque[None] = deque()
        """One entry per acknowledged record that the task's thread has not counted yet. Any thread
        may append."""
        self._emit_interval_s = self._sync_interval_s = math.inf
        self._emit_due_s = self._sync_due_s = 0.0

    def version(self) -> str:
        return java_class_placeholders.KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        """Parse the configuration without sending requests. Raises `ConfigError` if it is
        invalid."""
        config = mirror_connector_config.parse_checkpoint_config(props)
        groups = task_assignment.parse_groups(props)
        number = task_assignment.parse_task_index(props)
        if config.emit_interval_s is None:
            raise ConfigError("this connector emits no checkpoints, so it cannot have tasks")
        context = self.context
        self._warnings = RateLimitedWarnings(_LOG, clock=context.clock)
        self._metrics = CheckpointMetrics(
            connector_metrics.build_metrics_owner(context.task_id, config.common),
            clock=context.clock,
        )
        context.add_metrics(self._metrics.collect)
        clients = self._make_clients(
            config,
            clock=context.clock,
            gone=lambda: context.wait(0.0),
            task=_UNKNOWN_TASK_NUMBER if number is None else number,
        )
        self._topic = config.checkpoints_topic
        self._rounds = CheckpointCalculator(config, groups, clients, clock=context.clock)
        self._publisher = status_registry.REGISTRY.create_groups_publisher(
            config.flow.name, _UNKNOWN_TASK_INDEX if number is None else number
        )
        self._snapshot = CheckpointGroupsSnapshot(
            last_round_s=None,
            started_s=context.clock.now_s(),
            writes_offsets=config.sync_groups_interval_s is not None,
            find_groups=self._rounds.find_groups,
        )
        self._publisher.publish(self._snapshot)
        self._emit_interval_s = config.emit_interval_s
        if config.sync_groups_interval_s is not None:
            self._sync_interval_s = config.sync_groups_interval_s
            self._offset_writer = GroupOffsetWriter(
                clients.create_target_groups_client(),
                clients.create_target_admin(),
                clients.create_target_log_offsets_client(),
                timeout_s=config.common.admin_timeout_s,
            )
        self._emit_due_s = self._sync_due_s = context.clock.now_s()

    def stop(self) -> None:
        if self._publisher is not None:
            self._publisher.remove()
        for each in (self._rounds, self._offset_writer):
            if each is not None:
                each.close()
        self._rounds = self._offset_writer = None

    def poll(self) -> Sequence[SourceRecord] | None:
        assert self._rounds is not None, "call start first"
        self._publish_round_status()
        now_s = self.context.clock.now_s()
        if self._rounds.is_in_progress:
            return self._emit_checkpoints(self._rounds)
        due_s = (
            self._emit_due_s
            if self._offset_writer is None
            else min(self._emit_due_s, self._sync_due_s)
        )
        if now_s < due_s:
            self.context.wait(min(due_s - now_s, POLL_INTERVAL_S))
            return None
        if not self._rounds.is_loaded:
            self._load_state(self._rounds)
            return None
        if now_s >= self._emit_due_s:
            return self._emit_checkpoints(self._rounds)
        self._write_group_offsets(self._rounds)
        return None

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self._stored_records.append(None)
        if metadata is None or record.timestamp is None:
            return
        late_ms = self.context.clock.wall_ms() - record.timestamp
        self._metrics.record_acknowledged_checkpoint(
            mirrormaker2_records.decode_checkpoint_key(record.key), max(0, late_ms)
        )

    def _load_state(self, rounds: CheckpointCalculator) -> None:
        """Continue loading the published checkpoints and offset syncs. Until loading is finished,
        no checkpoints are emitted and no group offsets are written."""
        done = self._run_action_or_log_warning(LOADING_STATE, rounds.load_published_state)
        if not done:
            retry_s = self.context.clock.now_s() + min(ROUND_RETRY_DELAY_S, self._emit_interval_s)
            self._emit_due_s = self._sync_due_s = retry_s

    def _emit_checkpoints(self, rounds: CheckpointCalculator) -> list[SourceRecord]:
        """Emit new checkpoints. Also called at startup, to cover offsets that groups committed
        while no task was running."""
        made = self._run_action_or_log_warning(EMITTING_CHECKPOINTS, rounds.compute_checkpoints)
        now_s = self.context.clock.now_s()
        interval_s = self._emit_interval_s
        self._emit_due_s = now_s + (
            min(ROUND_RETRY_DELAY_S, interval_s) if made is None else interval_s
        )
        at_ms = self.context.clock.wall_ms()
        self._acknowledged.count_sent_checkpoints(len(made or ()))
        if made is not None and rounds.is_complete:
            groups = len(rounds.table.list_groups())
            self._acknowledged.end_round(CheckpointRound(ended_at_s=now_s, groups=groups))
            self._publish_round_status()
        return [_build_checkpoint_record(each, self._topic, at_ms=at_ms) for each in made or ()]

    def _write_group_offsets(self, rounds: CheckpointCalculator) -> None:
        sync = self._offset_writer
        assert sync is not None
        result = self._run_action_or_log_warning(
            WRITING_GROUP_OFFSETS, lambda: sync.write_changed_offsets(rounds.table)
        )
        if result is not None and result.written:
            groups = plurals.format_count(result.written, "group")
            _LOG.debug("wrote the offsets of %s to the target", groups)
        if result is not None and not result.failed:
            written_s = self.context.clock.now_s()
            self._publish_snapshot(dataclasses.replace(self._snapshot, last_write_s=written_s))
        self._sync_due_s = self.context.clock.now_s() + self._sync_interval_s

    def _publish_round_status(self) -> None:
        """Publish the status of the last acknowledged round. A round (a pass over all groups) is
        acknowledged once the target has acknowledged all its checkpoints."""
        while self._stored_records:
            self._stored_records.popleft()
            self._acknowledged.count_acknowledged_records(1)
        round_done = self._acknowledged.take_acknowledged_round()
        if round_done is not None:
            clock = self.context.clock
            self._publish_snapshot(
                dataclasses.replace(
                    self._snapshot,
                    last_round_s=round_done.ended_at_s,
                    last_round_wall_ms=clock.wall_ms()
                    - round((clock.now_s() - round_done.ended_at_s) * 1000),
                    group_count=round_done.groups,
                )
            )

    def _publish_snapshot(self, shown: CheckpointGroupsSnapshot) -> None:
        """Publish the snapshot of the task's groups in the status registry."""
        if self._publisher is not None:
            self._snapshot = shown
            self._publisher.publish(shown)

    def _run_action_or_log_warning(self, doing: str, action: Callable[[], _T]) -> _T | None:
        """Run an action and return its result. If it fails, log a warning unless the task is
        stopping, and return None."""
        try:
            result = action()
        except ConnectError as error:
            if not self.context.wait(0.0):
                self._warnings.warn(doing, f"{error}; retrying")
            return None
        self._warnings.reset(doing)
        return result


def _build_checkpoint_record(made: NewCheckpoint, topic: str, *, at_ms: int) -> SourceRecord:
    """Build the source record of a checkpoint.

    Its Connect offset is constant, so the worker stores it only with the first record of a
    partition.
    """
    point = made.checkpoint
    place = connect_offsets.build_checkpoint_partition(point.group, point.partition)
    return SourceRecord(
        topic=topic,
        kafka_partition=_CHECKPOINTS_PARTITION,
        key_schema=schema.BYTES_SCHEMA,
        key=made.key,
        value_schema=schema.BYTES_SCHEMA,
        value=made.value,
        timestamp=at_ms,
        source_partition=place if made.is_first else None,
        source_offset=_CONNECT_OFFSET if made.is_first else None,
    )
