from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.core.herder import requests


def taken(queue, now_s):
    found = []
    while (each := queue.take_due(now_s)) is not None:
        found.append(each.ticket)
    return found


def test_requests_are_taken_by_time_and_then_by_coming():
    queue = requests.RequestQueue()
    for ticket, at_s in ((1, 5.0), (2, 3.0), (3, 3.0), (4, 9.0)):
        queue.add(requests.CheckHealth(), ticket=ticket, at_s=at_s)
    assert queue.next_at_s == 3.0
    assert taken(queue, 2.9) == []
    assert taken(queue, 5.0) == [2, 3, 1]
    assert queue.next_at_s == 9.0
    assert [each.ticket for each in queue.take_all()] == [4]
    assert queue.next_at_s is None


def test_a_full_queue_takes_only_the_herders_own(monkeypatch):
    monkeypatch.setattr(requests, "QUEUE_MAX", 1)
    queue = requests.RequestQueue()
    queue.add(requests.CheckHealth(), ticket=1, at_s=0)
    with pytest.raises(requests.QueueFull, match="1 requests wait"):
        queue.add(requests.CheckHealth(), ticket=2, at_s=0)
    queue.add(requests.Reconfigure(connector="c", asked_s=0), ticket=None, at_s=0)
    assert len(queue.take_all()) == 2


def test_what_waits_to_reconfigure_one_connector_is_taken_out():
    queue = requests.RequestQueue()
    ours = requests.Reconfigure(connector="c", asked_s=1, failed=3, waiting=(7,))
    other = requests.Reconfigure(connector="d", asked_s=1)
    for each in (ours, other, requests.Describe("c")):
        queue.add(each, ticket=None, at_s=1)
    assert queue.take_reconfigurations("c") == [ours]
    assert queue.take_reconfigurations("c") == []
    assert [each.request for each in queue.take_all()] == [other, requests.Describe("c")]


def test_configurations_are_in_no_representation():
    secret = {"password": "hunter2"}
    for each in (
        requests.PutConnector(connector="c", config=secret),
        requests.PatchConnector(connector="c", patch=secret),
        requests.PutTaskConfigs(connector="c", configs=[secret]),
        requests.Put(connector="c", config=secret, tasks=(), created=True),
        requests.Description(connector="c", config=secret, task_configs=(secret,)),
    ):
        assert "hunter2" not in repr(each)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_the_queue_is_a_sorted_list(steps):
    queue, table, ticket = requests.RequestQueue(), [], 0
    for at_s, adds in steps:
        if adds:
            ticket += 1
            queue.add(requests.CheckHealth(), ticket=ticket, at_s=at_s)
            table.append((at_s, ticket))
        else:
            due = sorted(each for each in table if each[0] <= at_s)
            found = queue.take_due(at_s)
            assert (None if found is None else found.ticket) == (due[0][1] if due else None)
            if due:
                table.remove(due[0])
        queue.check_invariants()
