"""Work on many partitions at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from connect_runtime.base import errors
from connect_runtime.system import clock as system_clock
from mm2.app.failover import side_by_side

CLOCK = system_clock.SystemClock()


def run(
    work: Callable[[Any, int], object], items: Iterable[int], *, timeout_s: float = 30.0
) -> dict[int, object]:
    return side_by_side.run(
        work,
        items,
        connect=lambda: contextlib.nullcontext(),  # type: ignore[arg-type,return-value]
        clock=CLOCK,
        timeout_s=timeout_s,
    )


def test_each_is_done_once_and_several_at_a_time():
    together = threading.Barrier(side_by_side.AT_ONCE)

    def work(_: object, item: int) -> int:
        if item < side_by_side.AT_ONCE:
            together.wait(30)  # nobody comes through alone
        return item * item

    assert run(work, range(40)) == {each: each * each for each in range(40)}


def test_nothing_to_do_connects_to_nobody():
    assert run(lambda *_: 1 // 0, []) == {}


def test_what_may_heal_is_tried_again_alone():
    tries: dict[int, int] = {}

    def work(_: object, item: int) -> int:
        tries[item] = tries.get(item, 0) + 1
        if item == 3 and tries[item] < 3:
            raise errors.RetriableError("somebody else took it")
        return item

    assert run(work, range(5)) == {each: each for each in range(5)}
    assert tries == {0: 1, 1: 1, 2: 1, 3: 3, 4: 1}


@pytest.mark.parametrize(
    "error", [errors.FatalError("refused"), errors.RetriableError("away"), ZeroDivisionError()]
)
def test_what_does_not_heal_in_time_is_raised(error):
    def work(_: object, item: int) -> int:
        if item == 2:
            raise error
        return item

    with pytest.raises(type(error)):
        run(work, range(5), timeout_s=0.0)
