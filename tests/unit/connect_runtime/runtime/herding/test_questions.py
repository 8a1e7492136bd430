"""Each question has one of the outcomes that its docstring names."""

from __future__ import annotations

import pytest

from connect_runtime.base import errors, ids
from connect_runtime.core.assignment import work
from connect_runtime.core.herder import events, instructions
from connect_runtime.core.state import cluster_config, config_records
from connect_runtime.ports import fenced_writer
from tests.fakes import herding

STOPPED = cluster_config.TargetState.STOPPED
DONE = events.Done()


@pytest.fixture
def node(cluster):
    """A worker whose herder does not run; what it asks, the test asks."""
    made = cluster.node("a")
    made.statuses.start(1.0)
    made.configs.start(1.0)
    return made


def write(node, what):
    return node.questions.answer(instructions.Write(what))


def put(node, name="c", state=None):
    return write(
        node,
        instructions.WriteConnector(connector=name, config={"name": name}, target_state=state),
    )


def test_every_write_is_there_when_it_is_answered(node):
    for what in (
        instructions.WriteConnector(connector="c", config={"k": "v"}, target_state=STOPPED),
        instructions.WriteTaskConfigs(connector="c", configs=[{"t": "1"}]),
        instructions.WriteNewSessionKey(created_ms=5),
        instructions.WriteFencingCount(connector="c", tasks=3),
        instructions.WriteRestart(config_records.RestartRequest(connector="c")),
    ):
        assert write(node, what) == DONE
    view = node.configs.snapshot()
    assert view.config("c") == {"k": "v"}
    assert view.target_state("c") is STOPPED
    assert view.tasks("c") == [ids.ConnectorTaskId("c", 0)]
    assert view.fencing_count("c") == 3
    assert (len(view.session_key.key), view.session_key.created_ms) == (32, 5)
    assert write(node, instructions.RemoveConnector("c")) == DONE
    assert not node.configs.snapshot().contains("c")


def test_a_target_state_is_written(node):
    put(node)
    state = cluster_config.TargetState.PAUSED
    assert write(node, instructions.WriteTargetState(connector="c", state=state)) == DONE
    assert node.configs.snapshot().target_state("c") is state


def test_two_session_keys_are_two(node):
    keys = []
    for created_ms in (1, 2):
        write(node, instructions.WriteNewSessionKey(created_ms=created_ms))
        keys.append(node.configs.snapshot().session_key.key)
    assert keys[0] != keys[1]


def test_a_refused_write_failed_and_a_fenced_one_says_so(cluster, node):
    cluster.configs.refusals.append(errors.FatalError("too large"))
    assert put(node) == events.Failed(reason="too large")
    cluster.configs.refusals.append(fenced_writer.PrivilegeLost("another leads"))
    assert put(node) == events.Failed(reason="another leads", fenced=True)


def test_reading_is_done_or_too_late(cluster, node):
    assert node.questions.answer(instructions.ReadConfigs(1.0)) == DONE
    with cluster.configs.unreachable():
        assert node.questions.answer(instructions.ReadConfigs(1.0)) == events.TimedOut()


def test_claiming_is_nothing_where_nobody_is_fenced(node):
    assert node.questions.answer(instructions.ClaimWrites()) == DONE


def test_statuses_are_waited_for_and_who_gives_up_on_them_says_so(
    cluster, node, monkeypatch, caplog
):
    monkeypatch.setattr("connect_runtime.runtime.herding.questions.FLUSH_S", 0.02)
    assert node.questions.answer(instructions.FlushStatuses()) == DONE
    with cluster.statuses.unreachable():
        node.orders.obey(instructions.SayRestarting(work.Work(connectors=("c",))))
        outcome = node.questions.answer(instructions.FlushStatuses())
        assert isinstance(outcome, events.Failed)
        assert "1 status was" in outcome.reason
        assert "1 status was" in caplog.text


def test_starts_what_is_configured_now_and_names_what_cannot_be(node):
    put(node, "c", STOPPED)
    put(node, "bad")
    write(node, instructions.WriteTaskConfigs(connector="c", configs=[{"t": "1"}]))
    node.worker.refuses.add("bad")
    task, gone = ids.ConnectorTaskId("c", 0), ids.ConnectorTaskId("c", 1)
    what = work.Work(connectors=("bad", "c", "gone"), tasks=(task, gone))
    outcome = node.questions.answer(instructions.StartWork(what))
    assert dict(outcome.failed) == {
        "bad": "bad has no class",
        "gone": "connector gone is configured no more",
        gone: "task c-1 is configured no more",
    }
    assert node.worker.runs == {"c": {"name": "c"}, task: {"t": "1"}}
    assert set(node.worker.states.values()) == {STOPPED}
    assert node.questions.answer(instructions.StopWork(what)) == DONE
    assert node.worker.runs == {}


def test_a_connector_without_target_state_is_to_run(node):
    put(node)
    node.questions.answer(instructions.StartWork(work.Work(connectors=("c",))))
    assert node.worker.states == {"c": cluster_config.TargetState.STARTED}


def test_asks_connectors_by_what_is_configured_now(node):
    put(node)
    node.worker.plans["c"] = [{"t": "1"}]
    outcome = node.questions.answer(instructions.GenerateTaskConfigs("c"))
    assert outcome == events.Generated(configs=[{"t": "1"}], config_applied=False)


def test_where_calls_have_no_place_it_failed_and_nothing_worse(node):
    put(node)
    node.calls.stop(herding.WAIT_S)
    assert isinstance(node.questions.answer(instructions.GenerateTaskConfigs("c")), events.Failed)


def test_a_mistake_of_ours_is_raised(node):
    node.worker.mistakes["stop"] = RuntimeError("bug")
    with pytest.raises(RuntimeError, match="bug"):
        node.questions.answer(instructions.StopWork(work.Work(connectors=("c",))))


def test_stops_what_is_left(node):
    put(node)
    node.questions.answer(instructions.StartWork(work.Work(connectors=("c",))))
    node.questions.stop_all()
    assert node.worker.runs == {}
