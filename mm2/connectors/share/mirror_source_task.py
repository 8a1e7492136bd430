"""MirrorSourceTask: a share of a flow's partitions, copied by the data plane of its process.

Java's of the same name moves records itself; this one supervises a copy that does. What both keep
for others is the same: source offsets, offset syncs, names.
"""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Callable, Mapping
from random import Random

from connect_runtime.api import context, records, task
from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from mm2.connectors import board, flow_status, task_metrics
from mm2.connectors.share import java_progress, java_wait, share_copy, sync_emitter, task_clients
from mm2.core import connect_offsets
from mm2.core.configs import engine_settings, java_classes, roles, task_share
from mm2.core.copy import crossing, messages
from mm2.formats import map_record
from mm2.pipeline import data_plane

REPORT_S = 1.0
SHOW_S = 0.5
SETTLE_S = 0.7
"""Of the time to stop so much is left for what follows the copy's end."""
_STATES = {
    flow_status.TaskState.STARTING: context.PipelineState.STARTING,
    flow_status.TaskState.WAITING_FOR_SLOT: context.PipelineState.WAITING,
    flow_status.TaskState.RUNNING: context.PipelineState.RUNNING,
    flow_status.TaskState.STOPPING: context.PipelineState.RESTARTING,
    flow_status.TaskState.STOPPED: context.PipelineState.RESTARTING,
    flow_status.TaskState.RESTARTING: context.PipelineState.RESTARTING,
}
Acquire = Callable[[engine_settings.EngineSettings | None, base_clock.Clock], data_plane.DataPlane]
_OWNER = secrets.token_bytes(map_record.OWNER_BYTES)
"""Marks the anchors of this worker process."""


class MirrorSourceTask(task.PipelineTask):
    """Java's of the same name."""

    def __init__(
        self,
        make_clients: task_clients.MakeClients = task_clients.KafkaClients,
        *,
        acquire: Acquire = data_plane.acquire,
    ) -> None:
        self._make_clients = make_clients
        self._acquire = acquire
        self._props: Mapping[str, str] = {}
        self._plane: data_plane.DataPlane | None = None
        self._copy: share_copy.ShareCopy | None = None
        self._syncs: sync_emitter.OffsetSyncEmitter | None = None
        self._java: java_progress.JavaProgress | None = None
        self._wait: java_wait.JavaWait | None = None
        self._place: board.Place[board.TaskShown] | None = None
        self._pulse: board.Place[crossing.Pulse] | None = None
        self._report_due_s = self._show_due_s = 0.0
        self._told: tuple[context.PipelineState, str] | None = None
        self._stored: dict[str, int] = {}
        self._stopping: share_copy.ShareCopy | None = None

    def version(self) -> str:
        return java_classes.VERSION

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`, and `FatalError` where the data plane cannot be had. Nothing is
        asked of the clusters yet."""
        share = task_share.read(props)
        self._props = dict(props)
        clock = self.context.clock
        number = self.context.task_id.task if share.number is None else share.number
        clients = self._make_clients(share.config, clock=clock, task=number)
        engine = engine_settings.read(props, worker=self.context.worker_properties("mm2."))
        self._plane = self._acquire(engine, clock)
        if share.config.syncs_topic is not None:
            self._syncs = sync_emitter.OffsetSyncEmitter(
                clients.sync_writer(), lag_max=share.config.lag_max, clock=clock
            )
        self._copy = share_copy.ShareCopy(
            share, self._around(share, clients, plane=self._plane, number=number)
        )
        self._place = board.BOARD.task(share.config.flow.name, number)
        self._pulse = board.BOARD.pulse(share.config.flow.name, number)
        self._copy.start()

    def _around(
        self,
        share: task_share.TaskShare,
        clients: task_clients.Clients,
        *,
        plane: data_plane.DataPlane,
        number: int,
    ) -> share_copy.Around:
        clock = self.context.clock
        figures = task_metrics.SourceMetrics(
            task_metrics.owner(self.context.task_id, share.config.common), clock=clock
        )
        self.context.add_metrics(figures.families)
        self._java = java_progress.JavaProgress(
            share.config.common.source,
            share.partitions,
            offsets=self.context.offset_reader,
            syncs=None if share.config.syncs_topic is None else clients.syncs,
            clock=clock,
        )
        self._wait = self._make_wait(share)
        return share_copy.Around(
            plane=plane,
            clients=clients,
            clock=clock,
            random=Random(),  # noqa: S311 - jitter, not secrets
            owner=_OWNER,
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

    def _make_wait(self, share: task_share.TaskShare) -> java_wait.JavaWait:
        return java_wait.JavaWait(
            java_wait.WaitingTask(
                flow=share.config.flow.name,
                task=self.context.task_id,
                partitions=share.partitions,
            ),
            runs=self.context.last_runs,
            producer=roles.task_producer(share.config.common.props),
            skipped=share.config.java_stopped,
            clock=self.context.clock,
        )

    def run_once(self, timeout_s: float) -> None:
        assert self._copy is not None, "it was not started"
        self._copy.run_once(timeout_s)
        now_s = self.context.clock.now_s()
        self._tell(self._copy, offsets=now_s >= self._report_due_s)
        if now_s >= self._show_due_s:
            self._show_due_s = now_s + SHOW_S
            self._show(self._copy)

    def pause(self) -> None:
        assert self._copy is not None, "it was not started"
        self._copy.pause(paused=True)

    def resume(self) -> None:
        assert self._copy is not None, "it was not started"
        self._copy.pause(paused=False)

    def reconfigure(self, props: Mapping[str, str]) -> bool:
        """Throttles, and what the connector alone acts on, change nothing else."""
        if self._copy is None or not task_share.goes_on(self._props, props):
            return False
        share = task_share.read(props)
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
                copy.stop(max(SETTLE_S, self.context.stop_timeout_s - SETTLE_S))
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
        patience_s = self.context.session_timeout_s + messages.SILENCE_LIMIT_S
        if now_s - self.context.confirmed_at_s() < patience_s:
            return True
        self.context.confirm_soon()
        return False

    # What others are told

    def _tell(self, copy: share_copy.ShareCopy, *, offsets: bool) -> None:
        """The worker: how far the copy is, when that is news."""
        supervised = copy.copy
        if supervised is None:
            state, reason = context.PipelineState.STARTING, copy.reason
        else:
            state, reason = _STATES[supervised.state], supervised.reason
        if state is context.PipelineState.RUNNING and self._wait is not None:
            reason = reason or self._wait.beside
        if state is context.PipelineState.WAITING:
            reason = f"its copy waits for a slot; the engine lacks {self._slots_missing()}"
        moved = self._moved(copy) if offsets else ()
        if (state, reason) == self._told and not offsets:
            return
        self._told = (state, reason)
        if offsets:
            self._report_due_s = self.context.clock.now_s() + REPORT_S
            if self._syncs is not None:
                self._syncs.committed()
        totals = () if supervised is None else supervised.figures.all_totals().values()
        self.context.report(
            context.PipelineProgress(
                state=state,
                reason=reason,
                records_total=sum(each.records for each in totals),
                bytes_total=sum(each.bytes for each in totals),
                offsets=moved,
            )
        )

    def _moved(self, copy: share_copy.ShareCopy) -> list[records.SourceOffset]:
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
                name = ids.TopicPartition(where.topic, where.partition)
                found.append(
                    records.SourceOffset(
                        partition=connect_offsets.source_partition(alias, name),
                        offset=connect_offsets.last_offset(gauge.copied_to),
                    )
                )
        return found

    def _show(self, copy: share_copy.ShareCopy) -> None:
        """Everybody who looks at the board."""
        assert self._place is not None
        supervised, wait = copy.copy, self._wait
        assert wait is not None
        if supervised is not None:
            wait.observe()
        left_s = 0.0 if supervised is not None else wait.left_s(self.context.clock.now_s())
        reason = f"{copy.reason} ({math.ceil(left_s)} s left)" if left_s else copy.reason
        waits = supervised is not None and (
            supervised.state is flow_status.TaskState.WAITING_FOR_SLOT
        )
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
