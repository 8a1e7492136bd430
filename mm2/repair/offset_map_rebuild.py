"""`mm2 offsets rebuild`: rebuilds a flow's offset map from the source and the target log.

If the map of a partition is lost, nothing may be replicated during the rebuild. The flow must be
stopped, and each partition is fenced under its own transactional id before its mirror is read. The
next owner finds the resume point and matches the records that follow it. The map of records that
another program replicated before the first era (mirror generation) is stored under era 0 and
ordinal 0, which no owner uses. Rebuilding this part does not affect a running flow. The logs are
compared by an engine: Spark, or threads of this process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2 import text_format
from mm2.clusters import connect_group_state
from mm2.clusters.flow_cluster_pair import FlowPair
from mm2.config.copy_engine_config import EngineSettings
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.connectors.partition_setup_builder import PartitionSetupBuilder
from mm2.copier import (
    control_channel_messages,
    control_channel_server,
    partition_log_comparison_messages,
    partition_log_comparison_process,
    shared_copy_engine,
)
from mm2.copier.blocking_client import BlockingClient
from mm2.copier.control_channel_messages import CopyConfiguration
from mm2.copier.control_channel_server import ChannelInbox, TaskChannel
from mm2.copier.copy_engine import CopyHandle, CopyJob, CopyState
from mm2.copier.partition_fencer import BrokerRefusal, PartitionFencer
from mm2.copier.partition_log_comparison_messages import (
    LogCompareRange,
    LogCompareRequest,
    LogCompareResult,
    LogComparisonResultDecoder,
)
from mm2.copier.shared_copy_engine import DataPlane
from mm2.formats.offset_map_records import Era, EraKey
from mm2.offsets import offset_map_rebuild_plan
from mm2.offsets.offset_map import OffsetMap
from mm2.offsets.offset_map_rebuild_plan import (
    FencingProducer,
    MapRecord,
    RebuildPlan,
    RebuildScope,
)
from mm2.repair import flow_state_writes
from mm2.replication import outbound_batches, record_transforms
from mm2.replication.partition_setup import PartitionSetup
from mm2.topics import topic_selection

MAX_COMPARE_TASKS = 8
_COMPARE_POLL_INTERVAL_S = 1.0
_COMPARE_CLOSE_TIMEOUT_S = 5.0

OnCompared = Callable[[LogCompareResult], None]


def compare_logs(
    asked: Sequence[LogCompareRange],
    settings: CopyConfiguration,
    on: EngineSettings,
    *,
    clock: Clock,
    timeout_s: float,
    memory_bytes: int,
    all_differ: bool,
    done: OnCompared,
) -> None:
    """Compare the source and mirror logs of partitions, in tasks of the copy engine.

    `memory_bytes` is the total for all tasks. `all_differ` states that all source records are
    distinct, so that each mirror record can match only one source record. `done` is called for each
    partition as soon as it has been compared. `settings` contains both clusters' connection
    settings and a setup for each partition.

    Raises `RetriableError` if the timeout expires, and `FatalError` if the engine or a task fails.
    """
    plane = shared_copy_engine.acquire(on, clock)
    comparing = _LogComparison(plane, settings, clock=clock, done=done)
    try:
        shares = [asked[at::MAX_COMPARE_TASKS] for at in range(min(MAX_COMPARE_TASKS, len(asked)))]
        for number, share in enumerate(shares):
            asking = LogCompareRequest(
                ranges=tuple(share),
                memory_bytes=memory_bytes // len(shares),
                all_differ=all_differ,
            )
            comparing.start_task(number, asking)
        comparing.await_all_tasks(Deadline.after(timeout_s, now_s=clock.now_s()))
    finally:
        comparing.close()
        plane.release_reference()
        shared_copy_engine.close(_COMPARE_CLOSE_TIMEOUT_S)


class _LogComparison:
    """Runs the tasks of one log comparison. `_left` contains the tasks that have not finished."""

    def __init__(
        self,
        plane: DataPlane,
        settings: CopyConfiguration,
        *,
        clock: Clock,
        done: OnCompared,
    ) -> None:
        self._plane = plane
        self._settings = settings
        self._clock = clock
        self._done = done
        self._inbox = ChannelInbox()
        self._left: dict[str, tuple[TaskChannel, CopyHandle]] = {}
        self._answers: dict[str, LogComparisonResultDecoder] = {}

    def start_task(self, number: int, asked: LogCompareRequest) -> None:
        """Start a task that compares the requested offset ranges of the source log and the target
        log."""
        wanted = {(each.partition.topic, each.partition.partition) for each in asked.ranges}
        settings = dataclasses.replace(
            self._settings,
            task=number,
            partitions=tuple(
                each for each in self._settings.partitions if (each.topic, each.partition) in wanted
            ),
        )
        name = f"{settings.flow} match {number}"
        channel = self._plane.server.open_channel(name, inbox=self._inbox)
        channel.send(control_channel_messages.encode_copy_configuration(settings))
        channel.send(partition_log_comparison_messages.encode_compare_request(asked))
        job = CopyJob(
            flow=f"{settings.flow} match",
            index=number,
            address=str(self._plane.server.address),
            token=channel.token,
            entry=partition_log_comparison_process.LOG_COMPARE_ENTRY,
        )
        self._left[name] = (channel, self._plane.engine.start(job))
        self._answers[name] = LogComparisonResultDecoder()

    def await_all_tasks(self, end: Deadline) -> None:
        """Receive results until all tasks have finished."""
        while self._left:
            taken = self._inbox.take_message(_COMPARE_POLL_INTERVAL_S)
            if taken is not None:
                self._handle_message(*taken)
            elif self._plane.failure:
                raise FatalError(self._plane.failure)
            else:
                self._raise_if_unconnected_task_ended()
            if end.is_expired(self._clock.now_s()):
                raise RetriableError(f"comparing {self._settings.flow}: timed out")

    def close(self) -> None:
        """Cancel unfinished tasks."""
        for channel, handle in self._left.values():
            channel.close()
            handle.cancel()
        self._left.clear()

    def _handle_message(self, channel: TaskChannel, message: dict[str, object]) -> None:
        name = channel.name
        if name not in self._left:
            return
        if message["type"] == "ended":
            del self._left[name]
            channel.close()
        elif message["type"] == control_channel_server.CLOSED_MESSAGE_TYPE:
            _, handle = self._left.pop(name)
            raise FatalError(f"{name} ended: {handle.error or message['reason']}")
        else:
            with control_channel_messages.reject_malformed_message(message):
                found = self._answers[name].add_message(message)
            if found is not None:
                self._done(found)

    def _raise_if_unconnected_task_ended(self) -> None:
        """Detect tasks that ended before they connected. A task that ends later is detected because
        its connection closes."""
        for name, (channel, handle) in self._left.items():
            if handle.state is CopyState.ENDED and channel.peer is None:
                raise FatalError(f"{name} ended: {handle.error or 'without an error'}")


def fence_mirror_writers(place: PartitionFencer) -> FencingProducer | str:
    """Fence all producers that may still write to a mirror partition. Returns the new owner of the
    partition and its transaction marker, or the reason why fencing failed.

    Raises `ConnectError` if no broker responds.
    """
    locked = place.fence_partition()
    if locked is None:
        return "the fencing marker did not become readable"
    if isinstance(locked, BrokerRefusal):
        return f"its writers cannot be fenced: {locked}"
    return FencingProducer(
        producer_id=locked.producer.id,
        epoch=locked.producer.epoch,
        marker=locked.marker_offset,
        leader_epoch=locked.leader_epoch,
    )


REQUEST_TIMEOUT_S = 60.0
_ACQUIRED_MEANWHILE = "another process has acquired the partition during the rebuild"
_MIRROR_RECORDS_DELETED = (
    "all replicated records were deleted from the mirror topic, so their source offsets are "
    "unknown: choose where to start with mm2 topic reset FLOW TOPIC --from"
)

_NO_MATCH = "no record of the mirror matches the source"
_NO_CERTAIN_MATCH = (
    f"{_NO_MATCH} with certainty: the mirror may contain copies of equal records that no longer "
    "exist on the source. If no two records of the topic ever had the same timestamp, key, value "
    "and headers, use --all-differ"
)


class FlowRunningError(FatalError):
    """The flow is running. A lost offset map cannot be rebuilt while records are being
    replicated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltPartition:
    """Result of rebuilding one partition's map."""

    partition: TopicPartition
    scope: RebuildScope | None
    """Which part of the map can be rebuilt; None if the partition could not be set up."""
    compared: LogCompareResult | None = None
    """Result of comparing the logs; None if they were not compared."""
    stored: int = 0
    """Number of map records that were stored."""
    reason: str = ""
    """Reason why nothing was stored; "" if there is no problem."""

    @property
    def is_complete(self) -> bool:
        """True if the map contains everything that can be determined about the partition."""
        return self.scope is not None and not self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildContext:
    """Dependencies and limits of one rebuild of a flow's offset map."""

    pair: FlowPair
    store: FlowStateStore
    connect: Callable[[], BlockingClient]
    """Connects to the target."""
    copy_config: CopyConfiguration
    """Connection settings for the processes that compare logs."""
    worker_props: Mapping[str, str] = field(repr=False)
    """Properties of the flow's Connect worker."""
    engine: EngineSettings = field(repr=False)
    read_reverse_map: Callable[[], OffsetMap]
    """Reads the offset map of the reverse flow (from target to source). Called only if topics have
    the same names on both clusters."""
    clock: Clock
    sleep: Callable[[float], bool]
    print_line: Callable[[str], None]
    timeout_s: float
    memory_bytes: int
    """Total memory of all processes that compare logs."""
    all_differ: bool
    """True if all source records are distinct, so that each mirror record can match only one source
    record."""


class MapRebuild:
    """One rebuild of a flow's offset map. `results` contains the result of every requested
    partition."""

    def __init__(self, tools: RebuildContext, *, writes: bool) -> None:
        """Create a rebuild. If `writes` is False, nothing is fenced and nothing is stored."""
        self._tools = tools
        self._writes = writes
        self._end = Deadline.after(tools.timeout_s, now_s=tools.clock.now_s())
        self._setups: dict[TopicPartition, PartitionSetup] = {}
        self._plans: dict[TopicPartition, RebuildPlan] = {}
        self._fences: dict[TopicPartition, FencingProducer] = {}
        self._deleted: set[TopicPartition] = set()
        self.results: dict[TopicPartition, RebuiltPartition] = {}

    def run(self, topics: Collection[str]) -> None:
        """Rebuild the map for `topics`, or for all topics of the flow if `topics` is empty.

        Raises `FlowRunningError`, and `RetriableError` or `FatalError` if a cluster does not
        respond or denies access.
        """
        tools = self._tools
        tools.store.open(REQUEST_TIMEOUT_S)
        known = tools.store.read_offset_map_to_end(REQUEST_TIMEOUT_S)
        for unread in known.list_unreadable_records():
            raise FatalError(
                unread.format_error(topic="the flow's offset map", flow=tools.copy_config.flow)
            )
        self._build_partition_setups(topics)
        for each in sorted(self._setups):
            wanted = offset_map_rebuild_plan.plan_rebuild(known.get_partition(each))
            self._plans[each] = wanted
            why = wanted.kind.value if wanted.kind is RebuildScope.NOT_STARTED else ""
            self.results[each] = RebuiltPartition(partition=each, scope=wanted.kind, reason=why)
        due = [each for each, wanted in self._plans.items() if wanted.is_rebuild_needed]
        lost = [each for each in due if self._plans[each].kind is RebuildScope.LOST]
        if lost and self._writes:
            self._require_stopped_flow()
        bounds = self._determine_log_ranges_to_compare(due)
        if bounds:
            partitions = tuple(self._setups[each.partition] for each in bounds)
            self._compare_log_ranges(bounds, partitions)

    def _build_partition_setups(self, topics: Collection[str]) -> None:
        tools = self._tools
        both, flow = tools.pair, tools.pair.flow
        listed = both.source.admin.list_topics(REQUEST_TIMEOUT_S)
        wanted = {
            each for each in topics or listed if topic_selection.should_replicate_topic(flow, each)
        }
        described = both.source.admin.describe_topics(wanted, REQUEST_TIMEOUT_S)
        failure = described.get_first_failure()
        if failure is not None:
            raise failure
        asked = [
            TopicPartition(name, number)
            for name, topic in described.succeeded.items()
            for number in range(topic.partition_count)
        ]
        looking = PartitionSetupBuilder(
            flow, source=both.source.admin, target=both.target.admin, clock=tools.clock
        )
        plan = looking.build_plan(asked, REQUEST_TIMEOUT_S, pause=tools.sleep)
        self._setups = {
            TopicPartition(each.topic, each.partition): each for each in plan.partitions
        }
        for each in plan.findings:
            self.results[each.partition] = RebuiltPartition(
                partition=each.partition, scope=None, reason=each.message
            )

    def _require_stopped_flow(self) -> None:
        tools = self._tools
        seen = connect_group_state.read_connect_group(
            tools.pair.target, tools.worker_props, clock=tools.clock, timeout_s=REQUEST_TIMEOUT_S
        )
        if seen.hosts is None:
            raise RetriableError(
                f"{tools.pair.flow.target} does not report whether flow {tools.pair.flow.name} is "
                "running, so lost parts of its map are not rebuilt: try again"
            )
        if seen.hosts:
            raise FlowRunningError(
                f"flow {tools.pair.flow.name} is running on {', '.join(sorted(seen.hosts))}: lost "
                "parts of its map cannot be rebuilt while it is running. Stop the flow's mm2 run "
                "first"
            )

    def _determine_log_ranges_to_compare(
        self, due: Collection[TopicPartition]
    ) -> list[LogCompareRange]:
        """Determine the offset ranges of the source log and the target log to compare.

        Partitions whose map is lost are fenced first: no older writer can then append records
        before the fence's transaction marker. The source's end offsets are fetched next. The
        producer ids of the reverse flow are read last. The reverse flow stores each producer id in
        its offset map before it writes with it, so all its producer ids in the range are known.
        """
        target_to = self._fence_mirrors(due)
        ends = self._tools.pair.source.logs.fetch_log_bounds(list(target_to), REQUEST_TIMEOUT_S)
        for each, error in ends.failed.items():
            self._skip_partition(each, f"its end offset on the source is unknown: {error}")
        back = self._read_reverse_map(ends.succeeded)
        return [
            LogCompareRange(
                partition=each,
                source_end=self._get_source_end(each, ends.succeeded[each].end),
                target_end=target_to[each],
                reverse_producers=self._find_reverse_flow_producers(each, back),
            )
            for each in sorted(ends.succeeded)
        ]

    def _get_source_end(self, partition: TopicPartition, end: int) -> int:
        wanted = self._plans[partition].source_to
        return end if wanted < 0 else wanted

    def _fence_mirrors(self, due: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Fence the writers of the mirror partitions. Returns, for each partition to compare, the
        target offset at which the comparison ends. For each skipped partition, the reason is added
        to `results`."""
        found = {}
        with self._tools.connect() as questions:
            for each in sorted(due):
                try:
                    target_to = self._get_target_end(
                        each, self._create_mirror_fencer(each, questions)
                    )
                except ConnectError as error:
                    self._skip_partition(each, f"its mirror does not respond: {error}")
                    continue
                if target_to is not None:
                    found[each] = target_to
        return found

    def _get_target_end(self, partition: TopicPartition, place: PartitionFencer) -> int | None:
        """Return the target offset up to which the partition is compared. Returns None if there is
        nothing to compare or fencing failed."""
        wanted = self._plans[partition]
        if wanted.kind is not RebuildScope.LOST:
            return wanted.target_to
        if place.find_start_offset() > 0:
            self._deleted.add(partition)
        if not self._writes:
            return wanted.target_to
        if place.find_end_offset() == 0:
            self.results[partition] = RebuiltPartition(
                partition=partition, scope=RebuildScope.EMPTY
            )
            return None
        by = fence_mirror_writers(place)
        if isinstance(by, str):
            self._skip_partition(partition, by)
            return None
        self._fences[partition] = by
        return by.marker

    def _read_reverse_map(self, asked: Collection[TopicPartition]) -> OffsetMap | None:
        """Read the offset map of the reverse flow (from target to source). Returns None if there is
        no reverse flow, or if the flows rename topics."""
        if any(self._setups[each].opposite_map for each in asked):
            return self._tools.read_reverse_map()
        return None

    def _find_reverse_flow_producers(
        self, partition: TopicPartition, back: OffsetMap | None
    ) -> frozenset[int]:
        where = self._setups[partition]
        if back is None or not where.opposite_map:
            return frozenset()
        mirror = TopicPartition(where.remote_topic, where.partition)
        return frozenset(back.get_partition(mirror).producers)

    def _create_mirror_fencer(
        self, partition: TopicPartition, questions: BlockingClient
    ) -> PartitionFencer:
        """Create the object that fences the mirror partition and reads its start and end offsets.
        `questions` is the connection to the target."""
        where = self._setups[partition]
        return PartitionFencer(
            questions,
            TopicPartition(where.remote_topic, where.partition),
            transactional_id=where.transactional_id,
            clock=self._tools.clock,
        )

    def _skip_partition(self, partition: TopicPartition, why: str) -> None:
        kind = self._plans[partition].kind
        self.results[partition] = RebuiltPartition(partition=partition, scope=kind, reason=why)

    def _compare_log_ranges(
        self,
        bounds: list[LogCompareRange],
        partitions: tuple[PartitionSetup, ...],
    ) -> None:
        tools = self._tools
        compare_logs(
            bounds,
            CopyConfiguration(
                flow=tools.copy_config.flow,
                task=0,
                owner=tools.copy_config.owner,
                source=tools.copy_config.source,
                target=tools.copy_config.target,
                partitions=partitions,
                budget_bytes=0,
                transforms=tools.copy_config.transforms,
            ),
            tools.engine,
            clock=tools.clock,
            timeout_s=self._end.remaining_s(tools.clock.now_s()),
            memory_bytes=tools.memory_bytes,
            all_differ=tools.all_differ,
            done=self._handle_comparison_result,
        )

    def _handle_comparison_result(self, compared: LogCompareResult) -> None:
        partition = compared.partition
        kind = self._plans[partition].kind
        why = compared.failure
        if compared.alignment is None and not why:
            if compared.target_records == 0 and partition in self._deleted:
                why = _MIRROR_RECORDS_DELETED
            elif compared.target_records == 0:
                kind = RebuildScope.EMPTY
            else:
                why = _NO_CERTAIN_MATCH if not self._tools.all_differ else _NO_MATCH
        stored = 0
        if compared.alignment is not None and self._writes:
            stored, why = self._store_rebuilt_map(partition, kind, compared)
        self.results[partition] = RebuiltPartition(
            partition=partition, scope=kind, compared=compared, stored=stored, reason=why
        )
        self._tools.print_line(f"{partition}: compared")

    def _store_rebuilt_map(
        self,
        partition: TopicPartition,
        kind: RebuildScope,
        compared: LogCompareResult,
    ) -> tuple[int, str]:
        assert compared.alignment is not None
        known = self._tools.store.read_offset_map_to_end(REQUEST_TIMEOUT_S).get_partition(partition)
        if offset_map_rebuild_plan.plan_rebuild(known) != self._plans[partition]:
            return 0, _ACQUIRED_MEANWHILE
        where = self._setups[partition]
        era = Era(
            source_cluster=where.source_cluster,
            target_cluster=where.target_cluster,
            source_topic_id=where.source_topic_id,
            target_topic_id=where.target_topic_id,
            first_source=compared.alignment.first_source,
            first_target=compared.alignment.first_target,
            filter_hash=self._compute_filter_hash(where),
            reason=offset_map_rebuild_plan.REBUILD_REASON,
        )
        if kind is RebuildScope.LOST:
            self._require_stopped_flow()
            by = self._fences[partition]
            records = offset_map_rebuild_plan.rebuild_lost_map(
                partition, compared.alignment, era, fencing_owner=by
            )
        else:
            records = offset_map_rebuild_plan.rebuild_first_era(partition, compared.alignment, era)
        flow_state_writes.append_map_records(self._tools.store, records, clock=self._tools.clock)
        return len(records), "" if self._is_era_stored(partition, records) else _ACQUIRED_MEANWHILE

    def _is_era_stored(self, partition: TopicPartition, records: list[MapRecord]) -> bool:
        """Return True if the offset map contains the era records (mirror generations) among
        `records`, and no other owner has stored a newer resume point meanwhile."""
        known = self._tools.store.read_offset_map_to_end(REQUEST_TIMEOUT_S).get_partition(partition)
        last, _ = records[-1]
        newest = known.resume_point is not None and known.resume_point.key == last
        return all(
            known.era_records.get(key) == value for key, value in records if isinstance(key, EraKey)
        ) and (newest or isinstance(last, EraKey))

    def _compute_filter_hash(self, where: PartitionSetup) -> int:
        chain = record_transforms.create_chain(
            self._tools.copy_config.transforms, load=config_types.load_class
        )
        if chain is None:
            return 0
        try:
            return outbound_batches.hash_transform(chain.bind_partition(where))
        finally:
            chain.close()


REBUILD_JSON_VERSION = 1
_REBUILD_COLUMNS = (
    "TOPIC",
    "PARTITION",
    "MADE-ANEW",
    "SOURCE-RECORDS",
    "MIRROR-RECORDS",
    "MATCHED",
    "UNSURE",
    "BEHIND",
    "STORED",
    "WHY",
)


def format_rebuild_results(found: Sequence[RebuiltPartition]) -> Iterator[str]:
    """Yield the lines of a table of the rebuilt partitions, ordered by partition.

    UNSURE: number of source offsets for which only an upper bound is known. BEHIND: number of
    mirror records after the last match.
    """
    yield from text_format.format_columns(
        _REBUILD_COLUMNS, [_build_result_cells(each) for each in _sort_by_partition(found)]
    )


def _sort_by_partition(found: Sequence[RebuiltPartition]) -> list[RebuiltPartition]:
    return sorted(found, key=lambda each: each.partition)


def _build_result_cells(each: RebuiltPartition) -> tuple[str, ...]:
    compared = each.compared
    matched = None if compared is None else compared.alignment
    return (
        each.partition.topic,
        str(each.partition.partition),
        text_format.UNKNOWN_NUMBER if each.scope is None else each.scope.value.split(":")[0],
        text_format.format_count(None if compared is None else compared.source_records),
        text_format.format_count(None if compared is None else compared.target_records),
        text_format.format_count(None if matched is None else matched.matched_offsets),
        text_format.format_count(None if matched is None else matched.bounded_offsets),
        text_format.format_count(None if matched is None else matched.unmatched_tail),
        text_format.format_count(each.stored),
        each.reason or text_format.UNKNOWN_NUMBER,
    )


def rebuild_to_json(flow: str, found: Sequence[RebuiltPartition]) -> dict[str, Any]:
    """Encode the rebuild results as JSON. `version` is the format version."""
    return {
        "version": REBUILD_JSON_VERSION,
        "flow": flow,
        "partitions": [_partition_to_json(each) for each in _sort_by_partition(found)],
    }


def _partition_to_json(each: RebuiltPartition) -> dict[str, Any]:
    compared = each.compared
    matched = None if compared is None else compared.alignment
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "scope": None if each.scope is None else each.scope.name.lower(),
        "source_records": None if compared is None else compared.source_records,
        "mirror_records": None if compared is None else compared.target_records,
        "first_source_offset": None if matched is None else matched.first_source,
        "first_mirror_offset": None if matched is None else matched.first_target,
        "through": None if matched is None else matched.source_end,
        "matched": None if matched is None else matched.matched_offsets,
        "bounded": None if matched is None else matched.bounded_offsets,
        "unmatched_tail": None if matched is None else matched.unmatched_tail,
        "stored": each.stored,
        "reason": each.reason,
    }
