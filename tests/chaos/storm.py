"""A mirror under traffic, to which things happen, and the verdict at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.chaos.checks import mirrored
from tests.chaos.faults import brokers, mirror_processes
from tests.chaos.faults.brokers import Kind
from tests.chaos.workloads import writers
from tests.chaos.workloads.writers import Traffic
from tests.support import mirror
from tests.support.mirror import Mirror

MOVES_ON_RECORDS = 300
RECOVERS_S = 180.0
ENDS_S = 60.0


class Storm:
    """`run` is the `mm2 run` that was started last; who ends the only one starts it again.

    As a context: traffic flows inside; in the end every process of a run is gone.
    """

    def __init__(
        self,
        folder: Path,
        pair: tuple[SandboxCluster, SandboxCluster],
        *,
        seed: int,
        kinds: Sequence[writers.Kind] = writers.MIXED,
        **flow: Any,
    ) -> None:
        self.east, self.west = pair
        self.random = Random(seed)
        self.traffic = Traffic(self.east, seed=seed, kinds=kinds, pause_s=0.25)
        self.settings = mirror.settings(
            self.east.client_properties(),
            self.west.client_properties(),
            **{"tasks_max": 3} | flow,
        )
        self._folder = folder
        self.runs: list[Mirror] = []

    @property
    def run(self) -> Mirror:
        return self.runs[-1]

    def start(self) -> Mirror:
        """One more `mm2 run` of the flow."""
        name = f"run-{len(self.runs) + 1}"
        self.runs.append(Mirror(self._folder, self.settings, name=name))
        return self.run

    def move_on(self) -> None:
        """Until records cross again, and then for a random while."""
        before = max(0.0, self.run.records())
        self.run.await_records(before + MOVES_ON_RECORDS, RECOVERS_S)
        brokers.pause(self.random.uniform(0.0, 2.0))

    def kill(self, kind: mirror_processes.Kind) -> None:
        """SIGKILL to one process of this kind; a run that ends by it is started again."""
        family = mirror.descendants(self.run.pid)
        mirror_processes.kill(self.run, kind, self.random)
        if kind in mirror_processes.ENDS_THE_RUN:
            assert self.run.wait(ENDS_S) != 0, self.run.tail
            mirror_processes.await_family_gone(family, ENDS_S)
            self.start()

    def hit(self, strikes: Sequence[Callable[[Storm], None]]) -> None:
        """One after the other; the mirror recovers from each."""
        for strike in strikes:
            self.move_on()
            strike(self)
        self.move_on()

    def settle_and_judge(self) -> None:
        """Traffic ends, the mirror catches up (on whatever engine), and both logs are compared."""
        self.traffic.stop()
        assert self.traffic.acknowledged > 0
        for run in self.runs:
            if run.running:
                assert run.stop(ENDS_S) == 143, run.tail
        mirror.catch_up(self._folder, self.settings | {"spark": {"engine": "inline"}})
        mirrored.assert_exactly_once(self.east, self.west, self.traffic.kinds)

    def __enter__(self) -> Self:
        self.traffic.create_topics()
        self.traffic.__enter__()
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.traffic.__exit__(kind, error, trace)
        for run in self.runs:
            if error is not None:
                error.add_note(f"{run.log_path.name} ends with:\n{run.tail}")
            if run.running:
                run.kill()


def process(kind: mirror_processes.Kind) -> Callable[[Storm], None]:
    return lambda storm: storm.kill(kind)


def broker(side: str, kind: Kind) -> Callable[[Storm], None]:
    """`side` is "east" (the source) or "west" (the target)."""
    return lambda storm: brokers.strike(getattr(storm, side), kind, storm.random)
