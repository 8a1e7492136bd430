"""Connectors may answer late, never, wrongly or with anything at all: nobody else is the worse."""

from __future__ import annotations

import threading
from concurrent import futures

import pytest

from connect_runtime.api import errors
from connect_runtime.core.herder import events
from connect_runtime.core.state import config_log, config_records
from connect_runtime.ports import worker as workers
from connect_runtime.runtime.herding import connector_calls
from connect_runtime.system import pool
from tests.fakes import worker_port
from tests.support import eventually

WAIT_S = 30.0
CONFIG = {"name": "c", "secret": "${file:f:k}"}
TASK = {"t": "1"}


class Topic:
    """What is configured, as the topic says it."""

    def __init__(self):
        self._fold = config_log.ConfigLog()
        self._offset = 0
        self._fold.finish_replay()
        self.write(*config_records.creation("c", CONFIG))

    def write(self, *records):
        for each in records:
            self._fold.apply(each.key, each.value, offset=self._offset)
            self._offset += 1
        return self

    def publish(self):
        return self.write(*config_records.task_configs("c", [TASK]), config_records.commit("c", 1))

    @property
    def view(self):
        return self._fold.snapshot()


@pytest.fixture
def worker():
    return worker_port.FakeWorker()


@pytest.fixture
def secrets():
    """What `${…}` stands for, and how often anybody looked."""
    return {"value": "s1"}


@pytest.fixture
def calls(worker, secrets):
    threads = pool.Pool("calls", threads_max=2, waiting_max=1)

    def resolve(config):
        if "broken" in secrets and "secret" in config:
            raise errors.FatalError(secrets["broken"])
        return {**config, "secret": secrets["value"]}

    yield connector_calls.ConnectorCalls(worker, calls=threads, resolve=resolve)
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
    assert calls.generate("c", topic.view) == events.Generated(configs=[TASK], config_applied=False)


@pytest.mark.parametrize("name", ["c", "unknown"])
def test_what_does_not_run_or_is_not_configured(calls, worker, topic, name):
    worker.plans["c"] = None
    assert calls.generate(name, topic.view) == events.NotRunning()


def test_too_many_tasks_are_no_reason_to_ask_again(calls, worker, topic):
    worker.plans["c"] = workers.TooManyTasks("raise tasks.max")
    expected = events.Failed(reason="raise tasks.max", lasting=True)
    assert calls.generate("c", topic.view) == expected


@pytest.mark.parametrize(
    "error", [errors.ConnectError("no broker"), KeyError("no broker"), SystemExit("no broker")]
)
def test_whatever_it_raises_is_tried_again(calls, worker, topic, error):
    worker.plans["c"] = error
    outcome = calls.generate("c", topic.view)
    assert isinstance(outcome, events.Failed)
    assert not outcome.lasting
    assert "no broker" in outcome.reason
    worker.plans["c"] = [TASK]
    assert isinstance(calls.generate("c", topic.view), events.Generated)


@pytest.mark.usefixtures("impatient")
def test_one_that_hangs_is_waited_for_once_and_not_asked_twice(calls, worker, topic, monkeypatch):
    worker.plans["c"] = slow = Slow(answer=[TASK])
    expected = events.Failed(reason="connector c has not said what its tasks are for 0.05 s")
    assert calls.generate("c", topic.view) == expected
    slow.begins()
    waited = []
    real = futures.wait

    def wait(asked, timeout):
        waited.append(timeout)
        return real(asked, timeout=timeout)

    monkeypatch.setattr(futures, "wait", wait)
    assert calls.generate("c", topic.view) == expected
    assert waited == [0.0]
    assert worker.asked == ["c"]
    slow.ends()
    assert _generated(calls, topic).configs == [TASK]
    assert worker.asked == ["c"]


def late(calls, slow, topic, *, wished):
    """It answers after everybody gave up on it, and after its wish for another call if any."""
    assert isinstance(calls.generate("c", topic.view), events.Failed)
    slow.begins()
    if wished:
        calls.wished("c")
        assert isinstance(calls.generate("c", topic.view), events.Failed)
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
        said.append(calls.generate("c", topic.view))
        return isinstance(said[-1], events.Generated)

    eventually.eventually(is_there, WAIT_S, interval_s=0.001)
    return said[-1]


@pytest.mark.usefixtures("impatient")
def test_what_it_said_before_it_was_started_anew_does_not_count(calls, worker, topic):
    worker.plans["c"] = slow = Slow(answer=[TASK])
    assert isinstance(calls.generate("c", topic.view), events.Failed)
    slow.begins()
    calls.started("c")
    worker.plans["c"] = [{"t": "2"}]
    assert _generated(calls, topic).configs == [{"t": "2"}]
    slow.ends()
    assert _generated(calls, topic).configs == [{"t": "2"}]


@pytest.mark.usefixtures("impatient")
def test_where_too_many_hang_it_is_asked_later(calls, worker, topic):
    slow = Slow(answer=[TASK])
    for name in ("x", "y", "z"):
        topic.write(*config_records.creation(name, CONFIG))
        worker.plans[name] = slow
        assert isinstance(calls.generate(name, topic.view), events.Failed)
        if name != "z":  # which waits for a thread
            slow.begins()
    with pytest.raises(pool.PoolFull):
        calls.generate("c", topic.view)
    slow.ends()
    eventually.eventually(lambda: len(worker.asked) == 3, WAIT_S)
    assert _generated(calls, topic).configs == ()


def applied(calls, topic):
    outcome = calls.generate("c", topic.view)
    assert isinstance(outcome, events.Generated)
    return outcome.config_applied


def test_a_changed_secret_is_applied_once_tasks_were_published(calls, worker, topic, secrets):
    """Else every answer from then on would restart the tasks."""
    assert not applied(calls, topic)
    topic.publish()
    assert applied(calls, topic)
    secrets["value"] = "s2"
    calls.started("c")
    assert not applied(calls, topic)
    topic.publish()
    assert applied(calls, topic)


def test_a_changed_configuration_is_not_applied(calls, topic):
    topic.publish()
    assert applied(calls, topic)
    topic.write(*config_records.creation("c", {**CONFIG, "transforms": "x"}))
    assert not applied(calls, topic)


def test_what_cannot_be_filled_in_is_tried_again(calls, topic, secrets):
    topic.publish()
    secrets["broken"] = "no such file"
    assert calls.generate("c", topic.view) == events.Failed(reason="no such file")


def test_what_refers_to_a_lost_secret_can_be_replaced(calls, topic, secrets):
    """ConnectWorkerIntegrationTest.testReconfigureConnectorWithFailingTaskConfigs."""
    topic.publish()
    secrets["broken"] = "no such file"
    topic.write(*config_records.creation("c", {"name": "c", "rate": "10"}))
    assert not applied(calls, topic)
    topic.publish()
    assert applied(calls, topic)


def test_secrets_of_removed_connectors_are_forgotten(calls, topic, secrets):
    topic.publish()
    assert applied(calls, topic)
    held = calls._applied
    assert "s1" in str(held["c"].resolved)
    topic.write(*config_records.removal("c"))
    assert calls.generate("c", topic.view) == events.NotRunning()
    assert held == {}
