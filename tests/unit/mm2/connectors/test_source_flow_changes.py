"""A flow that is changed while it runs: what stays the same is not touched."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from connect_runtime.base import errors, ids
from connect_runtime.system import clock
from mm2.connectors import flow_changes, flow_ledger, flow_status, source_connector, source_flow
from mm2.core import filters, flows
from mm2.core.copy import messages
from mm2.core.topics import split
from mm2.pipeline import engine
from tests.fakes import admin, flow_log, opposite, taking

ACCESS = messages.ClusterAccess(alias="x", bootstrap=(), security={}, client_id="")


class Copy:
    """A copy that ends when it is told to stop, unless it is deaf."""

    connected = True
    token = b"token"
    error = ""

    def __init__(self, name: str, *, deaf: bool) -> None:
        self.name = name
        self.state = engine.CopyState.RUNNING
        self.sent: list[dict[str, Any]] = []
        self._deaf = deaf

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        if message["type"] == "stop" and not self._deaf:
            self.state = engine.CopyState.ENDED

    def close(self, reason: str) -> None:
        pass

    def cancel(self) -> None:
        self.state = engine.CopyState.ENDED

    def wait(self, timeout_s: float) -> None:
        pass

    @property
    def topics(self) -> set[str]:
        return {each["topic"] for each in self.sent[0]["partitions"]}

    def throttles(self) -> list[tuple[int, dict[str, int]]]:
        found = [each for each in self.sent if each["type"] == "throttle"]
        return [(each["bytes_per_s"], each["topics"]) for each in found]


class World:
    """Topics a, b and c of one partition each; a flow of two tasks that mirrors a and b."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.source, self.target = admin.FakeCluster(), admin.FakeCluster()
        for name in "abc":
            self.source.create(name, partitions=1)
        self.copies: list[Copy] = []
        self.now_s = 1000.0
        self._deaf = deaf
        self.flow = self._flow("a|b")
        now = cast(Any, SimpleNamespace(now_s=lambda: self.now_s, wall_ms=lambda: 0))
        self.made = source_flow.SourceFlow(
            self.flow,
            connector=self._connector(self.flow),
            ledger=flow_ledger.FlowLedger(flow_log.FakeFlowLog(self.target, source_alias="east")),
            run_in=cast(Any, self),
            server=cast(Any, SimpleNamespace(open=self._open, address="here")),
            configure=configure,
            opposite=opposite.Source(self.source).ids(),
            now=now,
            random=random.Random(1),
        )
        self.turn()

    # As an engine

    state = engine.EngineState.READY

    def start(self, job: engine.CopyJob) -> Copy:
        return self.copies[-1]

    def slots(self) -> SimpleNamespace:
        return SimpleNamespace(missing=0)

    def _open(self, name: str, *, inbox: object) -> Copy:
        self.copies.append(Copy(name, deaf=self._deaf))
        return self.copies[-1]

    def _flow(self, topics: str) -> flows.Flow:
        return flows.Flow(
            source="east",
            target="west",
            topics=filters.topic_filter([topics]),
            replication_factor=1,
            tasks_max=2,
            admin_timeout_s=5.0,
        )

    def _connector(self, flow: flows.Flow) -> source_connector.SourceConnector:
        return source_connector.SourceConnector(
            flow,
            source=admin.FakeAdmin(self.source),
            target=admin.FakeAdmin(self.target),
            now=clock.SystemClock(),
            pause=lambda _: True,
            stopped=lambda: False,
        )

    def mirror(self, topics: str) -> None:
        """From now on these topics."""
        flow = self._flow(topics)
        connector = self._connector(flow)
        plan = connector.plan(5.0)
        self.made.change(flow_changes.Adopt(flow=flow, connector=connector, plan=plan))

    def look(self, flow: flows.Flow | None = None) -> None:
        """As the refresh does it."""
        flow = flow or self.made.flow
        plan = self._connector(flow).plan(5.0)
        self.made.change(flow_changes.Refreshed(flow=flow, plan=plan))

    def starts(self) -> dict[str, str]:
        tasks = self.made._tasks
        return {each.name: each.start for task in tasks for each in task.settings.partitions}

    def turn(self, count: int = 4) -> None:
        for _ in range(count):
            self.made.run_once()

    def running(self) -> list[set[str]]:
        return [each.topics for each in self.copies if each.state is engine.CopyState.RUNNING]


def configure(
    flow: flows.Flow, plan: source_connector.SourcePlan, before: Sequence[messages.Configure]
) -> list[messages.Configure]:
    by_name = {ids.TopicPartition(each.topic, each.partition): each for each in plan.partitions}
    held = [[ids.TopicPartition(p.topic, p.partition) for p in t.partitions] for t in before]
    shares = split.sticky(by_name, held, flow.tasks_max)
    return [
        messages.Configure(
            flow=flow.name,
            task=number,
            owner=taking.ME,
            source=ACCESS,
            target=ACCESS,
            partitions=tuple(by_name[each] for each in share),
            budget_bytes=1,
        )
        for number, share in enumerate(shares)
        if share
    ]


def test_topics_that_come_and_go_restart_only_the_tasks_that_have_them():
    world = World()
    assert world.running() == [{"a"}, {"b"}]
    world.mirror("a|c")
    before = world.made.settled
    world.turn()
    assert (before, world.made.settled) == (False, True)
    assert world.running() == [{"a"}, {"c"}]
    assert [each.name for each in world.copies] == [f"east->west task {n}" for n in (0, 1, 1)]
    world.now_s += source_flow.SNAPSHOT_S
    world.turn()
    assert {each.partition.topic for each in world.made.status.partitions} == {"a", "c"}
    assert "east.c" in world.target.topics


def test_a_look_that_finds_nothing_new_disturbs_nobody():
    world = World()
    world.look()
    world.turn()
    assert world.made.settled
    assert len(world.copies) == 2


def test_what_a_look_finds_goes_where_there_is_least(caplog):
    world = World()
    world.source.topics["b"].partitions = 2
    with caplog.at_level("INFO"):
        world.look()
        world.turn()
    assert sorted(map(sorted, world.running())) == [["a", "b"], ["b"]]
    assert world.starts() == {"a-0": "earliest", "b-0": "earliest", "b-1": "earliest"}
    assert world.target.topics["east.b"].partitions == 2
    assert "topic b partitions: 1 more are mirrored, from their first records on" in caplog.text


def test_a_look_made_for_other_settings_is_of_no_use():
    world = World()
    before = world.made.flow
    world.mirror("a|c")
    world.look(before)
    world.turn(8)
    assert world.running() == [{"a"}, {"c"}]
    assert world.made.settled


def test_warnings_of_looks_are_told_once(caplog):
    world = World()
    del world.source.topics["b"]
    for _ in range(3):
        world.look()
        world.turn()
    assert caplog.text.count("topic b is no longer listed by the source") == 1
    assert world.running() == [{"a"}, {"b"}]


def test_a_mirror_that_would_spoil_records_gets_no_more_and_gets_them_again_later():
    world = World()
    world.target.topics["east.b"].overrides["message.timestamp.type"] = "LogAppendTime"
    world.source.topics["b"].overrides["message.timestamp.type"] = "LogAppendTime"
    world.look()
    world.turn()
    assert world.running() == [{"a"}]
    world.now_s += source_flow.SNAPSHOT_S
    world.turn()
    (stopped,) = [each for each in world.made.status.partitions if each.stopped]
    assert (stopped.partition.topic, stopped.cause) == ("b", "target-setting")
    for cluster, name in ((world.source, "b"), (world.target, "east.b")):
        del cluster.topics[name].overrides["message.timestamp.type"]
    world.look()
    world.turn()
    assert world.running() == [{"a"}, {"b"}]


def test_a_task_that_has_nothing_left_ends_and_comes_back_when_it_has():
    world = World()
    world.mirror("a")
    world.turn()
    assert world.running() == [{"a"}]
    world.mirror("a|b|c")
    world.turn()
    assert world.running() == [{"a"}, {"b", "c"}]


def test_a_copy_that_does_not_stop_is_abandoned_before_another_has_its_place():
    world = World(deaf=True)
    world.mirror("a|c")
    world.turn()
    assert world.running() == [{"a"}, {"b"}]
    world.now_s += source_flow.STOP_S
    world.turn()
    assert world.running() == [{"a"}, {"c"}]


def test_budgets_reach_the_copies_that_run_and_those_that_follow():
    world = World()
    topics = (flows.TopicBudget(filters.compile_patterns(["b"]), 500),)
    world.made.change(flow_changes.Rebudget(budgets=flows.Budgets(flow=1_000, topics=topics)))
    world.turn()
    assert [each.throttles() for each in world.copies] == [[(500, {})], [(500, {"b": 500})]]
    assert world.running() == [{"a"}, {"b"}]
    assert [task.settings.throttle_bytes_s for task in world.made._tasks] == [500, 500]


def test_a_flow_that_ends_takes_up_no_more_changes_and_leaves_nothing_open():
    world = World()
    world.made.stop_asked.set()
    world.mirror("a|c")
    world.turn(20)
    assert world.made.status.state is flow_status.FlowState.STOPPED
    assert world.running() == []


def test_a_map_that_is_slow_to_be_read_holds_up_what_was_found_and_ends_no_copy(caplog):
    world = World()
    world.source.topics["b"].partitions = 2
    world.look()
    world.target.away = True
    world.turn()
    waiting = [(world.made.settled, len(world.copies))]
    assert caplog.text.count("what was looked up is taken up later") == 1
    world.target.away = False
    world.turn()  # it is not asked again at once
    waiting.append((world.made.settled, len(world.copies)))
    assert waiting == [(False, 2)] * 2
    world.now_s += source_flow.CHANGE_AGAIN_S
    world.turn()
    assert world.made.settled
    assert sorted(map(sorted, world.running())) == [["a", "b"], ["b"]]
    assert all(task.restarts == 0 for task in world.made._tasks)


def test_what_is_wanted_further_is_copied_on_although_looking_at_it_failed():
    world = World()
    world.source.failures["describe_topics", "b"] = errors.RetriableError("not now")
    world.mirror("a|b|c")
    world.turn()
    assert sorted(map(sorted, world.running())) == [["a", "c"], ["b"]]


def test_a_flow_that_ends_while_its_log_is_away_waits_for_nobody():
    world = World()
    world.made._failed = "fenced by another owner"
    world.turn(1)
    world.target.away = True
    world.made._note_broken(errors.RetriableError("nobody answers"))
    world.turn(1)
    status = world.made.status
    assert (status.state, status.reason) == (
        flow_status.FlowState.FAILED,
        "fenced by another owner",
    )
    assert world.running() == []
