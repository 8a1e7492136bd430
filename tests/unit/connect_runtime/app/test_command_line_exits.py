from __future__ import annotations

import os
import signal
import threading

import pytest

from connect_runtime.app import command_line
from connect_runtime.base.errors import FatalError
from connect_runtime.rest.rest_server import RestServerError
from connect_runtime.system import signals
from connect_runtime.system.signals import StopSignals


class FakeWorker:
    """Ends by itself, or gets a signal, when it is waited for."""

    def __init__(
        self,
        *,
        refuses: Exception | None = None,
        ends: bool = False,
        failure: str | None = None,
        gets: signal.Signals | None = None,
        starts_within_s: float = 0.0,
    ) -> None:
        self.failure = failure
        self.did: list[str] = []
        self._refuses = refuses
        self._ends = ends
        self._gets = gets
        self._starts_within_s = starts_within_s
        self.may_start = threading.Event()

    def start(self) -> None:
        self.did.append("start")
        if self._starts_within_s:
            os.kill(os.getpid(), signal.SIGTERM)
            self.may_start.wait(self._starts_within_s)
        if self._refuses is not None:
            raise self._refuses

    def wait(self, timeout_s: float) -> bool:
        assert timeout_s <= 1
        if self._gets is not None:
            os.kill(os.getpid(), self._gets)
        return self._ends

    def stop(self) -> None:
        self.did.append("stop")


def serve(worker: FakeWorker, **options) -> int:
    def make() -> FakeWorker:
        return worker

    with StopSignals() as stop:
        return command_line.run_worker_until_stopped(make, stop, **options)


@pytest.mark.parametrize("number", signals.STOP_SIGNALS)
def test_a_signal_stops_it_in_order(number):
    worker = FakeWorker(gets=number)
    assert serve(worker) == 128 + number
    assert worker.did == ["start", "stop"]


@pytest.mark.parametrize(
    ("failure", "code", "told"),
    [
        (None, command_line.EXIT_DONE, ""),
        ("its log is gone", 1, "failed: its log is gone"),
    ],
)
def test_it_may_end_by_itself(caplog, failure, code, told):
    worker = FakeWorker(ends=True, failure=failure)
    assert serve(worker) == code
    assert worker.did == ["start", "stop"]
    assert told in caplog.text


@pytest.mark.parametrize(
    ("refuses", "code"),
    [
        (FatalError("no broker answers"), 3),
        (RestServerError("port 8083 is taken"), 2),
    ],
)
def test_it_may_not_start(caplog, refuses, code):
    worker = FakeWorker(refuses=refuses)
    assert serve(worker) == code
    assert worker.did == ["start", "stop"]
    assert str(refuses) in caplog.text


def test_settings_may_be_refused_when_it_is_made(caplog):
    def make() -> FakeWorker:
        raise FatalError("the library takes no such setting")

    with StopSignals() as stop:
        assert command_line.run_worker_until_stopped(make, stop) == command_line.EXIT_BAD_SETTINGS
    assert "no such setting" in caplog.text


def test_a_connector_that_is_refused_ends_it(caplog):
    def begin(_: FakeWorker) -> None:
        raise FatalError("creating connector a: no such class")

    worker = FakeWorker()
    assert serve(worker, after_start=begin) == command_line.EXIT_NOT_STARTED
    assert worker.did == ["start", "stop"]
    assert "creating connector a" in caplog.text


def test_connectors_are_made_once_it_runs():
    worker = FakeWorker(ends=True)
    assert serve(worker, after_start=lambda it: it.did.append("begin")) == command_line.EXIT_DONE
    assert worker.did == ["start", "begin", "stop"]


def test_a_mistake_of_ours_is_no_reason_to_leave_it_running():
    worker = FakeWorker(refuses=AssertionError("ours"))
    with pytest.raises(AssertionError, match="ours"):
        serve(worker)
    assert worker.did == ["start", "stop"]


def test_a_start_that_is_soon_over_is_stopped_in_order():
    worker = FakeWorker(starts_within_s=0.3)
    assert serve(worker, after_start=lambda it: it.did.append("begin")) == 143
    assert worker.did == ["start", "stop"]


def test_a_start_without_end_is_left(monkeypatch, caplog):
    monkeypatch.setattr(command_line, "_INTERRUPTED_START_TIMEOUT_S", 0.1)
    worker = FakeWorker(starts_within_s=60.0)
    assert serve(worker) == 143
    assert worker.did == ["start"]
    assert "interrupted while starting" in caplog.text
    worker.may_start.set()


def test_codes_are_those_of_javas_commands():
    codes = (
        command_line.EXIT_DONE,
        command_line.EXIT_USAGE,
        command_line.EXIT_WORKER_ENDED,
        command_line.EXIT_BAD_SETTINGS,
        command_line.EXIT_NOT_STARTED,
    )
    assert codes == (0, 1, 1, 2, 3)
