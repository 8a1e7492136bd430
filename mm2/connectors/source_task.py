"""MirrorSourceTask: the partitions of one task, copied by the copy process that it supervises.

Java's task moves the records itself. What both write for others is the same: Connect source
offsets, offset syncs, topic names.
"""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Callable, Mapping
from random import Random

from connect_runtime.api.plugin_context import PipelineProgress, PipelineState
from connect_runtime.api.records import SourceOffset
from connect_runtime.api.task import PipelineTask
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock
from mm2.config import client_roles, engine_config, java_classes, mirror_connector_config
from mm2.config.engine_config import EngineSettings
from mm2.config.mirror_connector_config import MirrorSourceTaskConfig
from mm2.connectors import connect_offsets, connector_metrics, status_registry
from mm2.connectors.connector_clients import (
    KafkaSourceTaskClients,
    SourceTaskClients,
    SourceTaskClientsFactory,
)
from mm2.connectors.connector_metrics import SourceMetrics
from mm2.connectors.java_handover import JavaHandover, WaitingTask
from mm2.connectors.java_progress import JavaProgressReader
from mm2.connectors.offset_sync_emitter import OffsetSyncEmitter
from mm2.connectors.status_registry import SnapshotPublisher, TaskSnapshot, TaskState
from mm2.connectors.task_runner import SourceTaskDeps, SourceTaskRunner
from mm2.copier import control_messages, data_plane
from mm2.copier.data_plane import DataPlane
from mm2.formats import offset_map_records
from mm2.replication.latency import LatencySnapshot

OFFSET_REPORT_INTERVAL_S = 1.0
STATUS_INTERVAL_S = 0.5
STOP_MARGIN_S = 0.7
"""Of the time to stop so much is left for what follows the copy's end."""
_PIPELINE_STATES = {
    TaskState.STARTING: PipelineState.STARTING,
    TaskState.WAITING_FOR_SLOT: PipelineState.WAITING,
    TaskState.RUNNING: PipelineState.RUNNING,
    TaskState.STOPPING: PipelineState.RESTARTING,
    TaskState.STOPPED: PipelineState.RESTARTING,
    TaskState.RESTARTING: PipelineState.RESTARTING,
}
AcquireDataPlane = Callable[[EngineSettings | None, Clock], DataPlane]
_OWNER_ID = secrets.token_bytes(offset_map_records.OWNER_BYTES)
"""Marks the anchors of this worker process."""


class MirrorSourceTask(PipelineTask):
    """Java's of the same name."""

    def __init__(
        self,
        make_clients: SourceTaskClientsFactory = KafkaSourceTaskClients,
        *,
        acquire: AcquireDataPlane = data_plane.acquire,
    ) -> None:
        self._make_clients = make_clients
        self._acquire = acquire
        self._props: Mapping[str, str] = {}
        self._plane: DataPlane | None = None
        self._copy: SourceTaskRunner | None = None
        self._syncs: OffsetSyncEmitter | None = None
        self._java: JavaProgressReader | None = None
        self._wait: JavaHandover | None = None
        self._place: SnapshotPublisher[TaskSnapshot] | None = None
        self._pulse: SnapshotPublisher[LatencySnapshot] | None = None
        self._report_due_s = self._show_due_s = 0.0
        self._told: tuple[PipelineState, str] | None = None
        self._stored: dict[str, int] = {}
        self._stopping: SourceTaskRunner | None = None

    def version(self) -> str:
        return java_classes.KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`, and `FatalError` where the data plane cannot be had. Nothing is
        asked of the clusters yet."""
        share = mirror_connector_config.parse_source_task(props)
        self._props = dict(props)
        clock = self.context.clock
        number = self.context.task_id.task if share.number is None else share.number
        clients = self._make_clients(share.config, clock=clock, task=number)
        engine = engine_config.parse_engine_settings(
            props, worker=self.context.worker_properties("mm2.")
        )
        self._plane = self._acquire(engine, clock)
        if share.config.syncs_topic is not None:
            self._syncs = OffsetSyncEmitter(
                clients.sync_writer(), lag_max=share.config.lag_max, clock=clock
            )
        self._copy = SourceTaskRunner(
            share, self._around(share, clients, plane=self._plane, number=number)
        )
        self._place = status_registry.REGISTRY.task(share.config.flow.name, number)
        self._pulse = status_registry.REGISTRY.pulse(share.config.flow.name, number)
        self._copy.start()

    def _around(
        self,
        share: MirrorSourceTaskConfig,
        clients: SourceTaskClients,
        *,
        plane: DataPlane,
        number: int,
    ) -> SourceTaskDeps:
        clock = self.context.clock
        figures = SourceMetrics(
            connector_metrics.build_metrics_owner(self.context.task_id, share.config.common),
            clock=clock,
        )
        self.context.add_metrics(figures.families)
        self._java = JavaProgressReader(
            share.config.common.source,
            share.partitions,
            offsets=self.context.offset_reader,
            syncs=None if share.config.syncs_topic is None else clients.syncs,
            clock=clock,
        )
        self._wait = self._make_wait(share)
        return SourceTaskDeps(
            plane=plane,
            clients=clients,
            clock=clock,
            random=Random(),  # noqa: S311 - jitter, not secrets
            owner=_OWNER_ID,
            number=number,
            in_group=self.context.session_timeout_s < math.inf,
            java=self._java.read,
            syncs=self._syncs,
            may_take=self._may_take,
            may_live=self._may_live,
            waits=self._wait.reason,
            gauged=figures.observe,
            assigned=figures.assigned,
        )

    def _make_wait(self, share: MirrorSourceTaskConfig) -> JavaHandover:
        return JavaHandover(
            WaitingTask(
                flow=share.config.flow.name,
                task=self.context.task_id,
                partitions=share.partitions,
            ),
            runs=self.context.last_runs,
            producer=client_roles.resolve_task_producer(share.config.common.props),
            skipped=share.config.java_stopped,
            clock=self.context.clock,
        )

    def run_once(self, timeout_s: float) -> None:
        assert self._copy is not None, "it was not started"
        self._copy.run_once(timeout_s)
        now_s = self.context.clock.now_s()
        self._tell(self._copy, offsets=now_s >= self._report_due_s)
        if now_s >= self._show_due_s:
            self._show_due_s = now_s + STATUS_INTERVAL_S
            self._show(self._copy)

    def pause(self) -> None:
        assert self._copy is not None, "it was not started"
        self._copy.pause(paused=True)

    def resume(self) -> None:
        assert self._copy is not None, "it was not started"
        self._copy.pause(paused=False)

    def reconfigure(self, props: Mapping[str, str]) -> bool:
        """Throttles, and what the connector alone acts on, change nothing else."""
        if self._copy is None or not mirror_connector_config.can_reconfigure_live(
            self._props, props
        ):
            return False
        share = mirror_connector_config.parse_source_task(props)
        self._copy.change(share)
        if self._wait is not None:
            self._wait.skipped = share.config.java_stopped
        self._props = dict(props)
        return True

    def stop(self) -> None:
        """Settles what is on its way within `context.stop_timeout_s`, and reports it."""
        copy, plane, place = self._copy, self._plane, self._place
        self._copy = self._plane = self._place = None
        pulse, self._pulse = self._pulse, None
        with contextlib.ExitStack() as closing:
            if plane is not None:
                closing.callback(plane.release)
            if place is not None:
                closing.callback(place.leave)
            if pulse is not None:
                closing.callback(pulse.leave)
            if self._java is not None:
                closing.callback(self._java.close)
            if copy is not None:
                self._stopping = copy
                copy.stop(max(STOP_MARGIN_S, self.context.stop_timeout_s - STOP_MARGIN_S))
                self._tell(copy, offsets=True)
            elif self._syncs is not None:
                self._syncs.close(0.0)

    def abandon(self) -> None:
        """From any thread: cut the copy off, settled or not."""
        copy = self._stopping or self._copy
        if copy is not None:
            copy.abandon()

    # What the copy asks

    def _may_take(self, asked_at_s: float) -> bool:
        """Once the group has confirmed, later than the copy asked, that the task is this
        worker's."""
        if self.context.confirmed_at_s() > asked_at_s:
            return True
        self.context.confirm_soon()
        return False

    def _may_live(self, now_s: float) -> bool:
        """After a session without a word the task may be somebody else's; a rebalance that takes
        as long again ends no copy."""
        patience_s = self.context.session_timeout_s + control_messages.PEER_TIMEOUT_S
        if now_s - self.context.confirmed_at_s() < patience_s:
            return True
        self.context.confirm_soon()
        return False

    # What others are told

    def _tell(self, copy: SourceTaskRunner, *, offsets: bool) -> None:
        """The worker: how far the copy is, when that is news."""
        supervised = copy.copy
        if supervised is None:
            state, reason = PipelineState.STARTING, copy.reason
        else:
            state, reason = _PIPELINE_STATES[supervised.state], supervised.reason
        if state is PipelineState.RUNNING and self._wait is not None:
            reason = reason or self._wait.beside
        if state is PipelineState.WAITING:
            reason = f"its copy waits for a slot; the engine lacks {self._slots_missing()}"
        moved = self._moved(copy) if offsets else ()
        if (state, reason) == self._told and not offsets:
            return
        self._told = (state, reason)
        if offsets:
            self._report_due_s = self.context.clock.now_s() + OFFSET_REPORT_INTERVAL_S
            if self._syncs is not None:
                self._syncs.committed()
        totals = () if supervised is None else supervised.figures.all_totals().values()
        self.context.report(
            PipelineProgress(
                state=state,
                reason=reason,
                records_total=sum(each.records for each in totals),
                bytes_total=sum(each.bytes for each in totals),
                offsets=moved,
            )
        )

    def _moved(self, copy: SourceTaskRunner) -> list[SourceOffset]:
        """Java's progress of each partition that was copied further since it was asked last."""
        supervised = copy.copy
        if supervised is None:
            return []
        found = []
        alias = copy.share.config.common.source
        for index, gauge in supervised.figures.gauges.items():
            where = supervised.settings.partitions[index]
            if gauge.copied_to > 0 and self._stored.get(where.name) != gauge.copied_to:
                self._stored[where.name] = gauge.copied_to
                name = TopicPartition(where.topic, where.partition)
                found.append(
                    SourceOffset(
                        partition=connect_offsets.build_source_partition(alias, name),
                        offset=connect_offsets.build_source_offset(gauge.copied_to),
                    )
                )
        return found

    def _show(self, copy: SourceTaskRunner) -> None:
        """Everybody who looks at the board."""
        assert self._place is not None
        supervised, wait = copy.copy, self._wait
        assert wait is not None
        if supervised is not None:
            wait.observe()
        left_s = 0.0 if supervised is not None else wait.left_s(self.context.clock.now_s())
        reason = f"{copy.reason} ({math.ceil(left_s)} s left)" if left_s else copy.reason
        waits = supervised is not None and (supervised.state is TaskState.WAITING_FOR_SLOT)
        missing = min(1, self._slots_missing()) if waits else 0
        copy.report.make(
            supervised,
            reason=reason,
            slots_missing=missing,
            props=self._props,
            beside_java=wait.beside,
        )
        self._place.put(copy.report.shown)
        if supervised is not None and supervised.figures.pulse is not None and self._pulse:
            self._pulse.put(supervised.figures.pulse)

    def _slots_missing(self) -> int:
        """Of all copies of this process."""
        return 0 if self._plane is None else self._plane.engine.slots().missing
