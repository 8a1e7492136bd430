"""Each question has one of the outcomes that its docstring names.

Connectors may answer late, never, wrongly or with anything at all: nobody else is the worse."""

from __future__ import annotations

import threading
from concurrent import futures

import pytest

from connect_runtime.api.errors import ConnectError, FatalError
from connect_runtime.base import errors
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder.blocking_actions import TaskConfigGenerator
from connect_runtime.herder.herder_actions import (
    FenceConfigWriters,
    FlushStatuses,
    GenerateTaskConfigs,
    PublishRestartingStatuses,
    ReadConfigTopic,
    RemoveConnectorConfig,
    StartConnectorsAndTasks,
    StopConnectorsAndTasks,
    WriteConfigTopic,
    WriteConnectorConfig,
    WriteRestartRequest,
    WriteSessionKey,
    WriteTargetState,
    WriteTaskConfigs,
    WriteTaskCount,
)
from connect_runtime.herder.herder_events import (
    ActionFailed,
    ActionSucceeded,
    ActionTimedOut,
    ConnectorNotRunning,
    TaskConfigsGenerated,
)
from connect_runtime.herder.worker_interface import TooManyTasksError
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.config_topic import ConfigTopicState
from connect_runtime.storage.internal_topic_log import WritePrivilegeLost
from connect_runtime.system.supervised_threads import ThreadPool, ThreadPoolFull
from tests.fakes import herding
from tests.fakes.worker_port import FakeWorker
from tests.support import eventually

STOPPED = TargetState.STOPPED
DONE = ActionSucceeded()


@pytest.fixture
def node(cluster):
    """A worker whose herder does not run; what it asks, the test asks."""
    made = cluster.node("a")
    made.statuses.start(1.0)
    made.configs.start(1.0)
    return made


def write(node, what):
    return node.questions.execute_action(WriteConfigTopic(what))


def put(node, name="c", state=None):
    return write(
        node,
        WriteConnectorConfig(connector=name, config={"name": name}, target_state=state),
    )


def test_every_write_is_there_when_it_is_answered(node):
    for what in (
        WriteConnectorConfig(connector="c", config={"k": "v"}, target_state=STOPPED),
        WriteTaskConfigs(connector="c", configs=[{"t": "1"}]),
        WriteSessionKey(created_ms=5),
        WriteTaskCount(connector="c", tasks=3),
        WriteRestartRequest(RestartRequest(connector="c")),
    ):
        assert write(node, what) == DONE
    view = node.configs.snapshot()
    assert view.config("c") == {"k": "v"}
    assert view.target_state("c") is STOPPED
    assert view.tasks("c") == [ConnectorTaskId("c", 0)]
    assert view.fencing_count("c") == 3
    assert (len(view.session_key.key), view.session_key.created_ms) == (32, 5)
    assert write(node, RemoveConnectorConfig("c")) == DONE
    assert not node.configs.snapshot().has_connector("c")


def test_a_target_state_is_written(node):
    put(node)
    state = TargetState.PAUSED
    assert write(node, WriteTargetState(connector="c", state=state)) == DONE
    assert node.configs.snapshot().target_state("c") is state


def test_two_session_keys_are_two(node):
    keys = []
    for created_ms in (1, 2):
        write(node, WriteSessionKey(created_ms=created_ms))
        keys.append(node.configs.snapshot().session_key.key)
    assert keys[0] != keys[1]


def test_a_refused_write_failed_and_a_fenced_one_says_so(cluster, node):
    cluster.configs.refusals.append(errors.FatalError("too large"))
    assert put(node) == ActionFailed(reason="too large")
    cluster.configs.refusals.append(WritePrivilegeLost("another leads"))
    assert put(node) == ActionFailed(reason="another leads", is_fenced=True)


def test_reading_is_done_or_too_late(cluster, node):
    assert node.questions.execute_action(ReadConfigTopic(1.0)) == DONE
    with cluster.configs.unreachable():
        assert node.questions.execute_action(ReadConfigTopic(1.0)) == ActionTimedOut()


def test_claiming_is_nothing_where_nobody_is_fenced(node):
    assert node.questions.execute_action(FenceConfigWriters()) == DONE


def test_statuses_are_waited_for_and_who_gives_up_on_them_says_so(
    cluster, node, monkeypatch, caplog
):
    monkeypatch.setattr("connect_runtime.herder.blocking_actions.STATUS_FLUSH_TIMEOUT_S", 0.02)
    assert node.questions.execute_action(FlushStatuses()) == DONE
    with cluster.statuses.unreachable():
        node.orders.execute_action(PublishRestartingStatuses(ConnectorsAndTasks(connectors=("c",))))
        outcome = node.questions.execute_action(FlushStatuses())
        assert isinstance(outcome, ActionFailed)
        assert "1 status was" in outcome.reason
        assert "1 status was" in caplog.text


def test_starts_what_is_configured_now_and_names_what_cannot_be(node):
    put(node, "c", STOPPED)
    put(node, "bad")
    write(node, WriteTaskConfigs(connector="c", configs=[{"t": "1"}]))
    node.worker.refuses.add("bad")
    task, gone = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)
    what = ConnectorsAndTasks(connectors=("bad", "c", "gone"), tasks=(task, gone))
    outcome = node.questions.execute_action(StartConnectorsAndTasks(what))
    assert dict(outcome.failed) == {
        "bad": "bad has no class",
        "gone": "connector gone no longer exists",
        gone: "task c-1 no longer exists",
    }
    assert node.worker.runs == {"c": {"name": "c"}, task: {"t": "1"}}
    assert set(node.worker.states.values()) == {STOPPED}
    assert node.questions.execute_action(StopConnectorsAndTasks(what)) == DONE
    assert node.worker.runs == {}


def test_ignored_connectors_that_a_leader_assigns_are_neither_started_nor_failed(cluster, caplog):
    node = cluster.node("a", allowed_connectors=frozenset({"c"}))
    node.configs.start(1.0)
    put(node)
    put(node, "foreign")
    what = ConnectorsAndTasks(connectors=("c", "foreign"), tasks=(ConnectorTaskId("foreign", 0),))
    assert node.questions.execute_action(StartConnectorsAndTasks(what)).failed == ()
    assert node.worker.runs == {"c": {"name": "c"}}
    assert not caplog.records
    assert node.questions.execute_action(StopConnectorsAndTasks(what)) == DONE


def test_a_connector_without_target_state_is_to_run(node):
    put(node)
    node.questions.execute_action(StartConnectorsAndTasks(ConnectorsAndTasks(connectors=("c",))))
    assert node.worker.states == {"c": TargetState.STARTED}


def test_asks_connectors_by_what_is_configured_now(node):
    put(node)
    node.worker.plans["c"] = [{"t": "1"}]
    outcome = node.questions.execute_action(GenerateTaskConfigs("c"))
    assert outcome == TaskConfigsGenerated(configs=[{"t": "1"}], config_applied=False)


def test_where_calls_have_no_place_it_failed_and_nothing_worse(node):
    put(node)
    node.calls.stop(herding.WAIT_S)
    assert isinstance(node.questions.execute_action(GenerateTaskConfigs("c")), ActionFailed)


def test_a_mistake_of_ours_is_raised(node):
    node.worker.mistakes["stop"] = RuntimeError("bug")
    with pytest.raises(RuntimeError, match="bug"):
        node.questions.execute_action(StopConnectorsAndTasks(ConnectorsAndTasks(connectors=("c",))))


def test_stops_what_is_left(node):
    put(node)
    node.questions.execute_action(StartConnectorsAndTasks(ConnectorsAndTasks(connectors=("c",))))
    node.questions.stop_all_work()
    assert node.worker.runs == {}


WAIT_S = 30.0
CONFIG = {"name": "c", "secret": "${file:f:k}"}
TASK = {"t": "1"}


class Topic:
    """What is configured, as the topic says it."""

    def __init__(self):
        self._fold = ConfigTopicState()
        self._offset = 0
        self._fold.finish_replay()
        self.write(*config_records.encode_connector_creation("c", CONFIG))

    def write(self, *records):
        for each in records:
            self._fold.apply_record(each.key, each.value, offset=self._offset)
            self._offset += 1
        return self

    def publish(self):
        return self.write(
            *config_records.encode_task_configs("c", [TASK]),
            config_records.encode_task_config_commit("c", 1),
        )

    @property
    def view(self):
        return self._fold.snapshot()


@pytest.fixture
def worker():
    return FakeWorker()


@pytest.fixture
def secrets():
    """What `${…}` stands for, and how often anybody looked."""
    return {"value": "s1"}


@pytest.fixture
def calls(worker, secrets):
    threads = ThreadPool("calls", threads_max=2, waiting_max=1)

    def resolve(config):
        if "broken" in secrets and "secret" in config:
            raise FatalError(secrets["broken"])
        return {**config, "secret": secrets["value"]}

    yield TaskConfigGenerator(worker, calls=threads, resolve=resolve)
    assert threads.stop(WAIT_S) == []


@pytest.fixture
def topic():
    return Topic()


class Slow:
    """A plan that waits until the test lets it go."""

    def __init__(self, *, answer):
        self.answer = answer
        self.go_on = threading.Event()
        self._begun = threading.Semaphore(0)
        self._ended = threading.Semaphore(0)

    def __call__(self):
        self._begun.release()
        assert self.go_on.wait(WAIT_S)
        self._ended.release()
        return self.answer

    def begins(self):
        assert self._begun.acquire(timeout=WAIT_S)

    def ends(self):
        self.go_on.set()
        assert self._ended.acquire(timeout=WAIT_S)


def test_what_it_gives_is_told(calls, worker, topic):
    worker.plans["c"] = [TASK]
    assert calls.generate_task_configs("c", topic.view) == TaskConfigsGenerated(
        configs=[TASK], config_applied=False
    )


@pytest.mark.parametrize("name", ["c", "unknown"])
def test_what_does_not_run_or_is_not_configured(calls, worker, topic, name):
    worker.plans["c"] = None
    assert calls.generate_task_configs(name, topic.view) == ConnectorNotRunning()


def test_too_many_tasks_are_no_reason_to_ask_again(calls, worker, topic):
    worker.plans["c"] = TooManyTasksError("raise tasks.max")
    expected = ActionFailed(reason="raise tasks.max", is_permanent=True)
    assert calls.generate_task_configs("c", topic.view) == expected


@pytest.mark.parametrize(
    "error", [ConnectError("no broker"), KeyError("no broker"), SystemExit("no broker")]
)
def test_whatever_it_raises_is_tried_again(calls, worker, topic, error):
    worker.plans["c"] = error
    outcome = calls.generate_task_configs("c", topic.view)
    assert isinstance(outcome, ActionFailed)
    assert not outcome.is_permanent
    assert "no broker" in outcome.reason
    worker.plans["c"] = [TASK]
    assert isinstance(calls.generate_task_configs("c", topic.view), TaskConfigsGenerated)


@pytest.mark.usefixtures("impatient")
def test_one_that_hangs_is_waited_for_once_and_not_asked_twice(calls, worker, topic, monkeypatch):
    worker.plans["c"] = slow = Slow(answer=[TASK])
    expected = ActionFailed(reason="connector c did not return task configs within 0.05 s")
    assert calls.generate_task_configs("c", topic.view) == expected
    slow.begins()
    waited = []
    real = futures.wait

    def wait(asked, timeout):
        waited.append(timeout)
        return real(asked, timeout=timeout)

    monkeypatch.setattr(futures, "wait", wait)
    assert calls.generate_task_configs("c", topic.view) == expected
    assert waited == [0.0]
    assert worker.asked == ["c"]
    slow.ends()
    assert _generated(calls, topic).configs == [TASK]
    assert worker.asked == ["c"]


def late(calls, slow, topic, *, wished):
    """It answers after everybody gave up on it, and after its wish for another call if any."""
    assert isinstance(calls.generate_task_configs("c", topic.view), ActionFailed)
    slow.begins()
    if wished:
        calls.mark_pending_call_outdated("c")
        assert isinstance(calls.generate_task_configs("c", topic.view), ActionFailed)
    slow.ends()


@pytest.mark.usefixtures("impatient")
def test_what_came_late_and_before_a_wish_is_asked_anew(calls, worker, topic):
    worker.plans["c"] = slow = Slow(answer=[TASK])
    late(calls, slow, topic, wished=True)
    worker.plans["c"] = [{"t": "2"}]
    assert _generated(calls, topic).configs == [{"t": "2"}]


@pytest.mark.usefixtures("impatient")
def test_what_came_late_without_a_wish_counts(calls, worker, topic):
    worker.plans["c"] = slow = Slow(answer=[TASK])
    late(calls, slow, topic, wished=False)
    worker.plans["c"] = [{"t": "2"}]
    assert _generated(calls, topic).configs == [TASK]


def _generated(calls, topic):
    said = []

    def is_there():
        said.append(calls.generate_task_configs("c", topic.view))
        return isinstance(said[-1], TaskConfigsGenerated)

    eventually.eventually(is_there, WAIT_S, interval_s=0.001)
    return said[-1]


@pytest.mark.usefixtures("impatient")
def test_what_it_said_before_it_was_started_anew_does_not_count(calls, worker, topic):
    worker.plans["c"] = slow = Slow(answer=[TASK])
    assert isinstance(calls.generate_task_configs("c", topic.view), ActionFailed)
    slow.begins()
    calls.forget_pending_call("c")
    worker.plans["c"] = [{"t": "2"}]
    assert _generated(calls, topic).configs == [{"t": "2"}]
    slow.ends()
    assert _generated(calls, topic).configs == [{"t": "2"}]


@pytest.mark.usefixtures("impatient")
def test_where_too_many_hang_it_is_asked_later(calls, worker, topic):
    slow = Slow(answer=[TASK])
    for name in ("x", "y", "z"):
        topic.write(*config_records.encode_connector_creation(name, CONFIG))
        worker.plans[name] = slow
        assert isinstance(calls.generate_task_configs(name, topic.view), ActionFailed)
        if name != "z":  # which waits for a thread
            slow.begins()
    with pytest.raises(ThreadPoolFull):
        calls.generate_task_configs("c", topic.view)
    slow.ends()
    eventually.eventually(lambda: len(worker.asked) == 3, WAIT_S)
    assert _generated(calls, topic).configs == ()


def applied(calls, topic):
    outcome = calls.generate_task_configs("c", topic.view)
    assert isinstance(outcome, TaskConfigsGenerated)
    return outcome.config_applied


def test_a_changed_secret_is_applied_once_tasks_were_published(calls, worker, topic, secrets):
    """Else every answer from then on would restart the tasks."""
    assert not applied(calls, topic)
    topic.publish()
    assert applied(calls, topic)
    secrets["value"] = "s2"
    calls.forget_pending_call("c")
    assert not applied(calls, topic)
    topic.publish()
    assert applied(calls, topic)


def test_a_changed_configuration_is_not_applied(calls, topic):
    topic.publish()
    assert applied(calls, topic)
    topic.write(*config_records.encode_connector_creation("c", {**CONFIG, "transforms": "x"}))
    assert not applied(calls, topic)


def test_what_cannot_be_filled_in_is_tried_again(calls, topic, secrets):
    topic.publish()
    secrets["broken"] = "no such file"
    assert calls.generate_task_configs("c", topic.view) == ActionFailed(reason="no such file")


def test_what_refers_to_a_lost_secret_can_be_replaced(calls, topic, secrets):
    """ConnectWorkerIntegrationTest.testReconfigureConnectorWithFailingTaskConfigs."""
    topic.publish()
    secrets["broken"] = "no such file"
    topic.write(*config_records.encode_connector_creation("c", {"name": "c", "rate": "10"}))
    assert not applied(calls, topic)
    topic.publish()
    assert applied(calls, topic)


def test_secrets_of_removed_connectors_are_forgotten(calls, topic, secrets):
    topic.publish()
    assert applied(calls, topic)
    held = calls._applied
    assert "s1" in str(held["c"].resolved)
    topic.write(*config_records.encode_connector_deletion("c"))
    assert calls.generate_task_configs("c", topic.view) == ConnectorNotRunning()
    assert held == {}
