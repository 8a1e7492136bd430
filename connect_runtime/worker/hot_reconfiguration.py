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
"""A pipeline comes round twice a second, unless its task takes longer than it should."""


@dataclass(slots=True)
class RunningTask:
    """A task that was begun here, and what it was made from, or has taken up since."""

    run: WorkerTask
    made: BuiltTask

    @property
    def task(self) -> ConnectorTaskId:
        return self.run.task


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReconfiguration:
    """A task that runs, and what it is to run with; `now` None where that cannot be told."""

    of: RunningTask
    raw: RawConfig
    now: TaskOrigin | None


def reconfigure_tasks(wanted: Iterable[TaskReconfiguration]) -> frozenset[ConnectorTaskId]:
    """Those that must be started anew. Waits for the others, `RECONFIGURE_TIMEOUT_S` at most."""
    left: set[ConnectorTaskId] = set()
    offers: dict[futures.Future[bool], TaskReconfiguration] = {}
    for each in wanted:
        match _decide_for_task(each):
            case ReconfigureDecision.RESTART:
                left.add(each.of.task)
            case ReconfigureDecision.OFFER:
                offers[_offer_configuration(each)] = each
            case ReconfigureDecision.SAME:
                _LOG.info("task %s goes on: it is configured as before", each.of.task)
    futures.wait(offers, timeout=RECONFIGURE_TIMEOUT_S)
    for offer, each in offers.items():
        if offer.done() and offer.result():
            assert each.now is not None
            each.of.made.origin = each.now
            _LOG.info("task %s goes on by its new configuration", each.of.task)
        else:
            left.add(each.of.task)
    return frozenset(left)


def _decide_for_task(wanted: TaskReconfiguration) -> ReconfigureDecision:
    """One that has failed gets another chance, as in Java."""
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

    def take_up() -> bool:
        assert now is not None
        assert isinstance(made.body, WorkerPipelineTask)
        taken = made.body.reconfigure(now.task)
        if taken:
            made.props.raw = raw
        return taken

    return wanted.of.run.offer(take_up)
