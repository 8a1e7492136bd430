"""MirrorSourceTask: runs a copy process that replicates the partitions of one task.

Java's task replicates the records itself. Both tasks use the same Connect source offsets, offset
syncs and topic names.
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
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import TopicPartition
from mm2.config import (
    copy_engine_config,
    java_class_placeholders,
    mirror_connector_client_properties,
    mirror_connector_config,
)
from mm2.config.copy_engine_config import EngineSettings
from mm2.config.mirror_connector_config import MirrorSourceTaskConfig
from mm2.connectors import connect_offsets, connector_metrics, status_registry
from mm2.connectors.connector_kafka_clients import (
    KafkaSourceTaskClients,
    SourceTaskClients,
    SourceTaskClientsFactory,
)
from mm2.connectors.connector_metrics import SourceMetrics
from mm2.connectors.java_replication_progress import JavaProgressReader
from mm2.connectors.java_worker_handover_wait import JavaHandover, WaitingTask
from mm2.connectors.offset_sync_emitter import OffsetSyncEmitter
from mm2.connectors.source_task_runner import SourceTaskDeps, SourceTaskRunner
from mm2.connectors.status_registry import SnapshotPublisher, TaskSnapshot, TaskState
from mm2.copier import control_channel_messages, shared_copy_engine
from mm2.copier.shared_copy_engine import DataPlane
from mm2.formats import offset_map_records
from mm2.replication.replication_latency import LatencySnapshot

OFFSET_REPORT_INTERVAL_S = 1.0
STATUS_INTERVAL_S = 0.5
STOP_MARGIN_S = 0.7
"""Part of the task's stop timeout, in seconds, that is reserved for closing resources after the
copy process has ended."""
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
"""Identifies this worker process in the resume points that its copy processes write to the offset
map."""


class MirrorSourceTask(PipelineTask):
    """MirrorMaker 2's source task."""

    def __init__(
        self,
        create_clients: SourceTaskClientsFactory = KafkaSourceTaskClients,
        *,
        acquire: AcquireDataPlane = shared_copy_engine.acquire,
    ) -> None:
        self._make_clients = create_clients
        self._acquire = acquire
        self._props: Mapping[str, str] = {}
        self._plane: DataPlane | None = None
        self._runner: SourceTaskRunner | None = None
        self._syncs: OffsetSyncEmitter | None = None
        self._java: JavaProgressReader | None = None
        self._handover: JavaHandover | None = None
        self._publisher: SnapshotPublisher[TaskSnapshot] | None = None
        self._latency_publisher: SnapshotPublisher[LatencySnapshot] | None = None
        self._report_due_s = self._publish_due_s = 0.0
        self._last_report: tuple[PipelineState, str] | None = None
        self._reported_offsets: dict[str, int] = {}
        self._stopping_runner: SourceTaskRunner | None = None

    def version(self) -> str:
        return java_class_placeholders.KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        """Acquire the data plane (engine and control server of the copy processes) and start
        reading topic metadata on a thread.

        Raises `ConfigError` if the configuration is invalid, and `FatalError` if the data plane
        cannot be opened.
        """
        task_config = mirror_connector_config.parse_source_task_config(props)
        self._props = dict(props)
        clock = self.context.clock
        number = (
            self.context.task_id.task if task_config.task_index is None else task_config.task_index
        )
        clients = self._make_clients(task_config.config, clock=clock, task=number)
        engine = copy_engine_config.parse_engine_settings(
            props, worker=self.context.get_worker_properties("mm2.")
        )
        self._plane = self._acquire(engine, clock)
        if task_config.config.syncs_topic is not None:
            self._syncs = OffsetSyncEmitter(
                clients.create_offset_syncs_writer(),
                lag_max=task_config.config.lag_max,
                clock=clock,
            )
        self._runner = SourceTaskRunner(
            task_config,
            self._build_runner_deps(task_config, clients, plane=self._plane, number=number),
        )
        self._publisher = status_registry.REGISTRY.create_task_publisher(
            task_config.config.flow.name, number
        )
        self._latency_publisher = status_registry.REGISTRY.create_latency_publisher(
            task_config.config.flow.name, number
        )
        self._runner.start()

    def _build_runner_deps(
        self,
        task_config: MirrorSourceTaskConfig,
        clients: SourceTaskClients,
        *,
        plane: DataPlane,
        number: int,
    ) -> SourceTaskDeps:
        clock = self.context.clock
        metrics = SourceMetrics(
            connector_metrics.build_metrics_owner(self.context.task_id, task_config.config.common),
            clock=clock,
        )
        self.context.add_metrics(metrics.collect)
        self._java = JavaProgressReader(
            task_config.config.common.source,
            task_config.partitions,
            offsets=self.context.offset_reader,
            connect_syncs=None
            if task_config.config.syncs_topic is None
            else clients.create_offset_syncs_reader,
            clock=clock,
        )
        self._handover = self._create_handover(task_config)
        return SourceTaskDeps(
            data_plane=plane,
            clients=clients,
            clock=clock,
            random=Random(),  # noqa: S311 - jitter, not secrets
            owner_id=_OWNER_ID,
            task_number=number,
            in_group=self.context.session_timeout_s < math.inf,
            read_java_progress=self._java.read_progress,
            sync_emitter=self._syncs,
            may_acquire=self._may_acquire_partitions,
            may_keep_running=self._may_copy_process_keep_running,
            get_wait_reason=self._handover.get_wait_reason,
            on_progress_report=metrics.record_progress_report,
            on_assigned=metrics.set_assigned_partitions,
        )

    def _create_handover(self, task_config: MirrorSourceTaskConfig) -> JavaHandover:
        return JavaHandover(
            WaitingTask(
                flow=task_config.config.flow.name,
                task=self.context.task_id,
                partitions=task_config.partitions,
            ),
            runs=self.context.get_last_task_runs,
            producer=mirror_connector_client_properties.resolve_task_producer_properties(
                task_config.config.common.props
            ),
            skipped=task_config.config.java_stopped,
            clock=self.context.clock,
        )

    def run_once(self, timeout_s: float) -> None:
        assert self._runner is not None, "call start first"
        self._runner.run_once(timeout_s)
        now_s = self.context.clock.now_s()
        self._report_progress(self._runner, offsets=now_s >= self._report_due_s)
        if now_s >= self._publish_due_s:
            self._publish_due_s = now_s + STATUS_INTERVAL_S
            self._publish_status(self._runner)

    def pause(self) -> None:
        assert self._runner is not None, "call start first"
        self._runner.set_paused(paused=True)

    def resume(self) -> None:
        assert self._runner is not None, "call start first"
        self._runner.set_paused(paused=False)

    def reconfigure(self, props: Mapping[str, str]) -> bool:
        """Apply throttles and settings of the connector without a restart. Returns False if a
        restart is needed."""
        if self._runner is None or not mirror_connector_config.can_reconfigure_live(
            self._props, props
        ):
            return False
        task_config = mirror_connector_config.parse_source_task_config(props)
        self._runner.reconfigure(task_config)
        if self._handover is not None:
            self._handover.skipped = task_config.config.java_stopped
        self._props = dict(props)
        return True

    def stop(self) -> None:
        """Finish in-flight batches within `context.stop_timeout_s` and report the final
        progress."""
        runner, plane, publisher = self._runner, self._plane, self._publisher
        self._runner = self._plane = self._publisher = None
        latency_publisher, self._latency_publisher = self._latency_publisher, None
        with contextlib.ExitStack() as closing:
            if plane is not None:
                closing.callback(plane.release_reference)
            if publisher is not None:
                closing.callback(publisher.remove)
            if latency_publisher is not None:
                closing.callback(latency_publisher.remove)
            if self._java is not None:
                closing.callback(self._java.close)
            if runner is not None:
                self._stopping_runner = runner
                runner.stop(max(STOP_MARGIN_S, self.context.stop_timeout_s - STOP_MARGIN_S))
                self._report_progress(runner, offsets=True)
            elif self._syncs is not None:
                self._syncs.close(0.0)

    def abandon(self) -> None:
        """Kill the copy process. Thread-safe."""
        runner = self._stopping_runner or self._runner
        if runner is not None:
            runner.kill_copy_process()

    # Requests of the copy process

    def _may_acquire_partitions(self, asked_at_s: float) -> bool:
        """Return True if the Connect group has confirmed this worker's ownership of the task since
        the copy process requested to acquire a partition."""
        if self.context.get_last_heartbeat_s() > asked_at_s:
            return True
        self.context.request_heartbeat()
        return False

    def _may_copy_process_keep_running(self, now_s: float) -> bool:
        """Return False if the Connect group has not confirmed the task's assignment to this worker
        within the last session timeout plus `PEER_TIMEOUT_S`. Another worker may then own the task.

        `PEER_TIMEOUT_S` is added so that a long rebalance does not end copy processes.
        """
        timeout_s = self.context.session_timeout_s + control_channel_messages.PEER_TIMEOUT_S
        if now_s - self.context.get_last_heartbeat_s() < timeout_s:
            return True
        self.context.request_heartbeat()
        return False

    # Reports

    def _report_progress(self, runner: SourceTaskRunner, *, offsets: bool) -> None:
        """Report the task's state and progress to the worker if they have changed."""
        supervised = runner.supervisor
        if supervised is None:
            state, reason = PipelineState.STARTING, runner.reason
        else:
            state, reason = _PIPELINE_STATES[supervised.state], supervised.reason
        if state is PipelineState.RUNNING and self._handover is not None:
            reason = reason or self._handover.warning
        if state is PipelineState.WAITING:
            reason = (
                f"waiting for a slot; {self._count_missing_slots()} more needed to run all tasks"
            )
        new_offsets = self._collect_offsets(runner) if offsets else ()
        if (state, reason) == self._last_report and not offsets:
            return
        self._last_report = (state, reason)
        if offsets:
            self._report_due_s = self.context.clock.now_s() + OFFSET_REPORT_INTERVAL_S
            if self._syncs is not None:
                self._syncs.handle_commit()
        totals = () if supervised is None else supervised.progress.get_all_totals().values()
        self.context.report(
            PipelineProgress(
                state=state,
                reason=reason,
                records_total=sum(each.records for each in totals),
                bytes_total=sum(each.bytes for each in totals),
                offsets=new_offsets,
            )
        )

    def _collect_offsets(self, runner: SourceTaskRunner) -> list[SourceOffset]:
        """Collect the Connect offsets of partitions that have advanced since the last call."""
        supervised = runner.supervisor
        if supervised is None:
            return []
        source_offsets = []
        alias = runner.task_config.config.common.source
        for index, report in supervised.progress.reports.items():
            where = supervised.settings.partitions[index]
            if (
                report.copied_to > 0
                and self._reported_offsets.get(where.source_name) != report.copied_to
            ):
                self._reported_offsets[where.source_name] = report.copied_to
                name = TopicPartition(where.topic, where.partition)
                source_offsets.append(
                    SourceOffset(
                        partition=connect_offsets.build_source_partition(alias, name),
                        offset=connect_offsets.build_source_offset(report.copied_to),
                    )
                )
        return source_offsets

    def _publish_status(self, runner: SourceTaskRunner) -> None:
        """Publish the task's status in the status registry."""
        assert self._publisher is not None
        supervised, handover = runner.supervisor, self._handover
        assert handover is not None
        if supervised is not None:
            handover.update_java_tasks_warning()
        left_s = (
            0.0
            if supervised is not None
            else handover.compute_remaining_s(self.context.clock.now_s())
        )
        reason = f"{runner.reason} ({math.ceil(left_s)} s left)" if left_s else runner.reason
        is_waiting = supervised is not None and (supervised.state is TaskState.WAITING_FOR_SLOT)
        missing = min(1, self._count_missing_slots()) if is_waiting else 0
        runner.status_builder.update_snapshot(
            supervised,
            reason=reason,
            slots_missing=missing,
            props=self._props,
            java_warning=handover.warning,
        )
        self._publisher.publish(runner.status_builder.snapshot)
        if (
            supervised is not None
            and supervised.progress.latency is not None
            and self._latency_publisher
        ):
            self._latency_publisher.publish(supervised.progress.latency)

    def _count_missing_slots(self) -> int:
        """Return how many additional task slots the engine needs to run all copy processes of this
        worker process."""
        return 0 if self._plane is None else self._plane.engine.get_slot_usage().missing_slots
