"""Applies new configurations to running tasks, without a restart where possible.

A task keeps running if its configuration is unchanged or if it accepts the new configuration;
otherwise it must restart. Tasks decide on their own threads, in parallel. A task that takes too
long to decide is restarted. Java always restarts all tasks of the connector.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent import futures
from dataclasses import dataclass

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage.cluster_config_state import RawConfig
from connect_runtime.worker import task_factory
from connect_runtime.worker.pipeline_task import WorkerPipelineTask
from connect_runtime.worker.task_factory import BuiltTask, ReconfigureDecision, ResolvedTaskConfigs
from connect_runtime.worker.worker_task import WorkerTask

_LOG = logging.getLogger(__name__)

RECONFIGURE_TIMEOUT_S = 5.0
"""Time in which all tasks of one `reconfigure_tasks` call must accept or refuse their new
configurations. A pipeline task normally applies requests twice a second."""


@dataclass(slots=True)
class RunningTask:
    """A running task and the configurations it was built from, which `reconfigure_tasks`
    updates."""

    worker_task: WorkerTask
    built_task: BuiltTask

    @property
    def task_id(self) -> ConnectorTaskId:
        return self.worker_task.task


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReconfiguration:
    """A running task and the new configuration to apply to it."""

    running_task: RunningTask
    raw_config: RawConfig
    new_origin: ResolvedTaskConfigs | None
    """The resolved configurations from which the task would be built now; None if their `${…}`
    references cannot be resolved."""


def reconfigure_tasks(wanted: Iterable[TaskReconfiguration]) -> frozenset[ConnectorTaskId]:
    """Apply new configurations to running tasks. Return the ids of the tasks that must be
    restarted.

    Waits up to `RECONFIGURE_TIMEOUT_S` for the tasks' decisions.
    """
    to_restart: set[ConnectorTaskId] = set()
    offers: dict[futures.Future[bool], TaskReconfiguration] = {}
    for each in wanted:
        match _decide_task_reconfiguration(each):
            case ReconfigureDecision.RESTART:
                to_restart.add(each.running_task.task_id)
            case ReconfigureDecision.OFFER:
                offers[_offer_configuration(each)] = each
            case ReconfigureDecision.SAME:
                _LOG.info(
                    "task %s keeps running: its configuration is unchanged",
                    each.running_task.task_id,
                )
    futures.wait(offers, timeout=RECONFIGURE_TIMEOUT_S)
    for offer, each in offers.items():
        if offer.done() and offer.result():
            assert each.new_origin is not None
            each.running_task.built_task.origin = each.new_origin
            _LOG.info(
                "task %s accepted its new configuration without a restart",
                each.running_task.task_id,
            )
        else:
            to_restart.add(each.running_task.task_id)
    return frozenset(to_restart)


def _decide_task_reconfiguration(wanted: TaskReconfiguration) -> ReconfigureDecision:
    """Decide how to apply a new configuration to a task. A failed task is restarted, as in Java."""
    of = wanted.running_task
    if wanted.new_origin is None or of.worker_task.has_ended:
        return ReconfigureDecision.RESTART
    return task_factory.decide_reconfiguration(
        of.built_task.origin,
        wanted.new_origin,
        is_pipeline=isinstance(of.built_task.body, WorkerPipelineTask),
    )


def _offer_configuration(wanted: TaskReconfiguration) -> futures.Future[bool]:
    made, now, raw = wanted.running_task.built_task, wanted.new_origin, wanted.raw_config

    def apply_configuration() -> bool:
        assert now is not None
        assert isinstance(made.body, WorkerPipelineTask)
        accepted = made.body.reconfigure(now.task)
        if accepted:
            made.props.raw = raw
        return accepted

    return wanted.running_task.worker_task.request_reconfiguration(apply_configuration)
