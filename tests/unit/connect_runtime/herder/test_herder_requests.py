from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api.config_infos import ConfigInfo, ConfigInfos, ConfigValueInfo
from connect_runtime.herder import herder_requests
from connect_runtime.herder.herder_requests import (
    CheckHealth,
    ConnectorDescription,
    DescribeConnector,
    HerderQueueFullError,
    PatchConnector,
    PutConnector,
    PutConnectorResult,
    PutTaskConfigs,
    ReconfigureConnectorTasks,
    RequestQueue,
)


def infos(*errors: tuple[str, ...]) -> ConfigInfos:
    configs = tuple(
        ConfigInfo(
            definition=None,
            value=ConfigValueInfo(
                name=str(number), value=None, recommended_values=(), errors=each, visible=True
            ),
        )
        for number, each in enumerate(errors)
    )
    return ConfigInfos(name="x", error_count=sum(map(len, errors)), groups=(), configs=configs)


def test_nothing_wrong_may_be_written() -> None:
    assert herder_requests.describe_config_errors(infos((), ())) is None


def test_every_error_is_told_on_a_line_of_its_own() -> None:
    assert herder_requests.describe_config_errors(infos(("a", "b"), (), ("c",))) == (
        "Connector configuration is invalid and contains the following 3 error(s):\n"
        "a\nb\nc\n"
        "You can also find the above list of errors at the endpoint"
        " `/connector-plugins/{connectorType}/config/validate`"
    )


def taken(queue, now_s):
    found = []
    while (each := queue.pop_due_request(now_s)) is not None:
        found.append(each.ticket)
    return found


def test_requests_are_taken_by_time_and_then_by_coming():
    queue = RequestQueue()
    for ticket, at_s in ((1, 5.0), (2, 3.0), (3, 3.0), (4, 9.0)):
        queue.add_request(CheckHealth(), ticket=ticket, due_s=at_s)
    assert queue.next_due_s == 3.0
    assert taken(queue, 2.9) == []
    assert taken(queue, 5.0) == [2, 3, 1]
    assert queue.next_due_s == 9.0
    assert [each.ticket for each in queue.pop_all_requests()] == [4]
    assert queue.next_due_s is None


def test_a_full_queue_takes_only_the_herders_own(monkeypatch):
    monkeypatch.setattr(herder_requests, "MAX_QUEUED_REQUESTS", 1)
    queue = RequestQueue()
    queue.add_request(CheckHealth(), ticket=1, due_s=0)
    with pytest.raises(HerderQueueFullError, match="1 requests are already queued"):
        queue.add_request(CheckHealth(), ticket=2, due_s=0)
    queue.add_request(ReconfigureConnectorTasks(connector="c", first_due_s=0), ticket=None, due_s=0)
    assert len(queue.pop_all_requests()) == 2


def test_what_waits_to_reconfigure_one_connector_is_taken_out():
    queue = RequestQueue()
    ours = ReconfigureConnectorTasks(connector="c", first_due_s=1, failed_attempts=3, tickets=(7,))
    other = ReconfigureConnectorTasks(connector="d", first_due_s=1)
    for each in (ours, other, DescribeConnector("c")):
        queue.add_request(each, ticket=None, due_s=1)
    assert queue.pop_reconfigurations("c") == [ours]
    assert queue.pop_reconfigurations("c") == []
    assert [each.request for each in queue.pop_all_requests()] == [other, DescribeConnector("c")]


def test_configurations_are_in_no_representation():
    secret = {"password": "hunter2"}
    for each in (
        PutConnector(connector="c", config=secret),
        PatchConnector(connector="c", patch=secret),
        PutTaskConfigs(connector="c", configs=[secret]),
        PutConnectorResult(connector="c", config=secret, tasks=(), created=True),
        ConnectorDescription(connector="c", config=secret, task_configs=(secret,)),
    ):
        assert "hunter2" not in repr(each)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_the_queue_is_a_sorted_list(steps):
    queue, table, ticket = RequestQueue(), [], 0
    for at_s, adds in steps:
        if adds:
            ticket += 1
            queue.add_request(CheckHealth(), ticket=ticket, due_s=at_s)
            table.append((at_s, ticket))
        else:
            due = sorted(each for each in table if each[0] <= at_s)
            found = queue.pop_due_request(at_s)
            assert (None if found is None else found.ticket) == (due[0][1] if due else None)
            if due:
                table.remove(due[0])
        queue.check_invariants()
