from __future__ import annotations

import os
import pathlib
import pty
import signal
import sys
import tempfile

import pytest

from connect_runtime.system import signals
from connect_runtime.system.signals import ReloadSignal, SignalFlag, StopSignals


@pytest.mark.parametrize("number", signals.STOP_SIGNALS)
def test_the_first_signal_asks_and_the_second_exits_with_its_number(number):
    exits: list[int] = []
    woken: list[bool] = []
    with StopSignals(wake=lambda: woken.append(True), exit_now=exits.append) as stop:
        assert not stop.stop_requested.is_set()
        signal.raise_signal(number)
        assert stop.stop_requested.is_set()
        assert (stop.signal_number, woken, exits) == (number, [True], [])
        os.kill(os.getpid(), number)
        signal.raise_signal(number)  # returns only after pending handlers have run
        assert exits[0] == 128 + number


def test_what_handlers_set_has_no_lock_to_wait_for():
    """A signal that comes inside `wait` or `set` of an event hung the process."""
    for flag in (StopSignals().stop_requested, ReloadSignal().reload_requested):
        assert type(flag) is SignalFlag
        assert [each for each in vars(flag).values() if not isinstance(each, bool)] == []


def test_what_was_installed_before_comes_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_sighup_asks_for_another_look_at_the_file_as_often_as_it_comes():
    before = signal.getsignal(signal.SIGHUP)
    with ReloadSignal() as again:
        for _ in range(2):
            signal.raise_signal(signal.SIGHUP)
            assert again.reload_requested.is_set()
            again.reload_requested.clear()
    assert signal.getsignal(signal.SIGHUP) is before


@pytest.mark.parametrize(
    ("outlives", "stopped"), [(False, True), (True, False)], ids=["plain", "nohup"]
)
def test_a_terminal_that_goes_away_stops_what_runs_in_it(outlives, stopped):
    """In a process of its own, whose terminal is closed."""
    program = (
        "import signal, sys\n"
        "from connect_runtime.system import signals, system_clock\n"
        f"signal.signal(signal.SIGHUP, signal.{'SIG_IGN' if outlives else 'SIG_DFL'})\n"
        "with signals.StopSignals() as stop, signals.ReloadSignal() as again:\n"
        "    sys.stdout.write('ready'); sys.stdout.flush()\n"
        "    patience_s = 20.0 if len(sys.argv) == 2 else 1.0\n"
        "    asked = system_clock.wait_until(stop.stop_requested.is_set, timeout_s=patience_s)\n"
        "    open(sys.argv[-1], 'w').write(f'{asked} {again.reload_requested.is_set()}')\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        told = pathlib.Path(folder) / "told"
        child, terminal = pty.fork()
        if child == 0:
            patience = ["-"] if outlives else []
            os.execv(sys.executable, [sys.executable, "-c", program, *patience, str(told)])
        assert os.read(terminal, 100)
        os.close(terminal)
        os.waitpid(child, 0)
        assert told.read_text() == f"{stopped} False"
