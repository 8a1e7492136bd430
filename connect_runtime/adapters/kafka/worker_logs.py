"""The three internal topics of a worker as logs, and what else it needs to reach them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.adapters.kafka import (
    fenced_writer,
    internal_topics,
    log_writer,
    shared_log,
    topic_admin,
)
from connect_runtime.base import clock as base_clock
from connect_runtime.core.state import topic_settings
from connect_runtime.core.task import worker_config
from connect_runtime.kafka_client import access as kafka_access

_ExactlyOnce = worker_config.ExactlyOnce
_Purpose = topic_settings.Purpose
_NAMES = {_Purpose.CONFIG: "configs", _Purpose.OFFSET: "offsets", _Purpose.STATUS: "statuses"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLogs:
    """None of them is started. `fenced`: what the leader writes with, where leaders fence."""

    config: shared_log.KafkaSharedLog
    offset: shared_log.KafkaSharedLog
    status: shared_log.KafkaSharedLog
    admin: topic_admin.TopicAdmin
    fenced: fenced_writer.KafkaFencedWriter | None


def make(
    access: kafka_access.Access,
    topics: topic_settings.Wanted,
    *,
    group_id: str,
    client_id: str = "",
    exactly_once: _ExactlyOnce = _ExactlyOnce.DISABLED,
    may_create: bool = True,
    on_broken: shared_log.OnBroken = lambda _: None,
    on_trouble: Callable[[str], None] = lambda _: None,
    clock: base_clock.Clock,
) -> WorkerLogs:
    """Clients are called as Java's: `<group.id>-<client.id>-configs` and so on.

    `exactly_once`: from PREPARING on leaders fence each other; only when ENABLED everybody reads
    committed records alone (KIP-618).
    `may_create`: internal.topics.automatic.creation.enable. `on_broken`: see `KafkaSharedLog`;
    `on_trouble`: see `InternalTopics`.
    Raises `FatalError` on settings that the library refuses.
    """
    name = f"{group_id}-{client_id}-" if client_id else f"{group_id}-"
    admin = topic_admin.TopicAdmin(access, client_id=f"{name}shared-admin", clock=clock)
    makes = internal_topics.InternalTopics(
        admin=admin, clock=clock, may_create=may_create, on_trouble=on_trouble
    )
    found = {each.purpose: each for each in topics.topics}

    def log(purpose: topic_settings.Purpose) -> shared_log.KafkaSharedLog:
        status = purpose is _Purpose.STATUS
        once, forever = log_writer.Patience.TRIED_ONCE, log_writer.Patience.TRIED_FOREVER
        return shared_log.KafkaSharedLog(
            access,
            topic=found[purpose].name,
            client_id=f"{name}{_NAMES[purpose]}",
            admin=admin,
            prepare=functools.partial(makes.ensure, found[purpose]),
            clock=clock,
            manner=shared_log.Manner(
                patience=once if status else forever,
                committed_only=exactly_once is _ExactlyOnce.ENABLED and not status,
            ),
            on_broken=on_broken,
        )

    fenced = None
    if exactly_once is not _ExactlyOnce.DISABLED:
        fenced = fenced_writer.KafkaFencedWriter(
            access,
            topic=found[_Purpose.CONFIG].name,
            client_id=f"{name}configs-leader",
            transactional_id=f"connect-cluster-{group_id}",
            clock=clock,
        )
    return WorkerLogs(
        config=log(_Purpose.CONFIG),
        offset=log(_Purpose.OFFSET),
        status=log(_Purpose.STATUS),
        admin=admin,
        fenced=fenced,
    )
