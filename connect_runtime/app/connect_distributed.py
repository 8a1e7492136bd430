"""Implements `connect-distributed`: builds and runs a worker that shares connectors and tasks with
its group.

Java: ConnectDistributed.
"""

from __future__ import annotations

import functools
import logging
import pathlib
import random
import sys
from collections.abc import Callable

from connect_runtime.app import command_line, distributed_settings
from connect_runtime.app.command_line import ConnectWorkerCommand
from connect_runtime.app.distributed_settings import DistributedSettings
from connect_runtime.app.worker_assembly import (
    WorkerGroupDeps,
    WorkerMode,
    WorkerStateBeforeJoining,
)
from connect_runtime.app.worker_process import WorkerProcess
from connect_runtime.base.errors import FatalError
from connect_runtime.herder.worker_group_interface import WorkerGroup
from connect_runtime.kafka import conflicting_connect_cluster, internal_topic_logs
from connect_runtime.kafka.conflicting_connect_cluster import InternalTopicsContent
from connect_runtime.kafka.kafka_worker_group import KafkaWorkerGroup
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.system import process_start_and_exit
from connect_runtime.system.signals import StopSignals
from connect_runtime.system.system_clock import SystemClock
from connect_runtime.worker.rebalance_metrics import RebalanceMetrics

_LOG = logging.getLogger(__name__)

CONFLICT_CHECK_TIMEOUT_S = 10.0
"""Timeout of the check for other Connect clusters that use the same internal topics."""


def build_worker(settings: DistributedSettings) -> WorkerProcess:
    """Build a distributed worker without starting it.

    Raises `FatalError` if the Kafka client library rejects the settings.
    """
    return WorkerProcess(functools.partial(build_worker_mode, settings))


def build_worker_mode(
    settings: DistributedSettings,
    on_broken: Callable[[str], None],
    *,
    on_trouble: Callable[[str], None] = lambda _: None,
) -> WorkerMode:
    """Build the `WorkerMode`: the components that only distributed workers use.

    While an internal topic is missing and cannot be created yet, `on_trouble` is called with the
    error. It is called with "" once the topic exists.
    """
    config = settings.config
    logs = internal_topic_logs.create_internal_topic_logs(
        settings.access,
        settings.topics,
        group_id=config.group_id,
        client_id=config.client_id,
        exactly_once=config.exactly_once,
        may_create=config.creates_topics,
        on_broken=on_broken,
        on_trouble=on_trouble,
        clock=SystemClock(),
    )
    return WorkerMode(
        settings=settings,
        config=config,
        config_log=logs.config,
        status_log=logs.status,
        offset_log=logs.offset,
        fenced_writer=logs.fenced_writer,
        admin=logs.admin,
        make_group=functools.partial(_build_worker_group, settings),
        connect_protocol=settings.connect_protocol,
        has_peers=True,
        check_startup=functools.partial(_check_conflicting_clusters, config.group_id, logs.admin),
    )


def _build_worker_group(settings: DistributedSettings, around: WorkerGroupDeps) -> WorkerGroup:
    rebalances = RebalanceMetrics(clock=SystemClock(), sampling=settings.config.metrics.sampling)
    made = KafkaWorkerGroup(
        settings.build_group_settings(worker_id=around.worker_id, url=around.url),
        clock=SystemClock(),
        rng=random.Random(),  # noqa: S311 - spreads retries
        on_taken=rebalances.record_event,
    )
    around.metrics.rebalances = lambda: rebalances.completed_rebalances
    for each in (rebalances.get_metric_readings, made.get_metric_readings):
        around.metrics.add_metric_readings(each)
    return made


def _check_conflicting_clusters(
    group_id: str, admin: TopicAdmin, seen: WorkerStateBeforeJoining
) -> None:
    """Raise `FatalError` if another Connect cluster uses the same internal topics. Log a warning if
    another Connect cluster may use the same internal topics, but this is not certain."""
    rival = conflicting_connect_cluster.find_conflicting_cluster(
        admin.list_connect_groups(CONFLICT_CHECK_TIMEOUT_S),
        InternalTopicsContent(config=seen.configs.snapshot(), statuses=seen.statuses.snapshot()),
        own_group=group_id,
        own_address=conflicting_connect_cluster.parse_worker_address(seen.worker_id),
    )
    if rival is not None and rival.is_certain:
        raise FatalError(f"group {group_id}: {rival}")
    if rival is not None:
        _LOG.warning("%s", rival)


def _run_distributed_worker(files: tuple[pathlib.Path, ...], stop: StopSignals) -> int:
    given = distributed_settings.read_settings(files[0])
    for each in given.warnings:
        _LOG.warning("%s", each)
    if len(files) > 1:
        _LOG.warning(
            "connector file %s is ignored: create connectors through the REST API", files[1]
        )
    return command_line.run_worker_until_stopped(lambda: build_worker(given), stop)


COMMAND = ConnectWorkerCommand(
    "connect-distributed",
    _run_distributed_worker,
    usage="ConnectDistributed worker.properties",
    help_text="""Run a distributed Kafka Connect worker, which shares tasks with its group.

    The file has the same format as in Apache Kafka.

    SIGTERM or Ctrl-C stops the worker gracefully, a second signal immediately. Exit codes: 1 wrong
    arguments, or the worker failed; 2 invalid settings; 3 the worker did not start; 130 or 143
    stopped by a signal.

    \b
    Examples:
      connect-distributed config/connect-distributed.properties
      connect-distributed --log-format json --log-level WARN worker.properties
    """,
)


def main() -> None:
    """Run `connect-distributed` and exit the process with its exit code."""
    process_start_and_exit.exit_process(command_line.run_command(COMMAND, sys.argv[1:]))


if __name__ == "__main__":
    main()
