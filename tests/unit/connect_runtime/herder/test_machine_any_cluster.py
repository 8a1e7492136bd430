"""Clusters to which anything happens: in the end everything configured runs, and runs once."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder import rebalance_handler
from connect_runtime.herder.herder_events import (
    CoordinatorLost,
    HerderShutdownRequested,
    TaskReconfigurationRequested,
)
from connect_runtime.herder.herder_requests import (
    DeleteConnector,
    PutConnector,
    RestartConnector,
    RestartConnectorAndTasks,
    RestartTask,
    StopConnector,
)
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_records import RestartRequest
from tests.fakes import herder_cluster
from tests.fakes.herder_cluster import Cluster
from tests.support import examples

NAMES = st.sampled_from(["x", "y", "z"])
STATES = st.sampled_from([TargetState.STARTED, TargetState.PAUSED])
WORKERS_MAX = 4


class AnyCluster(RuleBasedStateMachine):
    speaks = ConnectProtocol.SESSIONED
    delay_ms = 0
    lags = False

    def __init__(self):
        super().__init__()
        self.world = Cluster(
            speaks=self.speaks,
            delay_ms=self.delay_ms,
            settings=HerderSettings(rebalance_delay_max_s=self.delay_ms / 1000),
        )
        self.joined = 0
        self.asked = []
        self.join()

    @precondition(lambda self: len(self.alive) < WORKERS_MAX)
    @rule()
    def join(self):
        self.joined += 1
        self.world.join(f"w{self.joined}")

    @property
    def alive(self):
        return [each for each in self.world.workers if each.alive]

    def pick(self, number):
        return self.alive[number % len(self.alive)]

    @property
    def in_step(self):
        """While a worker that lags is out of the group and goes on running, as in Java, whoever
        leads must not go: only it knows what that worker runs."""
        return all(each.reads_to is None and each.in_group for each in self.alive)

    @property
    def one_can_go(self):
        return len(self.alive) > 1 and self.in_step

    @precondition(lambda self: self.one_can_go)
    @rule(number=st.integers(0, 3))
    def kill(self, number):
        self.world.kill(self.pick(number))

    @precondition(lambda self: self.one_can_go)
    @rule(number=st.integers(0, 3))
    def shut_down(self, number):
        self.world.tell(self.pick(number), HerderShutdownRequested())

    def ask(self, number, request):
        worker = self.pick(number)
        self.asked.append((worker, self.world.ask(worker, request)))

    @rule(number=st.integers(0, 3), name=NAMES, tasks=st.integers(0, 4), value=st.integers(0, 1))
    def put(self, number, name, tasks, value):
        self.world.plans[name] = [{"n": str(each), "v": str(value)} for each in range(tasks)]
        config = {"name": name, "v": str(value)}
        self.ask(number, PutConnector(connector=name, config=config))

    @rule(number=st.integers(0, 3), name=NAMES)
    def delete(self, number, name):
        self.ask(number, DeleteConnector(name))

    @rule(number=st.integers(0, 3), name=NAMES)
    def stop(self, number, name):
        self.ask(number, StopConnector(name))

    @rule(number=st.integers(0, 3), name=NAMES)
    def restart(self, number, name):
        request = RestartRequest(connector=name, include_tasks=True)
        self.ask(number, RestartConnectorAndTasks(request))
        self.ask(number, RestartConnector(name))
        self.ask(number, RestartTask(herder_cluster.task(name, 0)))

    @rule(name=NAMES, state=STATES)
    def set_state(self, name, state):
        if self.world.view().has_connector(name):
            self.world.write(config_records.encode_target_state(name, state))

    @rule(name=NAMES, tasks=st.integers(0, 4), number=st.integers(0, 3))
    def want_reconfiguration(self, name, tasks, number):
        if name in self.world.plans:
            self.world.plans[name] = [{"n": str(each), "w": "1"} for each in range(tasks)]
            self.world.tell(self.pick(number), TaskReconfigurationRequested(name))

    @precondition(lambda self: self.one_can_go)
    @rule(number=st.integers(0, 3))
    def lose_the_coordinator(self, number):
        worker = self.pick(number)
        worker.member, _ = worker.member.abandon_work()
        worker.inbox.append(CoordinatorLost("gone"))
        self.world.round_wanted = True
        self.world.run()

    @rule(seconds=st.sampled_from([1.0, 60.0, 4000.0]))
    def pass_time(self, seconds):
        self.world.pass_time(seconds)

    @precondition(lambda self: self.lags and self.in_step)
    @rule(number=st.integers(0, 3))
    def hold_back(self, number):
        """What is written from now on does not reach this worker, until it does."""
        worker = self.pick(number)
        worker.reads_to = worker.position

    @rule(number=st.integers(0, 3))
    def let_go(self, number):
        self.pick(number).reads_to = None
        self.world.run()

    @property
    def calm(self):
        return not self.delay_ms and all(each.reads_to is None for each in self.alive)

    @invariant()
    def nothing_runs_twice(self):
        assert self.world.doubles == []
        running = [item for worker in self.alive for item in worker.runs]
        assert len(running) == len(set(running))

    @invariant()
    def all_is_well(self):
        if self.calm:
            self.check()

    def teardown(self):
        """Whatever went on, it comes to rest."""
        for worker in self.alive:
            worker.reads_to = None
        self.world.run()
        self.world.pass_time(1000)
        self.check()

    def check(self):
        view = self.world.view()
        wanted = {*view.connectors()}
        for name in view.connectors():
            wanted |= {str(task) for task in view.tasks(name)}
        running = [str(item) for worker in self.alive for item in worker.runs]
        assert sorted(running) == sorted(wanted)
        self.check_configs(view)
        for worker, ticket in self.asked:
            assert ticket in worker.replies or not worker.alive, ticket

    def check_configs(self, view):
        for worker in self.alive:
            for item, config in worker.runs.items():
                newest = view.config(item) if isinstance(item, str) else view.task_config(item)
                assert config == newest, item
        for name in view.connectors():
            if view.target_state(name) is TargetState.STARTED:
                assert view.applied_config(name) == view.config(name), name
            if view.target_state(name) is TargetState.STOPPED:
                assert view.tasks(name) == [], name


QUICK = settings(
    max_examples=examples.of(15),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def run_any(wanted, **kind_of):
    kind = type("AnyOfThem", (AnyCluster,), kind_of)
    run_state_machine_as_test(kind, settings=wanted)


@pytest.mark.parametrize("speaks", list(ConnectProtocol))
def test_any_cluster(speaks):
    run_any(QUICK, speaks=speaks)


@pytest.mark.parametrize("speaks", list(ConnectProtocol))
def test_any_cluster_of_workers_that_lag_and_are_waited_for(speaks):
    run_any(QUICK, speaks=speaks, delay_ms=60_000, lags=True)


@pytest.mark.judges
def test_work_that_is_not_given_back_is_noticed(monkeypatch):
    def keep(*_):
        return
        yield

    monkeypatch.setattr(rebalance_handler, "_stop_and_flush_work", keep)
    found = settings(
        QUICK,
        max_examples=500,  # until one shows it
        derandomize=True,
        phases=[Phase.generate],
        print_blob=False,
        database=None,
    )
    with pytest.raises(AssertionError):
        run_any(found)
