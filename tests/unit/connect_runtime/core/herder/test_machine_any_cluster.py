"""Clusters to which anything happens: in the end everything configured runs, and runs once."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import events, requests, rounds
from connect_runtime.core.state import cluster_config, config_records
from tests.fakes import herder_cluster

NAMES = st.sampled_from(["x", "y", "z"])
STATES = st.sampled_from([cluster_config.TargetState.STARTED, cluster_config.TargetState.PAUSED])
WORKERS_MAX = 4


class AnyCluster(RuleBasedStateMachine):
    speaks = protocol.Protocol.SESSIONED

    def __init__(self):
        super().__init__()
        self.world = herder_cluster.Cluster(speaks=self.speaks, delay_ms=0)
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

    @precondition(lambda self: len(self.alive) > 1)
    @rule(number=st.integers(0, 3))
    def kill(self, number):
        self.world.kill(self.pick(number))

    @precondition(lambda self: len(self.alive) > 1)
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

    @invariant()
    def everything_configured_runs_once(self):
        view = self.world.view()
        wanted = {*view.connectors()}
        for name in view.connectors():
            wanted |= {str(task) for task in view.tasks(name)}
        running = [str(item) for worker in self.alive for item in worker.runs]
        assert sorted(running) == sorted(wanted)
        assert self.world.doubles == []

    @invariant()
    def tasks_run_with_their_newest_configs(self):
        view = self.world.view()
        for worker in self.alive:
            for item, config in worker.runs.items():
                newest = view.config(item) if isinstance(item, str) else view.task_config(item)
                assert config == newest, item

    @invariant()
    def started_connectors_have_the_tasks_they_want(self):
        view = self.world.view()
        for name in view.connectors():
            if view.target_state(name) is cluster_config.TargetState.STARTED:
                assert view.applied_config(name) == view.config(name), name
            if view.target_state(name) is cluster_config.TargetState.STOPPED:
                assert view.tasks(name) == [], name

    @invariant()
    def everybody_was_answered(self):
        for worker, ticket in self.asked:
            assert ticket in worker.replies or not worker.alive, ticket


QUICK = settings(
    max_examples=15,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def run_any(speaks, wanted):
    kind = type(f"Any{speaks.name}", (AnyCluster,), {"speaks": speaks})
    case = kind.TestCase
    case.settings = wanted
    case("runTest").runTest()


@pytest.mark.parametrize("speaks", list(protocol.Protocol))
def test_any_cluster(speaks):
    run_any(speaks, QUICK)


def test_work_that_is_not_given_back_is_noticed(monkeypatch):
    def keep(*_):
        return
        yield

    monkeypatch.setattr(rounds, "_give_back", keep)
    found = settings(QUICK, phases=[Phase.generate], print_blob=False, database=None)
    with pytest.raises(AssertionError):
        run_any(protocol.Protocol.SESSIONED, found)
