"""Copies wait where tasks may come to, are kept alive, taken in turn, and ended when not needed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from connect_runtime.system.system_clock import SystemClock
from mm2.copier import control_channel_server, standby_copy_processes
from mm2.copier.control_channel_server import ChannelInbox
from mm2.copier.copy_engine import CopyState
from mm2.copier.inline_copy_engine import InlineEngine
from mm2.copier.standby_copy_processes import StandbyCopyProcesses
from tests.fakes.copy_plane import FakePlane
from tests.fakes.plugin_contexts import Clock
from tests.support import eventually

CLOCK = SystemClock()


class Waiting:
    """Spares of a plane whose copies are the test; `wants` says it so often as it is said."""

    def __init__(self, most: int = 2) -> None:
        self.plane = FakePlane()
        self.clock = Clock()
        faked = cast(Any, self.plane)
        self.spares = StandbyCopyProcesses(faked, faked, clock=self.clock, max_count=most)

    def wants(self, count: int, seconds: float = 0.0, flow: str = "a->b") -> None:
        until_s = self.clock.now + seconds
        while True:
            self.spares.set_remote_task_count(flow, count)
            if self.clock.now >= until_s:
                return
            self.clock.now += 0.5

    @property
    def alive(self) -> int:
        return sum(not each.cancelled for each in self.plane.handles)


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def test_they_begin_once_it_is_calm_one_after_the_other_and_no_more_than_may_be(waiting):
    waiting.wants(3, standby_copy_processes.STANDBY_START_DELAY_S - 0.5)
    assert waiting.alive == 0
    waiting.wants(3, 0.5)
    assert waiting.alive == 1
    waiting.wants(3, 10.0)
    assert waiting.alive == 2


def test_who_waits_is_kept_alive(waiting):
    waiting.wants(1, 30.0)
    beats = waiting.plane.copy.told("heartbeat")
    assert 4 <= len(beats) <= 6


def test_one_that_waits_is_taken_under_its_new_name_and_followed_by_another(waiting):
    waiting.wants(2, 10.0)
    inbox = ChannelInbox()
    taken = waiting.spares.take_standby_process("a->b task 7", inbox)
    assert taken is not None
    channel = cast(Any, taken.channel)
    assert (channel.name, channel.inbox) == ("a->b task 7", inbox)
    assert waiting.spares.take_standby_process("a->b task 8", inbox) is not taken
    assert waiting.spares.take_standby_process("a->b task 9", inbox) is None
    waiting.wants(2, standby_copy_processes.STANDBY_START_DELAY_S - 0.5)
    assert len(waiting.plane.handles) == 2, "what moves has the machine to itself"
    waiting.wants(2, 10.0)
    assert len(waiting.plane.handles) == 4


def test_who_is_not_needed_ends(waiting):
    waiting.wants(1, 10.0)
    waiting.wants(1, 10.0, flow="b->a")
    assert waiting.alive == 2
    waiting.wants(0)
    assert waiting.alive == 1
    waiting.wants(0, flow="b->a")
    assert (waiting.alive, len(waiting.plane.handles)) == (0, 2)


def test_one_that_has_ended_is_not_taken_nor_tried_again_soon(waiting):
    waiting.wants(1, 10.0)
    waiting.plane.handles[0].state = CopyState.ENDED
    assert waiting.spares.take_standby_process("a->b task 7", ChannelInbox()) is None
    waiting.wants(1, 10.0)
    waiting.plane.handles[1].state = CopyState.ENDED
    waiting.wants(1, standby_copy_processes.STANDBY_RETRY_DELAY_S - 1.0)
    assert len(waiting.plane.handles) == 2


def test_one_that_has_not_come_up_yet_is_not_waited_for(waiting):
    waiting.wants(1, 10.0)
    waiting.plane.copy.is_connected = False
    assert waiting.spares.take_standby_process("a->b task 7", ChannelInbox()) is None
    assert waiting.alive == 0


def test_the_last_words_of_those_that_ended_are_not_kept(waiting):
    waiting.wants(1, 10.0)
    for _ in range(3):
        waiting.plane.copy.says(type=control_channel_server.CLOSED_MESSAGE_TYPE, reason="killed")
    waiting.wants(1)
    assert waiting.plane.copy.inbox.take_message(0.0) is None


@pytest.mark.parametrize("most", [0, 2])
def test_none_begin_where_none_may_be_or_the_engine_is_not_ready(most):
    waiting = Waiting(most)
    waiting.plane.is_warm = most == 0
    waiting.wants(2, 20.0)
    assert waiting.plane.handles == []


def test_one_of_a_real_engine_comes_up_says_what_it_says_to_its_taker_and_ends(tmp_path):
    server = control_channel_server.listen_unix(CLOCK, parent=tmp_path)
    running = InlineEngine(clock=CLOCK)
    running.open()
    time = Clock()
    made = StandbyCopyProcesses(running, server, clock=time, max_count=1)
    made.set_remote_task_count("a->b", 1)
    time.now += standby_copy_processes.STANDBY_START_DELAY_S
    made.set_remote_task_count("a->b", 1)
    (waits,) = made._standby
    eventually.eventually(lambda: waits.channel.is_connected, 10.0)
    inbox = ChannelInbox()
    taken = made.take_standby_process("a->b task 0", inbox)
    assert taken is waits
    taken.channel.send({"type": "stop"})
    last = inbox.take_message(10.0)
    assert last is not None
    assert (last[0], last[1]["type"]) == (taken.channel, control_channel_server.CLOSED_MESSAGE_TYPE)
    assert taken.handle.wait(10.0)
    assert taken.handle.error is None
    running.stop(2.0)
    server.close()
