"""Plans which partitions each source task of a flow replicates, and reassigns partitions of
overloaded tasks.

Byte rates per partition come from the status registry and are known only if all tasks of the flow
run in this process; otherwise no overload is detected. The connector's thread records refresh
results, while the worker's thread may request task configurations at any time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from connect_runtime.api.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.config import mirror_connector_config, mirror_connector_config_keys
from mm2.config.mirror_connector_config import MirrorSourceConfig
from mm2.connectors import status_registry
from mm2.connectors.status_registry import StatusRegistry
from mm2.topics import load_balancing, task_assignment, topic_selection
from mm2.topics.flow_config import StartPositionKind
from mm2.topics.load_balancing import OverloadState, PartitionByteRates
from mm2.topics.task_assignment import AssignableTopics, AssignmentPlan, PartitionAssignment


class TaskByteRates:
    """Computes the byte rates of a flow's partitions, averaged over the time between two calls. Not
    thread-safe."""

    def __init__(self, flow: str, *, registry: StatusRegistry = status_registry.REGISTRY) -> None:
        self._flow = flow
        self._registry = registry
        self._previous: tuple[float, Mapping[TopicPartition, int]] | None = None

    def compute_rates(self, tasks: int, now_s: float) -> PartitionByteRates | None:
        """Compute the byte rate (bytes/s) of each partition of the flow, which has `tasks` tasks.

        Returns None unless all tasks ran in this process at both this call and the previous one.
        The counters of a restarted task start at zero.
        """
        tasks_by_number = self._registry.get_snapshot().tasks.get(self._flow, {})
        if set(tasks_by_number) != set(range(tasks)):
            self._previous = None
            return None
        byte_counts = {
            each.partition: each.bytes
            for one in tasks_by_number.values()
            for each in one.partitions
        }
        previous, self._previous = self._previous, (now_s, byte_counts)
        if previous is None or now_s <= previous[0]:
            return None
        since_s, previous_counts = now_s - previous[0], previous[1]
        return {
            name: (
                count
                if count < previous_counts.get(name, 0)
                else count - previous_counts.get(name, 0)
            )
            / since_s
            for name, count in byte_counts.items()
        }


PublishedTaskConfigs = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastRefresh:
    """Topics found by the last refresh; the object is replaced as a whole. `initial_topics` is the
    result of `task_assignment.find_initial_topics`; None means that all partitions start at their
    earliest record."""

    topics: AssignableTopics
    initial_topics: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _MovedAssignments:
    """Assignments after moving partitions for load balancing, and the `published` assignments from
    which they were derived."""

    published: list[PartitionAssignment]
    assignments: list[PartitionAssignment]


class SourceTaskAssignments:
    """Plans the assignments of source tasks. `published` returns the last published task
    configurations.
    """

    def __init__(
        self,
        config: MirrorSourceConfig,
        *,
        published: Callable[[], PublishedTaskConfigs],
        byte_rates: TaskByteRates,
    ) -> None:
        self._config = config
        self._published = published
        self._byte_rates = byte_rates
        self._last_published: PublishedTaskConfigs = ()
        self._last_refresh: _LastRefresh | None = None
        self._moved: _MovedAssignments | None = None
        self._overload = OverloadState()

    @property
    def has_topics(self) -> bool:
        """True once a topic refresh has finished."""
        return self._last_refresh is not None

    def list_assigned_topics(self) -> frozenset[str]:
        """Return the topics that have assigned partitions."""
        return task_assignment.list_assigned_topics(self._parse_published_assignments())

    def set_topics(self, topics: AssignableTopics) -> None:
        """Record the topics that a refresh has found."""
        if self._config.flow.start.kind is StartPositionKind.EARLIEST:
            beginning = None
        elif self._last_refresh is not None:
            beginning = self._last_refresh.initial_topics
        else:
            should_replicate = _build_previous_topic_filter(self._read_published_configs())
            beginning = task_assignment.find_initial_topics(
                topics, self._parse_published_assignments(), should_replicate
            )
        self._last_refresh = _LastRefresh(topics=topics, initial_topics=beginning)

    def have_assignments_changed(self) -> bool:
        """Return True if the planned assignments differ from the published assignments."""
        plan = self._plan_assignments(self._config.flow.tasks_max)
        return task_assignment.do_assignments_differ(
            plan.assignments, self._parse_published_assignments()
        )

    def exclude_partitions_beyond_capacity(self) -> frozenset[TopicPartition]:
        """Return the partitions that are assigned to no task, because the task configurations have
        no room for them. When there is room later, they start at their earliest record."""
        found = self._plan_assignments(self._config.flow.tasks_max).beyond_capacity
        refresh = self._last_refresh
        if found and refresh is not None and refresh.initial_topics is not None:
            excluded = {each.topic for each in found}
            self._last_refresh = replace(refresh, initial_topics=refresh.initial_topics - excluded)
        return found

    def move_overloaded_partitions(self, now_s: float) -> bool:
        """Plan to move partitions away from a task that has been overloaded for a long time.
        Returns True if partitions are to be moved."""
        current = self._parse_published_assignments()
        rates = self._byte_rates.compute_rates(len(current), now_s)
        if rates is None or self._last_refresh is None:
            self._overload = OverloadState()
            return False
        self._overload, better = load_balancing.plan_reassignment_if_overloaded(
            [each.partitions for each in current],
            rates,
            tasks_max=self._config.flow.tasks_max,
            before=self._overload,
            now_s=now_s,
        )
        if better is None or not task_assignment.does_plan_fit_task_configs(
            better, throttles=self._config.flow.throttles, bytes_max=self._compute_bytes_max()
        ):
            return False
        self._moved = _MovedAssignments(
            published=current, assignments=task_assignment.redistribute_partitions(current, better)
        )
        return True

    def build_task_configs(self, props: Mapping[str, str], tasks_max: int) -> list[dict[str, str]]:
        """Build the task configurations from the connector's properties `props`. Raises
        `RetriableError` before the first refresh."""
        shares = self._plan_assignments(tasks_max).assignments
        return task_assignment.build_partition_task_configs(
            props,
            [share.partitions for share in shares],
            added=frozenset().union(*(share.added for share in shares)),
            throttles=self._config.flow.throttles,
        )

    def _plan_assignments(self, tasks_max: int) -> AssignmentPlan:
        """Plan the tasks' partition assignments. Moves for load balancing apply until other
        assignments are published."""
        refresh, common = self._last_refresh, self._config.common
        if refresh is None:
            raise RetriableError(
                f"connector {common.name}: the topics of {common.source} have not been listed yet"
            )
        current, moved = self._parse_published_assignments(), self._moved
        if moved is not None and moved.published == current:
            current = moved.assignments
        return task_assignment.plan_assignments(
            refresh.topics,
            current,
            initial_topics=refresh.initial_topics,
            tasks_max=tasks_max,
            throttles=self._config.flow.throttles,
            bytes_max=self._compute_bytes_max(),
        )

    def _compute_bytes_max(self) -> int:
        return task_assignment.compute_assignment_bytes_max(self._config.common.props)

    def _parse_published_assignments(self) -> list[PartitionAssignment]:
        return task_assignment.parse_published_assignments(self._read_published_configs())

    def _read_published_configs(self) -> PublishedTaskConfigs:
        """Return the published task configurations, or the previously published ones while the
        leader is writing new ones."""
        self._last_published = self._published() or self._last_published
        return self._last_published


def _build_previous_topic_filter(configs: PublishedTaskConfigs) -> Callable[[str], bool]:
    """Build the topic filter with which the published task configurations were created. It accepts
    all topics if the filter cannot be evaluated.

    A topic is then replicated from its start, which is preferable to leaving a gap.
    """
    props = configs[0] if configs else {}
    filters = (
        props.get(key, "")
        for key in (
            mirror_connector_config_keys.TOPICS,
            mirror_connector_config_keys.TOPICS_EXCLUDE,
        )
    )
    if any("${" in each for each in filters):
        return lambda _: True
    try:
        flow = mirror_connector_config.parse_source_config(props).flow
    except ConnectError:
        return lambda _: True
    return functools.partial(topic_selection.should_replicate_topic, flow)
