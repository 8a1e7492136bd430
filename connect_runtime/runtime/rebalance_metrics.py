"""What is measured of rebalances: told by the herder's driver, read by any thread."""

from __future__ import annotations

import threading

from connect_runtime.base import clock as base_clock
from connect_runtime.base import sampled
from connect_runtime.core.herder import events, participation, rebalance_figures
from connect_runtime.core.task import metric_groups, metric_names


class RebalanceMetrics:
    """Of a member of a group; a worker alone has none. `readings` is for `WorkerMetrics.add`."""

    def __init__(self, *, clock: base_clock.Clock, sampling: sampled.Sampling) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._figures = rebalance_figures.RebalanceFigures(sampling)

    def told(self, news: participation.News) -> None:
        """Every piece of the group's news, as the herder takes it: a rebalance begins with
        `JoinAsked`, and is complete with a round whose assignment is none of failure, since such
        a round has to be repeated. All else means nothing here."""
        with self._lock:
            now_s = self._clock.now_s()
            match news:
                case events.JoinAsked():
                    self._figures.began(now_s)
                case events.RoundCompleted(assignment=assignment) if not assignment.failed:
                    self._figures.completed(
                        now_s,
                        leader_url=assignment.leader_url,
                        epoch=news.generation,
                        speaks=news.speaks,
                    )
                case _:
                    pass

    @property
    def count(self) -> int:
        """How many were completed."""
        with self._lock:
            return self._figures.count

    def readings(self) -> list[metric_groups.Reading]:
        with self._lock:
            return [
                metric_groups.Reading(
                    group=metric_names.REBALANCES,
                    numbers=self._figures.numbers(self._clock.now_s()),
                    texts=self._figures.texts(),
                )
            ]
