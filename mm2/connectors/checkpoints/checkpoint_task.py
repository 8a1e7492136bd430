"""MirrorCheckpointTask: a share of a flow's groups, their checkpoints as records, byte for byte
Java's; and, where that is wanted, their offsets on the target.

Unlike Java's it goes on looking for what cannot be read yet, and says why nothing comes.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from connect_runtime.api import errors as api_errors
from connect_runtime.api import records, schema, task
from connect_runtime.base import amounts, errors
from mm2.connectors import board, complaints, task_metrics
from mm2.connectors.checkpoints import checkpoint_clients, checkpoint_rounds, group_offset_sync
from mm2.core import connect_offsets
from mm2.core.configs import connector_configs, java_classes
from mm2.core.groups import acknowledged_rounds
from mm2.core.topics import assigned
from mm2.formats import checkpoint

TURN_S = 1.0
"""No poll waits longer, whatever the intervals: only between polls can the task be paused."""
AGAIN_S = 5.0
"""What could not be done is tried again after this time, or sooner if the interval is shorter."""
LOADING = "reading what was synced and published"
CHECKPOINTS = "making checkpoints"
GROUP_OFFSETS = "writing offsets of groups"
_T = TypeVar("_T")
_PARTITION = 0
_OFFSET = {connect_offsets.OFFSET: 0}
_NO_NUMBER = "?"
_NUMBERLESS = -1
_LOG = logging.getLogger(__name__)


class MirrorCheckpointTask(task.SourceTask):
    """Java's of the same name. Its records' Connect offsets say nothing, and are never read."""

    def __init__(
        self, make_clients: checkpoint_clients.MakeClients = checkpoint_clients.KafkaClients
    ) -> None:
        self._make_clients = make_clients
        self._topic = ""
        self._rounds: checkpoint_rounds.CheckpointRounds | None = None
        self._sync: group_offset_sync.GroupOffsetSync | None = None
        self._place: board.Place[board.GroupsShown] | None = None
        self._acknowledged = acknowledged_rounds.AcknowledgedRounds()
        self._stored: deque[None] = deque()
        """One for each record that was stored and is not counted yet; any thread adds to it."""
        self._emit_interval_s = self._sync_interval_s = math.inf
        self._emit_due_s = self._sync_due_s = 0.0

    def version(self) -> str:
        return java_classes.VERSION

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`. Nothing is asked of the clusters yet."""
        config = connector_configs.checkpoint(props)
        groups = assigned.groups(props)
        number = assigned.index(props)
        if config.emit_interval_s is None:
            raise api_errors.ConfigError("the task of a connector that writes no checkpoints")
        context = self.context
        self._complaints = complaints.Complaints(_LOG, clock=context.clock)
        self._metrics = task_metrics.CheckpointMetrics(
            task_metrics.owner(context.task_id, config.common), clock=context.clock
        )
        context.add_metrics(self._metrics.families)
        clients = self._make_clients(
            config,
            clock=context.clock,
            gone=lambda: context.wait(0.0),
            task=_NO_NUMBER if number is None else number,
        )
        self._topic = config.checkpoints_topic
        self._rounds = checkpoint_rounds.CheckpointRounds(
            config, groups, clients, clock=context.clock
        )
        self._place = board.BOARD.groups(
            config.flow.name, _NUMBERLESS if number is None else number
        )
        self._shown = board.GroupsShown(
            round_s=None,
            since_s=context.clock.now_s(),
            writes=config.sync_groups_interval_s is not None,
            find=self._rounds.find,
        )
        self._place.put(self._shown)
        self._emit_interval_s = config.emit_interval_s
        if config.sync_groups_interval_s is not None:
            self._sync_interval_s = config.sync_groups_interval_s
            self._sync = group_offset_sync.GroupOffsetSync(
                clients.target_groups(),
                clients.target_admin(),
                clients.target_logs(),
                timeout_s=config.common.admin_timeout_s,
            )
        self._emit_due_s = self._sync_due_s = context.clock.now_s()

    def stop(self) -> None:
        if self._place is not None:
            self._place.leave()
        for each in (self._rounds, self._sync):
            if each is not None:
                each.close()
        self._rounds = self._sync = None

    def poll(self) -> Sequence[records.SourceRecord] | None:
        assert self._rounds is not None, "it was not started"
        self._show_round()
        now_s = self.context.clock.now_s()
        if self._rounds.under_way:
            return self._emit(self._rounds)
        due_s = self._emit_due_s if self._sync is None else min(self._emit_due_s, self._sync_due_s)
        if now_s < due_s:
            self.context.wait(min(due_s - now_s, TURN_S))
            return None
        if not self._rounds.loaded:
            self._load(self._rounds)
            return None
        if now_s >= self._emit_due_s:
            return self._emit(self._rounds)
        self._sync_groups(self._rounds)
        return None

    def commit_record(
        self, record: records.SourceRecord, metadata: records.RecordMetadata | None
    ) -> None:
        self._stored.append(None)
        if metadata is None or record.timestamp is None:
            return
        late_ms = self.context.clock.wall_ms() - record.timestamp
        self._metrics.acknowledged(checkpoint.decode_key(record.key), max(0, late_ms))

    def _load(self, rounds: checkpoint_rounds.CheckpointRounds) -> None:
        """As long as it is not done neither are checkpoints made nor groups written."""
        done = self._tried(LOADING, rounds.load)
        if not done:
            again_s = self.context.clock.now_s() + min(AGAIN_S, self._emit_interval_s)
            self._emit_due_s = self._sync_due_s = again_s

    def _emit(self, rounds: checkpoint_rounds.CheckpointRounds) -> list[records.SourceRecord]:
        """Once at start, too: what changed while no task ran."""
        made = self._tried(CHECKPOINTS, rounds.make)
        now_s = self.context.clock.now_s()
        pause_s = self._emit_interval_s
        self._emit_due_s = now_s + (min(AGAIN_S, pause_s) if made is None else pause_s)
        at_ms = self.context.clock.wall_ms()
        self._acknowledged.send(len(made or ()))
        if made is not None and rounds.complete:
            groups = len(rounds.table.groups())
            self._acknowledged.end(acknowledged_rounds.Round(at_s=now_s, groups=groups))
            self._show_round()
        return [_record(each, self._topic, at_ms=at_ms) for each in made or ()]

    def _sync_groups(self, rounds: checkpoint_rounds.CheckpointRounds) -> None:
        sync = self._sync
        assert sync is not None
        found = self._tried(GROUP_OFFSETS, lambda: sync.run(rounds.table))
        if found is not None and found.written:
            groups = amounts.counted(found.written, "group")
            _LOG.debug("wrote offsets of %s on the target", groups)
        if found is not None and not found.refused:
            written_s = self.context.clock.now_s()
            self._show(dataclasses.replace(self._shown, written_s=written_s))
        self._sync_due_s = self.context.clock.now_s() + self._sync_interval_s

    def _show_round(self) -> None:
        """The last one of which the target has all checkpoints."""
        while self._stored:
            self._stored.popleft()
            self._acknowledged.acknowledge(1)
        found = self._acknowledged.take()
        if found is not None:
            clock = self.context.clock
            self._show(
                dataclasses.replace(
                    self._shown,
                    round_s=found.at_s,
                    round_ms=clock.wall_ms() - round((clock.now_s() - found.at_s) * 1000),
                    groups=found.groups,
                )
            )

    def _show(self, shown: board.GroupsShown) -> None:
        """Everybody who looks at the board."""
        if self._place is not None:
            self._shown = shown
            self._place.put(shown)

    def _tried(self, doing: str, ask: Callable[[], _T]) -> _T | None:
        """None when it failed, which is told unless the task is being stopped."""
        try:
            found = ask()
        except errors.ConnectError as error:
            if not self.context.wait(0.0):
                self._complaints.say(doing, f"{error}; it is tried again")
            return None
        self._complaints.over(doing)
        return found


def _record(made: checkpoint_rounds.Made, topic: str, *, at_ms: int) -> records.SourceRecord:
    """Its Connect offset never changes: it is stored once, with the first record."""
    point = made.point
    key, value = checkpoint.encode(point)
    place = connect_offsets.checkpoint_partition(point.group, point.partition)
    return records.SourceRecord(
        topic=topic,
        kafka_partition=_PARTITION,
        key_schema=schema.BYTES_SCHEMA,
        key=key,
        value_schema=schema.BYTES_SCHEMA,
        value=value,
        timestamp=at_ms,
        source_partition=place if made.first else None,
        source_offset=_OFFSET if made.first else None,
    )
