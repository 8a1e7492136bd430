"""Work on many partitions at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.system.system_clock import SystemClock
from mm2.failover import partition_thread_pool
from mm2.failover.partition_thread_pool import PartitionThreadPool, PoolResult

CLOCK = SystemClock()


def run(
    work: Callable[[Any, int, Deadline], object],
    items: Iterable[int],
    *,
    timeout_s: float = 30.0,
    **given: Any,
) -> PoolResult[int, object]:
    usual: dict[str, Any] = {"connect": contextlib.nullcontext, "clock": CLOCK}
    return PartitionThreadPool(**usual | given).process_items(
        work, list(items), timeout_s=timeout_s
    )


def test_each_is_done_once_and_several_at_a_time():
    together = threading.Barrier(partition_thread_pool.MAX_THREADS)

    def work(_: object, item: int, __: object) -> int:
        if item < partition_thread_pool.MAX_THREADS:
            together.wait(30)  # nobody comes through alone
        return item * item

    assert run(work, range(40)) == PoolResult({each: each * each for each in range(40)}, {})


def test_nothing_to_do_connects_to_nobody():
    assert run(lambda *_: 1 // 0, []) == PoolResult()


def test_what_may_heal_is_tried_again_alone():
    tries: dict[int, int] = {}

    def work(_: object, item: int, __: object) -> int:
        tries[item] = tries.get(item, 0) + 1
        if item == 3 and tries[item] < 3:
            raise RetriableError("somebody else took it")
        return item

    assert run(work, range(5)).done == {each: each for each in range(5)}
    assert tries == {0: 1, 1: 1, 2: 1, 3: 3, 4: 1}


def test_what_keeps_failing_holds_up_nothing_else():
    bad = set(range(partition_thread_pool.MAX_THREADS))  # one for each thread, and the first ones

    def work(_: object, item: int, __: object) -> int:
        if item in bad:
            raise RetriableError("nobody leads it")
        return item

    found = run(work, range(1_000), timeout_s=1.0)
    assert (len(found.done), set(found.unfinished)) == (1_000 - len(bad), bad)


@pytest.mark.parametrize("error", [FatalError("refused"), ZeroDivisionError()])
def test_what_does_not_heal_is_raised(error):
    def work(_: object, item: int, __: object) -> int:
        if item == 2:
            raise error
        return item

    with pytest.raises(type(error)):
        run(work, range(5))


class PassingClock:
    """Each item takes ten seconds."""

    def __init__(self) -> None:
        self.s = 0.0

    def now_s(self) -> float:
        return self.s

    def wall_ms(self) -> int:
        return 0


def test_one_deadline_holds_for_all_and_what_is_left_is_named():
    clock, lock = PassingClock(), threading.Lock()

    def work(_: object, item: int, __: object) -> int:
        with lock:
            clock.s += 10.0 / partition_thread_pool.MAX_THREADS
        if item == 3:
            raise RetriableError("its leader is away")
        return item

    found = run(work, range(2_000), timeout_s=100.0, clock=clock)
    assert len(found.done) < 200  # and not two thousand of them
    assert len(found.done) + len(found.unfinished) == 2_000
    assert found.unfinished[3] == "its leader is away"
    assert found.unfinished[1_999] == ""
    said = f"{len(found.done)} of 2,000 partitions are done; 3: its leader is away"
    assert str(found) == said


def test_how_far_it_is_is_told_while_it_lasts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mm2.failover.partition_thread_pool.PROGRESS_INTERVAL_S", 0.0)
    said: list[str] = []
    heard = threading.Event()

    def tell(line: str) -> None:
        said.append(line)
        heard.set()

    def work(_: object, item: int, __: object) -> int:
        assert heard.wait(30)
        return item

    run(work, range(3), activity="fencing", report_progress=tell)
    assert said[0] == "fencing: 0 of 3 partitions"
