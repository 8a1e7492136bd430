"""A source and a sink that note what happens to them, and fail or stand still where they are told.

A folder of `plugin.path`. Everything is told in a connector's configuration: see `KEYS`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from connect_runtime import api
from connect_runtime.api import (
    ConfigDef,
    ConfigValue,
    ConnectError,
    Connector,
    ConnectorContext,
    PipelineProgress,
    PipelineTask,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceOffset,
    SourceRecord,
    SourceTask,
    Task,
    Type,
)
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system import system_clock

KEYS = {
    "notes": "the file in which it is noted what happens, a JSON object in each line",
    "topic": "where a source writes",
    "every.ms": "the time between two records of a task, 50 if not given",
    "messages": "how many records a task writes in all, without end if not given",
    "num.tasks": "how many tasks there are, tasks.max if not given",
    "same": "anything: the configurations of tasks hold nothing but `notes`",
    "fail": "where to fail: `task.start`, `task.start:1`, `connector.stop`, separated by commas",
    "block": "where to stand still until the file `gate` is there",
    "gate": "a file",
    "take": "anything: a pipeline's tasks take this configuration up",
}
BLOCKED_S = 300.0
CONFIG_GATE = "WATCHED_CONFIG_GATE"
"""Of the environment: `SlowToDefine` defines nothing before this file is there."""
EVERY_MS = 50
IDLE_S = 0.5


def at(props: Mapping[str, str], place: str, who: object = "", **told: Any) -> None:
    """Note it; then fail, or stand still, if that is wanted here."""
    _note(props, place, who, **told)
    wanted = props.get("fail", "").split(",")
    if place in wanted or f"{place}:{who}" in wanted:
        raise ConnectError(f"{place} fails as it was told")
    if props.get("block") == place:
        gate = Path(props["gate"])
        system_clock.wait_until(gate.exists, timeout_s=BLOCKED_S)


def _note(props: Mapping[str, str], place: str, who: object, **told: Any) -> None:
    line = json.dumps({"place": place, "who": str(who), "pid": os.getpid(), **told}) + "\n"
    with open(props["notes"], "a") as notes:  # one write, behind all others'
        notes.write(line)


class _Watched(Connector):
    def version(self) -> str:
        return "1"

    def initialize(self, context: ConnectorContext) -> None:
        super().initialize(context)

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        at(props, "connector.start")

    def stop(self) -> None:
        at(self.props, "connector.stop")

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        at(self.props, "connector.task_configs")
        count = int(self.props.get("num.tasks") or max_tasks)
        if "same" in self.props:
            return [{"notes": self.props["notes"]}] * count
        return [{**self.props, "number": str(each)} for each in range(count)]

    def config(self) -> ConfigDef:
        definition = ConfigDef()
        for name, text in KEYS.items():
            definition.define(name, Type.STRING, text, default=None)
        return definition

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        if props.get("block") == "connector.validate":
            at(props, "connector.validate")
        return super().validate(props)


class WatchedSource(_Watched, SourceConnector):
    def task_class(self) -> type[Task]:
        return WatchedSourceTask

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        return True


class WatchedSink(_Watched, SinkConnector):
    def task_class(self) -> type[Task]:
        return WatchedSinkTask

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        return True


class WatchedPipeline(WatchedSource):
    def task_class(self) -> type[Task]:
        return WatchedPipelineTask


class SlowToBegin(WatchedSource):
    """Stands still where it is initialised, which is told of nothing."""

    def initialize(self, context: ConnectorContext) -> None:
        _wait_for_gate()
        super().initialize(context)


class SlowToDefine(WatchedSource):
    """Stands still where it is asked for its keys."""

    def config(self) -> ConfigDef:
        _wait_for_gate()
        return super().config()


def _wait_for_gate() -> None:
    gate = os.environ.get(CONFIG_GATE)
    if gate is not None:
        system_clock.wait_until(Path(gate).exists, timeout_s=BLOCKED_S)


class WatchedSourceTask(SourceTask):
    """Writes `C-0:0`, `C-0:1` and so on, and goes on behind what was committed."""

    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._props = props
        self._number = self.context.task_id.task
        at(props, "task.start", self._number)
        self._partition = {"task.id": str(self.context.task_id)}
        stored = self.context.offset_reader.offset(self._partition) or {}
        self._next = int(stored.get("saved", 0))
        self._polled = False

    def poll(self) -> Sequence[SourceRecord] | None:
        if not self._polled:
            self._polled = True
            at(self._props, "task.poll", self._number)
        limit = self._props.get("messages")
        if "topic" not in self._props or (limit and self._next >= int(limit)):
            self.context.wait(IDLE_S)
            return None
        self.context.wait(int(self._props.get("every.ms") or EVERY_MS) / 1000)
        self._next += 1
        return [
            SourceRecord(
                topic=self._props["topic"],
                value_schema=api.STRING_SCHEMA,
                value=f"{self.context.task_id}:{self._next - 1}",
                source_partition=self._partition,
                source_offset={"saved": self._next},
            )
        ]

    def stop(self) -> None:
        at(self._props, "task.stop", self._number)


class WatchedPipelineTask(PipelineTask):
    """Moves nothing. Takes another configuration up where that says `take`."""

    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._props = props
        self._number = self.context.task_id.task
        at(props, "task.start", self._number)
        self.context.report(PipelineProgress())

    def run_once(self, timeout_s: float) -> None:
        self.context.wait(timeout_s)

    def pause(self) -> None:
        """Nothing moves anyway."""

    def resume(self) -> None:
        """Nothing moves anyway."""

    def reconfigure(self, props: Mapping[str, str]) -> bool:
        at(props, "task.reconfigure", self._number)
        return "take" in props

    def stop(self) -> None:
        at(self._props, "task.stop", self._number)


class WatchedSinkTask(SinkTask):
    """Notes every record, every partition that it gets or loses, and what is committed."""

    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._props = props
        at(props, "task.start", self.context.task_id.task)

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self._note("open", partitions=sorted(map(str, partitions)))

    def put(self, sink_records: Sequence[SinkRecord]) -> None:
        for each in sink_records:
            self._note(
                "put", at=f"{each.topic}-{each.kafka_partition}", offset=each.kafka_offset,
                value=str(each.value),
            )  # fmt: skip

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._note("flush", offsets={str(each): offset for each, offset in offsets.items()})

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._note("close", partitions=sorted(map(str, partitions)))

    def stop(self) -> None:
        at(self._props, "task.stop", self.context.task_id.task)

    def _note(self, place: str, **told: Any) -> None:
        _note(self._props, place, self.context.task_id.task, **told)
