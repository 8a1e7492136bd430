"""Creates missing internal topics of a Connect cluster, and validates existing ones.

Topics with settings that would cause data loss are rejected; `internal_topic_settings` defines the
rules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicExistsError,
    TopicMissingError,
    UnreachableError,
    UnsupportedByBrokersError,
)
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.protocol.topic_requests import NewTopic
from connect_runtime.storage import internal_topic_settings
from connect_runtime.storage.internal_topic_settings import (
    CreateTopic,
    ExistingTopic,
    InternalTopic,
    TopicAccepted,
    TopicDecision,
    TopicRefused,
)
from connect_runtime.system import system_clock

_LOG = logging.getLogger(__name__)
_METADATA_PROPAGATION_S = 30.0
_CREATE_RETRY_DELAY_S = 0.5

_PERMISSION_ERRORS = (NotAuthorizedError, UnsupportedByBrokersError)


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicManager:
    """Creates and validates internal topics."""

    admin: TopicAdmin
    clock: Clock
    may_create: bool = True
    """Value of internal.topics.automatic.creation.enable."""
    on_trouble: Callable[[str], None] = lambda _: None
    """Called with the reason while a topic is missing, and with "" once the topic exists."""

    def ensure_topic(self, topic: InternalTopic, timeout_s: float) -> int:
        """Create the topic if it is missing, validate it, and return its partition count.

        Without permission to create the topic, waits up to 30 s for another client to create
        it. Raises `FatalError` if the topic is unusable or still missing, and `RetriableError`
        after the timeout.
        """
        end = Deadline.after(timeout_s, now_s=self.clock.now_s())
        partitions = self._count_partitions(topic, end)
        if partitions is None:
            self._create_or_refuse_topic(
                topic,
                internal_topic_settings.decide_internal_topic_action(
                    topic, None, may_create=self.may_create
                ),
                end,
            )
            partitions = self._wait_for_topic(topic, end)
            self.on_trouble("")
        seen = ExistingTopic(
            partitions=partitions, cleanup_policy=self._read_cleanup_policy(topic, end)
        )
        self._create_or_refuse_topic(
            topic, internal_topic_settings.decide_internal_topic_action(topic, seen), end
        )
        return partitions

    def _create_or_refuse_topic(
        self,
        topic: InternalTopic,
        decision: TopicDecision,
        end: Deadline,
    ) -> None:
        match decision:
            case CreateTopic():
                self._create_topic(topic, end)
            case TopicAccepted(warnings):
                for each in warnings:
                    _LOG.warning("%s", each)
            case TopicRefused(reason):
                raise FatalError(f"on {self.admin.where}: {reason}")

    def _create_topic(self, topic: InternalTopic, end: Deadline) -> None:
        """Create the topic. Retries while too few brokers are available, because they may be
        starting."""
        uses_default = topic.replication_factor == internal_topic_settings.BROKER_DEFAULT
        wanted = NewTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=None if uses_default else topic.replication_factor,
            configs=topic.settings,
        )
        failure: RetriableError | None = None

        def try_create_topic() -> bool:
            nonlocal failure
            try:
                self.admin.create_topic(wanted, end)
            except TopicExistsError:
                _LOG.debug("another client created topic %s in the meantime", topic.name)
            except _PERMISSION_ERRORS as error:
                if uses_default and isinstance(error, UnsupportedByBrokersError):
                    raise FatalError(
                        f"{error}: brokers before Kafka 2.4 do not support -1 (broker default); "
                        f"set {topic.kind.value}replication.factor to a number"
                    ) from error
                _LOG.warning("%s; waiting until another client creates the topic", error)
                self.on_trouble(f"{error}; waiting for another client to create the topic")
            except RetriableError as error:
                if failure is None or not isinstance(error, UnreachableError):
                    if str(error) != str(failure):
                        _LOG.warning("%s; retrying", error)
                        self.on_trouble(f"{error}; retrying")
                    failure = error  # a final timeout says less than the failure before it
                return False
            else:
                _LOG.info("created topic %s on %s", topic.name, self.admin.where)
            return True

        left_s = end.remaining_s(self.clock.now_s())
        if not system_clock.wait_until(
            try_create_topic, timeout_s=left_s, interval_s=_CREATE_RETRY_DELAY_S
        ):
            assert failure is not None
            raise failure

    def _count_partitions(self, topic: InternalTopic, end: Deadline) -> int | None:
        try:
            return self.admin.count_partitions(topic.name, end)
        except TopicMissingError:
            return None

    def _wait_for_topic(self, topic: InternalTopic, end: Deadline) -> int:
        """Wait until the brokers know the new topic, and return its partition count.

        Immediately after creation, only the controller knows the topic.
        """
        found: int | None = None

        def try_find_topic() -> bool:
            nonlocal found
            found = self._count_partitions(topic, end)
            return found is not None

        system_clock.wait_until(try_find_topic, timeout_s=self._compute_wait_limit_s(end))
        if found is None:
            raise self._create_missing_topic_error(topic)
        return found

    def _read_cleanup_policy(self, topic: InternalTopic, end: Deadline) -> str | None:
        """Return the topic's cleanup policy; None if the principal has no permission to read it.

        Retries while a broker does not know the topic yet.
        """
        found: str | None = None

        def try_read_policy() -> bool:
            nonlocal found
            try:
                found = self.admin.get_cleanup_policy(topic.name, end)
            except _PERMISSION_ERRORS as error:
                _LOG.debug("%s", error)
            except TopicMissingError:
                return False
            return True

        if not system_clock.wait_until(try_read_policy, timeout_s=self._compute_wait_limit_s(end)):
            raise self._create_missing_topic_error(topic)
        return found

    def _compute_wait_limit_s(self, end: Deadline) -> float:
        return min(_METADATA_PROPAGATION_S, end.remaining_s(self.clock.now_s()))

    def _create_missing_topic_error(self, topic: InternalTopic) -> ConnectError:
        return TopicMissingError(
            f"looking for topic {topic.name} on {self.admin.where}: the topic does not exist; "
            "create it with "
            f"{internal_topic_settings.CLEANUP_POLICY}={internal_topic_settings.COMPACT}, or "
            f"correct {topic.kind.topic_key}"
        )
