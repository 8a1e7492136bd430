"""A worker in a group: what `connect-distributed` runs. Java: ConnectDistributed."""

from __future__ import annotations

import logging
import random

from connect_runtime.adapters.kafka import group as kafka_group
from connect_runtime.adapters.kafka import worker_logs
from connect_runtime.app import worker_process
from connect_runtime.app.settings import distributed
from connect_runtime.base import errors
from connect_runtime.core.herder import rivals
from connect_runtime.ports import group
from connect_runtime.runtime import rebalance_metrics
from connect_runtime.runtime.stores import config_store, status_store
from connect_runtime.system import clock

_LOG = logging.getLogger(__name__)

GROUPS_S = 10.0
"""What looking for other Connect clusters on the same topics may take."""


def worker(settings: distributed.Settings) -> worker_process.WorkerProcess:
    """Not started. Raises `FatalError` on settings that the client library refuses."""
    config = settings.config
    logs = worker_logs.make(
        settings.access,
        settings.topics,
        group_id=config.group_id,
        client_id=config.client_id,
        exactly_once=config.exactly_once,
        may_create=config.creates_topics,
        clock=clock.SystemClock(),
    )

    def make_group(around: worker_process.Around) -> group.Group:
        rebalances = rebalance_metrics.RebalanceMetrics(
            clock=clock.SystemClock(), sampling=config.metrics.sampling
        )
        made = kafka_group.KafkaGroup(
            settings.group(worker_id=around.worker_id, url=around.url),
            clock=clock.SystemClock(),
            rng=random.Random(),  # noqa: S311 - spreads retries
            on_taken=rebalances.told,
        )
        for each in (rebalances.readings, made.readings):
            around.metrics.add(each)
        return made

    def check(
        worker_id: str, configs: config_store.ConfigStore, statuses: status_store.StatusStore
    ) -> None:
        rival = rivals.find(
            logs.admin.groups(GROUPS_S),
            rivals.Topics(config=configs.snapshot(), statuses=statuses.snapshot()),
            own_group=config.group_id,
            own_address=worker_id,
        )
        if rival is not None and rival.certain:
            raise errors.FatalError(f"group {config.group_id}: {rival}")
        if rival is not None:
            _LOG.warning("%s", rival)

    return worker_process.WorkerProcess(
        worker_process.Kind(
            settings=settings,
            config=config,
            config_log=logs.config,
            status_log=logs.status,
            offset_log=logs.offset,
            fenced=logs.fenced,
            admin=logs.admin,
            make_group=make_group,
            offers=settings.offers,
            among_peers=True,
            check=check,
        )
    )
