"""Other configurations for tasks that run here: who goes on as it is, who takes them up, who not.

Decided by `core.task.renewal`; what is offered a task considers on its own thread, all tasks at
the same time. A task that is busy for too long is started anew, as every task is in Java.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent import futures
from dataclasses import dataclass

from connect_runtime.base import ids
from connect_runtime.core.state import cluster_config
from connect_runtime.core.task import renewal
from connect_runtime.runtime import pipeline_task, task_bodies, task_run

_LOG = logging.getLogger(__name__)

CONSIDER_S = 5.0
"""A pipeline comes round twice a second, unless its task takes longer than it should."""


@dataclass(slots=True)
class Running:
    """A task that was begun here, and what it was made from, or has taken up since."""

    run: task_run.TaskRun
    made: task_bodies.Made

    @property
    def task(self) -> ids.ConnectorTaskId:
        return self.run.task


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A task that runs, and what it is to run with; `now` None where that cannot be told."""

    of: Running
    raw: cluster_config.RawConfig
    now: renewal.Origin | None


def renew(wanted: Iterable[Wanted]) -> frozenset[ids.ConnectorTaskId]:
    """Those that must be started anew. Waits for the others, `CONSIDER_S` at most."""
    left: set[ids.ConnectorTaskId] = set()
    offers: dict[futures.Future[bool], Wanted] = {}
    for each in wanted:
        match _judge(each):
            case renewal.Verdict.RESTART:
                left.add(each.of.task)
            case renewal.Verdict.OFFER:
                offers[_offer(each)] = each
            case renewal.Verdict.SAME:
                _LOG.info("task %s goes on: it is configured as before", each.of.task)
    futures.wait(offers, timeout=CONSIDER_S)
    for offer, each in offers.items():
        if offer.done() and offer.result():
            assert each.now is not None
            each.of.made.origin = each.now
            _LOG.info("task %s goes on by its new configuration", each.of.task)
        else:
            left.add(each.of.task)
    return frozenset(left)


def _judge(wanted: Wanted) -> renewal.Verdict:
    """One that has failed gets another chance, as in Java."""
    of = wanted.of
    if wanted.now is None or of.run.ended:
        return renewal.Verdict.RESTART
    return renewal.judge(
        of.made.origin,
        wanted.now,
        moves_itself=isinstance(of.made.body, pipeline_task.PipelineTaskBody),
    )


def _offer(wanted: Wanted) -> futures.Future[bool]:
    made, now, raw = wanted.of.made, wanted.now, wanted.raw

    def take_up() -> bool:
        assert now is not None
        assert isinstance(made.body, pipeline_task.PipelineTaskBody)
        taken = made.body.reconfigure(now.task)
        if taken:
            made.props.raw = raw
        return taken

    return wanted.of.run.offer(take_up)
