"""As many tasks as are allowed, which do nothing; beside it the same in Java, of the same names.

A folder of `plugin.path`: the classes stand here, so that their names are those of Java's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect_runtime.api import ConfigDef, SourceConnector, SourceTask, Task


class IdleSourceConnector(SourceConnector):
    def version(self) -> str:
        return "1"

    def task_class(self) -> type[Task]:
        return IdleSourceTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self.props] * max_tasks

    def config(self) -> ConfigDef:
        return ConfigDef()


class IdleSourceTask(SourceTask):
    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        pass

    def poll(self) -> None:
        self.context.wait(1.0)

    def stop(self) -> None:
        pass
