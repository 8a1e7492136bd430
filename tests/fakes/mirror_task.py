"""A MirrorSourceTask that is started, its clusters in memory, and a copy that is the test."""

from __future__ import annotations

from typing import Any

from connect_runtime.api.plugin_context import PipelineProgress, PipelineState
from mm2.connectors.source_task import MirrorSourceTask
from tests.fakes.copy_plane import FakePlane
from tests.fakes.plugin_contexts import Context
from tests.fakes.source_task_clients import FakeClusters
from tests.support import eventually

State = PipelineState
PROPS = {
    "name": "mirror",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "topics": "orders",
    "replication.factor": "1",
    "refresh.topics.interval.seconds": "600",
    "task.assigned.partitions": "orders-0,orders-1",
    "task.index": "3",
}
WAIT_S = 10.0


class MirrorTask:
    """A task that is started; its topics are there unless `there` is False."""

    def __init__(self, *, there: bool = True, mirrored: int = 2, **more: str) -> None:
        self.clusters = FakeClusters()
        self.plane = FakePlane()
        self.context = Context(confirmed_s=0.0, stop_timeout_s=0.8)
        self.context.clock.now = 0.5
        self.streamed = 0
        if there:
            self.clusters.source_cluster.create("orders", partitions=2)
            self.clusters.target_cluster.create("A.orders", partitions=mirrored)
        self.props = {**PROPS, **{name.replace("_", "."): value for name, value in more.items()}}
        self.task = MirrorSourceTask(self.clusters, acquire=self.plane.acquire)
        self.task.initialize(self.context)
        self.task.start(self.props)

    def turn(self, after_s: float = 0.0) -> None:
        self.context.clock.now += after_s
        self.task.run_once(0.0)

    def begins(self) -> MirrorTask:
        """Both clusters have answered, and the copy was told what to do."""

        def begun() -> bool:
            self.turn()
            return bool(self.plane.channels and self.plane.copy.told("configure"))

        eventually.eventually(begun, WAIT_S)
        return self

    def runs(self) -> MirrorTask:
        self.begins()
        self.plane.gauges()
        self.turn(0.1)
        assert self.told.state is State.RUNNING
        return self

    def confirm(self) -> None:
        self.context.confirmed_s = self.context.clock.now

    @property
    def told(self) -> PipelineProgress:
        return self.context.reports[-1]

    @property
    def offsets(self) -> list[tuple[Any, Any]]:
        return [
            (each.partition["partition"], each.offset["offset"])
            for report in self.context.reports
            for each in report.offsets
            if each.partition is not None and each.offset is not None
        ]
