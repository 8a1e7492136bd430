"""`mm2 topic reset`: restarts replication of partitions at a source position chosen by an operator.

The decision is recorded in the flow's map topic on the target. A task reads the decision when it
next acquires the partition. The command therefore restarts the tasks that own the partitions, on
whichever nodes they run, and waits for them. A flow that is not running reads the decision when it
starts.
"""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.api.errors import ConfigError
from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.config import config_errors
from connect_runtime.kafka.client_errors import TopicMissingError
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.status_records import RunState
from mm2 import text_format
from mm2.clusters import flow_rest_client
from mm2.clusters.connect_group_state import ConnectGroupSnapshot
from mm2.clusters.flow_cluster_pair import FlowSide
from mm2.clusters.flow_rest_client import FlowRestClient
from mm2.config import pause_and_throttle_overrides
from mm2.connectors import partition_restart_requests, status_registry
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.formats import offset_map_records
from mm2.kafka.kafka_client_interfaces import Admin, RecordWriter
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.status import status_document
from mm2.topics import task_assignment, topic_selection
from mm2.topics.flow_config import Flow

RECORD_TIMEOUT_S = partition_restart_requests.RECORD_TIMEOUT_S
POLL_INTERVAL_S = 0.5
HALT_GRACE_S = 5.0
"""Time in seconds that a partition has after its restart to leave the halted state. If it is still
halted afterwards, it is reported as halted."""
REMOTE_NODE_GRACE_S = 15.0
"""A partition that no local process reports within this time after its restart is assumed to run on
another node."""

EARLIEST = "earliest"
LATEST = "latest"


class InvalidResetError(FatalError):
    """The topic or the partition does not exist, or the flow does not replicate it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResetRequest:
    """The operator's request to reset a topic.

    `position` is `earliest`, `latest`, a timestamp (ms since 1970 UTC) or `offset:N`.
    """

    flow: Flow
    topic: str
    partitions: tuple[int, ...]
    """Partition numbers to reset; empty for all partitions of the topic."""
    position: str


# Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetDecision:
    """The recorded reset decision for one partition, with the partition's offset map."""

    partition: TopicPartition
    position: str
    request: str
    partition_map: PartitionMap
    is_recreated: bool = False
    """True if the source topic is not the topic that was replicated so far, because it was
    recreated."""

    def describe(self) -> str:
        """Describe in one line where the partition restarts, and the consequences."""
        anchor = self.partition_map.resume_point
        begins = f"starts again {_describe_position(self.position)}"
        if anchor is None:
            return f"{self.partition}: not replicated so far; {begins}."
        through = anchor.segment.through
        if self.is_recreated:
            return (
                f"{self.partition}: the source topic was recreated; {begins}. Its records are "
                "appended to those of the old topic."
            )
        return (
            f"{self.partition}: replicated up to source offset {through}; {begins}. "
            f"{_describe_reset_cost(self.position, through)}"
        )


def _describe_position(position: str) -> str:
    if position == EARLIEST:
        return "at the first record of the source's log"
    if position == LATEST:
        return "at the end of the source's log"
    if position.startswith(offset_map_records.OFFSET_POSITION_PREFIX):
        return (
            f"at source offset {position.removeprefix(offset_map_records.OFFSET_POSITION_PREFIX)}"
        )
    moment = text_format.format_time(int(position), "milliseconds")
    return f"at the first record at or after {moment}"


def _describe_reset_cost(position: str, through: int) -> str:
    twice = f"Records below offset {through} that are replicated again are duplicates on the target"
    left_out = f"Records from offset {through} up to the new position are not replicated"
    if position == EARLIEST:
        return f"{twice}."
    if position == LATEST:
        return f"{left_out}; mm2 incidents lists them."
    return f"{twice}. {left_out}."


def record_reset_decisions(
    order: TopicResetRequest,
    source: Admin,
    store: FlowStateStore,
    *,
    now: Clock,
    new_id: Callable[[], str],
) -> list[ResetDecision]:
    """Record the reset decision for each partition. `new_id` creates request ids.

    Raises `InvalidResetError` and the clusters' errors.
    """
    partitions, topic_id = _select_partitions(order, source)
    store.open(RECORD_TIMEOUT_S)
    positions = {TopicPartition(order.topic, number): order.position for number in partitions}
    known = partition_restart_requests.record_era_requests(positions, store, now=now, new_id=new_id)
    decisions = []
    for name in positions:
        mine = known.get_partition(name)
        assert mine.request is not None
        decisions.append(
            ResetDecision(
                partition=name,
                position=order.position,
                request=mine.request.request,
                partition_map=mine,
                is_recreated=_is_topic_recreated(mine, topic_id),
            )
        )
    return decisions


def _is_topic_recreated(known: PartitionMap, topic_id: uuid.UUID | None) -> bool:
    """Return True if the flow previously replicated another topic with the same name. Returns False
    if this is unknown."""
    era = known.eras.get(known.newest_era)
    if topic_id is None or era is None or era.source_topic_id == offset_map_records.NO_TOPIC_ID:
        return False
    return era.source_topic_id != topic_id.bytes


def _select_partitions(
    order: TopicResetRequest, source: Admin
) -> tuple[tuple[int, ...], uuid.UUID | None]:
    """Return the numbers of the partitions to reset, and the topic's id (None if unknown)."""
    flow, topic = order.flow, order.topic
    described = source.describe_topics([topic], RECORD_TIMEOUT_S)
    failure = described.get_first_failure()
    if isinstance(failure, TopicMissingError):
        mirrored = [
            name
            for name in source.list_topics(RECORD_TIMEOUT_S)
            if topic_selection.should_replicate_topic(flow, name)
        ]
        nearest = config_errors.find_nearest_name(topic, mirrored)
        hint = f"; did you mean '{nearest}'?" if nearest is not None else ""
        raise InvalidResetError(f"cluster {flow.source} has no topic '{topic}'{hint}")
    if failure is not None:
        raise failure
    if not topic_selection.should_replicate_topic(flow, topic):
        reason = topic_selection.explain_mismatch(flow, topic)
        raise InvalidResetError(f"flow {flow.name} does not replicate topic '{topic}': {reason}")
    found = described.succeeded[topic]
    count = found.partition_count
    beyond = [number for number in order.partitions if number >= count]
    if beyond:
        raise InvalidResetError(
            f"topic '{topic}' of cluster {flow.source} has no partition {beyond[0]}; "
            f"it has 0 to {count - 1}"
        )
    return tuple(sorted(set(order.partitions))) or tuple(range(count)), found.topic_id


# Restarting


class FlowActivity(enum.Enum):
    """Whether the flow is running, paused or stopped. Only running tasks read the reset decision
    after a restart."""

    YES = "yes"
    NO = "no"
    PAUSED = "paused"
    TOPIC_PAUSED = "topic paused"
    STOPPED = "stopped"


def find_flow_activity(found: ConnectGroupSnapshot, *, topic: str, here: bool) -> FlowActivity:
    """Determine from the Connect group whether the flow is running. `here` is True if a process on
    this machine runs the flow."""
    config = found.config
    if config.has_connector(flow_rest_client.SOURCE_CONNECTOR):
        match config.target_state(flow_rest_client.SOURCE_CONNECTOR):
            case TargetState.STOPPED:
                return FlowActivity.STOPPED
            case TargetState.PAUSED:
                return FlowActivity.PAUSED
            case _:
                pass
    if not here and found.hosts == ():
        return FlowActivity.NO
    stored = config.config(flow_rest_client.SOURCE_CONNECTOR) or {}
    paused = pause_and_throttle_overrides.list_paused_topics(
        {key: value for key, value in stored.items() if value is not None}
    )
    return FlowActivity.TOPIC_PAUSED if topic in paused else FlowActivity.YES


RestartTasks = Callable[[Collection[TopicPartition]], str]
"""Restarts the tasks to which these partitions are assigned. Returns a description of the restarted
tasks."""


def create_rest_task_restarter(api: FlowRestClient) -> RestartTasks:
    """Create a function that restarts tasks through the REST API of a process on this machine. The
    process forwards the request to the nodes that run the tasks.

    The function returns "" if no task has the partitions, so that nothing was restarted.
    """

    def restart_partition_tasks(partitions: Collection[TopicPartition]) -> str:
        numbers = api.restart_partitions(partitions)
        names = ", ".join(map(str, numbers))
        return f"restarted {'task' if len(numbers) == 1 else 'tasks'} {names}" if numbers else ""

    return restart_partition_tasks


class ConnectTopicCluster(FlowSide, Protocol):
    """The cluster that stores the flow's Connect topics."""

    def create_writer(self, topic: str) -> RecordWriter: ...


def create_task_restarter_via_config_topic(
    side: ConnectTopicCluster, props: Mapping[str, str], *, now: Clock, hosts: Sequence[str]
) -> RestartTasks:
    """Create a function that restarts tasks through the config topic of the Connect group
    (KIP-745). The function writes a restart request, and each node then restarts its tasks of the
    source connector. `props` contains the worker's configuration."""

    def restart_partition_tasks(_: Collection[TopicPartition]) -> str:
        request = RestartRequest(connector=flow_rest_client.SOURCE_CONNECTOR, include_tasks=True)
        wanted = config_records.encode_restart_request(request)
        assert wanted.value is not None
        writer = side.create_writer(props["config.storage.topic"])
        end = Deadline.after(RECORD_TIMEOUT_S, now_s=now.now_s())
        told: list[ConnectError | None] = []
        try:
            writer.write(wanted.key, wanted.value, on_written=told.append)
            while not told:
                if end.is_expired(now.now_s()):
                    raise RetriableError(
                        f"requesting a restart: no response within {RECORD_TIMEOUT_S:g} s"
                    )
                writer.poll(0.1)
        finally:
            writer.close(end.remaining_s(now.now_s()))
        if told[0] is not None:
            raise told[0]
        return (
            f"restarted all tasks, on {', '.join(hosts) if hosts else 'whichever node runs them'}"
        )

    return restart_partition_tasks


# Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOutcome:
    """Effect of the reset decision on one partition."""

    partition: TopicPartition
    replicating: bool | None
    """True if the partition is replicating; None if it restarted on a node that cannot be queried
    from here."""
    start_offset: int = -1
    """Source offset at which the partition restarted; -1 if unknown."""
    reason: str = ""
    node: str = ""
    """Node to which the partition is assigned; "" if unknown."""

    def describe(self) -> str:
        """Describe the effect of the reset decision in one line."""
        if self.replicating is None:
            node = f"node {self.node}" if self.node else "the node that runs its task"
            return (
                f"{self.partition}: restarted at source offset {self.start_offset}; its state is "
                f"available only on {node}: run mm2 status there"
            )
        if self.replicating:
            return f"{self.partition}: replicating again from source offset {self.start_offset}"
        begun = (
            f" It restarted at source offset {self.start_offset}." if self.start_offset >= 0 else ""
        )
        return f"{self.partition}: not replicating: {self.reason}{begun}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPartition:
    """A partition as reported by the process that replicates it. `state` is a partition state of
    `status_document`."""

    state: str
    reason: str


CollectPartitions = Callable[[], Mapping[TopicPartition, ObservedPartition] | None]
"""Returns the state of each of the flow's partitions that are replicated on this machine. Returns
None if no local process can be queried."""


@dataclass(slots=True)
class ResetWaiter:
    """Waits until tasks have applied the reset decisions."""

    decisions: Sequence[ResetDecision]
    store: FlowStateStore
    collect_partitions: CollectPartitions
    """Returns the state of the partitions that are replicated on this machine."""
    explain_inactivity: Callable[[], str]
    """Explains why no task applies the reset decisions. Returns "" if the reason is unknown."""
    find_nodes: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, str]]
    """Finds the node that replicates each partition. Partitions whose node is unknown are
    omitted."""
    clock: Clock
    sleep: Callable[[float], object]
    """Sleeps for a number of seconds."""

    def wait_for_outcomes(self, timeout_s: float) -> list[ResetOutcome]:
        """Wait until the outcome of every partition is known or the timeout expires.

        The outcome is known if the partition is replicated again, is halted again, or has restarted
        on a node that cannot be queried from this machine.
        """
        end = Deadline.after(timeout_s, now_s=self.clock.now_s())
        begun_s: dict[TopicPartition, float] = {}
        while True:
            known, over = self._read_offset_map(), end.is_expired(self.clock.now_s())
            seen = self.collect_partitions()
            found = [
                self._get_outcome(each, known, seen, begun_s, over=over) for each in self.decisions
            ]
            settled = [each for each in found if each is not None]
            if len(settled) == len(found):
                return self._add_task_nodes(settled)
            self.sleep(POLL_INTERVAL_S)

    def _add_task_nodes(self, found: list[ResetOutcome]) -> list[ResetOutcome]:
        unknown = [each.partition for each in found if each.replicating is None]
        if not unknown:
            return found
        try:
            nodes = self.find_nodes(unknown)
        except ConnectError:
            return found
        return [
            dataclasses.replace(each, node=nodes.get(each.partition, ""))
            if each.replicating is None
            else each
            for each in found
        ]

    def _read_offset_map(self) -> OffsetMap | None:
        try:
            return self.store.read_offset_map_to_end()
        except RetriableError:
            return None

    def _get_outcome(
        self,
        decision: ResetDecision,
        known: OffsetMap | None,
        seen: Mapping[TopicPartition, ObservedPartition] | None,
        begun_s: dict[TopicPartition, float],
        *,
        over: bool,
    ) -> ResetOutcome | None:
        """Return the outcome of one partition's reset decision. Returns None while the outcome is
        still undecided."""
        name = decision.partition
        mine = known.get_partition(name) if known is not None else decision.partition_map
        begins = next(
            (
                era.first_source
                for era in mine.era_records.values()
                if era.request == decision.request
            ),
            -1,
        )
        if begins < 0:
            if mine.request is not None and mine.request.request != decision.request:
                why = "another reset decision replaced this one"
                return ResetOutcome(partition=name, replicating=False, reason=why)
            return self._describe_unapplied_decision(name, seen) if over else None
        since_s = begun_s.setdefault(name, self.clock.now_s())
        shown = None if seen is None else seen.get(name)
        if shown is None:
            if seen is not None and self.clock.now_s() - since_s < REMOTE_NODE_GRACE_S and not over:
                return None  # its task is still starting, or runs on another node
            return ResetOutcome(partition=name, replicating=None, start_offset=begins)
        if shown.state in status_registry.COPYING_PHASES:
            return ResetOutcome(partition=name, replicating=True, start_offset=begins)
        halted = (
            shown.state in status_document.HALTED_STATES
            and self.clock.now_s() - since_s >= HALT_GRACE_S
        )
        if not (halted or over):
            return None
        why = shown.reason or f"it is still {shown.state}."
        return ResetOutcome(partition=name, replicating=False, start_offset=begins, reason=why)

    def _describe_unapplied_decision(
        self, name: TopicPartition, seen: Mapping[TopicPartition, ObservedPartition] | None
    ) -> ResetOutcome:
        """Describe that the reset decision was recorded but not applied, and why."""
        shown = None if seen is None else seen.get(name)
        if shown is not None and shown.reason:
            why = (
                "no task has applied the decision yet; the partition's state is "
                f"{shown.state}: {shown.reason}"
            )
        else:
            why = self.explain_inactivity() or (
                "no node applied the decision in time. The decision remains recorded and takes "
                "effect when a node acquires the partition: see mm2 status."
            )
        return ResetOutcome(partition=name, replicating=False, reason=why)


def find_task_nodes(
    found: ConnectGroupSnapshot, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, str]:
    """Find the node (`host:port`) of each partition's task. Partitions whose node the Connect group
    does not report are omitted."""
    statuses = found.statuses.tasks(flow_rest_client.SOURCE_CONNECTOR)
    known: dict[TopicPartition, str] = {}
    for task in found.config.tasks(flow_rest_client.SOURCE_CONNECTOR):
        stored, status = found.config.task_config(task), statuses.get(task)
        if stored is None or status is None:
            continue
        config = {key: value for key, value in stored.items() if value is not None}
        try:
            mine = task_assignment.parse_partitions(config)
        except ConfigError:
            continue
        node = status.worker_id.partition("/")[0]
        known.update((each, node) for each in partitions if each in mine)
    return known


def describe_failed_task(found: ConnectGroupSnapshot) -> str:
    """Describe the first failed task of the flow; "" if no task failed."""
    statuses = found.statuses.tasks(flow_rest_client.SOURCE_CONNECTOR)
    failed = {task.task: each for task, each in statuses.items() if each.state is RunState.FAILED}
    if not failed:
        return ""
    number = min(failed)
    first = (failed[number].trace or "").strip().splitlines()
    reason = f": {first[0]}" if first else ""
    more = (
        f" ({plurals.format_count(len(failed) - 1, 'more task')} failed, too)"
        if failed.keys() - {number}
        else ""
    )
    return f"task {number} on {failed[number].worker_id} FAILED{reason}{more}"
