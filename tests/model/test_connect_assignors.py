"""Groups of workers under random weather: what the cooperative assignor must hold in all of it.

`connect_group.check` looks at every single plan; here are the properties of many of them.
"""

from __future__ import annotations

import random

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.group import assignor, connectors_and_tasks
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from tests.fakes import connect_group
from tests.fakes.connect_group import ConnectGroup
from tests.support import examples

WORKERS = [f"w{number}" for number in range(7)]
SEEDS = st.integers(0, 2**32)
FAST = hypothesis.settings(max_examples=examples.of(120), deadline=None)


class Weather:
    """Random events; `now_ms` moves on by anything between nothing and more than any delay."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.group = ConnectGroup(delay_max_ms=self.rng.choice([0, 1, 100, 300_000, 300_000]))
        self.away: dict[str, ConnectorsAndTasks] = {}
        for _ in range(self.rng.randint(0, 4)):
            self.configure()
        self.group.join(*self.rng.sample(WORKERS, self.rng.randint(1, 4)))

    def configure(self) -> None:
        self.group.connectors[f"c{self.rng.randint(0, 6)}"] = self.rng.choice([0, 1, 3, 8])

    def forget_connector(self) -> None:
        if self.group.connectors:
            del self.group.connectors[self.rng.choice(sorted(self.group.connectors))]

    def join(self) -> None:
        """Sometimes one that was away, with all that it still runs: a zombie."""
        absent = sorted(set(WORKERS) - set(self.group.members))
        if absent:
            member = self.rng.choice(absent)
            held = self.away.pop(member, connectors_and_tasks.NO_WORK)
            self.group.join(
                member, held=held if self.rng.random() < 0.2 else connectors_and_tasks.NO_WORK
            )

    def leave(self) -> None:
        if len(self.group.members) > 1:
            member = self.rng.choice(sorted(self.group.members))
            self.away[member] = self.group.members[member]
            self.group.leave(member)
            if self.rng.random() < 0.3:
                self.group.forget()

    def sleep(self) -> None:
        self.group.now_ms += self.rng.choice([0, 1, 40, 5_000, 150_000, 400_000])

    def round(self) -> None:
        members = sorted(self.group.members)
        match self.rng.randint(0, 9):
            case 0:
                self.group.round(delivered=False, completed_before=self.rng.randint(1, 2))
            case 1:
                self.group.round(missed=self.rng.sample(members, self.rng.randint(1, len(members))))
            case 2:
                self.group.round(completed_before=2)
            case _:
                self.group.round()

    def blow(self, events: int) -> None:
        kinds = [self.configure, self.forget_connector, self.join, self.leave, self.sleep]
        for _ in range(events):
            self.rng.choice([*kinds, self.round, self.round, self.round])()


@FAST
@given(SEEDS)
def test_after_any_weather_everything_runs_once_and_evenly_and_stays_so(seed):
    weather = Weather(seed)
    weather.blow(30)
    weather.group.settle()
    assert weather.group.complete
    assert weather.group.even
    assert connect_group.moved(weather.group.round()) == 0
    assert weather.group.last.delay_ms == 0


def settled(seed: int) -> ConnectGroup:
    weather = Weather(seed)
    for _ in range(3):
        weather.configure()
    weather.group.settle()
    return weather.group


@FAST
@given(SEEDS)
def test_a_worker_that_joins_takes_no_more_than_its_part(seed):
    """Only what goes to the new worker is stopped, and it is stopped and started once."""
    group = settled(seed)
    before = dict(group.members)
    group.join("new")
    changes = group.settle()
    gained = group.members["new"].items
    assert changes == 2 * len(gained)
    for member, held in before.items():
        assert set(group.members[member].items) == set(held.items) - set(gained)


@FAST
@given(SEEDS)
def test_a_worker_that_leaves_has_nothing_stopped_elsewhere(seed):
    group = settled(seed)
    group.join("gone")
    group.settle()
    lost = group.members["gone"].items
    group.leave("gone")
    before = dict(group.members)
    assert group.settle() == len(lost)
    for member, held in before.items():
        assert set(group.members[member].items) >= set(held.items)


@FAST
@given(SEEDS)
def test_a_worker_that_bounces_gets_its_own_work_back_and_no_other_notices(seed):
    group = settled(seed)
    group.delay_max_ms = 300_000
    group.join("flaky")
    group.settle()
    own = set(group.members["flaky"].items)
    others = {member: held for member, held in group.members.items() if member != "flaky"}
    if not own or not all(others.values()):
        return  # an idle worker that stayed is as good as one that comes back
    group.leave("flaky")
    group.round()
    group.join("flaky")
    group.settle()
    assert set(group.members["flaky"].items) == own
    assert {member: group.members[member] for member in others} == others


@FAST
@given(SEEDS)
def test_new_connectors_stop_nothing_that_runs(seed):
    """Only evening out may, and loads that are even before are even with all that is new."""
    group = settled(seed)
    group.connectors["fresh"] = seed % 9
    plan = group.round()
    assert not any(plan.revoked.values())
    assert group.complete
    assert group.even


def test_one_thing_runs_on_two_workers_only_when_one_of_them_was_away():
    """Nobody is given what another one runs, however many answers got lost."""
    for seed in range(60):
        weather = Weather(seed)
        weather.away = {}
        for _ in range(25):
            weather.blow(1)
            weather.away.clear()
            running = [item for held in weather.group.members.values() for item in held.items]
            assert len(set(running)) == len(running), seed


def test_ten_thousand_tasks_are_planned_for_a_hundred_members():
    """From nothing; then for one member more, one less, and with everything running twice."""
    group = ConnectGroup(connectors={f"c{each}": 100 for each in range(100)})
    group.join(*(f"w{number}" for number in range(100)))
    group.round()
    assert group.loads == ([1] * 100, [100] * 100)
    group.join("w100")
    group.settle()
    assert group.complete
    group.leave("w7")
    group.settle()
    assert group.even
    group.join("zombie", held=ConnectorsAndTasks(tasks=group.configured().list_work().tasks))
    group.settle()
    assert group.complete
    assert group.even


def keeping_what_runs_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        assignor, "_find_duplicate_assignments", lambda reported, active: frozenset()
    )


def giving_all_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfair(held, items):
        next(iter(held.values())).extend(items)

    monkeypatch.setattr(assignor, "assign_evenly_to_members", unfair)


@pytest.mark.parametrize("plant", [keeping_what_runs_twice, giving_all_to_one])
def test_a_planted_fault_is_found(plant, monkeypatch: pytest.MonkeyPatch) -> None:
    group = ConnectGroup(connectors={"c1": 8})
    group.join("w1", "w2")
    group.round()
    group.join("zombie", held=group.members["w1"])
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="still moving"):
        group.settle()
