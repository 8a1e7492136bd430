"""The topics of Java's formats that mirror connectors keep: heartbeats, checkpoints, offset syncs.

Each has one partition and is compacted (`MirrorUtils.createSinglePartitionCompactedTopic`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import admin

CONFIGS = {"cleanup.policy": "compact"}
ATTEMPT_S = 4.0
"""Of one attempt: shorter than a worker waits for a connector to stop."""
AGAIN_S = 1.0

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """`replication_factor` -1 leaves it to the brokers; `factor_key` says it in configurations."""

    name: str
    replication_factor: int
    factor_key: str

    @property
    def wanted(self) -> admin.NewTopic:
        factor = self.replication_factor
        return admin.NewTopic(
            name=self.name,
            partitions=1,
            replication_factor=None if factor < 0 else factor,
            configs=CONFIGS,
        )


def create(
    topic: InternalTopic,
    cluster: admin.Admin,
    *,
    timeout_s: float,
    wait: Callable[[float], bool],
    waits: Callable[[str], object] = lambda _: None,
) -> None:
    """Create the topic unless it is there; one that is there stays as it is.

    Who may not create topics goes on without, as in Java: somebody else has made it, or brokers do
    when it is written to. While the cluster does not answer it is asked again (Java goes on
    without), until `wait`, given seconds, says that it is asked to stop; `waits` is told why.
    `timeout_s` bounds one attempt. Raises `FatalError` where the cluster refuses such a topic, or
    us.
    """
    logged = ""
    while True:
        try:
            failure = cluster.create_topics([topic.wanted], min(timeout_s, ATTEMPT_S)).failed.get(
                topic.name
            )
        except errors.RetriableError as error:
            failure = error
        if not isinstance(failure, errors.RetriableError):
            return _settle(topic, failure)
        if str(failure) != logged:
            logged = str(failure)
            _LOG.warning("%s; retrying", failure)
        waits(f"{failure}; retrying")
        if wait(AGAIN_S):
            return None


def _settle(topic: InternalTopic, failure: errors.ConnectError | None) -> None:
    if failure is None:
        _LOG.info("created topic %s", topic.name)
    elif isinstance(failure, kafka_errors.NotAuthorizedError | kafka_errors.UnsupportedError):
        _LOG.info("topic %s is not created: %s; it is taken to exist", topic.name, failure)
    elif not isinstance(failure, kafka_errors.TopicExistsError):
        raise errors.FatalError(
            f"{failure} ({topic.factor_key} is {topic.replication_factor})"
        ) from failure
