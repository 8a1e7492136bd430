from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from connect_runtime.system import kept, pool


@dataclass
class Clock:
    at_s: float = 50.0

    def now_s(self) -> float:
        return self.at_s

    def wall_ms(self) -> int:
        return 0


@dataclass
class Maker:
    made: int = 0
    takes_s: float = 0.0
    may_end: threading.Event = field(default_factory=threading.Event)
    broken: bool = False
    clock: Clock = field(default_factory=Clock)

    def make(self) -> int:
        if self.broken:
            raise ValueError("not now")
        self.may_end.wait(30)
        self.clock.at_s += self.takes_s
        self.made += 1
        return self.made


@pytest.fixture
def maker():
    made = Maker()
    made.may_end.set()
    yield made
    made.may_end.set()


def keeping(maker: Maker) -> kept.Kept[int]:
    return kept.Kept(maker.make, for_s=1.0, clock=maker.clock)


def test_for_a_moment_it_is_the_same_and_then_made_anew(maker):
    found = keeping(maker)
    assert found.get() == found.get() == 1
    maker.clock.at_s += 0.9
    assert found.get() == 1
    maker.clock.at_s += 0.1
    assert found.get() == 2


def test_the_moment_begins_when_it_is_made(maker):
    maker.takes_s = 20.0
    found = keeping(maker)
    assert found.get() == found.get() == 1


def test_who_comes_while_it_is_made_has_the_same(maker):
    maker.may_end.clear()
    found, asking = keeping(maker), pool.Pool("asking", threads_max=4, waiting_max=4)
    answers = [asking.submit(found.get) for _ in range(4)]
    maker.may_end.set()
    assert {each.result(20) for each in answers} == {1}
    asking.stop(1.0)


def test_what_went_wrong_is_not_kept(maker):
    found = keeping(maker)
    maker.broken = True
    with pytest.raises(ValueError, match="not now"):
        found.get()
    maker.broken = False
    assert found.get() == 1
