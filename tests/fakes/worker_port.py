"""A `ports.worker` that runs nothing: it notes what it is asked, and does what the test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from connect_runtime.base import errors, ids
from connect_runtime.core.assignment import work
from connect_runtime.core.state import cluster_config
from connect_runtime.ports import worker as port

Plan = Sequence[cluster_config.RawConfig] | None | BaseException
OnReached = Callable[[str, cluster_config.TargetState, str | None], None]


class FakeWorker:
    """`plans` are the task configs that connectors give, what they raise, or what is called for
    them; `refuses` what cannot be started; `mistakes` what is raised by the method of that name."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan | Callable[[], Plan]] = {}
        self.refuses: set[work.Item] = set()
        self.mistakes: dict[str, BaseException] = {}
        self.silent = False
        self.takes_up: set[work.Item] = set()
        self.runs: dict[work.Item, cluster_config.RawConfig] = {}
        self.states: dict[work.Item, cluster_config.TargetState] = {}
        self.calls: list[str] = []
        self.asked: list[str] = []
        self.on_reached: OnReached = lambda _name, _state, _error: None

    def start_connector(
        self, name: str, config: cluster_config.RawConfig, state: cluster_config.TargetState
    ) -> None:
        self._begin(name, config, state)
        self._reached(name, state)

    def start_task(
        self,
        task: ids.ConnectorTaskId,
        *,
        connector: cluster_config.RawConfig,
        config: cluster_config.RawConfig,
        state: cluster_config.TargetState,
        tasks: int,
    ) -> None:
        assert task.task < tasks, f"{task} is none of {tasks}"
        self._begin(task, config, state)

    def renew_tasks(
        self, configured: Mapping[ids.ConnectorTaskId, port.TaskConfigured]
    ) -> frozenset[ids.ConnectorTaskId]:
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
        item: work.Item,
        config: cluster_config.RawConfig,
        state: cluster_config.TargetState,
    ) -> None:
        self._note("start", item)
        if item in self.refuses:
            raise errors.ConnectError(f"{item} has no class")
        assert item not in self.runs, item
        self.runs[item], self.states[item] = config, state

    def _note(self, name: str, what: object) -> None:
        self.calls.append(f"{name} {what}")
        if name in self.mistakes:
            raise self.mistakes[name]

    def _reached(self, name: str, state: cluster_config.TargetState) -> None:
        if not self.silent:
            self.on_reached(name, state, None)

    def set_target_state(self, connector: str, state: cluster_config.TargetState) -> None:
        self.states.update({each: state for each in self.runs if _owner(each) == connector})
        if connector in self.runs:
            self._reached(connector, state)

    def stop(self, gone: work.Work) -> None:
        self._note("stop", ", ".join(map(str, gone.items)))
        for each in gone.items:
            self.runs.pop(each, None)

    def running(self) -> work.Work:
        return work.Work.of(self.runs)

    def task_configs(
        self, connector: str, config: cluster_config.RawConfig
    ) -> Sequence[cluster_config.RawConfig] | None:
        self.asked.append(connector)
        plan = self.plans.get(connector, ())
        given = plan() if callable(plan) else plan
        if isinstance(given, BaseException):
            raise given
        return given

    def close(self) -> None:
        self.calls.append("close")
        self.runs.clear()


def _owner(item: work.Item) -> str:
    return item if isinstance(item, str) else item.connector
