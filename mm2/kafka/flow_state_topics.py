"""Creates and validates a flow's own topics (offset map, incidents) on the target.

Missing topics are created. Topics with more than one partition or without compaction are rejected,
because they could lose records of the flow.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicExistsError,
    TopicMissingError,
)
from connect_runtime.protocol.topic_requests import NewTopic
from connect_runtime.system import system_clock
from mm2 import suggested_commands
from mm2.kafka.kafka_client_interfaces import Admin, PerTopicResult, TopicDescription
from mm2.suggested_commands import ClusterCommands

_LOG = logging.getLogger(__name__)

FLOW_LOG_TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # As for __consumer_offsets: only closed segments are compacted, so small ones keep a first read
    # short however long the flow has been running.
    "segment.bytes": "104857600",
}


class MisconfiguredTopicError(FatalError):
    """The configuration of a flow's own topic is unsuitable. The message ends with the remedy,
    after which validation succeeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStateTopics:
    """Creates and validates a flow's topics on the target."""

    target: Admin
    where: str
    """Name of the target cluster, used in messages."""
    bootstrap: str
    """Bootstrap servers of the target for suggested commands."""
    replication_factor: int | None
    clock: Clock
    secured: bool = False
    """True if the suggested commands need a client properties file, because the cluster requires
    credentials or TLS."""

    @property
    def _cluster_commands(self) -> ClusterCommands:
        return ClusterCommands(bootstrap=self.bootstrap, secured=self.secured)

    def ensure_topics(self, names: Collection[str], timeout_s: float) -> None:
        """Create missing topics, then validate all topics.

        Raises `MisconfiguredTopicError`, or `FatalError` if the client is not authorized to create
        topics.
        """
        end = Deadline.after(timeout_s, now_s=self.clock.now_s())
        described = self.target.describe_topics(names, end.remaining_s(self.clock.now_s()))
        missing = [
            name
            for name, failure in described.failed.items()
            if isinstance(failure, TopicMissingError)
        ]
        if missing:
            self._create_topics(missing, end)
            described = self._describe_topics_until_known(names, end)
        failure = described.get_first_failure()
        if missing and isinstance(failure, TopicMissingError):
            raise RetriableError(
                f"creating the topics of a flow on {self.where}: created, but a broker "
                f"does not know {', '.join(sorted(described.failed))} yet"
            )
        if failure is not None:
            raise failure
        for topic in described.succeeded.values():
            self._check_partition_count(topic)
        self._check_cleanup_policy(names, end)

    def _create_topics(self, names: Collection[str], end: Deadline) -> None:
        topics = [
            NewTopic(
                name=name,
                partitions=1,
                replication_factor=self.replication_factor,
                configs=FLOW_LOG_TOPIC_CONFIGS,
            )
            for name in names
        ]
        created = self.target.create_topics(topics, end.remaining_s(self.clock.now_s()))
        for name in sorted(created.succeeded):
            _LOG.info("created topic %s on %s", name, self.where)
        for failure in created.failed.values():
            if not isinstance(failure, TopicExistsError):
                raise failure

    def _describe_topics_until_known(
        self, names: Collection[str], end: Deadline
    ) -> PerTopicResult[TopicDescription]:
        """Describe new topics repeatedly until all brokers know them and their leaders. The
        controller knows a new topic first, and leaders are elected last."""
        described = self.target.describe_topics(names, end.remaining_s(self.clock.now_s()))

        def is_metadata_complete() -> bool:
            nonlocal described
            if _is_metadata_complete(described):
                return True
            left_s = end.remaining_s(self.clock.now_s())
            described = self.target.describe_topics(names, left_s)
            return _is_metadata_complete(described)

        system_clock.wait_until(is_metadata_complete, timeout_s=end.remaining_s(self.clock.now_s()))
        return described

    def _check_partition_count(self, topic: TopicDescription) -> None:
        if topic.partition_count != 1:
            raise MisconfiguredTopicError(
                f"checking topic {topic.name} on {self.where}: the topic has "
                f"{topic.partition_count} partitions, but must have exactly 1 "
                "to preserve the order of the flow's records. "
                "Partitions cannot be removed: if this flow has never run, delete the topic, and "
                "mm2 will create it again. "
                f"{suggested_commands.format_remedy(self._cluster_commands.build_delete_topic_command(topic.name))}"
            )

    def _check_cleanup_policy(self, names: Collection[str], end: Deadline) -> None:
        configs = self.target.read_topic_configs(names, end.remaining_s(self.clock.now_s()))
        for name, failure in configs.failed.items():
            if isinstance(failure, TopicMissingError):
                # Another broker described it a moment ago, with newer metadata than this one.
                raise RetriableError(
                    f"checking topic {name} on {self.where}: a broker does not know the topic yet"
                ) from failure
            if not isinstance(failure, NotAuthorizedError):
                raise failure
            _LOG.warning(
                "cannot check cleanup.policy of topic %s on %s without DESCRIBE_CONFIGS; make "
                "sure that it is compact, otherwise records of this flow will be lost",
                name,
                self.where,
            )
        compact = {"cleanup.policy": "compact"}
        for name, entries in configs.succeeded.items():
            policy = entries["cleanup.policy"].value
            if policy != "compact":
                command = self._cluster_commands.build_set_topic_configs_command(name, compact)
                raise MisconfiguredTopicError(
                    f"checking topic {name} on {self.where}: cleanup.policy is {policy}, but must "
                    "be compact, otherwise retention deletes records of this flow. "
                    f"{suggested_commands.format_remedy(command)}"
                )


def _is_metadata_complete(described: PerTopicResult[TopicDescription]) -> bool:
    return all(
        not isinstance(failure, TopicMissingError | RetriableError)
        for failure in described.failed.values()
    ) and all(None not in topic.leaders for topic in described.succeeded.values())
