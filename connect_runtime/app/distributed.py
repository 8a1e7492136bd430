"""A worker in a group: what `connect-distributed` runs. Java: ConnectDistributed."""

from __future__ import annotations

import functools
import logging
import random
from collections.abc import Callable

from connect_runtime.adapters.kafka import group as kafka_group
from connect_runtime.adapters.kafka import topic_admin, worker_logs
from connect_runtime.app import worker_core, worker_process
from connect_runtime.app.settings import distributed
from connect_runtime.base import errors
from connect_runtime.core.herder import rivals
from connect_runtime.ports import group
from connect_runtime.runtime import rebalance_metrics
from connect_runtime.system import clock

_LOG = logging.getLogger(__name__)

GROUPS_S = 10.0
"""What looking for other Connect clusters on the same topics may take."""


def worker(settings: distributed.Settings) -> worker_process.WorkerProcess:
    """Not started. Raises `FatalError` on settings that the client library refuses."""
    return worker_process.WorkerProcess(functools.partial(kind, settings))


def kind(
    settings: distributed.Settings,
    on_broken: Callable[[str], None],
    *,
    on_trouble: Callable[[str], None] = lambda _: None,
) -> worker_core.Kind:
    """As `worker_core.MakeKind`, the settings given. `on_trouble`: see `InternalTopics`."""
    config = settings.config
    logs = worker_logs.make(
        settings.access,
        settings.topics,
        group_id=config.group_id,
        client_id=config.client_id,
        exactly_once=config.exactly_once,
        may_create=config.creates_topics,
        on_broken=on_broken,
        on_trouble=on_trouble,
        clock=clock.SystemClock(),
    )
    return worker_core.Kind(
        settings=settings,
        config=config,
        config_log=logs.config,
        status_log=logs.status,
        offset_log=logs.offset,
        fenced=logs.fenced,
        admin=logs.admin,
        make_group=functools.partial(_group, settings),
        offers=settings.offers,
        among_peers=True,
        check=functools.partial(_check, config.group_id, logs.admin),
    )


def _group(settings: distributed.Settings, around: worker_core.Around) -> group.Group:
    rebalances = rebalance_metrics.RebalanceMetrics(
        clock=clock.SystemClock(), sampling=settings.config.metrics.sampling
    )
    made = kafka_group.KafkaGroup(
        settings.group(worker_id=around.worker_id, url=around.url),
        clock=clock.SystemClock(),
        rng=random.Random(),  # noqa: S311 - spreads retries
        on_taken=rebalances.told,
    )
    around.metrics.rebalances = lambda: rebalances.count
    for each in (rebalances.readings, made.readings):
        around.metrics.add(each)
    return made


def _check(group_id: str, admin: topic_admin.TopicAdmin, seen: worker_core.Seen) -> None:
    """Raises `FatalError` where another Connect cluster is certain to use the same topics."""
    rival = rivals.find(
        admin.groups(GROUPS_S),
        rivals.Topics(config=seen.configs.snapshot(), statuses=seen.statuses.snapshot()),
        own_group=group_id,
        own_address=rivals.address(seen.worker_id),
    )
    if rival is not None and rival.certain:
        raise errors.FatalError(f"group {group_id}: {rival}")
    if rival is not None:
        _LOG.warning("%s", rival)
