from __future__ import annotations

from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock


def test_it_asks_until_the_answer_is_yes():
    answers = iter([False, False, True])

    assert system_clock.wait_until(lambda: next(answers), timeout_s=5, interval_s=0.001)
    assert list(answers) == []


def test_it_gives_up_in_time_and_asks_at_least_once():
    asked: list[int] = []

    def never() -> bool:
        asked.append(1)
        return False

    started_s = SystemClock().now_s()

    assert not system_clock.wait_until(never, timeout_s=0.05, interval_s=10)
    assert not system_clock.wait_until(never, timeout_s=0)

    assert SystemClock().now_s() - started_s < 1
    assert len(asked) == 3, "twice with time left, once without"


def test_monotonic_seconds_never_go_back_and_wall_time_is_in_milliseconds():
    real = SystemClock()
    readings = [real.now_s() for _ in range(100)]
    assert readings == sorted(readings)
    assert 1_700_000_000_000 < real.wall_ms() < 10_000_000_000_000
