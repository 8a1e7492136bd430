"""Port: what is asked of a cluster and changed in it, topic by topic.

Every call takes the seconds it may last, waits for the cluster's answer, and reports topic by
topic: one that fails never stands in the way of the others. What concerns the whole cluster
(unreachable, credentials refused) is raised instead. One thread at a time calls.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.core.topics import snapshot

T = TypeVar("T")

Configs = Mapping[str, snapshot.ConfigEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerTopic(Generic[T]):
    """What became of each topic asked about: every one is in exactly one of the two.

    `failed` holds `TopicMissingError`, `TopicExistsError`, `NotAuthorizedError`, or a plain
    `FatalError` or `RetriableError` whose message has the cluster's own words.
    """

    done: Mapping[str, T]
    failed: Mapping[str, errors.ConnectError]

    def first_failure(self) -> errors.ConnectError | None:
        """The failure of the first topic by name, for callers that need all of them."""
        return self.failed[min(self.failed)] if self.failed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """`leaders[p]` is the node that leads partition p, None while nobody does.

    `topic_id` is None on brokers before 2.8.
    """

    name: str
    topic_id: uuid.UUID | None
    leaders: tuple[int | None, ...]

    @property
    def partitions(self) -> int:
        return len(self.leaders)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. `replication_factor` None leaves it to the brokers' default."""

    name: str
    partitions: int
    replication_factor: int | None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """Settings of one topic to set, and overrides to take away; all others stay as they are."""

    set: Mapping[str, str] = field(default_factory=dict)
    delete: Collection[str] = ()


class Admin(Protocol):
    """One cluster's administration.

    Besides what each call says, all raise `UnreachableError` when time is up without an answer
    and `AuthenticationError` as soon as credentials or certificates are refused.
    """

    def cluster_id(self, timeout_s: float) -> str:
        """The id that the cluster gave itself."""

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Names of all topics that we may DESCRIBE, Kafka's own included."""

    def describe_topics(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopic[TopicDescription]:
        """Ids, partitions and leaders."""

    def topic_configs(self, names: Collection[str], timeout_s: float) -> PerTopic[Configs]:
        """All settings in force, each with where it comes from. Needs DESCRIBE_CONFIGS."""

    def broker_configs(
        self, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        """These settings of one live broker, None for what it does not know or hides.

        None as a whole: we have no DESCRIBE_CONFIGS on the cluster.
        """

    def create_topics(
        self, topics: Collection[NewTopic], timeout_s: float, *, only_try: bool = False
    ) -> PerTopic[None]:
        """Create topics; `done` once the cluster has recorded them. Brokers learn of it later.

        `only_try`: nothing is made, but what the cluster would refuse has failed.
        """

    def grow_topics(self, partitions: Mapping[str, int], timeout_s: float) -> PerTopic[None]:
        """Bring topics to at least so many partitions; one that has as many already is done."""

    def alter_configs(
        self, changes: Mapping[str, ConfigChange], timeout_s: float
    ) -> PerTopic[None]:
        """Change settings one by one (KIP-339, brokers from 2.3): what is not named stays."""

    def close(self) -> None:
        """Let go of the connections."""


def observe_topics(
    admin: Admin, names: Collection[str], timeout_s: float, *, clock: base_clock.Clock
) -> PerTopic[snapshot.Topic]:
    """Descriptions and settings together, as planners want them.

    `Topic.configs` is None where we may not read them; other failures of either call are the
    topic's failure.
    """
    end = deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    described = admin.describe_topics(names, timeout_s)
    configs = admin.topic_configs(list(described.done), end.left_s(clock.now_s()))
    done: dict[str, snapshot.Topic] = {}
    failed = dict(described.failed)
    for name, topic in described.done.items():
        failure = configs.failed.get(name)
        if failure is not None and not isinstance(failure, kafka_errors.NotAuthorizedError):
            failed[name] = failure
            continue
        done[name] = snapshot.Topic(
            name=name,
            partitions=topic.partitions,
            topic_id=topic.topic_id,
            configs=configs.done.get(name),
        )
    return PerTopic(done=done, failed=failed)
