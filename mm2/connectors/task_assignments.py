"""Partition assignments of a flow's source tasks: published, planned, moved for load balance.

Byte rates per partition come from the status registry and are known only if all tasks of the
flow run in this process; otherwise partitions are not moved. The connector's thread records
refresh results; the worker's thread requests task configurations at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.api.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.config import keys, mirror_connector_config
from mm2.config.mirror_connector_config import MirrorSourceConfig
from mm2.connectors import status_registry
from mm2.connectors.status_registry import StatusRegistry
from mm2.topics import assignment, load_balancing
from mm2.topics.assignment import AssignableTopics, PartitionAssignment
from mm2.topics.flow_config import StartAt
from mm2.topics.load_balancing import OverloadState, PartitionByteRates


class TaskByteRates:
    """One thread's. Rates are those between one question and the next."""

    def __init__(self, flow: str, *, seen: StatusRegistry = status_registry.REGISTRY) -> None:
        self._flow = flow
        self._seen = seen
        self._before: tuple[float, Mapping[TopicPartition, int]] | None = None

    def rates(self, tasks: int, now_s: float) -> PartitionByteRates | None:
        """Of a flow of so many tasks; None: they are not all here, or were not the last time.

        A task that started anew counts from nothing again.
        """
        shown = self._seen.seen().tasks.get(self._flow, {})
        if set(shown) != set(range(tasks)):
            self._before = None
            return None
        moved = {each.partition: each.bytes for one in shown.values() for each in one.partitions}
        before, self._before = self._before, (now_s, moved)
        if before is None or now_s <= before[0]:
            return None
        since_s, known = now_s - before[0], before[1]
        return {
            name: (count if count < known.get(name, 0) else count - known.get(name, 0)) / since_s
            for name, count in moved.items()
        }


PublishedTaskConfigs = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastRefresh:
    """What the last look found; `beginning` as in `assignment`. Replaced whole."""

    looked: AssignableTopics
    beginning: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _MovedAssignments:
    """Shares in which partitions are moved from those that were `published`."""

    published: list[PartitionAssignment]
    shares: list[PartitionAssignment]


class SourceTaskAssignments:
    """`published` gives the configurations that the flow's tasks were given last."""

    def __init__(
        self,
        config: MirrorSourceConfig,
        *,
        published: Callable[[], PublishedTaskConfigs],
        loads: TaskByteRates,
    ) -> None:
        self._config = config
        self._published = published
        self._loads = loads
        self._given: PublishedTaskConfigs = ()
        self._seen: _LastRefresh | None = None
        self._moved: _MovedAssignments | None = None
        self._uneven = OverloadState()

    @property
    def known(self) -> bool:
        """Has there been a look?"""
        return self._seen is not None

    def topics(self) -> frozenset[str]:
        """Those of which tasks have partitions."""
        return assignment.list_assigned_topics(self._before())

    def found(self, looked: AssignableTopics) -> None:
        """What a look found, the first one or a later one."""
        if self._config.flow.start.at is StartAt.EARLIEST:
            beginning = None
        elif self._seen is not None:
            beginning = self._seen.beginning
        else:
            wanted = _previous_topic_filter(self._configs())
            beginning = assignment.find_initial_topics(looked, self._before(), wanted)
        self._seen = _LastRefresh(looked=looked, beginning=beginning)

    def are_news(self) -> bool:
        """Would tasks be told something else than they were?"""
        return assignment.do_assignments_differ(
            self._shares(self._config.flow.tasks_max), self._before()
        )

    def are_moved(self, now_s: float) -> bool:
        """Has a task carried too much for so long that it gives something away, from now on?"""
        before = self._before()
        rates = self._loads.rates(len(before), now_s)
        if rates is None or self._seen is None:
            self._uneven = OverloadState()
            return False
        self._uneven, better = load_balancing.check_load(
            [each.partitions for each in before],
            rates,
            tasks_max=self._config.flow.tasks_max,
            before=self._uneven,
            now_s=now_s,
        )
        if better is None:
            return False
        self._moved = _MovedAssignments(
            published=before, shares=assignment.rearrange_assignments(before, better)
        )
        return True

    def task_configs(self, props: Mapping[str, str], tasks_max: int) -> list[dict[str, str]]:
        """Of a connector with these properties. Raises `RetriableError` before the first look."""
        shares = self._shares(tasks_max)
        return assignment.build_partition_task_configs(
            props,
            [share.partitions for share in shares],
            added=frozenset().union(*(share.added for share in shares)),
            budgets=self._config.flow.budgets,
        )

    def _shares(self, tasks_max: int) -> list[PartitionAssignment]:
        """What is moved stands until something else was published."""
        seen, common = self._seen, self._config.common
        if seen is None:
            raise RetriableError(
                f"connector {common.name}: the topics of {common.source} are not known yet"
            )
        before, moved = self._before(), self._moved
        if moved is not None and moved.published == before:
            before = moved.shares
        return assignment.plan_assignments(
            seen.looked, before, beginning=seen.beginning, tasks_max=tasks_max
        )

    def _before(self) -> list[PartitionAssignment]:
        return assignment.parse_published_assignments(self._configs())

    def _configs(self) -> PublishedTaskConfigs:
        """While others are being written none are shown, which is no reason to begin anew."""
        self._given = self._published() or self._given
        return self._given


def _previous_topic_filter(configs: PublishedTaskConfigs) -> Callable[[str], bool]:
    """Which topics were mirrored under the configuration that tasks were given last. Where that
    cannot be read any more, all: better one from its first record on than one with a hole."""
    props = configs[0] if configs else {}
    filters = (props.get(key, "") for key in (keys.TOPICS, keys.TOPICS_EXCLUDE))
    if any("${" in each for each in filters):
        return lambda _: True
    try:
        return mirror_connector_config.parse_source(props).flow.should_replicate_topic
    except ConnectError:
        return lambda _: True
