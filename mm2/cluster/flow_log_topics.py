"""The topics of a flow's log: made when missing, refused when they could lose facts."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import polling
from mm2.cluster import admin
from mm2.core import commands

_LOG = logging.getLogger(__name__)

CONFIGS = {
    "cleanup.policy": "compact",
    # As for __consumer_offsets: only closed segments are compacted, so small ones keep a first
    # read short however long the flow has been running.
    "segment.bytes": "104857600",
}


class MisconfiguredTopicError(errors.FatalError):
    """A topic must not be used as it is; the message ends with the remedy. Nothing but the remedy
    is needed where the check is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTopics:
    """Creates and checks through `target`; `where` and `bootstrap` name it in messages.

    To a `secured` one people's tools need an administrator's properties.
    """

    target: admin.Admin
    where: str
    bootstrap: str
    replication_factor: int | None
    clock: base_clock.Clock
    secured: bool = False

    @property
    def _tools(self) -> commands.Cluster:
        return commands.Cluster(bootstrap=self.bootstrap, secured=self.secured)

    def ensure(self, names: Collection[str], timeout_s: float) -> None:
        """Create those of `names` that are missing, then check all of them.

        Raises `MisconfiguredTopicError`, and `FatalError` for a topic that we may not create.
        """
        end = base_deadline.Deadline.after(timeout_s, now_s=self.clock.now_s())
        described = self.target.describe_topics(names, end.left_s(self.clock.now_s()))
        missing = [
            name
            for name, failure in described.failed.items()
            if isinstance(failure, kafka_errors.TopicMissingError)
        ]
        if missing:
            self._create(missing, end)
            described = self._describe_until_known(names, end)
        failure = described.first_failure()
        if missing and isinstance(failure, kafka_errors.TopicMissingError):
            raise errors.RetriableError(
                f"creating the topics of a flow on {self.where}: they are created, but a broker "
                f"has not heard of {', '.join(sorted(described.failed))} yet"
            )
        if failure is not None:
            raise failure
        for topic in described.done.values():
            self._check_partitions(topic)
        self._check_cleanup(names, end)

    def _create(self, names: Collection[str], end: base_deadline.Deadline) -> None:
        topics = [
            admin.NewTopic(
                name=name,
                partitions=1,
                replication_factor=self.replication_factor,
                configs=CONFIGS,
            )
            for name in names
        ]
        created = self.target.create_topics(topics, end.left_s(self.clock.now_s()))
        for name in sorted(created.done):
            _LOG.info("created topic %s on %s", name, self.where)
        for failure in created.failed.values():
            if not isinstance(failure, kafka_errors.TopicExistsError):
                raise failure

    def _describe_until_known(
        self, names: Collection[str], end: base_deadline.Deadline
    ) -> admin.PerTopic[admin.TopicDescription]:
        """Creation is known to the controller first; other brokers follow, leaders come last."""
        described = self.target.describe_topics(names, end.left_s(self.clock.now_s()))

        def known() -> bool:
            nonlocal described
            if _is_settled(described):
                return True
            left_s = end.left_s(self.clock.now_s())
            described = self.target.describe_topics(names, left_s)
            return _is_settled(described)

        polling.until(known, timeout_s=end.left_s(self.clock.now_s()))
        return described

    def _check_partitions(self, topic: admin.TopicDescription) -> None:
        if topic.partitions != 1:
            raise MisconfiguredTopicError(
                f"checking topic {topic.name} on {self.where}: it has {topic.partitions} "
                "partitions, and must have exactly 1, or the order of a flow's facts is lost. "
                "Partitions cannot be taken away: if this flow has never run, delete the topic, "
                f"and it is made anew. {commands.to_go_on(self._tools.delete_topic(topic.name))}"
            )

    def _check_cleanup(self, names: Collection[str], end: base_deadline.Deadline) -> None:
        configs = self.target.topic_configs(names, end.left_s(self.clock.now_s()))
        for name, failure in configs.failed.items():
            if isinstance(failure, kafka_errors.TopicMissingError):
                # It was described a moment ago, by a broker that knew more than this one.
                raise errors.RetriableError(
                    f"checking topic {name} on {self.where}: a broker has not heard of it yet"
                ) from failure
            if not isinstance(failure, kafka_errors.NotAuthorizedError):
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
                    f"{commands.to_go_on(self._tools.set_topic(name, compact))}"
                )


def _is_settled(described: admin.PerTopic[admin.TopicDescription]) -> bool:
    return all(
        not isinstance(failure, kafka_errors.TopicMissingError | errors.RetriableError)
        for failure in described.failed.values()
    ) and all(None not in topic.leaders for topic in described.done.values())
