"""A `ports.worker` that runs nothing: it notes what it is asked, and does what the test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks, WorkItem
from connect_runtime.herder.worker_interface import ConfiguredTask
from connect_runtime.storage.cluster_config_state import RawConfig, TargetState

Plan = Sequence[RawConfig] | None | BaseException
OnReached = Callable[[str, TargetState, str | None], None]


class FakeWorker:
    """`plans` are the task configs that connectors give, what they raise, or what is called for
    them; `refuses` what cannot be started; `mistakes` what is raised by the method of that name."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan | Callable[[], Plan]] = {}
        self.refuses: set[WorkItem] = set()
        self.mistakes: dict[str, BaseException] = {}
        self.silent = False
        self.takes_up: set[WorkItem] = set()
        self.runs: dict[WorkItem, RawConfig] = {}
        self.states: dict[WorkItem, TargetState] = {}
        self.calls: list[str] = []
        self.asked: list[str] = []
        self.on_reached: OnReached = lambda _name, _state, _error: None

    def start_connector(self, name: str, config: RawConfig, state: TargetState) -> None:
        self._begin(name, config, state)
        self._reached(name, state)

    def start_task(
        self,
        task: ConnectorTaskId,
        *,
        connector: RawConfig,
        config: RawConfig,
        state: TargetState,
        tasks: int,
    ) -> None:
        assert task.task < tasks, f"{task} is none of {tasks}"
        self._begin(task, config, state)

    def try_reconfigure_tasks(
        self, configured: Mapping[ConnectorTaskId, ConfiguredTask]
    ) -> frozenset[ConnectorTaskId]:
        """What is the same goes on, and what `takes_up` says."""
        self._note("renew", ", ".join(map(str, configured)))
        left = set()
        for task, found in configured.items():
            if task in self.takes_up and task in self.runs:
                self.runs[task] = found.config
            elif self.runs.get(task) != found.config:
                left.add(task)
        return frozenset(left)

    def _begin(
        self,
        item: WorkItem,
        config: RawConfig,
        state: TargetState,
    ) -> None:
        self._note("start", item)
        if item in self.refuses:
            raise ConnectError(f"{item} has no class")
        assert item not in self.runs, item
        self.runs[item], self.states[item] = config, state

    def _note(self, name: str, what: object) -> None:
        self.calls.append(f"{name} {what}")
        if name in self.mistakes:
            raise self.mistakes[name]

    def _reached(self, name: str, state: TargetState) -> None:
        if not self.silent:
            self.on_reached(name, state, None)

    def set_target_state(self, connector: str, state: TargetState) -> None:
        self.states.update({each: state for each in self.runs if _owner(each) == connector})
        if connector in self.runs:
            self._reached(connector, state)

    def stop_connectors_and_tasks(self, items: ConnectorsAndTasks) -> None:
        self._note("stop", ", ".join(map(str, items.items)))
        for each in items.items:
            self.runs.pop(each, None)

    def list_started_connectors_and_tasks(self) -> ConnectorsAndTasks:
        return ConnectorsAndTasks.from_items(self.runs)

    def connector_task_configs(
        self, connector: str, config: RawConfig
    ) -> Sequence[RawConfig] | None:
        self.asked.append(connector)
        plan = self.plans.get(connector, ())
        given = plan() if callable(plan) else plan
        if isinstance(given, BaseException):
            raise given
        return given

    def close(self) -> None:
        self.calls.append("close")
        self.runs.clear()


def _owner(item: WorkItem) -> str:
    return item if isinstance(item, str) else item.connector
