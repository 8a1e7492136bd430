"""One flow's worker: begun, begun again, looked after, stopped; its workers are fakes, its turns
take the time of a clock in memory."""

from __future__ import annotations

import pathlib
import threading
from collections import deque
from collections.abc import Callable

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder.herder_requests import HerderRequest, RequestRefused, RestartTask
from connect_runtime.kafka.client_errors import AuthenticationError
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState
from mm2.config import config_loader, flow_connector_configs
from mm2.config.flow_connector_configs import FlowPlan
from mm2.config.pause_and_throttle_overrides import OverrideKind
from mm2.connectors.status_registry import FlowState, FlowStatus, RegistrySnapshot
from mm2.node import config_publisher, flow_worker
from mm2.node.flow_worker import FlowWorker
from tests.fakes import fleets
from tests.fakes.fleets import Fleet, Member
from tests.fakes.plugin_contexts import Clock

FILE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
emit.heartbeats.enabled=false
"""
State = FlowState
FAILED, RUNNING = RunState.FAILED, RunState.RUNNING
TASK = ConnectorTaskId(flow_connector_configs.SOURCE_CONNECTOR, 0)
MOST_TURNS = 10_000


def plan(*lines: str) -> FlowPlan:
    text = FILE + "\n".join(lines)
    found = config_loader.parse_mm2_properties(
        text, file="mm2", folder=pathlib.Path("/"), environment={}
    )
    (made,) = flow_connector_configs.plan_flows(
        found, flow_connector_configs.ALL_FLOWS, environment={}
    )
    return made


class Turns(threading.Event):
    """A stop that is asked for after the last of `steps`; each wait takes one, and no time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.steps: deque[Callable[[], object]] = deque()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        if self.is_set():
            return True
        assert timeout is not None
        assert len(self.waited) < MOST_TURNS
        self.waited.append(timeout)
        self.clock.now += timeout
        if self.steps:
            self.steps.popleft()()
        else:
            self.set()
        return self.is_set()

    @property
    def pauses(self) -> list[float]:
        """Waits that were no turns."""
        return [each for each in self.waited if each != flow_worker.POLL_INTERVAL_S]


class Flow:
    def __init__(self, *lines: str, can_copy: bool = True) -> None:
        self.fleet = Fleet()
        self.clock = Clock()
        self.can_copy = can_copy
        self.spares: list[tuple[str, int]] = []
        self.cause = ""
        self.worker = FlowWorker(
            plan(*lines),
            fleets.as_fleet(self.fleet),
            can_copy=lambda: self.can_copy,
            set_remote_tasks=lambda flow, count: self.spares.append((flow, count)),
            unreachable=lambda: self.cause,
            clock=self.clock,
        )
        self.turns = self.worker.stop_requested = Turns(self.clock)
        self.seen: list[FlowStatus] = []

    def does(self, *steps: Callable[[], object]) -> Flow:
        """One a turn; then it stops."""
        self.turns.steps.extend(steps)
        self.worker.run(threading.Event())
        return self

    def looks(self) -> None:
        before = self.seen[-1] if self.seen else None
        self.seen.append(self.worker.update_status(RegistrySnapshot(), before, broken=""))

    def passes(self, seconds: float) -> Callable[[], None]:
        def passing() -> None:
            self.clock.now += seconds

        return passing

    @property
    def member(self) -> Member:
        return self.fleet.made[-1][1]

    @property
    def members(self) -> list[Member]:
        return [each for _, each in self.fleet.made]


def ends(member: Member, why: str = "the group threw it out") -> Callable[[], None]:
    def ended() -> None:
        member.failure = why

    return ended


def configured(member: Member, of: FlowPlan) -> None:
    """Its group's topics have the mirror as the plan says, with one task."""
    config = dict(of.connectors[flow_connector_configs.SOURCE_CONNECTOR])
    member.herder.write(
        config_records.encode_connector_creation(
            flow_connector_configs.SOURCE_CONNECTOR, config, None
        )
    )
    task = {**config, "task.assigned.partitions": "t-0"}
    member.herder.write(
        config_records.encode_task_configs(flow_connector_configs.SOURCE_CONNECTOR, [task])
    )
    member.herder.write(
        [config_records.encode_task_config_commit(flow_connector_configs.SOURCE_CONNECTOR, 1)]
    )


def test_its_worker_begins_writes_the_connectors_as_its_leader_and_stops():
    flow = Flow()
    flow.looks()
    flow.does(flow.looks)
    flow.looks()
    assert [name for name, _ in flow.fleet.made] == ["a->b"]
    assert flow.member.calls == ["start", "stop"]
    assert flow.member.stored.keys() == plan().connectors.keys()
    assert flow.seen[0].state is State.PLANNING
    assert "connecting to b (b:1)" in flow.seen[0].reason
    assert flow.seen[-1].state is State.STOPPED
    assert flow.worker.has_ended
    assert flow.worker.has_applied_plan
    assert flow.worker.plugin_metrics == ()


def test_other_stored_connectors_are_ignored_and_logged_once(caplog):
    names = [f"x{each}" for each in range(9)]
    members = [Member(), Member()]
    for member in members:
        member.herder.ignore_connectors_except(plan().connectors)
        for name in names:
            member.herder.write(config_records.encode_connector_creation(name, {}, None))
    flow = Flow()
    flow.fleet.next.extend(members)
    flow.does(flow.looks, flow.looks, ends(members[0]), flow.looks, flow.looks)
    assert [each.allowed_connectors for each in flow.fleet.settings] == [
        frozenset(plan().connectors)
    ] * 2
    assert members[1].stored.keys() == plan().connectors.keys()
    (line,) = [each.getMessage() for each in caplog.records if "ignoring" in each.getMessage()]
    assert "a->b: ignoring 9 stored connector(s) that are not the flow's, such as 'x0', " in line


def test_a_worker_that_does_not_start_is_tried_again_after_growing_pauses(caplog):
    flow = Flow()
    refusal = RetriableError("b:1 does not respond")
    flow.fleet.next.extend(Member(refuses=refusal) for _ in range(8))
    flow.does(*[flow.looks] * 9)
    assert [each.calls for each in flow.members] == [["start"]] * 8 + [["start", "stop"]]
    assert "the worker has not started: b:1 does not respond" in caplog.text
    assert {each.reason for each in flow.seen[:8]} == {"b:1 does not respond"}
    first, *_, last = flow.turns.pauses
    assert first < 2 * flow_worker.MIN_START_DELAY_S < flow_worker.MAX_START_DELAY_S / 2 < last


def test_the_same_failure_to_start_is_logged_once(caplog):
    flow = Flow()
    refusal = RetriableError("b:1 does not respond")
    flow.fleet.next.extend(Member(refuses=refusal) for _ in range(5))
    flow.does(*[flow.looks] * 6)
    assert caplog.text.count("the worker has not started: b:1 does not respond") == 1


def test_what_keeps_a_worker_from_starting_is_the_flows_reason(caplog):
    flow, member = Flow(), Member()
    flow.fleet.next.append(member)
    told = "creating topic x on b (b:1): replication factor 3; retrying"

    def starts(_: Callable[[], bool]) -> None:
        member.on_trouble(told)
        flow.looks()
        flow.cause = "b: connection refused (b:1), retrying"
        flow.looks()
        flow.cause = ""
        member.on_trouble("")
        flow.looks()

    member.before = starts
    flow.does(flow.looks)
    assert [each.reason for each in flow.seen[:3]] == [
        told,
        f"b: connection refused (b:1), retrying; {told}",
        "connecting to b (b:1)",
    ]
    assert all(each.state is State.PLANNING for each in flow.seen[:3])


def test_why_its_worker_ended_stays_the_reason_until_it_is_in_its_group_again():
    flow = Flow()
    refused = [Member(failure="no right: READ on group x") for _ in range(3)]
    for each in refused:
        each.herder.reports_ready = False
    flow.fleet.next.extend(refused)
    flow.does(*[flow.looks] * 6)
    assert {each.reason for each in flow.seen[1:4]} == {
        "the worker ended: no right: READ on group x"
    }


def test_a_cluster_that_is_away_is_the_reason_before_its_worker_has_begun():
    flow = Flow()
    flow.cause = "b: connection refused (b:1), retrying"
    flow.looks()
    assert flow.seen[-1].reason == flow.cause
    assert flow.worker.readiness.reason == flow.cause


def test_what_trying_again_does_not_mend_fails_the_flow():
    flow = Flow()
    flow.fleet.next.append(Member(refuses=FatalError("no such mechanism")))
    flow.does(flow.looks)
    flow.looks()
    assert (flow.seen[-1].state, flow.seen[-1].reason) == (State.FAILED, "no such mechanism")
    assert flow.worker.has_ended
    assert flow.turns.waited == []


def test_why_a_login_was_refused_is_what_the_watch_of_the_clusters_finds():
    flow = Flow()
    refused = AuthenticationError("SSL handshake failed")
    flow.fleet.next.append(Member(refuses=refused))
    cause = "target b unreachable: certificate has expired (b:1)"
    flow.does(lambda: None, lambda: setattr(flow, "cause", cause), flow.looks)
    flow.looks()
    assert (flow.seen[-1].state, flow.seen[-1].reason) == (State.FAILED, cause)


def test_workers_that_end_as_soon_as_they_have_begun_are_begun_ever_later(caplog):
    flow = Flow()
    flow.fleet.next.extend(Member(failure="the JVM is gone") for _ in range(8))
    flow.does(*[flow.looks] * 16)
    assert [each.calls for each in flow.members[:8]] == [["start", "stop"]] * 8
    assert "the worker ended: the JVM is gone" in caplog.text
    assert max(flow.turns.pauses[:2]) < flow_worker.MAX_START_DELAY_S / 4
    assert min(flow.turns.pauses[6:8]) > flow_worker.MAX_START_DELAY_S / 4


def test_a_worker_that_has_lived_is_followed_soon():
    flow = Flow()
    short = [Member(failure="gone") for _ in range(6)]
    lived = Member()
    flow.fleet.next.extend([*short, lived])
    flow.does(*[flow.looks] * 12, flow.passes(flow_worker.STABLE_RUN_S), ends(lived), flow.looks)
    assert len(flow.members) == 8
    assert flow.turns.pauses[6] < 2 * flow_worker.MIN_START_DELAY_S


def test_a_stop_is_heard_while_the_herder_is_busy():
    flow = Flow()
    busy = Member()
    busy.herder.silent = True
    flow.fleet.next.append(busy)
    flow.does(flow.looks, flow.looks)
    assert len(busy.herder.submitted) == len(plan().connectors)
    assert flow.clock.now < 1.0
    assert busy.calls == ["start", "stop"]


def test_whatever_is_wrong_here_its_worker_stops(monkeypatch):
    flow = Flow()
    monkeypatch.setattr(flow.worker._publisher, "write_or_compare_configs", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        flow.does(flow.looks, flow.looks)
    assert flow.member.calls == ["start", "stop"]
    assert flow.worker.has_ended


def test_it_joins_others_only_once_it_can_copy():
    flow = Flow(can_copy=False)
    flow.fleet.next.append(Member(among_others=lambda: True))
    joined = []

    def comes_up() -> None:
        joined.append(flow.worker.plugin_metrics)
        flow.looks()
        flow.can_copy = True

    flow.does(flow.looks, comes_up, flow.looks)
    assert "Spark is starting" in flow.seen[0].reason
    assert flow.member.calls == ["start", "stop"]


def test_alone_it_does_not_wait_for_its_engine():
    flow = Flow(can_copy=False)
    flow.does(flow.looks)
    assert flow.member.stored


def test_a_stop_ends_the_wait_for_the_engine():
    flow = Flow(can_copy=False)
    flow.fleet.next.append(Member(among_others=lambda: True))
    flow.does(flow.looks)
    flow.looks()
    assert flow.member.calls == ["start"]
    assert flow.seen[-1].state is State.STOPPED


def failing(flow: Flow) -> Member:
    """Its mirror ran, and then a task of it fails whenever it is begun."""
    member = Member()
    configured(member, flow.worker.plan)
    member.runs(flow_connector_configs.SOURCE_CONNECTOR, RUNNING)
    member.runs(TASK, RUNNING)
    flow.fleet.next.append(member)
    return member


def restarts(member: Member) -> int:
    return member.herder.submitted.count(RestartTask(TASK))


@pytest.mark.parametrize("reloaded", [False, True], ids=["started with it", "reloaded"])
def test_a_task_that_failed_is_started_again_as_often_as_the_file_says_now(reloaded):
    line = "task.restart.max=2"
    flow = Flow() if reloaded else Flow(line)
    member = failing(flow)

    def begins() -> None:
        if reloaded:
            flow.worker.replace_plan(plan(line))

    def fails() -> None:
        if restarts(member) >= member.started_connectors_and_tasks[TASK].times:
            member.runs(TASK, FAILED, trace="x.Y: out of paper")

    member.herder.submitted.append(RestartTask(TASK))  # it fails once by itself
    flow.does(flow.looks, begins, *[fails, flow.passes(1.0)] * 30, flow.looks)
    assert restarts(member) - 1 == 2
    assert "out of paper" in flow.seen[-1].reason


def test_a_restart_that_was_refused_is_asked_for_again():
    flow = Flow()
    member = failing(flow)
    serve = member.herder._serve
    refusals = [RequestRefused(409, "a rebalance is under way")] * 3

    def refuses(request: HerderRequest) -> object:
        asked = isinstance(request, RestartTask)
        return refusals.pop() if asked and refusals else serve(request)

    member.herder._serve = refuses  # type: ignore[method-assign,assignment]

    def fails() -> None:
        member.runs(TASK, FAILED, trace="x.Y: out of paper")

    flow.does(flow.looks, fails, *[flow.passes(1.0)] * 12)
    assert restarts(member) == 4


def test_another_plan_is_written_and_how_often_may_be_tried_changes_with_it():
    flow = Flow()
    other = plan("topics=x")

    def changes() -> None:
        flow.worker.replace_plan(other)
        assert not flow.worker.has_applied_plan

    flow.does(flow.looks, changes, flow.looks)
    assert flow.member.stored[flow_connector_configs.SOURCE_CONNECTOR]["topics"] == "x"
    assert flow.worker.plan is other


def test_who_follows_says_that_another_node_has_another_file():
    flow = Flow("topics=x")
    member = Member(is_leader=False, leader_url="http://h:1")
    configured(member, plan())
    flow.fleet.next.append(member)
    told: list[str] = []
    flow.does(flow.looks, lambda: told.extend(flow.worker.ineffective_changes))
    assert "the node at http://h:1 leads" in told[0]
    assert not flow.worker.ineffective_changes, "it has ended"


def test_copies_wait_for_tasks_that_run_elsewhere_while_its_worker_lives():
    flow = Flow()
    member = Member()
    configured(member, plan())
    flow.fleet.next.append(member)
    flow.does(flow.looks, lambda: member.runs(TASK, RUNNING), flow.looks)
    assert list(dict.fromkeys(flow.spares)) == [("a->b", 1), ("a->b", 0)]
    assert flow.spares[-1] == ("a->b", 0)


def test_a_flow_that_cannot_be_configured_fails_and_says_why():
    flow = Flow()
    flow.fleet.next.append(Member())
    flow.fleet.next[0].herder.invalid = "topics: not a pattern"
    flow.does(flow.looks, flow.looks)
    assert flow.seen[-1].state is State.FAILED
    assert flow.seen[-1].reason == "the flow's configuration was rejected: topics: not a pattern"


def test_a_flow_that_runs_shows_what_of_its_new_file_is_refused():
    flow = Flow()
    told: list[str] = []

    def changes() -> None:
        flow.member.herder.invalid = "topics: not a pattern"
        flow.worker.replace_plan(plan("topics=x"))

    def tells() -> None:
        told.extend(flow.worker.ineffective_changes)
        assert flow.worker.has_applied_plan, "there is nothing left to be waited for"

    flow.does(flow.looks, changes, flow.looks, tells)
    assert told[0] == (
        "a->b: MirrorSourceConnector keeps its previous configuration, because the new "
        "configuration was rejected: topics: not a pattern"
    )
    assert flow.seen[-1].state is State.PLANNING
    assert flow.seen[-1].reason.startswith("MirrorSourceConnector keeps its previous")


def test_a_flow_at_rest_is_not_put_together_again():
    flow = Flow()
    flow.does(flow.looks, flow.looks, flow.looks, flow.looks)
    assert flow.seen[-1] is flow.seen[-2]


def test_writing_takes_no_turn_longer():
    """However long the herder takes to answer."""
    flow = Flow()
    busy = Member()
    busy.herder.silent = True
    flow.fleet.next.append(busy)
    flow.does(flow.looks, flow.passes(config_publisher.WRITE_TIMEOUT_S), flow.looks)
    assert len(busy.herder.submitted) == 2 * len(plan().connectors)
    assert set(flow.turns.waited) == {flow_worker.POLL_INTERVAL_S}


def stands(flow: Flow) -> tuple[bool, bool, bool]:
    found = flow.worker.readiness
    assert found.flow == "a->b"
    return found.joined, found.configured, found.is_serving


def test_it_is_ready_once_it_has_joined_and_what_the_file_says_has_begun():
    flow, member = Flow(), Member()
    flow.fleet.next.append(member)
    seen: list[tuple[bool, bool, bool]] = []

    def look() -> None:
        flow.looks()
        seen.append(stands(flow))

    def joins() -> None:
        member.assignment_offset = 10**6

    member.assignment_offset = -1
    look()
    assert "connecting to b" in flow.worker.readiness.reason
    flow.does(look, joins, lambda: configured(member, flow.worker.plan), look)
    assert seen[:2] == [(False, False, False)] * 2
    assert seen[2][:2] == (True, True)


def test_rebalances_are_counted_over_its_workers():
    flow = Flow()
    one, other = Member(rebalance_count=3), Member(rebalance_count=1)
    flow.fleet.next.extend([one, other])
    found: list[int] = []

    def look() -> None:
        found.append(flow.worker.rebalance_count)

    flow.does(look, ends(one), *[look] * 20)
    assert (found[0], found[-1]) == (3, 4)
    assert found == sorted(found), "none is forgotten in between"
    assert flow.worker.rebalance_count == 4


def test_connectors_that_are_held_are_those_of_the_group():
    flow, found = Flow(), list[object]()

    def holds_checkpoints() -> None:
        herder = flow.member.herder
        herder.write(
            config_records.encode_connector_creation(
                flow_connector_configs.CHECKPOINT_CONNECTOR, {}, None
            )
        )
        herder.set_target_state(flow_connector_configs.CHECKPOINT_CONNECTOR, TargetState.PAUSED)

    def look() -> None:
        found.append(flow.worker.connector_overrides)

    look()
    flow.does(look, holds_checkpoints, look)
    assert found == [
        {},
        {},
        {flow_connector_configs.CHECKPOINT_CONNECTOR: OverrideKind.PAUSED},
    ]
    assert flow.worker.connector_overrides == {}


def test_its_worker_connects_as_the_plan_says_now():
    key = "source.cluster.bootstrap.servers"
    flow = Flow()
    flow.does(flow.looks)
    (settings,) = flow.fleet.settings
    stored = dict(
        plan("a.bootstrap.servers=c:1").connectors[flow_connector_configs.SOURCE_CONNECTOR]
    )
    before = plan().connectors[flow_connector_configs.SOURCE_CONNECTOR][key]
    assert settings.resolve_connector_config(stored)[key] == before != "c:1"
    flow.worker.replace_plan(plan("a.bootstrap.servers=c:1"))
    assert settings.resolve_connector_config(stored) == stored
