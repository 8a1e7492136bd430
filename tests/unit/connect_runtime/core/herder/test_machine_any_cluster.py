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

from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import events, memory, requests, rounds
from connect_runtime.core.state import cluster_config, config_records
from tests.fakes import herder_cluster
from tests.support import examples

NAMES = st.sampled_from(["x", "y", "z"])
STATES = st.sampled_from([cluster_config.TargetState.STARTED, cluster_config.TargetState.PAUSED])
WORKERS_MAX = 4


class AnyCluster(RuleBasedStateMachine):
    speaks = protocol.Protocol.SESSIONED
    delay_ms = 0
    lags = False

    def __init__(self):
        super().__init__()
        self.world = herder_cluster.Cluster(
            speaks=self.speaks,
            delay_ms=self.delay_ms,
            settings=memory.HerderSettings(rebalance_delay_max_s=self.delay_ms / 1000),
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
        self.world.tell(self.pick(number), events.ShutdownRequested())

    def ask(self, number, request):
        worker = self.pick(number)
        self.asked.append((worker, self.world.ask(worker, request)))

    @rule(number=st.integers(0, 3), name=NAMES, tasks=st.integers(0, 4), value=st.integers(0, 1))
    def put(self, number, name, tasks, value):
        self.world.plans[name] = [{"n": str(each), "v": str(value)} for each in range(tasks)]
        config = {"name": name, "v": str(value)}
        self.ask(number, requests.PutConnector(connector=name, config=config))

    @rule(number=st.integers(0, 3), name=NAMES)
    def delete(self, number, name):
        self.ask(number, requests.DeleteConnector(name))

    @rule(number=st.integers(0, 3), name=NAMES)
    def stop(self, number, name):
        self.ask(number, requests.StopConnector(name))

    @rule(number=st.integers(0, 3), name=NAMES)
    def restart(self, number, name):
        request = config_records.RestartRequest(connector=name, include_tasks=True)
        self.ask(number, requests.RestartAll(request))
        self.ask(number, requests.RestartConnector(name))
        self.ask(number, requests.RestartTask(herder_cluster.task(name, 0)))

    @rule(name=NAMES, state=STATES)
    def set_state(self, name, state):
        if self.world.view().contains(name):
            self.world.write(config_records.target_state(name, state))

    @rule(name=NAMES, tasks=st.integers(0, 4), number=st.integers(0, 3))
    def want_reconfiguration(self, name, tasks, number):
        if name in self.world.plans:
            self.world.plans[name] = [{"n": str(each), "w": "1"} for each in range(tasks)]
            self.world.tell(self.pick(number), events.ReconfigurationWanted(name))

    @precondition(lambda self: self.one_can_go)
    @rule(number=st.integers(0, 3))
    def lose_the_coordinator(self, number):
        worker = self.pick(number)
        worker.member, _ = worker.member.given_up()
        worker.inbox.append(events.GroupLost("gone"))
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
            if view.target_state(name) is cluster_config.TargetState.STARTED:
                assert view.applied_config(name) == view.config(name), name
            if view.target_state(name) is cluster_config.TargetState.STOPPED:
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


@pytest.mark.parametrize("speaks", list(protocol.Protocol))
def test_any_cluster(speaks):
    run_any(QUICK, speaks=speaks)


@pytest.mark.parametrize("speaks", list(protocol.Protocol))
def test_any_cluster_of_workers_that_lag_and_are_waited_for(speaks):
    run_any(QUICK, speaks=speaks, delay_ms=60_000, lags=True)


@pytest.mark.judges
def test_work_that_is_not_given_back_is_noticed(monkeypatch):
    def keep(*_):
        return
        yield

    monkeypatch.setattr(rounds, "_give_back", keep)
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
