"""A `node_main_loop.Running` that copies nothing: tests say what its flows look like."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mm2.connectors.status_registry import FlowStatus
from mm2.copier.copy_engine import EngineState


class FakeEngine:
    state = EngineState.READY


class FakeRunning:
    """`turns[n]` are the statuses after n waits, the last of them from then on."""

    def __init__(self, *turns: Sequence[FlowStatus]) -> None:
        self.engine = FakeEngine()
        self.turns = [list(each) for each in turns]
        self.calls: list[str] = []
        self.crash_reason = ""
        self.turn = 0
        self.on_stop: Callable[[], object] = lambda: None

    def start(self) -> None:
        self.calls.append("start")

    def statuses(self) -> Sequence[FlowStatus]:
        return self.turns[min(self.turn, len(self.turns) - 1)]

    @property
    def has_ended(self) -> bool:
        return all(each.is_final for each in self.statuses())

    def stop(self) -> None:
        self.calls.append("stop")
        self.on_stop()
