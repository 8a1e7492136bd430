"""A fleet whose workers are the test: each has a herder of `rest_herder`, and says what it is told
to say."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from connect_runtime.app.distributed_settings import DistributedSettings
from connect_runtime.app.multi_worker_process import FleetMember, LoopbackApi, WorkerFleet
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks, WorkItem
from connect_runtime.herder import herder_request_routing
from connect_runtime.herder.herder_interface import WorkerReply
from connect_runtime.herder.herder_requests import HerderRequest, RequestRefused
from connect_runtime.storage.status_records import RunState, StatusSubject
from connect_runtime.worker.worker import StartedConnectorOrTask
from tests.fakes.rest_herder import FakeHerder


@dataclass
class Herder(FakeHerder):
    """Takes any configuration, unless all are `invalid`, or nothing can be done for now."""

    invalid: str | None = None
    stale: bool = False

    def _invalid(self, config: Any) -> RequestRefused | None:
        return (
            RequestRefused(herder_request_routing.BAD_REQUEST_STATUS, self.invalid)
            if self.invalid
            else None
        )

    def _serve(self, request: HerderRequest) -> WorkerReply:
        if self.stale:
            return RequestRefused(herder_request_routing.CONFLICT_STATUS, "a rebalance is coming")
        return super()._serve(request)


def _alone() -> bool:
    return False


@dataclass(eq=False)
class Member:
    """Has what `FleetMember` has. `refuses` is raised by `start`; `failure`: it has ended
    by itself; `before` is called while it starts; `among_others` is what it tells who is asked
    before it joins."""

    is_leader: bool = True
    leader_url: str = ""
    herder: Herder = field(default_factory=Herder)
    assignment: ConnectorsAndTasks = field(
        default_factory=lambda: ConnectorsAndTasks.from_items(())
    )
    assignment_offset: int = 10**6
    started_connectors_and_tasks: dict[StatusSubject, StartedConnectorOrTask] = field(
        default_factory=dict
    )
    all_families: tuple[MetricFamily, ...] = ()
    own_metrics: tuple[MetricFamily, ...] = ()
    rebalance_count: int = 0
    failure: str | None = None
    refuses: Exception | None = None
    among_others: Callable[[], bool] = _alone
    on_leading: Callable[[Any], None] = lambda _: None
    before_joining: Callable[[Callable[[], bool]], None] = lambda _: None
    on_trouble: Callable[[str], None] = lambda _: None
    before: Callable[[Callable[[], bool]], None] = lambda _: None
    calls: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.calls.append("start")
        if self.refuses is not None:
            raise self.refuses
        self.before(self.among_others)
        self.before_joining(self.among_others)
        if self.is_leader:
            self.on_leading(self)

    def wait(self, timeout_s: float) -> bool:
        return self.failure is not None

    def stop(self) -> None:
        self.calls.append("stop")

    @property
    def stored(self) -> dict[str, dict[str, str | None]]:
        """What is configured, by connector."""
        view = self.herder.get_config_state()
        return {name: dict(view.config(name) or {}) for name in view.connectors()}

    def runs(self, item: WorkItem, state: RunState, *, trace: str = "") -> None:
        """It was given this to run, has begun it as it is configured, and says how it is."""
        self.assignment = ConnectorsAndTasks.from_items({*self.assignment.items, item})
        view = self.herder.get_config_state()
        config = view.config(item) if isinstance(item, str) else view.task_config(item)
        before = self.started_connectors_and_tasks.get(item)
        times = 1 if before is None else before.times + 1
        self.started_connectors_and_tasks[item] = StartedConnectorOrTask(
            config=config or {}, times=times, state=state, trace=trace
        )


def as_member(found: Member) -> FleetMember:
    return cast(FleetMember, found)


@dataclass
class Fleet:
    """Has what `WorkerFleet` has. `next`: the workers that it makes, then plain ones; `made` with
    the settings of each, by flow."""

    next: deque[Member] = field(default_factory=deque)
    made: list[tuple[str, Member]] = field(default_factory=list)
    settings: list[DistributedSettings] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    @property
    def loopback_api(self) -> LoopbackApi:
        return LoopbackApi(url="http://h:1", user="mm2", password="made anew")

    def open(self) -> None:
        self.calls.append("open")

    def create_member(
        self,
        settings: DistributedSettings,
        *,
        namespace: tuple[str, str],
        prefix: str,
        on_leading: Callable[[FleetMember], None],
        before_joining: Callable[[Callable[[], bool]], None],
        on_trouble: Callable[[str], None],
    ) -> FleetMember:
        found = self.next.popleft() if self.next else Member()
        found.on_leading = on_leading
        found.before_joining = before_joining
        found.on_trouble = on_trouble
        self.settings.append(settings)
        self.made.append(("->".join(namespace), found))
        return as_member(found)

    def close(self, graceful_s: int = 0) -> None:
        self.calls.append("close")

    @property
    def members(self) -> Mapping[str, Member]:
        """The newest of each flow."""
        return dict(self.made)


def as_fleet(found: Fleet) -> WorkerFleet:
    return cast(WorkerFleet, found)
