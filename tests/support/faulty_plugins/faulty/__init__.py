"""A source and a sink that throw, or return rubbish, in the place that their configuration names.

A folder of `plugin.path` of its own: workers of other tests shall not meet them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from connect_runtime import api
from connect_runtime.api import (
    ConfigDef,
    ConfigValue,
    Connector,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    Task,
    Type,
)
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system import system_clock

THROWS = "throws.in"
"""A place: `connector.start`, `task.poll` and so on."""
ODD = "odd.in"
"""A place that returns what it must not."""
HANGS = "hangs.in"
"""A place that is never left."""
HANGS_S = 300.0


def at(props: Mapping[str, str], place: str) -> None:
    if props.get(THROWS) == place:
        raise LookupError(f"{place} throws")
    if props.get(HANGS) == place:
        system_clock.wait_until(lambda: False, timeout_s=HANGS_S)


def odd(props: Mapping[str, str], place: str, usual: Any) -> Any:
    at(props, place)
    return 7 if props.get(ODD) == place else usual


class _Faulty(Connector):
    def version(self) -> str:
        return "1"

    def config(self) -> ConfigDef:
        return ConfigDef().define(THROWS, Type.STRING, "Where to throw.", default="")

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        found: list[ConfigValue] = odd(props, "connector.validate", super().validate(props))
        return found

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        at(props, "connector.start")

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        configs = [self.props] * max_tasks
        found: list[Mapping[str, str]] = odd(self.props, "connector.task_configs", configs)
        return found

    def stop(self) -> None:
        at(self.props, "connector.stop")


class FaultySource(_Faulty, SourceConnector):
    def task_class(self) -> type[Task]:
        return FaultySourceTask


class FaultySink(_Faulty, SinkConnector):
    def task_class(self) -> type[Task]:
        return FaultySinkTask


class NotMade(FaultySource):
    def __init__(self) -> None:
        raise LookupError("connector.__init__ throws")


class NotDefined(FaultySource):
    def config(self) -> ConfigDef:
        raise LookupError("connector.config throws")


class OddlyDefined(FaultySource):
    def config(self) -> ConfigDef:
        return None  # type: ignore[return-value]


class OfNoVersion(FaultySource):
    def version(self) -> str:
        raise LookupError("connector.version throws")


class OddTasks(FaultySource):
    def task_class(self) -> type[Task]:
        return int  # type: ignore[return-value]


class TaskNotMade(FaultySource):
    def task_class(self) -> type[Task]:
        return _TaskNotMade


class FaultySourceTask(SourceTask):
    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._props = props
        at(props, "task.start")

    def poll(self) -> Sequence[SourceRecord] | None:
        self.context.wait(0.05)
        record = SourceRecord(
            topic=self._props["topic"],
            value_schema=api.STRING_SCHEMA,
            value="v",
            source_partition={"p": "p"},
            source_offset={"n": 1},
        )
        found: list[SourceRecord] = odd(self._props, "task.poll", [record])
        return found

    def commit(self) -> None:
        at(self._props, "task.commit")

    def commit_record(self, *_: Any) -> None:
        at(self._props, "task.commit_record")

    def stop(self) -> None:
        at(self._props, "task.stop")


class _TaskNotMade(FaultySourceTask):
    def __init__(self) -> None:
        raise LookupError("task.__init__ throws")


class FaultySinkTask(SinkTask):
    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._props = props
        at(props, "task.start")

    def open(self, partitions: Collection[TopicPartition]) -> None:
        at(self._props, "task.open")

    def put(self, sink_records: Sequence[SinkRecord]) -> None:
        if sink_records:
            at(self._props, "task.put")

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        found: Mapping[TopicPartition, int] = odd(self._props, "task.pre_commit", offsets)
        return found

    def close(self, partitions: Collection[TopicPartition]) -> None:
        at(self._props, "task.close")

    def stop(self) -> None:
        at(self._props, "task.stop")
