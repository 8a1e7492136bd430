"""Reconfigures running tasks in place.

Each task continues unchanged, accepts its new configuration, or must restart. Tasks decide on
their own threads, all at the same time. A task that takes too long is restarted, as every task
is in Java.
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
from connect_runtime.worker.task_factory import BuiltTask, ReconfigureDecision, TaskOrigin
from connect_runtime.worker.worker_task import WorkerTask

_LOG = logging.getLogger(__name__)

RECONFIGURE_TIMEOUT_S = 5.0
"""A pipeline normally checks for changes twice a second."""


@dataclass(slots=True)
class RunningTask:
    """A running task and what it was built from, which `reconfigure_tasks` updates."""

    run: WorkerTask
    made: BuiltTask

    @property
    def task(self) -> ConnectorTaskId:
        return self.run.task


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReconfiguration:
    """A running task and its new configuration."""

    of: RunningTask
    raw: RawConfig
    now: TaskOrigin | None
    """None if the configuration cannot be resolved."""


def reconfigure_tasks(wanted: Iterable[TaskReconfiguration]) -> frozenset[ConnectorTaskId]:
    """Reconfigure tasks and return those that must be restarted.

    Waits for the tasks' decisions, up to `RECONFIGURE_TIMEOUT_S`.
    """
    to_restart: set[ConnectorTaskId] = set()
    offers: dict[futures.Future[bool], TaskReconfiguration] = {}
    for each in wanted:
        match _decide_for_task(each):
            case ReconfigureDecision.RESTART:
                to_restart.add(each.of.task)
            case ReconfigureDecision.OFFER:
                offers[_offer_configuration(each)] = each
            case ReconfigureDecision.SAME:
                _LOG.info("task %s keeps running: its configuration is unchanged", each.of.task)
    futures.wait(offers, timeout=RECONFIGURE_TIMEOUT_S)
    for offer, each in offers.items():
        if offer.done() and offer.result():
            assert each.now is not None
            each.of.made.origin = each.now
            _LOG.info("task %s accepted its new configuration without a restart", each.of.task)
        else:
            to_restart.add(each.of.task)
    return frozenset(to_restart)


def _decide_for_task(wanted: TaskReconfiguration) -> ReconfigureDecision:
    """Decide how to reconfigure a task; a failed one is restarted, as in Java."""
    of = wanted.of
    if wanted.now is None or of.run.ended:
        return ReconfigureDecision.RESTART
    return task_factory.decide_reconfiguration(
        of.made.origin,
        wanted.now,
        moves_itself=isinstance(of.made.body, WorkerPipelineTask),
    )


def _offer_configuration(wanted: TaskReconfiguration) -> futures.Future[bool]:
    made, now, raw = wanted.of.made, wanted.now, wanted.raw

    def apply_configuration() -> bool:
        assert now is not None
        assert isinstance(made.body, WorkerPipelineTask)
        accepted = made.body.reconfigure(now.task)
        if accepted:
            made.props.raw = raw
        return accepted

    return wanted.of.run.offer(apply_configuration)
