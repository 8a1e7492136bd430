"""Creates the three internal topics of a Connect cluster if missing, and checks them.

Topics whose settings would lose records are refused; `internal_topic_settings` holds the rules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import admin as library

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicExistsError,
    TopicMissingError,
    UnreachableError,
    UnsupportedByBrokersError,
)
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.storage import internal_topic_settings
from connect_runtime.storage.internal_topic_settings import (
    CreateTopic,
    ExistingTopic,
    InternalTopic,
    TopicAccepted,
    TopicDecision,
    TopicRefused,
)
from connect_runtime.system import clock

_LOG = logging.getLogger(__name__)
_METADATA_PROPAGATION_S = 30.0
_CREATE_RETRY_DELAY_S = 0.5

_PERMISSION_ERRORS = (NotAuthorizedError, UnsupportedByBrokersError)


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicManager:
    """Makes and checks topics. `may_create`: internal.topics.automatic.creation.enable.

    `on_trouble` is called with what keeps a topic from being there while that is waited for, and
    with "" once it is there.
    """

    admin: TopicAdmin
    clock: Clock
    may_create: bool = True
    on_trouble: Callable[[str], None] = lambda _: None

    def ensure(self, topic: InternalTopic, timeout_s: float) -> int:
        """Make it if it is missing, check it; the number of its partitions.

        Who may not create it hopes that somebody else did, and waits 30 s for it. Raises
        `FatalError` for a topic that must not be used, or is not there; `RetriableError` when time
        is up.
        """
        end = Deadline.after(timeout_s, now_s=self.clock.now_s())
        partitions = self._partitions(topic, end)
        if partitions is None:
            self._act(
                topic,
                internal_topic_settings.check_topic(topic, None, may_create=self.may_create),
                end,
            )
            partitions = self._await(topic, end)
            self.on_trouble("")
        seen = ExistingTopic(partitions=partitions, cleanup_policy=self._policy(topic, end))
        self._act(topic, internal_topic_settings.check_topic(topic, seen), end)
        return partitions

    def _act(
        self,
        topic: InternalTopic,
        verdict: TopicDecision,
        end: Deadline,
    ) -> None:
        match verdict:
            case CreateTopic():
                self._create(topic, end)
            case TopicAccepted(warnings):
                for each in warnings:
                    _LOG.warning("%s", each)
            case TopicRefused(reason):
                raise FatalError(f"on {self.admin.where}: {reason}")

    def _create(self, topic: InternalTopic, end: Deadline) -> None:
        """Again and again while brokers are too few: they may still be starting."""
        wanted = library.NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=dict(topic.settings),
        )
        failure: RetriableError | None = None

        def tried() -> bool:
            nonlocal failure
            try:
                self.admin.create(wanted, end)
            except TopicExistsError:
                _LOG.debug("topic %s was created by somebody else", topic.name)
            except _PERMISSION_ERRORS as error:
                if (
                    topic.replication_factor == internal_topic_settings.BROKER_DEFAULT
                    and isinstance(error, UnsupportedByBrokersError)
                ):
                    raise FatalError(
                        f"{error}: before Kafka 2.4 brokers take no -1 for their own default; set "
                        f"{topic.purpose.value}replication.factor to a number"
                    ) from error
                _LOG.warning("%s; waiting for somebody else to create the topic", error)
                self.on_trouble(f"{error}; waiting for somebody else to create the topic")
            except RetriableError as error:
                if failure is None or not isinstance(error, UnreachableError):
                    if str(error) != str(failure):
                        _LOG.warning("%s; retrying", error)
                        self.on_trouble(f"{error}; retrying")
                    failure = error  # that time was up at last says less than what was before
                return False
            else:
                _LOG.info("created topic %s on %s", topic.name, self.admin.where)
            return True

        left_s = end.left_s(self.clock.now_s())
        if not clock.wait_until(tried, timeout_s=left_s, interval_s=_CREATE_RETRY_DELAY_S):
            assert failure is not None
            raise failure

    def _partitions(self, topic: InternalTopic, end: Deadline) -> int | None:
        try:
            return self.admin.partitions(topic.name, end)
        except TopicMissingError:
            return None

    def _await(self, topic: InternalTopic, end: Deadline) -> int:
        """Creation is known to the controller first; other brokers follow."""
        found: int | None = None

        def known() -> bool:
            nonlocal found
            found = self._partitions(topic, end)
            return found is not None

        clock.wait_until(known, timeout_s=self._patience_s(end))
        if found is None:
            raise self._missing(topic)
        return found

    def _policy(self, topic: InternalTopic, end: Deadline) -> str | None:
        """None where it may not be read. A broker that has not heard of the topic is asked again:
        another one described it."""
        found: str | None = None

        def answered() -> bool:
            nonlocal found
            try:
                found = self.admin.cleanup_policy(topic.name, end)
            except _PERMISSION_ERRORS as error:
                _LOG.debug("%s", error)
            except TopicMissingError:
                return False
            return True

        if not clock.wait_until(answered, timeout_s=self._patience_s(end)):
            raise self._missing(topic)
        return found

    def _patience_s(self, end: Deadline) -> float:
        return min(_METADATA_PROPAGATION_S, end.left_s(self.clock.now_s()))

    def _missing(self, topic: InternalTopic) -> ConnectError:
        return TopicMissingError(
            f"looking for topic {topic.name} on {self.admin.where}: no broker knows it; create it"
            f" with {internal_topic_settings.CLEANUP_POLICY}={internal_topic_settings.COMPACT}"
            f" ({topic.purpose.topic_key} names it)"
        )
