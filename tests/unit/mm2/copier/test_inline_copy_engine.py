"""The inline engine with stand-in copies on threads, over a real channel."""

from __future__ import annotations

import pytest

from connect_runtime.system.system_clock import SystemClock
from mm2.copier import control_channel_server
from mm2.copier.copy_engine import CopyEngine, CopyState, EngineState, SlotUsage
from mm2.copier.inline_copy_engine import InlineEngine
from tests.support import copies, eventually
from tests.support.copies import Starter

CLOCK = SystemClock()


def state_of(handle) -> CopyState:
    """Asked anew each time, which the type checker does not expect of a property."""
    state: CopyState = handle.state
    return state


@pytest.fixture
def start(tmp_path):
    server = control_channel_server.listen_unix(CLOCK, parent=tmp_path)
    running: CopyEngine = InlineEngine(clock=CLOCK, slots=2)
    running.open()
    assert running.state is EngineState.READY
    assert running.is_warm
    starter = Starter(running, server)
    yield starter
    starter.end_all()
    running.stop(2.0)
    server.close()


def test_copies_run_side_by_side(start):
    started = [start(), start()]
    for copy in started:
        assert copy.message()["type"] == "running"
        copy.ping()
        assert state_of(copy.handle) is CopyState.RUNNING
    for copy in started:
        copy.stop()


def test_a_copy_without_a_slot_waits_for_one(start):
    first, _second, third = start(), start(), start()
    first.message()
    assert state_of(third.handle) is CopyState.WAITING_FOR_SLOT
    assert start.engine.get_slot_usage() == SlotUsage(total=2, used=2, waiting=1)
    assert start.engine.get_slot_usage().missing_slots == 1
    first.stop()
    third.message()
    assert state_of(third.handle) is CopyState.RUNNING


def test_the_fault_of_a_copy_is_its_handles(start):
    copy = start(copies.CRASH)
    assert copy.handle.wait(5.0)
    assert copy.handle.error == "RuntimeError: the copy has a fault"
    start().message()


def test_cancel_ends_what_waits_and_the_channel_what_runs(start):
    running, _other, waiting = start(), start(), start()
    running.message()
    waiting.handle.cancel()
    assert waiting.handle.error == "cancelled"
    running.handle.cancel()
    assert state_of(running.handle) is CopyState.RUNNING
    running.channel.close()
    assert running.handle.wait(5.0)


def test_after_stop_nothing_starts(start):
    copy = start()
    copy.message()
    copy.channel.close()
    start.engine.stop(5.0)
    assert state_of(copy.handle) is CopyState.ENDED
    late = start()
    assert late.handle.error == "the engine has stopped"
    eventually.eventually(lambda: start.engine.state is EngineState.STOPPED)
