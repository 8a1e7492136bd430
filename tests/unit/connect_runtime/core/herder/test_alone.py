from __future__ import annotations

from connect_runtime.base import ids
from connect_runtime.core.assignment import work
from connect_runtime.core.herder import alone, events, instructions
from connect_runtime.core.state import cluster_config

T0, T1 = ids.ConnectorTaskId("c", 0), ids.ConnectorTaskId("c", 1)


def view(offset, **tasks):
    entries = {
        name: cluster_config.ConnectorEntry(
            config={}, task_count=count, task_configs={number: {} for number in range(count)}
        )
        for name, count in tasks.items()
    }
    return cluster_config.ClusterConfig(offset=offset, entries=entries)


def completed(group, config):
    [event] = group.obey(instructions.Prepared(), config)
    assert isinstance(event, events.RoundCompleted)
    return event


def test_everything_is_for_the_one_who_is_there():
    group = alone.Alone(url="http://me/")
    assert group.begin() == [events.JoinAsked(work.NO_WORK)]
    event = completed(group, view(5, c=2, d=0))
    assert event.assignment.assigned == work.Work(connectors=("c", "d"), tasks=(T0, T1))
    assert event.assignment.config_offset == 5
    assert (event.leads, event.generation, event.stop) == (True, 1, work.NO_WORK)
    assert event.owners.url("c") == event.owners.url(T1) == "http://me/"


def test_what_is_configured_no_more_is_to_stop():
    group = alone.Alone(url="http://me/")
    completed(group, view(5, c=2, d=0))
    assert group.obey(instructions.Rejoin("why"), view(9, c=1)) == [events.JoinAsked(work.NO_WORK)]
    event = completed(group, view(9, c=1))
    assert event.stop == work.Work(connectors=("d",), tasks=(T1,))
    assert event.assignment.assigned == work.Work(connectors=("c",), tasks=(T0,))


def test_what_was_given_up_is_assigned_again():
    group = alone.Alone(url="http://me/")
    completed(group, view(5, c=2))
    assert group.obey(instructions.GiveUpWork(), view(5)) == []
    assert completed(group, view(5, c=0)).stop == work.NO_WORK


def test_other_orders_are_not_for_a_group_and_after_the_end_nothing_is():
    group = alone.Alone(url="http://me/")
    for order in (instructions.Note("x"), instructions.Leave("x"), instructions.Close()):
        assert group.obey(order, view(0)) == []
    assert group.obey(instructions.Prepared(), view(0)) == []
