"""Nothing that was posted is lost, nor is a wake; what askers may put there is bounded.

The loop: what is told in which order, what it shows of itself, and how it ends."""

from __future__ import annotations

import threading

import pytest

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder import herder_requests
from connect_runtime.herder.herder_events import (
    ActionCompleted,
    ConfigRecordRead,
    HerderShutdownRequested,
    HerderTick,
    RequestSubmitted,
    StoresLoaded,
    TaskReconfigurationRequested,
)
from connect_runtime.herder.herder_loop import HerderInbox, HerderLoop
from connect_runtime.herder.herder_requests import (
    CheckHealth,
    DescribeConnector,
    HerderQueueFullError,
    PutConnector,
    PutConnectorResult,
    RequestRefused,
    RequestSucceeded,
    RestartConnector,
    RestartTask,
)
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.internal_topic_log import WritePrivilegeLost
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from tests.fakes import herding
from tests.support import eventually

NOW_S = SystemClock().now_s


@pytest.fixture
def box():
    return HerderInbox()


def submitted(number: int) -> RequestSubmitted:
    return RequestSubmitted(ticket=number, request=CheckHealth())


def test_is_taken_in_order_and_once(box):
    told = [submitted(1), HerderTick(), submitted(2)]
    assert all(box.post_event(each) for each in told)
    assert box.pop_all_events() == told
    assert box.pop_all_events() == []


def test_askers_are_turned_away_when_it_is_full_and_others_are_not(box, monkeypatch):
    monkeypatch.setattr(herder_requests, "MAX_QUEUED_REQUESTS", 2)
    box.post_event(submitted(1))
    box.post_event(submitted(2))
    with pytest.raises(HerderQueueFullError, match="2 requests are already queued"):
        box.post_event(submitted(3))
    assert box.post_event(HerderShutdownRequested())
    assert len(box.pop_all_events()) == 3
    assert box.post_event(submitted(4))


def test_a_wish_waits_once_for_each_connector(box):
    for name in ("a", "b", "a"):
        assert box.post_event(TaskReconfigurationRequested(name))
    assert [each.connector for each in box.pop_all_events()] == ["a", "b"]
    box.post_event(TaskReconfigurationRequested("a"))
    assert len(box.pop_all_events()) == 1


@pytest.mark.parametrize("how", ["post", "wake"])
def test_what_came_before_the_wait_ends_it(box, how):
    if how == "wake":
        box.wake_herder()
    else:
        box.post_event(HerderTick())
    began_s = NOW_S()
    box.wait_for_event(10.0)
    assert NOW_S() - began_s < 5


@pytest.mark.parametrize("how", ["post", "wake"])
def test_what_comes_during_the_wait_ends_it(box, how):
    waits = threading.Event()
    owner = ThreadGroup(on_unexpected_end=lambda _: None)

    def wait(_: threading.Event) -> None:
        waits.set()
        box.wait(10.0)

    waiter = owner.start("waits", wait)
    assert waits.wait(5.0)
    if how == "wake":
        box.wake_herder()
    else:
        box.post_event(HerderTick())
    assert waiter.join(5.0)


def test_a_wake_counts_once(box):
    box.wake_herder()
    box.pop_all_events()
    began_s = NOW_S()
    box.wait_for_event(0.05)
    assert NOW_S() - began_s >= 0.04


def test_times_that_have_passed_are_no_wait(box):
    box.wait_for_event(-1.0)


def test_closed_it_takes_no_more_and_gives_what_it_has(box):
    """A herder that hung while it was told to end must learn of it when it comes back."""
    box.post_event(HerderShutdownRequested())
    box.close()
    assert not box.post_event(submitted(1))
    assert box.pop_all_events() == [HerderShutdownRequested()]


def test_closed_it_does_not_keep_who_waits_busy(box):
    box.close()
    began_s = NOW_S()
    box.wait_for_event(0.05)
    assert NOW_S() - began_s >= 0.04


WAIT_S = herding.WAIT_S
CLOSED = RequestRefused(500, "Worker is shutting down")
HEALTH = CheckHealth()


def until(condition):
    return eventually.eventually(condition, WAIT_S, interval_s=0.002)


@pytest.fixture
def told(monkeypatch):
    """What the machines are told, by their nodes' loops, in order."""
    seen = []
    real = HerderLoop._process_event

    def tell(self, event):
        seen.append(event)
        real(self, event)

    monkeypatch.setattr(HerderLoop, "_process_event", tell)
    return seen


@pytest.fixture
def node(cluster):
    return cluster.node("a")


def ready(node):
    """It has joined, and its leader has written what it does unasked."""
    node.start()
    until(lambda: node.herder.is_ready() and node.configs.snapshot().session_key is not None)
    return node


class Held:
    """Holds the herder's thread up in a method of its worker."""

    def __init__(self, monkeypatch, node, name):
        self.begun, self.go_on = threading.Event(), threading.Event()
        real = getattr(node.worker, name)

        def hold(*args, **more):
            self.begun.set()
            assert self.go_on.wait(WAIT_S)
            return real(*args, **more)

        monkeypatch.setattr(node.worker, name, hold)

    def __enter__(self):
        assert self.begun.wait(WAIT_S)
        return self

    def __exit__(self, *_):
        self.go_on.set()


def test_begun_is_told_first_and_once(node, told):
    node.statuses.start(WAIT_S)
    node.configs.start(WAIT_S)
    node.configs.put_connector("early", {"name": "early"})
    node.loop.start()
    until(node.herder.is_ready)
    assert told[0] == StoresLoaded()
    assert told.count(StoresLoaded()) == 1


def test_a_change_that_was_read_is_told_before_the_answer_to_its_write(node, told):
    ready(node)
    node.ask(HEALTH)
    told.clear()
    node.put("c")
    kinds = [type(each) for each in told if each != HerderTick()]
    assert kinds[:3] == [RequestSubmitted, ConfigRecordRead, ActionCompleted]


def test_events_during_a_question_wait_for_nothing_but_its_answer(node, told, monkeypatch):
    ready(node)
    held = Held(monkeypatch, node, "start_connector")
    node.put("c")
    with held:
        health = node.herder.submit_request(HEALTH)
        assert not health.done()
    assert health.result(WAIT_S) == RequestSucceeded()


def test_the_group_is_told_between_questions_that_the_herder_comes_round(node):
    ready(node)
    before = node.group.calls.count("ticked")
    asked = [
        PutConnector(connector="c", config={"n": str(each)}, replace=True) for each in range(3)
    ]
    for each in [node.herder.submit_request(request) for request in asked]:
        each.result(WAIT_S)
    assert node.group.calls.count("ticked") >= before + 3


@pytest.mark.usefixtures("impatient")
def test_a_wish_that_comes_while_the_connector_is_slow_to_answer_is_not_lost(node):
    """What it says then is of before the wish."""
    ready(node)
    go_on = threading.Event()
    plans = [[{"t": "old"}], [{"t": "new"}]]

    def slow():
        assert go_on.wait(WAIT_S)
        return plans.pop(0) if len(plans) > 1 else plans[0]

    node.worker.plans["c"] = slow
    node.put("c")
    until(lambda: node.questions._connectors._pending)
    node.inbox.post_event(TaskReconfigurationRequested("c"))
    node.ask(HEALTH)
    go_on.set()
    task = ConnectorTaskId("c", 0)
    until(lambda: node.worker.runs.get(task) == {"t": "new"})


def test_how_it_stands_is_that_of_the_last_round(cluster, node):
    assert not node.herder.is_ready()
    ready(node)
    other = cluster.node("b", offers=ConnectProtocol.COMPATIBLE)
    ready(other)
    until(lambda: node.standing.protocol is ConnectProtocol.COMPATIBLE)
    assert node.standing.generation == other.standing.generation == cluster.coordinator.generation


def test_says_aloud_when_requests_are_signed_no_more_and_when_they_are_again(cluster, node, caplog):
    """DistributedHerder.onAssigned: it is a matter of security."""
    caplog.set_level("INFO", "connect_runtime.herder.herder_loop")

    def warnings():
        return [each for each in caplog.records if "not signed" in each.getMessage()]

    ready(node)
    assert warnings() == []
    other = cluster.node("b", offers=ConnectProtocol.COMPATIBLE)
    ready(other)
    until(lambda: node.standing.protocol is ConnectProtocol.COMPATIBLE)
    assert [each.levelname for each in warnings()] == ["WARNING"]
    assert "fell back to protocol compatible" in warnings()[0].getMessage()
    other.loop.request_stop()
    until(lambda: "all members support protocol sessioned again" in caplog.text)


def test_requests_are_signed_whole_unless_a_java_worker_is_in_the_group(cluster, caplog):
    """Only the group's own metadata decide that."""
    whole = ConnectProtocol.SESSIONED_WHOLE
    one, two = cluster.node("one", offers=whole), cluster.node("two", offers=whole)
    ready(one)
    ready(two)
    for each in (one, two):
        until(lambda each=each: each.herder.signs_whole_requests())
    assert "Java" not in caplog.text
    java = cluster.node("java", offers=ConnectProtocol.SESSIONED)
    ready(java)
    for each in (one, two):
        until(lambda each=each: not each.herder.signs_whole_requests())
        assert each.herder.signs_internal_requests()
    until(lambda: caplog.text.count("a Java worker is in the group") == 2)
    java.loop.request_stop()
    for each in (one, two):
        until(lambda each=each: each.herder.signs_whole_requests())


def test_shows_what_it_waits_for_when_asked(cluster, node, monkeypatch):
    assert "currently initializing and reading to the end" in str(node.herder.get_current_stage())
    with cluster.coordinator.lock:
        node.start()
        until(lambda: "currently ensuring membership" in str(node.herder.get_current_stage()))
    until(node.herder.is_ready)
    held = Held(monkeypatch, node, "start_connector")
    node.put("c")
    with held:
        assert "currently starting 1 connector(s) and 0 task(s)" in str(
            node.herder.get_current_stage()
        )
    until(lambda: "last operation" in str(node.herder.get_current_stage()))


def test_a_member_without_work_is_not_said_to_wait_for_the_group(cluster, node):
    ready(node)
    follower = ready(cluster.node("b"))
    until(
        lambda: (
            "The last operation the worker completed was ensuring membership"
            in str(follower.herder.get_current_stage())
        )
    )


def test_shut_down_it_stops_its_work_and_leaves(node):
    ready(node)
    node.put("c")
    until(lambda: "c" in node.worker.runs)
    node.loop.request_stop()
    node.loop.request_stop()
    assert node.loop.join(WAIT_S)
    assert node.ended.is_set()
    assert node.loop.failure is None
    assert node.worker.calls[-2:] == ["stop c", "close"]
    assert node.group.calls[-1] == "close"


def test_shut_down_while_a_question_is_outstanding(node, monkeypatch):
    ready(node)
    held = Held(monkeypatch, node, "start_connector")
    node.put("c")
    with held:
        waiting = node.herder.submit_request(DescribeConnector("c"))
        node.loop.request_stop()
        late = node.herder.submit_request(HEALTH)
        assert not node.loop.join(0.01)
    assert node.loop.join(WAIT_S)
    assert late.result(0) == CLOSED
    assert waiting.done()
    assert node.worker.runs == {}


def test_left_behind_it_still_learns_that_it_is_to_end(node, monkeypatch):
    ready(node)
    held = Held(monkeypatch, node, "start_connector")
    node.put("c")
    with held:
        node.loop.request_stop()
        node.inbox.close()
    assert node.loop.join(WAIT_S)


def test_it_ends_when_its_group_cannot_go_on(node):
    ready(node)
    node.put("c")
    until(lambda: "c" in node.worker.runs)
    node.group.fail(FatalError("no right to be in group g"))
    assert node.ended.wait(WAIT_S)
    assert node.loop.join(WAIT_S)
    assert node.loop.failure == "no right to be in group g"
    assert node.worker.runs == {}
    assert node.ask(HEALTH) == CLOSED


def test_a_mistake_ends_it_and_leaves_nobody_waiting_and_nothing_running(node, caplog):
    ready(node)
    node.put("c")
    until(lambda: "c" in node.worker.runs)
    until(lambda: node.ask(RestartConnector("c")) == RequestSucceeded())
    node.worker.silent = True
    waits_for_start = node.herder.submit_request(RestartConnector("c"))
    node.ask(HEALTH)
    node.worker.mistakes["stop"] = RuntimeError("bug")
    waits_behind = [
        node.herder.submit_request(RestartConnector("c")),
        node.herder.submit_request(DescribeConnector("c")),
        node.herder.submit_request(HEALTH),
    ]
    assert node.ended.wait(WAIT_S)
    assert [each.result(0) for each in (waits_for_start, *waits_behind)] == [CLOSED] * 4
    assert node.worker.runs == {}
    assert node.group.calls[-1] == "close"
    assert node.loop.join(WAIT_S)
    assert node.loop.failure == "the herder failed with an unexpected error: RuntimeError('bug')"
    assert "the herder's thread died: bug" in caplog.text
    assert node.ask(HEALTH) == CLOSED


def test_what_goes_wrong_at_the_end_keeps_nobody_from_hearing_of_it(node, monkeypatch):
    ready(node)

    def refuse(_timeout_s):
        raise OSError("no socket")

    monkeypatch.setattr(node.group, "close", refuse)
    node.loop.request_stop()
    assert node.ended.wait(WAIT_S)


def test_a_lost_privilege_is_claimed_again_and_the_asker_told(cluster, node):
    ready(node)
    cluster.configs.refusals.append(WritePrivilegeLost("another leads"))
    assert node.put("c") == RequestRefused(500, "another leads")
    assert isinstance(node.put("c"), PutConnectorResult)


def test_a_group_that_is_lost_stops_all_work_until_it_is_back(cluster, node):
    ready(node)
    node.put("c")
    until(lambda: "c" in node.worker.runs)
    with cluster.coordinator.away():
        until(lambda: not node.worker.runs)
    until(lambda: "c" in node.worker.runs)


def test_who_lost_its_group_has_ended_its_work_before_it_joins_another_round(cluster, node):
    """Others may be given it: what runs here stops first, however long that takes."""
    ready(node)
    node.put("c")
    until(lambda: "c" in node.worker.runs)
    order: list[str] = []
    node.worker.calls, stop = order, node.worker.stop_connectors_and_tasks
    node.group.calls = order
    held = threading.Event()

    def slow(gone):
        held.wait(WAIT_S)
        stop(gone)

    node.worker.stop_connectors_and_tasks = slow
    with cluster.coordinator.away():
        until(lambda: node.loop.stage.description.startswith("stopping"))
    assert "prepared" not in order
    held.set()
    until(lambda: "start c" in order)
    steps = ["stop c", "prepared", "start c"]
    assert [each for each in order if each in steps][:3] == steps


def test_the_new_leader_is_told_so_once_until_another_was(cluster, node):
    ready(node)
    until(lambda: len(node.led) == 1)
    node.put("c")  # more rounds
    until(lambda: "c" in node.worker.runs)
    other = ready(cluster.node("b"))
    until(lambda: other.standing.generation == node.standing.generation)
    assert (node.standing.is_leader, other.standing.is_leader) == (True, False)
    assert len(node.led) == 1
    assert other.led == []
    node.loop.request_stop()
    until(lambda: len(other.led) == 1)
    assert other.standing.is_leader


def test_what_the_new_leader_does_holds_nobody_up_and_may_fail(cluster, node, caplog):
    gate = threading.Event()

    def lead():
        gate.wait(WAIT_S)
        raise ConnectError("nothing to lead")

    node.on_leading = lead
    ready(node)
    node.put("c")
    until(lambda: "c" in node.worker.runs)
    gate.set()
    until(lambda: "nothing to lead" in caplog.text)
    assert node.loop.failure is None


def test_a_restarted_task_is_answered_once_it_runs(node):
    ready(node)
    node.worker.plans["c"] = [{"t": "1"}]
    node.put("c")
    task = ConnectorTaskId("c", 0)
    until(lambda: task in node.worker.runs)
    assert node.ask(RestartTask(task)) == RequestSucceeded()
    node.worker.refuses.add(task)
    refused = node.ask(RestartTask(task))
    assert (refused.status, refused.message) == (
        500,
        "Failed to start task: c-0: c-0 has no class",
    )


def test_starts_in_the_state_that_is_configured(node):
    ready(node)
    state = TargetState.PAUSED
    node.ask(PutConnector(connector="c", config={}, target_state=state))
    until(lambda: node.worker.states == {"c": state})
