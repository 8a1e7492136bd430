"""Creates MirrorMaker 2's internal topics: heartbeats, checkpoints and offset syncs.

Each topic is compacted and has one partition (`MirrorUtils.createSinglePartitionCompactedTopic`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicExistsError,
    UnsupportedByBrokersError,
)
from connect_runtime.protocol.topic_requests import NewTopic
from mm2.kafka.kafka_client_interfaces import Admin

INTERNAL_TOPIC_CONFIGS = {"cleanup.policy": "compact"}
CREATE_ATTEMPT_TIMEOUT_S = 4.0
"""Time limit in seconds of one attempt to create a topic. It is shorter than the time within which
a worker expects a connector to stop."""
CREATE_RETRY_DELAY_S = 1.0

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mm2InternalTopic:
    """An internal topic to create."""

    name: str
    replication_factor: int
    """Replication factor of the topic; -1 for the brokers' default."""
    factor_key: str
    """Configuration key of the replication factor, for error messages."""

    @property
    def topic_to_create(self) -> NewTopic:
        factor = self.replication_factor
        return NewTopic(
            name=self.name,
            partitions=1,
            replication_factor=None if factor < 0 else factor,
            configs=INTERNAL_TOPIC_CONFIGS,
        )


def create_topic(
    topic: Mm2InternalTopic,
    cluster: Admin,
    *,
    timeout_s: float,
    wait: Callable[[float], bool],
    on_retry: Callable[[str], object] = lambda _: None,
) -> None:
    """Create the topic unless it exists. An existing topic is not changed.

    If creation is not authorized, the topic is assumed to exist, as in Java. While the cluster does
    not respond, creation is retried (Java continues without the topic). `wait` waits for the given
    seconds before each retry and returns True to stop retrying. `on_retry` is called with the
    reason of each retry. `timeout_s` limits one attempt. Raises `FatalError` if the cluster rejects
    the topic or denies access.
    """
    logged = ""
    while True:
        try:
            failure = cluster.create_topics(
                [topic.topic_to_create], min(timeout_s, CREATE_ATTEMPT_TIMEOUT_S)
            ).failed.get(topic.name)
        except RetriableError as error:
            failure = error
        if not isinstance(failure, RetriableError):
            return _handle_create_result(topic, failure)
        if str(failure) != logged:
            logged = str(failure)
            _LOG.warning("%s; retrying", failure)
        on_retry(f"{failure}; retrying")
        if wait(CREATE_RETRY_DELAY_S):
            return None


def _handle_create_result(topic: Mm2InternalTopic, failure: ConnectError | None) -> None:
    if failure is None:
        _LOG.info("created topic %s", topic.name)
    elif isinstance(failure, NotAuthorizedError | UnsupportedByBrokersError):
        _LOG.info("topic %s not created: %s; assuming that it exists", topic.name, failure)
    elif not isinstance(failure, TopicExistsError):
        raise FatalError(
            f"{failure} ({topic.factor_key} is {topic.replication_factor})"
        ) from failure
