from __future__ import annotations

from connect_runtime.base import clock
from connect_runtime.system import clock as system_clock


def test_the_real_clock_satisfies_the_protocol():
    real: clock.Clock = system_clock.SystemClock()
    assert real.now_s() <= real.now_s()
