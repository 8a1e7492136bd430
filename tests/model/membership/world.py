"""Time, a network, a coordinator, and what runs where: the world that workers live in."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base.errors import ConnectError
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, WorkItem
from connect_runtime.group.member_events import SendGroupRequest
from connect_runtime.protocol.request_builders import AnyNodeTarget, NodeTarget
from connect_runtime.protocol.request_errors import ConnectionFailed, RequestTimedOut
from tests.fakes import group_answers
from tests.model.membership.coordinator import Coordinator

Done = Callable[[Any, ConnectError | None], None]


@dataclass(slots=True)
class World:
    """`lost`: the share of messages at which a connection breaks. `runs`: item -> who runs it."""

    rng: random.Random
    lost: float = 0.0
    now_s: float = 1000.0
    coordinator: Coordinator = field(default_factory=Coordinator)
    offset: int = 1
    counts: dict[str, int] = field(default_factory=dict)
    runs: dict[WorkItem, set[int]] = field(default_factory=dict)
    overlaps_s: list[float] = field(default_factory=list)
    _twice: dict[WorkItem, float] = field(default_factory=dict)
    _queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_s + seconds, next(self._order), action))

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self._queue and self._queue[0][0] <= end_s:
            at_s, _, action = heapq.heappop(self._queue)
            self.now_s = self.coordinator.now_s = max(self.now_s, at_s)
            action()
        self.now_s = self.coordinator.now_s = end_s

    def watch(self) -> None:
        """The coordinator looks at the clock twice a second."""
        self.coordinator.advance()
        self.after(0.5, self.watch)

    # the network

    def send(self, send: SendGroupRequest, *, reachable: Callable[[], bool], done: Done) -> None:
        """`done` is called once: with an answer, or when the time is over."""
        open_: list[Done] = [done]

        def finish(body: Any, failure: ConnectError | None) -> None:
            if open_:
                open_.pop()(body, failure)

        def travel(then: Callable[[], None]) -> None:
            """Cut off, nobody hears anything; else a connection may break."""
            if self.rng.random() < self.lost:
                broken = ConnectionFailed("broker", "reset")
                self.after(self._trip_s(), lambda: finish(None, broken))
            elif reachable():
                self.after(self._trip_s(), then)

        def back(body: Any) -> None:
            travel(lambda: finish(body, None))

        late = RequestTimedOut(send.message.api, waiting_for="an answer", after_s=send.timeout_s)
        travel(lambda: self._deliver(send, back))
        self.after(send.timeout_s, lambda: finish(None, late))

    def _deliver(self, send: SendGroupRequest, back: Callable[[Any], None]) -> None:
        if isinstance(send.to, AnyNodeTarget):
            back(group_answers.found(self.coordinator.node))
            return
        assert isinstance(send.to, NodeTarget)
        entity = send.message.build_request_message(send.message.high)
        self.coordinator.receive(send.to.node_id, send.message.api, entity, back)

    def _trip_s(self) -> float:
        return self.rng.choice([0.001, 0.002, 0.05])

    # what is configured

    def configured(self) -> ConfiguredWork:
        return ConfiguredWork(offset=self.offset, task_counts=dict(self.counts))

    def configure(self) -> None:
        self.offset += 1
        name = f"c{self.rng.randint(0, 4)}"
        if name in self.counts and self.rng.random() < 0.5:
            del self.counts[name]
        else:
            self.counts[name] = self.rng.choice([1, 2, 4, 7])

    # what runs

    def started(self, item: WorkItem, worker: int) -> None:
        runners = self.runs.setdefault(item, set())
        runners.add(worker)
        if len(runners) > 1:
            self._twice.setdefault(item, self.now_s)

    def stopped(self, item: WorkItem, worker: int) -> None:
        runners = self.runs[item]
        runners.discard(worker)
        if len(runners) == 1 and item in self._twice:
            self.overlaps_s.append(self.now_s - self._twice.pop(item))
