from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

import pytest

from mm2 import exit_codes
from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.connectors.status_registry import FlowState, TaskPlacement
from mm2.copier.copy_engine import EngineState
from mm2.metrics.collector import FlowMetricsCollector
from mm2.node import node_main_loop
from mm2.node.node_main_loop import (
    ExitReason,
    RunLoop,
    RunLoopDependencies,
    RunResult,
    StopCondition,
)
from mm2.status.live_flow_table import LiveTableContent
from tests.fakes.running import FakeRunning
from tests.support import statuses

State = FlowState
CAUGHT_UP = StopCondition(until_caught_up=True)
FOR_EVER = StopCondition()


class Clock:
    now = 100.0

    def now_s(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 1_700_000_000_000


class Display:
    def __init__(self) -> None:
        self.frames: list[LiveTableContent] = []
        self.closed = 0
        self.error: Exception | None = None

    def show_frame(self, frame, now_s):
        if self.error is not None:
            raise self.error
        self.frames.append(frame)

    def close(self):
        self.closed += 1


class Broken(FlowMetricsCollector):
    def update_metrics(self, *args, **kwargs):
        raise KeyError("unheard of")


class World:
    """Runs a loop over made-up flows; every wait is one turn and takes `step_s`."""

    def __init__(self, *turns, step_s: float = 1.0) -> None:
        self.running = FakeRunning(*turns)
        self.clock = Clock()
        self.display = Display()
        self.metrics = FlowMetricsCollector()
        self.signal: int | None = None
        self.signal_at_turn: int | None = None
        self.step_s = step_s
        self.unreachable: Callable[[], dict[str, str]] = dict

    def wait(self, timeout_s):
        self.running.turn += 1
        assert self.running.turn < 1000, "the loop does not end"
        self.clock.now += self.step_s
        if self.running.turn == self.signal_at_turn:
            self.signal = 15

    def run(self, goal: StopCondition = FOR_EVER) -> RunResult:
        around = RunLoopDependencies(
            clock=self.clock,
            display=self.display,
            metrics=self.metrics,
            stop_signal=lambda: self.signal,
            wait=self.wait,
            notes=("note",),
            unreachable=self.unreachable,
        )
        ending = RunLoop(self.running, goal, around).run()
        assert self.running.calls == ["start", "stop"]
        assert self.display.closed == 1
        return ending


def flow(copied=0, end=10, **fields):
    part = statuses.partition(copied_to=copied, source_end=end, records=copied, bytes=copied * 100)
    return statuses.flow(part, **fields)


@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_stops_in_order_and_names_itself_in_the_exit_code(number):
    world = World([flow()])
    world.signal = number
    assert world.run() == RunResult(reason=ExitReason.SIGNAL, code=128 + number)


def test_without_a_goal_it_runs_until_every_flow_has_ended():
    failed = statuses.flow(state=State.FAILED, reason="wrong password", name="a->b")
    late = statuses.flow(state=State.FAILED, reason="the engine failed: x")
    world = World([flow(), failed], [flow(), failed], [late, failed])
    ending = world.run()
    assert world.running.turn == 2
    assert ending.code == 1
    assert ending.errors == ("east->west: the engine failed: x", "a->b: wrong password")


def test_where_other_nodes_have_all_tasks_it_is_not_known_whether_they_have_caught_up():
    place = TaskPlacement(number=0, state="RUNNING", node="10.0.0.1:8083/east->west")
    other = dataclasses.replace(statuses.flow(tasks=()), remote_partitions=2, placements=(place,))
    ending = World(*[[other]] * 30).run(CAUGHT_UP)
    assert (ending.reason, ending.code) == (ExitReason.VERDICT, exit_codes.UNKNOWN)
    assert ending.results == (
        "other nodes replicate all partitions; to show their lag, run mm2 lag",
        "  east->west: all 2 partitions are assigned to node 10.0.0.1:8083; nothing to replicate "
        "here",
    )


def test_flows_that_caught_up_here_are_reported_beside_those_of_other_nodes():
    place = TaskPlacement(number=0, state="RUNNING", node="10.0.0.1:8083/a->b")
    other = dataclasses.replace(
        statuses.flow(tasks=(), name="a->b"), remote_partitions=2, placements=(place,)
    )
    ending = World(*[[flow(10), other]] * 30).run(CAUGHT_UP)
    assert (ending.reason, ending.code) == (ExitReason.VERDICT, exit_codes.UNKNOWN)
    caught_up, *rest = ending.results
    assert caught_up.startswith("caught up: 1 partition of east->west, 10 records (1.0 kB) in ")
    assert "more partition" not in caught_up, "that counts partitions of the flows that are here"
    assert rest == [
        "1 flow is replicated by other nodes; to show the lag, run mm2 lag",
        "  a->b: all 2 partitions are assigned to node 10.0.0.1:8083; nothing to replicate here",
    ]


def test_what_other_nodes_copy_is_said_beside_what_was_caught_up():
    ending = World([dataclasses.replace(flow(10), remote_partitions=1)]).run(CAUGHT_UP)
    assert ending.code == 0
    assert ending.results[0].endswith("; 1 more partition is assigned to other nodes")


def test_what_an_operator_has_stopped_ends_a_run_that_waits_for_it_to_catch_up():
    held = OperatorOverrides(paused=True, stopped=True)
    reason = "stopped by failover or REST; resume with: mm2 resume 'east->west'"
    stopped = statuses.flow(state=State.STOPPED, reason=reason, tasks=(), holds=held)
    ending = World([stopped]).run(CAUGHT_UP)
    assert ending.code == exit_codes.FAILED
    assert ending.results[1] == f"  east->west: STOPPED: {reason}"


def test_caught_up_ends_with_0_and_a_summary():
    world = World([flow(0)], [flow(4)], [flow(10)])
    ending = world.run(CAUGHT_UP)
    assert (ending.reason, ending.code) == (ExitReason.VERDICT, 0)
    assert ending.results == ("caught up: 1 partition, 10 records (1.0 kB) in 2.0 s",)


def test_what_arrives_meanwhile_is_not_waited_for():
    assert World([flow(0, 10)], [flow(10, 500)]).run(CAUGHT_UP).code == 0


def test_partitions_in_error_are_listed_and_the_code_is_1():
    def with_stopped(copied):
        return statuses.flow(
            statuses.partition(copied_to=copied, source_end=5, records=copied),
            statuses.partition(
                "bad", phase="halted", reason="it is corrupt", copied_to=1, source_end=5
            ),
        )

    ending = World([with_stopped(0)], [with_stopped(5)]).run(CAUGHT_UP)
    assert ending.code == 1
    head, line = ending.results
    assert head.startswith("not caught up: 1 of 2 partitions done, 5 records")
    assert line == "  east->west bad-0: it is corrupt"


def test_the_timeout_lists_what_is_missing_as_it_was_before_the_stop():
    planning = statuses.flow(
        state=State.PLANNING, reason="cluster east: nobody answers", name="east->north"
    )
    world = World([flow(3), planning])
    closed = [flow(3, state=State.STOPPED, reason="stopped"), planning]
    world.running.on_stop = lambda: world.running.turns.append(closed)
    ending = world.run(StopCondition(until_caught_up=True, timeout_s=5))
    assert (ending.reason, ending.code) == (ExitReason.TIMEOUT, 1)
    assert ending.results[0].startswith("not caught up within 5 s: 0 of 1 partition done")
    assert ending.results[1:] == (
        "  east->west orders-0: copying, lag 7 records",
        "  east->north: PLANNING: cluster east: nobody answers",
    )


def test_a_flow_that_failed_after_it_caught_up_still_counts():
    failed = flow(10, state=State.FAILED, reason="fenced by another owner")
    world = World([flow(0)], [flow(10)])
    world.running.on_stop = lambda: setattr(world.running, "turns", [[failed]])
    ending = world.run(CAUGHT_UP)
    assert ending.code == 1
    assert ending.errors == ("east->west: fenced by another owner",)


def test_a_signal_beats_the_verdict():
    world = World([flow(0)], [flow(10)])
    world.signal_at_turn = 1
    assert world.run(CAUGHT_UP).code == 143


def test_our_own_errors_are_told_as_such():
    world = World([flow()])
    world.running.crash_reason = "flow east->west: KeyError('x')"
    ending = world.run()
    assert (ending.reason, ending.code) == (ExitReason.CRASHED, 1)
    assert "report it" in ending.errors[0]


def unheard_of():
    raise KeyError("unheard of")


def test_an_unreachable_cluster_is_shown_with_its_flow():
    world = World([flow(0)], [flow(10)])
    world.unreachable = lambda: {"east->west": "source east unreachable"}
    world.run(CAUGHT_UP)
    assert world.display.frames[-1].overview.flows[0].unreachable == "source east unreachable"


@pytest.mark.parametrize("side", ["table", "metrics", "cluster watch"])
def test_a_side_service_that_fails_is_left_alone_and_copying_goes_on(side, caplog):
    world = World([flow(0)], [flow(1)], [flow(2)], [flow(10)])
    if side == "table":
        world.display.error = OSError("the terminal is gone")
    elif side == "cluster watch":
        world.unreachable = unheard_of
    else:
        world.metrics = Broken()
    with caplog.at_level(logging.ERROR):
        assert world.run(CAUGHT_UP).code == 0
    (message,) = [each for each in caplog.messages if "replication continues" in each]
    assert message.startswith(
        f"disabling {side} after an error; replication continues\n"
        if side == "table"
        else f"{side} failed and is retried in 60 s; replication continues\n"
    )
    assert "Error" in message


def test_metrics_that_failed_are_made_again_a_minute_later(caplog):
    world = World(*[[flow(5)] for _ in range(200)], [flow(10)])
    looks: list[float] = []

    class Sometimes(FlowMetricsCollector):
        def update_metrics(self, *args, **kwargs):
            looks.append(world.clock.now - 100.0)
            if len(looks) <= 2:
                raise KeyError("unheard of")

    world.metrics = Sometimes()
    world.run(CAUGHT_UP)
    assert looks[1] - looks[0] >= node_main_loop.RETRY_DELAY_S
    assert looks[2] - looks[1] >= node_main_loop.RETRY_DELAY_S
    assert looks[3] - looks[2] < node_main_loop.RETRY_DELAY_S
    assert len([each for each in caplog.messages if "replication continues" in each]) == 2


def test_it_says_that_spark_starts_and_counts_no_missing_slots_then():
    world = World([flow(slots_missing=3)], [flow(slots_missing=3)], [flow(10)])
    world.running.engine.state = EngineState.STARTING
    world.run(CAUGHT_UP)
    first = world.display.frames[0]
    assert first.notes == ("note", "starting Spark …")
    assert first.overview.flows[0].slots_missing == 0


def test_states_are_logged(caplog):
    planning = statuses.flow(state=State.PLANNING, reason="starting")
    with caplog.at_level(logging.INFO):
        World([planning], [flow()], [flow(10)]).run(CAUGHT_UP)
    assert "east->west is PLANNING: starting" in caplog.messages
    assert "east->west is RUNNING" in caplog.messages


def test_the_last_picture_shows_the_end():
    world = World([flow(0)], [flow(10)], step_s=0.01)
    world.run(CAUGHT_UP)
    last = world.display.frames[-1].progress
    assert last is not None
    assert last.fraction == 1.0


def test_thousands_of_partitions_are_looked_at_less_often():
    many = [[flow()] for _ in range(100)]
    world = World(*many, [flow(10)], step_s=0.1)

    class Slow(FlowMetricsCollector):
        def update_metrics(self, *args, **kwargs):
            world.clock.now += 0.03

    world.metrics = Slow()
    world.run(CAUGHT_UP)
    assert len(world.display.frames) <= 6


def test_flows_that_tell_nothing_new_are_looked_at_still_less_often_until_they_do():
    before, after = [flow(10)], [flow(12, 12)]
    world = World(*[before for _ in range(300)], after, step_s=0.1)
    world.signal_at_turn = 400
    looks: list[tuple[float, int]] = []

    class Slow(FlowMetricsCollector):
        def update_metrics(self, statuses, *args, **kwargs):
            looks.append((round(world.clock.now - 100.0, 1), statuses[0].partitions[0].copied_to))
            world.clock.now += 1.0

    world.metrics = Slow()
    world.run()
    times = [at for at, _ in looks]
    assert times[1] - times[0] >= node_main_loop.IDLE_POLL_INTERVAL_S
    told_s = 30.0 + sum(copied == 10 for _, copied in looks)
    assert times[-1] >= told_s
    assert (
        next(at for at, copied in looks if copied == 12)
        <= told_s + node_main_loop.MAX_POLL_INTERVAL_S
    )
