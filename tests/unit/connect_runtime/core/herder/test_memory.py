from __future__ import annotations

import pytest

from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.herder import events, instructions, memory
from connect_runtime.core.state import cluster_config, status_log
from tests.fakes import herder_cluster

TASK = herder_cluster.task("c", 0)
WORK = work.Work(connectors=("c",), tasks=(TASK,))
SEEN = events.Seen(
    now_s=1.0,
    wall_ms=1,
    config=cluster_config.ClusterConfig(offset=8),
    statuses=status_log.Statuses(),
)


@pytest.fixture
def m():
    return memory.Memory(settings=memory.HerderSettings(), seen=SEEN)


def run(script, *outcomes):
    """What the script says, and what it returns."""
    said, given = [], [None, *outcomes]
    while True:
        try:
            said.append(script.send(given.pop(0) if given else None))
        except StopIteration as ended:
            return said, ended.value


def test_work_is_remembered_from_its_start_to_its_stop(m):
    assert run(memory.start(m, WORK), events.Started())[0] == [instructions.StartWork(WORK)]
    assert m.running == WORK
    tasks = work.Work(tasks=(TASK,))
    run(memory.stop(m, tasks, for_good=False), events.Done())
    assert m.running == WORK
    m.to_restart.add(TASK)
    m.check_invariants()
    run(memory.stop(m, tasks), events.Done())
    assert m.running == work.Work(connectors=("c",))
    assert m.to_restart == set()


def test_nothing_is_asked_about_no_work(m):
    assert run(memory.start(m, work.NO_WORK)) == ([], events.Started())
    assert run(memory.stop(m, work.NO_WORK)) == ([], None)


def test_reading_configs_takes_up_what_was_read(m):
    said, ok = run(memory.read_configs(m), events.Done())
    assert (said, ok) == ([instructions.ReadConfigs(3.0)], True)
    assert m.config.offset == 8
    _, ok = run(memory.read_configs(m), events.TimedOut())
    assert (ok, m.can_read) == (False, False)


def test_a_write_says_why_it_failed_and_whether_the_right_is_lost(m):
    write = instructions.RemoveConnector("c")
    assert run(memory.write(m, write), events.Done()) == ([instructions.Write(write)], None)
    assert run(memory.write(m, write), events.Failed(reason="slow"))[1] == "slow"
    assert not m.write_lost
    run(memory.write(m, write), events.Failed(reason="fenced", fenced=True))
    run(memory.write(m, write), events.Failed(reason="slow"))
    assert m.write_lost


def test_asking_for_another_round_ends_this_one(m):
    m.joined, m.left = True, True
    assert run(memory.rejoin(m, "why"))[0] == [instructions.Rejoin("why")]
    assert (m.joined, m.left) == (False, False)


def test_outside_a_round_nobody_leads_and_nothing_is_assigned(m):
    assert (m.leads, m.leader_url, m.assigned, m.eager, m.signs) == (
        False,
        None,
        work.NO_WORK,
        False,
        False,
    )
    standing = m.standing()
    assert (standing.owners, standing.rebalance_pending) == (None, False)


def test_a_round_says_who_leads_and_how_they_speak(m):
    assignment = protocol.Assignment(
        leader="m", leader_url="http://m/", config_offset=8, assigned=WORK
    )
    m.round = events.RoundCompleted(
        generation=1,
        speaks=protocol.Protocol.SESSIONED,
        assignment=assignment,
        stop=work.NO_WORK,
        leads=True,
    )
    m.changes.rebalance = True
    assert (m.leads, m.leader_url, m.assigned, m.signs) == (True, "http://m/", WORK, True)
    assert m.standing().rebalance_pending
    assert m.changes.any_configs()


@pytest.mark.parametrize("broken", ["joined", "both", "restart"])
def test_what_cannot_be_is_noticed(m, broken):
    if broken == "restart":
        m.to_restart.add(TASK)
    else:
        m.joined, m.left = True, broken == "both"
    with pytest.raises(AssertionError):
        m.check_invariants()
