"""Creates and validates a flow's own topics (offset map, incidents) on the target.

Missing topics are created. Topics with more than one partition or without compaction are
refused, because they could lose records of the flow.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicExistsError,
    TopicMissingError,
)
from connect_runtime.system import clock
from mm2 import operator_commands
from mm2.kafka.client_interfaces import Admin, NewTopic, PerTopicResult, TopicDescription
from mm2.operator_commands import ClusterCommands

_LOG = logging.getLogger(__name__)

FLOW_LOG_TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # As for __consumer_offsets: only closed segments are compacted, so small ones keep a first
    # read short however long the flow has been running.
    "segment.bytes": "104857600",
}


class MisconfiguredTopicError(FatalError):
    """A topic must not be used as it is; the message ends with the remedy. Nothing but the remedy
    is needed where the check is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLogTopics:
    """Creates and checks through `target`; `where` and `bootstrap` name it in messages.

    To a `secured` one people's tools need an administrator's properties.
    """

    target: Admin
    where: str
    bootstrap: str
    replication_factor: int | None
    clock: Clock
    secured: bool = False

    @property
    def _tools(self) -> ClusterCommands:
        return ClusterCommands(bootstrap=self.bootstrap, secured=self.secured)

    def ensure(self, names: Collection[str], timeout_s: float) -> None:
        """Create those of `names` that are missing, then check all of them.

        Raises `MisconfiguredTopicError`, and `FatalError` for a topic that we may not create.
        """
        end = Deadline.after(timeout_s, now_s=self.clock.now_s())
        described = self.target.describe_topics(names, end.left_s(self.clock.now_s()))
        missing = [
            name
            for name, failure in described.failed.items()
            if isinstance(failure, TopicMissingError)
        ]
        if missing:
            self._create(missing, end)
            described = self._describe_until_known(names, end)
        failure = described.first_failure()
        if missing and isinstance(failure, TopicMissingError):
            raise RetriableError(
                f"creating the topics of a flow on {self.where}: they are created, but a broker "
                f"has not heard of {', '.join(sorted(described.failed))} yet"
            )
        if failure is not None:
            raise failure
        for topic in described.done.values():
            self._check_partitions(topic)
        self._check_cleanup(names, end)

    def _create(self, names: Collection[str], end: Deadline) -> None:
        topics = [
            NewTopic(
                name=name,
                partitions=1,
                replication_factor=self.replication_factor,
                configs=FLOW_LOG_TOPIC_CONFIGS,
            )
            for name in names
        ]
        created = self.target.create_topics(topics, end.left_s(self.clock.now_s()))
        for name in sorted(created.done):
            _LOG.info("created topic %s on %s", name, self.where)
        for failure in created.failed.values():
            if not isinstance(failure, TopicExistsError):
                raise failure

    def _describe_until_known(
        self, names: Collection[str], end: Deadline
    ) -> PerTopicResult[TopicDescription]:
        """Creation is known to the controller first; other brokers follow, leaders come last."""
        described = self.target.describe_topics(names, end.left_s(self.clock.now_s()))

        def known() -> bool:
            nonlocal described
            if _is_metadata_complete(described):
                return True
            left_s = end.left_s(self.clock.now_s())
            described = self.target.describe_topics(names, left_s)
            return _is_metadata_complete(described)

        clock.wait_until(known, timeout_s=end.left_s(self.clock.now_s()))
        return described

    def _check_partitions(self, topic: TopicDescription) -> None:
        if topic.partitions != 1:
            raise MisconfiguredTopicError(
                f"checking topic {topic.name} on {self.where}: it has {topic.partitions} "
                "partitions, and must have exactly 1, or the order of a flow's facts is lost. "
                "Partitions cannot be taken away: if this flow has never run, delete the topic, "
                "and it is made anew. "
                f"{operator_commands.format_remedy(self._tools.delete_topic(topic.name))}"
            )

    def _check_cleanup(self, names: Collection[str], end: Deadline) -> None:
        configs = self.target.topic_configs(names, end.left_s(self.clock.now_s()))
        for name, failure in configs.failed.items():
            if isinstance(failure, TopicMissingError):
                # It was described a moment ago, by a broker that knew more than this one.
                raise RetriableError(
                    f"checking topic {name} on {self.where}: a broker has not heard of it yet"
                ) from failure
            if not isinstance(failure, NotAuthorizedError):
                raise failure
            _LOG.warning(
                "cleanup.policy of topic %s on %s cannot be checked without the right "
                "DESCRIBE_CONFIGS; make sure that it is compact, or facts of this flow get lost",
                name,
                self.where,
            )
        compact = {"cleanup.policy": "compact"}
        for name, entries in configs.done.items():
            policy = entries["cleanup.policy"].value
            if policy != "compact":
                raise MisconfiguredTopicError(
                    f"checking topic {name} on {self.where}: cleanup.policy is {policy}, and must "
                    "be compact, or facts of this flow are deleted by age. "
                    f"{operator_commands.format_remedy(self._tools.set_topic(name, compact))}"
                )


def _is_metadata_complete(described: PerTopicResult[TopicDescription]) -> bool:
    return all(
        not isinstance(failure, TopicMissingError | RetriableError)
        for failure in described.failed.values()
    ) and all(None not in topic.leaders for topic in described.done.values())
