import threading

import pytest

from connect_runtime.system import pool, threads

WAIT_S = 10.0


@pytest.fixture
def two():
    made = pool.Pool("calls", threads_max=2, waiting_max=2)
    yield made
    assert made.stop(WAIT_S) == []


def test_answers_with_the_result_or_what_was_raised(two):
    def fail() -> None:
        raise KeyError("k")

    assert two.submit(lambda: 7).result(WAIT_S) == 7
    assert isinstance(two.submit(fail).exception(WAIT_S), KeyError)


def test_what_hangs_holds_up_nobody_else(two):
    hangs = threading.Event()
    hanging = two.submit(lambda: hangs.wait(WAIT_S))
    assert [two.submit(lambda n=n: n).result(WAIT_S) for n in range(5)] == list(range(5))
    hangs.set()
    assert hanging.result(WAIT_S)


def test_turns_away_what_would_wait_in_vain(two):
    hangs = threading.Event()
    begun = threading.Semaphore(0)

    def hang() -> bool:
        begun.release()
        return hangs.wait(WAIT_S)

    running = [two.submit(hang) for _ in range(2)]
    for _ in running:
        assert begun.acquire(timeout=WAIT_S)
    waiting = [two.submit(hang) for _ in range(2)]
    with pytest.raises(pool.PoolFull, match="2 calls run and 2 wait"):
        two.submit(hang)
    hangs.set()
    assert all(each.result(WAIT_S) for each in (*running, *waiting))


def test_when_stopped_takes_no_more_and_leaves_nobody_waiting():
    made = pool.Pool("calls", threads_max=1, waiting_max=2)
    hangs, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        hangs.wait(WAIT_S)

    running = made.submit(hang)
    assert begun.wait(WAIT_S)
    waiting = made.submit(hang)
    assert made.stop(0.01) == ["calls-1"]
    assert isinstance(waiting.exception(WAIT_S), pool.PoolFull)
    with pytest.raises(pool.PoolFull, match="stopping"):
        made.submit(hang)
    hangs.set()
    assert running.result(WAIT_S) is None
    assert made.stop(WAIT_S) == []


def test_who_gives_up_on_a_call_does_not_harm_the_thread_that_makes_it():
    made = pool.Pool("calls", threads_max=1, waiting_max=3)
    hangs = threading.Event()
    running = made.submit(lambda: hangs.wait(WAIT_S))
    waiting = made.submit(lambda: 1)
    assert not running.cancel()
    assert not waiting.cancel()
    hangs.set()
    assert made.submit(lambda: 2).result(WAIT_S) == 2
    assert made.stop(WAIT_S) == []


def test_a_thread_that_cannot_be_made_costs_no_place(monkeypatch):
    made = pool.Pool("calls", threads_max=1, waiting_max=2)

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threads.Threads, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            made.submit(lambda: 1)
    assert made.submit(lambda: 2).result(WAIT_S) == 2
    assert made.stop(WAIT_S) == []
