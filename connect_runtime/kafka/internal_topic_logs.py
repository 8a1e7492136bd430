"""Creates the shared logs on a worker's three internal topics (configs, offsets, status)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.config.worker_config import ExactlyOnceSourceMode
from connect_runtime.kafka.internal_topic_writer import KafkaFencedWriter, LogRetryPolicy
from connect_runtime.kafka.internal_topics import InternalTopicManager
from connect_runtime.kafka.kafka_shared_log import KafkaSharedLog, LogOptions, OnLogBroken
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.storage.internal_topic_settings import InternalTopicKind, RequiredTopics

_ExactlyOnce = ExactlyOnceSourceMode
_Purpose = InternalTopicKind
_LOG_CLIENT_NAMES = {
    _Purpose.CONFIG: "configs",
    _Purpose.OFFSET: "offsets",
    _Purpose.STATUS: "statuses",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicLogs:
    """Shared logs on a worker's internal topics. The caller must start each log."""

    config: KafkaSharedLog
    offset: KafkaSharedLog
    status: KafkaSharedLog
    admin: TopicAdmin
    fenced_writer: KafkaFencedWriter | None
    """The leader's writer, which fences writers of earlier leaders; None if fencing is disabled."""


def create_internal_topic_logs(
    access: KafkaClusterAccess,
    topics: RequiredTopics,
    *,
    group_id: str,
    client_id: str = "",
    exactly_once: _ExactlyOnce = _ExactlyOnce.DISABLED,
    may_create: bool = True,
    on_broken: OnLogBroken = lambda _: None,
    on_trouble: Callable[[str], None] = lambda _: None,
    clock: Clock,
) -> InternalTopicLogs:
    """Create the shared logs on the internal topics. Client ids follow Java's pattern, such as
    `<group.id>-<client.id>-configs`.

    Unless `exactly_once` is DISABLED, a new leader fences the writes of earlier leaders; if it is
    ENABLED, only committed records are read (KIP-618). `may_create` is the value of
    internal.topics.automatic.creation.enable. `on_broken` is called when a thread of a log ends
    unexpectedly. `on_trouble` is called with the reason while a topic is missing, and with "" once
    the topic exists.

    Raises `FatalError` for settings that librdkafka rejects.
    """
    name = f"{group_id}-{client_id}-" if client_id else f"{group_id}-"
    admin = TopicAdmin(access, client_id=f"{name}shared-admin", clock=clock)
    topic_manager = InternalTopicManager(
        admin=admin, clock=clock, may_create=may_create, on_trouble=on_trouble
    )
    found = {each.kind: each for each in topics.topics}

    def create_log_for_topic(purpose: InternalTopicKind) -> KafkaSharedLog:
        status = purpose is _Purpose.STATUS
        once, forever = LogRetryPolicy.TRY_ONCE, LogRetryPolicy.RETRY_FOREVER
        return KafkaSharedLog(
            access,
            topic=found[purpose].name,
            client_id=f"{name}{_LOG_CLIENT_NAMES[purpose]}",
            admin=admin,
            prepare=functools.partial(topic_manager.ensure_topic, found[purpose]),
            clock=clock,
            options=LogOptions(
                retry_policy=once if status else forever,
                committed_only=exactly_once is _ExactlyOnce.ENABLED and not status,
            ),
            on_broken=on_broken,
        )

    fenced = None
    if exactly_once is not _ExactlyOnce.DISABLED:
        fenced = KafkaFencedWriter(
            access,
            topic=found[_Purpose.CONFIG].name,
            client_id=f"{name}configs-leader",
            transactional_id=f"connect-cluster-{group_id}",
            clock=clock,
        )
    return InternalTopicLogs(
        config=create_log_for_topic(_Purpose.CONFIG),
        offset=create_log_for_topic(_Purpose.OFFSET),
        status=create_log_for_topic(_Purpose.STATUS),
        admin=admin,
        fenced_writer=fenced,
    )
