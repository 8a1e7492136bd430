"""What writes in rounds, on a thread of its own, while a test goes on."""

from __future__ import annotations

import abc
import threading
from types import TracebackType
from typing import Self

from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from tests.support import eventually

_WAITS_S = 60.0


class Rounds(abc.ABC):
    """`_run` counts a round once it is acknowledged."""

    def __init__(self, name: str) -> None:
        self.rounds = 0
        self._name = name
        self._failures: list[UnexpectedThreadEnd] = []
        self._threads = ThreadGroup(on_unexpected_end=self._failures.append)

    @abc.abstractmethod
    def _run(self, stop: threading.Event) -> None:
        """Until `stop` is set."""

    def go_on(self, rounds: int = 3) -> None:
        """Until so many more rounds were acknowledged."""
        wanted = self.rounds + rounds
        eventually.eventually(
            lambda: self.rounds >= wanted or self._failures, _WAITS_S, "records are acknowledged"
        )
        assert self._failures == []

    def stop(self) -> None:
        assert self._threads.stop_all(_WAITS_S) == []
        assert self._failures == []

    def __enter__(self) -> Self:
        self._threads.start(self._name, self._run)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left = self._threads.stop_all(_WAITS_S)
        if error is None:
            assert left == []
            assert self._failures == []
