"""SIGTERM and Ctrl-C under traffic: soon, and with everything written down."""

from __future__ import annotations

import signal

import pytest

from connect_runtime.system.system_clock import SystemClock
from tests.chaos.checks import anchors
from tests.chaos.faults import mirror_processes
from tests.chaos.storm import Storm
from tests.support import mirror

pytestmark = pytest.mark.chaos

CLOCK = SystemClock()
STOPS_WITHIN_S = 4.5
"""3 s on a machine of its own; other tests share this one."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.full
def test_a_stop_in_order_leaves_nothing_to_pair(tmp_path, two_clusters, seed, number):
    with Storm(tmp_path, two_clusters, seed=seed) as weather:
        weather.move_on()
        family = mirror.descendants(weather.run.pid)
        began_s = CLOCK.now_s()
        weather.run.signal(number)
        assert weather.run.wait(60.0) == 128 + number
        took_s = CLOCK.now_s() - began_s
        assert took_s < STOPS_WITHIN_S, weather.run.tail
        mirror_processes.await_family_gone(family)
        assert anchors.uncovered(weather.west, weather.traffic.partitions) == {}
        weather.start()
        weather.move_on()
        weather.settle_and_judge()
