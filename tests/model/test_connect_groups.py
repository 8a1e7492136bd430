"""Workers in a group, with their real machines and assignors, against a modelled coordinator.

Histories are random from a seed; a failing one names its seed.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pytest

from connect_runtime.group import assignor
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.group.heartbeat import HeartbeatTimer
from connect_runtime.group.member import GroupMember
from connect_runtime.group.member_events import RejoinRequested
from tests.model.membership.worker import Worker
from tests.model.membership.world import World
from tests.support import examples

QUICK, FULL = examples.of(12), 80
FALL_BACK_S = 5.0
"""Members that fall back to the eager protocol stop when others start, not before."""
NOTICED_S = 80.0
"""Who is cut off stops its work after a session (10 s) and a heartbeat's time (3 s); but if the
group was holding its join back, after that has timed out (65 s), whatever came before it."""


class History:
    """Up to five workers; events come every few seconds."""

    def __init__(self, seed: int, *, lost: float = 0.0, offers: tuple[str, ...] = ()) -> None:
        self.rng = random.Random(seed)
        self.world = World(random.Random(seed + 1), lost=lost)
        self.offers = offers or ("SESSIONED",)
        self.workers: list[Worker] = []
        self.numbers = 0
        self.world.watch()
        self.world.configure()
        self.world.configure()
        for _ in range(self.rng.randint(1, 3)):
            self.join()

    @property
    def alive(self) -> list[Worker]:
        return [each for each in self.workers if not each.gone and not each.closing]

    def join(self) -> None:
        if len(self.alive) < 5:
            self.numbers += 1
            offers = ConnectProtocol[self.rng.choice(self.offers)]
            self.workers.append(Worker(self.numbers, self.world, offers=offers))

    def close(self) -> None:
        if len(self.alive) > 1:
            self.rng.choice(self.alive).close()

    def configure(self) -> None:
        self.world.configure()

    def move(self) -> None:
        self.world.coordinator.move()

    def crash(self) -> None:
        if len(self.alive) > 1:
            self.rng.choice(self.alive).crash()

    def cut(self) -> None:
        if all(each.cut for each in self.alive):
            return
        worker = self.rng.choice([each for each in self.alive if not each.cut])
        worker.cut = True
        mended: list[None] = []

        def mend() -> None:
            mended.append(None)
            worker.cut = False

        def check() -> None:
            assert mended or not worker.running, f"worker {worker.number} did not notice"

        self.world.after(self.rng.choice([2, 8, 15, 40, 100]), mend)
        self.world.after(NOTICED_S, check)

    def hang(self) -> None:
        worker = self.rng.choice(self.alive)
        if worker.busy_s <= self.world.now_s:
            worker.hang(self.rng.choice([5, 20, 70]))

    def live(self, kinds: list[Callable[[], None]], *, times: int = 25) -> None:
        for _ in range(times):
            self.world.run(self.rng.choice([0.01, 0.5, 3, 10, 25]))
            self.rng.choice(kinds)()

    def calm(self, seconds: float = 250.0) -> None:
        """No events; and one round more, since a leader that knows nothing of before (as Java's)
        has members go on with what was deleted meanwhile, until the next one."""
        self.world.lost = 0.0
        if not self.alive:
            self.join()
        self.world.run(seconds)
        self.alive[0].tell(RejoinRequested("once more"))
        self.world.run(60)

    def check_calm(self) -> None:
        """Everything runs once, evenly; all are in one generation, and it lasts."""
        assert [each.failed for each in self.alive] == [None] * len(self.alive)
        assert all(each.stable for each in self.alive)
        generation = self.world.coordinator.generation
        assert {each.part.last_generation for each in self.alive} == {generation}
        everything = set(self.world.configured().list_work().items)
        assert {item for item, by in self.world.runs.items() if by} == everything
        assert all(len(by) <= 1 for by in self.world.runs.values())
        for worker in self.alive:
            assert worker.running == set(worker.part.assigned_work.items)
        for kind in (str, object):
            sizes = [sum(isinstance(x, kind) for x in each.running) for each in self.alive]
            assert max(sizes) - min(sizes) <= (1 if kind is str else 2)
        self.world.run(120)
        assert self.world.coordinator.generation == generation, "rounds for nothing"


def fair(seed: int, **options: object) -> History:
    history = History(seed, **options)  # type: ignore[arg-type]
    history.live([history.join, history.close, history.configure, history.move])
    history.calm()
    return history


def foul(seed: int) -> History:
    history = History(seed, lost=0.03)
    weather = [history.join, history.close, history.configure, history.move]
    history.live([*weather, history.crash, history.cut, history.cut])
    history.calm()
    return history


def stuck(seed: int) -> History:
    history = History(seed, lost=0.01)
    history.live([history.join, history.crash, history.configure, history.hang, history.hang])
    history.calm()
    return history


def check_fair(seeds: range, *offers: str, twice_s: float = 0.0) -> None:
    for seed in seeds:
        history = fair(seed, offers=offers)
        assert max(history.world.overlaps_s, default=0.0) <= twice_s, seed
        history.check_calm()


def check_foul(seeds: range) -> None:
    for seed in seeds:
        foul(seed).check_calm()


@pytest.mark.parametrize("offers", [("SESSIONED",), ("SESSIONED", "COMPATIBLE")])
def test_nothing_ever_runs_twice_while_nobody_fails(offers):
    check_fair(range(QUICK), *offers)


def test_with_eager_workers_things_run_twice_only_while_the_protocol_changes():
    check_fair(range(QUICK), "SESSIONED", "EAGER", twice_s=FALL_BACK_S)


def test_after_crashes_and_cuts_everything_runs_once():
    check_foul(range(QUICK))


def test_after_workers_that_hung_everything_runs_once():
    for seed in range(QUICK):
        stuck(seed).check_calm()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_it_holds_for_many_histories():
    check_fair(range(FULL), "SESSIONED", "COMPATIBLE")
    check_fair(range(FULL), "SESSIONED", "EAGER", twice_s=FALL_BACK_S)
    check_foul(range(FULL))
    for seed in range(FULL):
        stuck(seed).check_calm()


def test_a_follower_that_is_cut_off_stops_before_others_get_its_work():
    """KAFKA-9184: it needs no word from anybody for that. (Who follows a leader that is cut off
    knows of nothing that is lost, and gives it away at once.)"""
    history = History(1)
    history.world.offset, history.world.counts = 9, {"c1": 6}
    while len(history.alive) < 3:
        history.join()
    history.calm(60)
    history.check_calm()
    leads = history.world.coordinator.leader
    cut = next(each for each in history.alive if each.group.member_id != leads)
    held = set(cut.running)
    assert held
    cut.cut = True
    history.world.run(15)
    assert cut.running == set()
    history.world.run(60)
    assert all(len(history.world.runs[item]) == 1 for item in held)
    assert history.world.overlaps_s == []
    cut.cut = False
    history.calm()
    history.check_calm()


# Planted faults


def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no coordinator goes on working for ever."""
    monkeypatch.setattr(GroupMember, "_stop_work", lambda self, now_s: None)
    monkeypatch.setattr(GroupMember, "_coordinator_timeout_s", float("inf"))


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is taken from one is given to the next in the same round."""
    honest = assignor.plan_cooperative_assignment

    def plan(asked, state, *, times):
        found = honest(asked, state, times=times)
        taken = [item for has in found.revoked.values() for item in has.items]
        to = next(iter(found.assigned))
        given = ConnectorsAndTasks.from_items(taken)
        assigned = {**found.assigned, to: found.assigned[to].union(given)}
        return dataclasses.replace(found, assigned=assigned)

    monkeypatch.setattr(assignor, "plan_cooperative_assignment", plan)


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No heartbeats are sent."""
    monkeypatch.setattr(HeartbeatTimer, "on_heartbeat_response", lambda self, now_s: None)


@pytest.mark.parametrize(("plant", "weather"), [(deaf, foul), (impatient, fair), (silent, fair)])
def test_a_planted_fault_is_found(plant, weather, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    def caught(seed: int) -> bool:
        try:
            history = weather(seed)
            history.check_calm()
        except AssertionError:
            return True
        return weather is fair and history.world.overlaps_s != []

    assert any(caught(seed) for seed in range(20))
