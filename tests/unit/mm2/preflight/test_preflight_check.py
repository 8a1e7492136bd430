from __future__ import annotations

import threading

import pytest

from connect_runtime.system.system_clock import SystemClock
from mm2.preflight import preflight_check

CLOCK = SystemClock()


def test_looks_go_on_at_the_same_time():
    both = threading.Barrier(2)
    found = preflight_check.run_concurrently(
        {"a": lambda: both.wait(30.0) >= 0, "b": lambda: both.wait(30.0) >= 0},
        clock=CLOCK,
        timeout_s=60.0,
    )
    assert found == {"a": True, "b": True}


def test_who_does_not_end_in_time_is_not_waited_for():
    released = threading.Event()
    try:
        found = preflight_check.run_concurrently(
            {"slow": lambda: released.wait(60.0), "quick": lambda: True},
            clock=CLOCK,
            timeout_s=0.2,
        )
    finally:
        released.set()
    assert found["slow"] is None


def test_what_a_look_raises_is_raised():
    def broken() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        preflight_check.run_concurrently({"broken": broken}, clock=CLOCK, timeout_s=30.0)


def test_nothing_to_look_at_is_nothing_found():
    assert preflight_check.run_concurrently({}, clock=CLOCK, timeout_s=1.0) == {}
