"""The three internal topics: made when missing, refused when they would lose what they hold.

What is wanted and what is refused says `core.state.topic_settings`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import admin as library

from connect_runtime.adapters.kafka import topic_admin
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors
from connect_runtime.core.state import topic_settings
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import polling

_LOG = logging.getLogger(__name__)
_KNOWN_S = 30.0
_RETRY_S = 0.5

_MAY_NOT = (kafka_errors.NotAuthorizedError, kafka_errors.UnsupportedError)


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopics:
    """Makes and checks topics. `may_create`: internal.topics.automatic.creation.enable.

    `on_trouble` is called with what keeps a topic from being there while that is waited for, and
    with "" once it is there.
    """

    admin: topic_admin.TopicAdmin
    clock: base_clock.Clock
    may_create: bool = True
    on_trouble: Callable[[str], None] = lambda _: None

    def ensure(self, topic: topic_settings.InternalTopic, timeout_s: float) -> int:
        """Make it if it is missing, check it; the number of its partitions.

        Who may not create it hopes that somebody else did, and waits 30 s for it. Raises
        `FatalError` for a topic that must not be used, or is not there; `RetriableError` when time
        is up.
        """
        end = base_deadline.Deadline.after(timeout_s, now_s=self.clock.now_s())
        partitions = self._partitions(topic, end)
        if partitions is None:
            self._act(topic, topic_settings.judge(topic, None, may_create=self.may_create), end)
            partitions = self._await(topic, end)
            self.on_trouble("")
        seen = topic_settings.Seen(partitions=partitions, cleanup_policy=self._policy(topic, end))
        self._act(topic, topic_settings.judge(topic, seen), end)
        return partitions

    def _act(
        self,
        topic: topic_settings.InternalTopic,
        verdict: topic_settings.Verdict,
        end: base_deadline.Deadline,
    ) -> None:
        match verdict:
            case topic_settings.Create():
                self._create(topic, end)
            case topic_settings.Use(warnings):
                for each in warnings:
                    _LOG.warning("%s", each)
            case topic_settings.Refuse(reason):
                raise errors.FatalError(f"on {self.admin.where}: {reason}")

    def _create(self, topic: topic_settings.InternalTopic, end: base_deadline.Deadline) -> None:
        """Again and again while brokers are too few: they may still be starting."""
        wanted = library.NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=dict(topic.settings),
        )
        failure: errors.RetriableError | None = None

        def tried() -> bool:
            nonlocal failure
            try:
                self.admin.create(wanted, end)
            except kafka_errors.TopicExistsError:
                _LOG.debug("topic %s was created by somebody else", topic.name)
            except _MAY_NOT as error:
                if topic.replication_factor == topic_settings.BROKER_DEFAULT and isinstance(
                    error, kafka_errors.UnsupportedError
                ):
                    raise errors.FatalError(
                        f"{error}: before Kafka 2.4 brokers take no -1 for their own default; set "
                        f"{topic.purpose.value}replication.factor to a number"
                    ) from error
                _LOG.warning("%s; waiting for somebody else to create the topic", error)
                self.on_trouble(f"{error}; waiting for somebody else to create the topic")
            except errors.RetriableError as error:
                if failure is None or not isinstance(error, kafka_errors.UnreachableError):
                    if str(error) != str(failure):
                        _LOG.warning("%s; retrying", error)
                        self.on_trouble(f"{error}; retrying")
                    failure = error  # that time was up at last says less than what was before
                return False
            else:
                _LOG.info("created topic %s on %s", topic.name, self.admin.where)
            return True

        left_s = end.left_s(self.clock.now_s())
        if not polling.until(tried, timeout_s=left_s, interval_s=_RETRY_S):
            assert failure is not None
            raise failure

    def _partitions(
        self, topic: topic_settings.InternalTopic, end: base_deadline.Deadline
    ) -> int | None:
        try:
            return self.admin.partitions(topic.name, end)
        except kafka_errors.TopicMissingError:
            return None

    def _await(self, topic: topic_settings.InternalTopic, end: base_deadline.Deadline) -> int:
        """Creation is known to the controller first; other brokers follow."""
        found: int | None = None

        def known() -> bool:
            nonlocal found
            found = self._partitions(topic, end)
            return found is not None

        polling.until(known, timeout_s=self._patience_s(end))
        if found is None:
            raise self._missing(topic)
        return found

    def _policy(
        self, topic: topic_settings.InternalTopic, end: base_deadline.Deadline
    ) -> str | None:
        """None where it may not be read. A broker that has not heard of the topic is asked again:
        another one described it."""
        found: str | None = None

        def answered() -> bool:
            nonlocal found
            try:
                found = self.admin.cleanup_policy(topic.name, end)
            except _MAY_NOT as error:
                _LOG.debug("%s", error)
            except kafka_errors.TopicMissingError:
                return False
            return True

        if not polling.until(answered, timeout_s=self._patience_s(end)):
            raise self._missing(topic)
        return found

    def _patience_s(self, end: base_deadline.Deadline) -> float:
        return min(_KNOWN_S, end.left_s(self.clock.now_s()))

    def _missing(self, topic: topic_settings.InternalTopic) -> errors.ConnectError:
        return kafka_errors.TopicMissingError(
            f"looking for topic {topic.name} on {self.admin.where}: no broker knows it; create it"
            f" with {topic_settings.CLEANUP_POLICY}={topic_settings.COMPACT}"
            f" ({topic.purpose.topic_key} names it)"
        )
