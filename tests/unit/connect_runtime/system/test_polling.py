from __future__ import annotations

from connect_runtime.system import clock, polling


def test_it_asks_until_the_answer_is_yes():
    answers = iter([False, False, True])

    assert polling.until(lambda: next(answers), timeout_s=5, interval_s=0.001)
    assert list(answers) == []


def test_it_gives_up_in_time_and_asks_at_least_once():
    asked: list[int] = []

    def never() -> bool:
        asked.append(1)
        return False

    started_s = clock.SystemClock().now_s()

    assert not polling.until(never, timeout_s=0.05, interval_s=10)
    assert not polling.until(never, timeout_s=0)

    assert clock.SystemClock().now_s() - started_s < 1
    assert len(asked) == 3, "twice with time left, once without"
