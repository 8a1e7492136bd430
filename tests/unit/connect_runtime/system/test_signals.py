from __future__ import annotations

import os
import signal

import pytest

from connect_runtime.system import signals


@pytest.mark.parametrize("number", signals.STOP_SIGNALS)
def test_the_first_signal_asks_and_the_second_exits_with_its_number(number):
    exits: list[int] = []
    woken: list[bool] = []
    with signals.StopSignals(wake=lambda: woken.append(True), exit_now=exits.append) as stop:
        assert not stop.asked.is_set()
        signal.raise_signal(number)
        assert stop.asked.wait(1)
        assert (stop.signal_number, woken, exits) == (number, [True], [])
        os.kill(os.getpid(), number)
        signal.raise_signal(number)  # returns only after pending handlers have run
        assert exits[0] == 128 + number


def test_what_was_installed_before_comes_back():
    before = signal.getsignal(signal.SIGTERM)
    with signals.StopSignals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
