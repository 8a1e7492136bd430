"""What ran where, and for how long not, as a Connect cluster's own statuses tell it. Pure.

A status is written when a task has stopped, and when it has started: how long stopping itself takes
is seen only where somebody waits for it. That holds for everybody alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_RUNNING = "RUNNING"
_FAILED = "FAILED"


class Item(NamedTuple):
    """A task, or (`task` None) a connector."""

    connector: str
    task: int | None = None

    def __str__(self) -> str:
        return self.connector if self.task is None else f"{self.connector}-{self.task}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One record of the status topic, `at_ms` when the broker appended it.

    `state` None: the status was deleted.
    """

    item: Item
    state: str | None
    worker: str
    generation: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What was done to the group, which was in `generation`.

    `notice_ms`: when its coordinator noticed. `gone`: workers whose process went, and since when
    what they last said counts no more. `joined`: those that came, or came back.
    """

    notice_ms: int
    generation: int
    gone: Mapping[str, int] = field(default_factory=dict)
    joined: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of it.

    `runs`: the worker of each item that runs at the end. `all_run_ms`: from the notice until the
    last item that had stopped ran again. `downtime_ms`: sum of the tasks' times between stopping
    and running again; those of a worker that went without a word are down from `Change.gone` on.
    `unneeded`: tasks that were stopped though their worker stayed and who ran them next had not
    just come. `missing`: expected, and not running. `doubled`: they ran on a worker before another
    one had said that it stopped them. `rounds`: by how many generations the group went on.
    """

    runs: Mapping[Item, str]
    all_run_ms: int
    downtime_ms: int
    stopped: tuple[Item, ...]
    unneeded: tuple[Item, ...]
    missing: tuple[Item, ...]
    doubled: tuple[Item, ...]
    failed: tuple[Item, ...]
    rounds: int

    def loads(self, workers: Collection[str]) -> dict[str, int]:
        """How many tasks each of these runs."""
        counts = Counter(worker for item, worker in self.runs.items() if item.task is not None)
        return {each: counts[each] for each in workers}

    def fault(self) -> str:
        """What must not be, "" if nothing of it is."""
        found = (("do not run", self.missing), ("ran twice", self.doubled), ("failed", self.failed))
        return "; ".join(f"{len(items)} {what}: {_some(items)}" for what, items in found if items)


@dataclass(slots=True)
class _Life:
    """Of one item. `on`: where it runs; else `ran_on`, and not since `stopped_ms`."""

    on: str | None
    ran_on: str | None = None
    stopped_ms: int = 0
    started_ms: int | None = None
    downtime_ms: int = 0
    moves: list[tuple[str, str | None]] = field(default_factory=list)
    doubled: bool = False
    failed: bool = False

    def hear(self, said: Said) -> None:
        if said.state == _RUNNING:
            self._run(said.worker, said.at_ms)
        elif self.on == said.worker or said.state is None:
            self.stop(said.at_ms)
            self.failed = said.state == _FAILED
        # Else a worker that has lost it says late that it stopped.

    def stop(self, at_ms: int) -> None:
        if self.on is not None:
            self.ran_on, self.on, self.stopped_ms = self.on, None, at_ms
            self.moves.append((self.ran_on, None))

    def _run(self, worker: str, at_ms: int) -> None:
        if self.on is not None:
            # Without a word between: it was stopped nevertheless, for nobody knows how long.
            self.doubled |= self.on != worker
            self.stop(at_ms)
        if self.ran_on is not None:
            self.downtime_ms += at_ms - self.stopped_ms
            self.started_ms = at_ms
            self.moves[-1] = (self.ran_on, worker)
        self.on, self.failed = worker, False


def follow(
    before: Mapping[Item, str], said: Sequence[Said], change: Change, *, expected: Collection[Item]
) -> Outcome:
    """From where everything ran `before`, through all that was said, in the log's order per item.

    `expected`: every item there should be.
    """
    heard: dict[Item, list[Said]] = {each: [] for each in sorted({*expected, *before}, key=str)}
    for each in said:
        heard.setdefault(each.item, []).append(each)
    lives = {item: _live(before.get(item), told, change) for item, told in heard.items()}
    runs = {item: life.on for item, life in lives.items() if life.on is not None}
    starts = [life.started_ms for life in lives.values() if life.started_ms is not None]
    tasks = {item: life for item, life in lives.items() if item.task is not None}
    newest = max((each.generation for each in said), default=change.generation)
    return Outcome(
        runs=runs,
        all_run_ms=max(0, max(starts, default=change.notice_ms) - change.notice_ms),
        downtime_ms=sum(life.downtime_ms for life in tasks.values()),
        stopped=_those(tasks, lambda life: bool(life.moves)),
        unneeded=_those(tasks, lambda life: any(_unneeded(each, change) for each in life.moves)),
        missing=tuple(each for each in heard if each in expected and each not in runs),
        doubled=_those(lives, lambda life: life.doubled),
        failed=_those(lives, lambda life: life.failed),
        rounds=max(0, newest - change.generation),
    )


def _live(on: str | None, said: Sequence[Said], change: Change) -> _Life:
    life = _Life(on)
    for each in said:
        _lose(life, change, before_ms=each.at_ms)
        life.hear(each)
    _lose(life, change)
    return life


def _lose(life: _Life, change: Change, *, before_ms: int | None = None) -> None:
    """Its worker has gone by then, without a word about it."""
    gone_ms = None if life.on is None else change.gone.get(life.on)
    came_back = life.started_ms is not None and gone_ms is not None and life.started_ms > gone_ms
    if gone_ms is None or came_back:
        return
    if before_ms is None or gone_ms < before_ms:
        life.stop(gone_ms)


def _unneeded(move: tuple[str, str | None], change: Change) -> bool:
    source, target = move
    return source not in change.gone and target is not None and target not in change.joined


def _those(lives: Mapping[Item, _Life], which: Callable[[_Life], bool]) -> tuple[Item, ...]:
    return tuple(item for item, life in lives.items() if which(life))


def _some(items: Sequence[Item]) -> str:
    named = ", ".join(map(str, items[:3]))
    return named if len(items) <= 3 else f"{named}, …"
