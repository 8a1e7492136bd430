from __future__ import annotations

from connect_runtime.system import clock


def test_monotonic_seconds_never_go_back_and_wall_time_is_in_milliseconds():
    real = clock.SystemClock()
    readings = [real.now_s() for _ in range(100)]
    assert readings == sorted(readings)
    assert 1_700_000_000_000 < real.wall_ms() < 10_000_000_000_000
