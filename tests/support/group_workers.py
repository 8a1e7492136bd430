"""Workers of a group that run what they are told at once: herders in name only."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base.errors import FatalError
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from connect_runtime.group.member_state import GroupRebalanceConfig
from connect_runtime.herder.group_session import GroupSessionFailed, GroupSessionSettings
from connect_runtime.herder.herder_events import AssignmentReceived, CoordinatorLost, JoinRequested
from connect_runtime.herder.worker_group_interface import GroupEvent, WorkerGroup
from connect_runtime.kafka.kafka_worker_group import KafkaWorkerGroup, WorkerGroupSettings
from connect_runtime.network.cluster_connections import ConnectionSettings
from connect_runtime.system.system_clock import SystemClock
from tests.support import eventually, wire

CLOCK = SystemClock()
SESSION_S = 6.0
"""The shortest that brokers allow."""
CLOSE_S = 10.0


def kafka_member(
    properties: Mapping[str, str],
    group_id: str,
    name: str,
    *,
    offers: ConnectProtocol = ConnectProtocol.SESSIONED,
    protocol_type: str = "connect",
    rebalance_timeout_s: float = 60.0,
    delay_max_ms: int = 500,
    url: str | None = None,
) -> WorkerGroup:
    """A member of a real broker's group, in a hurry."""
    settings = WorkerGroupSettings(
        session=GroupSessionSettings(
            membership=GroupRebalanceConfig(
                group_id=group_id,
                protocol_type=protocol_type,
                session_timeout_s=SESSION_S,
                heartbeat_interval_s=0.5,
                rebalance_timeout_s=rebalance_timeout_s,
            ),
            url=url or f"http://{name}/",
            protocol=offers,
            max_rebalance_delay_ms=delay_max_ms,
        ),
        connections=ConnectionSettings(
            bootstrap=tuple(properties["bootstrap.servers"].split(",")),
            security=wire.security_of(properties),
            client_id=f"connect-{name}",
        ),
    )
    return KafkaWorkerGroup(settings, clock=CLOCK, rng=random.Random(name))


@dataclass(slots=True)
class Worker:
    """`runs` is what it runs; every piece of news is in `heard`. `ticks` False: it is stuck."""

    name: str
    group: WorkerGroup
    configured: ConfiguredWork = field(default_factory=ConfiguredWork)
    ticks: bool = True
    runs: ConnectorsAndTasks = connectors_and_tasks.NO_WORK
    heard: list[GroupEvent] = field(default_factory=list)
    rounds: list[AssignmentReceived] = field(default_factory=list)
    joined: bool = False
    failed: FatalError | None = None
    woken: int = 0
    _rejoin_s: float = float("inf")

    def start(self) -> None:
        self.group.start(self._wake, lambda: self.configured)

    def _wake(self) -> None:
        self.woken += 1

    @property
    def last(self) -> AssignmentReceived:
        return self.rounds[-1]

    @property
    def leads(self) -> bool:
        return self.joined and self.last.is_leader

    @property
    def settled(self) -> bool:
        return self.joined and not self.last.assignment.failed and not self.last.assignment.revoked

    @property
    def tasks(self) -> set[str]:
        return {str(each) for each in self.runs.tasks}

    def configure(self, configured: ConfiguredWork) -> None:
        self.configured = configured
        self.group.rejoin_group("the configuration changed")

    def turn(self) -> None:
        if not self.ticks:
            return
        self.group.report_herder_loop_alive()
        if CLOCK.now_s() >= self._rejoin_s:
            self._rejoin_s = float("inf")
            self.group.rejoin_group("the delay is over")
        for each in self.group.pop_events():
            self.heard.append(each)
            self._hear(each)

    def _hear(self, news: GroupEvent) -> None:
        match news:
            case JoinRequested(stop):
                self.joined = False
                self.runs = self.runs.difference(stop.items)
                self.group.confirm_join_prepared()
            case AssignmentReceived():
                self._complete(news)
            case CoordinatorLost():
                self.joined = False
                self.runs = connectors_and_tasks.NO_WORK
            case GroupSessionFailed(error):
                self.joined = False
                self.failed = error

    def _complete(self, told: AssignmentReceived) -> None:
        self.rounds.append(told)
        self.joined = True
        self.runs = self.runs.difference(told.items_to_stop.items)
        if not told.assignment.failed:
            self.runs = told.assignment.assigned
        delay_s = told.assignment.delay_ms / 1000
        self._rejoin_s = CLOCK.now_s() + delay_s if delay_s else float("inf")
        if told.assignment.failed or told.assignment.revoked:
            self.group.rejoin_group("work was taken away")


class Workers:
    """Several in one loop; closes them at the end."""

    def __init__(self) -> None:
        self.every: list[Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.every:
            each.group.close(CLOSE_S)

    def add(self, one: Worker) -> Worker:
        self.every.append(one)
        one.start()
        return one

    def close(self, one: Worker) -> None:
        self.every.remove(one)
        one.group.close(CLOSE_S)

    def kill(self, one: Worker) -> None:
        """As by SIGKILL: its connections end, and it says nothing."""
        self.every.remove(one)
        assert isinstance(one.group, KafkaWorkerGroup)
        assert one.group._threads.stop_all(CLOSE_S) == []

    def until(
        self, condition: Callable[[], object], what: str = "it holds", *, deadline_s: float = 60.0
    ) -> None:
        def holds() -> object:
            for each in self.every:
                each.turn()
            return condition()

        eventually.eventually(
            lambda: bool(holds()), deadline_s, lambda: f"{what}: {self._seen()}", interval_s=0.01
        )

    def _seen(self) -> list[tuple[str, list[GroupEvent]]]:
        return [(each.name, each.heard[-4:]) for each in self.every]

    def share(self, workers: Sequence[Worker], tasks: int) -> bool:
        """Whether these run so many tasks, each once and evenly, in one complete round."""
        sizes = [len(each.runs.tasks) for each in workers]
        together = set().union(*(each.tasks for each in workers))
        return (
            all(each.settled for each in workers)
            and len({each.last.generation for each in workers}) == 1
            and sum(sizes) == tasks == len(together)
            and max(sizes) - min(sizes) <= 1
        )
