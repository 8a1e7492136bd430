"""Whole herders, as REST asks them: over one topic in one group, or alone."""

from __future__ import annotations

import logging

import pytest

from connect_runtime.api.errors import FatalError, NotFoundError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder import herder_requests, session_keys
from connect_runtime.herder.herder_interface import ConnectorType, ConnectRestError
from connect_runtime.herder.herder_requests import (
    CheckHealth,
    ConnectorDescription,
    DeleteConnector,
    DescribeConnector,
    ForwardRequest,
    HerderQueueFullError,
    PatchConnector,
    PutConnector,
    PutConnectorResult,
    RequestRefused,
    RequestSucceeded,
    RestartConnector,
    RestartConnectorAndTasks,
)
from connect_runtime.herder.requests_to_other_workers import PeerRefusedError, PeerUnavailableError
from connect_runtime.herder.session_keys import SignatureValid
from connect_runtime.herder.worker_interface import TooManyTasksError
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.status_records import RunState, RunStatus, TopicStatus
from tests.fakes import herding
from tests.support import eventually

WAIT_S = herding.WAIT_S
CLOSED = RequestRefused(500, "Worker is shutting down")


def until(condition):
    return eventually.eventually(condition, WAIT_S, interval_s=0.002)


def tasks(name, count):
    return {ConnectorTaskId(name, number) for number in range(count)}


@pytest.fixture
def pair(cluster):
    """The first leads."""
    first, second = cluster.node("a"), cluster.node("b")
    for each in (first, second):
        for name in ("c", "d"):
            each.worker.plans[name] = [{"t": str(number)} for number in range(2)]
    first.start()
    until(lambda: first.configs.snapshot().session_key is not None)
    second.start()
    until(second.herder.is_ready)
    return first, second


@pytest.fixture
def node(cluster):
    """Leads, and has written what it does unasked."""
    made = cluster.node("a").start()
    until(lambda: made.configs.snapshot().session_key is not None)
    return made


def running(nodes):
    return [each for node in nodes for each in node.worker.runs]


def test_two_workers_share_connectors_and_tasks(pair):
    assert isinstance(pair[0].put("c"), PutConnectorResult)
    assert isinstance(pair[0].put("d"), PutConnectorResult)
    everything = {"c", "d"} | tasks("c", 2) | tasks("d", 2)
    until(lambda: sorted(map(str, running(pair))) == sorted(map(str, everything)))
    until(lambda: all(len(each.worker.runs) == 3 for each in pair))


def test_work_of_a_worker_that_leaves_is_run_by_the_other(pair):
    first, second = pair
    first.put("c")
    until(lambda: set(running(pair)) == {"c"} | tasks("c", 2))
    first.loop.request_stop()
    assert first.loop.join(WAIT_S)
    until(lambda: set(second.worker.runs) == {"c"} | tasks("c", 2))
    until(lambda: isinstance(second.ask(DescribeConnector("c")), ConnectorDescription))


@pytest.mark.parametrize("restricted", ["leader", "follower"])
def test_ignored_connectors_start_on_no_restricted_worker_and_disturb_no_other(
    cluster, caplog, restricted
):
    """As in groups with Java workers, which ignore no connector."""
    only_c = frozenset({"c"})
    first = cluster.node("a", allowed_connectors=only_c if restricted == "leader" else None)
    second = cluster.node("b", allowed_connectors=only_c if restricted == "follower" else None)
    names = ["c", "x0", "x1", "x2"]
    for each in (first, second):
        each.worker.plans.update({name: [{"t": "0"}, {"t": "1"}] for name in names})
    first.start()
    until(lambda: first.configs.snapshot().session_key is not None)
    for name in names[1:]:
        first.configs.put_connector(name, {"name": name})
    second.start()
    until(second.herder.is_ready)
    assert isinstance(first.put("c"), PutConnectorResult)

    until(lambda: {"c"} | tasks("c", 2) <= set(running((first, second))))

    ignoring = first if restricted == "leader" else second
    assert {"c"} | tasks("c", 2) >= ignoring.worker.runs.keys()
    if restricted == "leader":
        assert {"c"} | tasks("c", 2) == set(running((first, second)))
    assert ignoring.configs.snapshot().ignored_connectors == set(names[1:])
    assert "failed to start" not in caplog.text


def test_a_follower_names_the_leader(pair):
    reply = pair[1].put("c")
    assert reply == ForwardRequest("http://a/", "Only the leader can set connector configs.")


def test_what_was_put_is_described_at_once(pair):
    leader = pair[0]
    put = leader.ask(PutConnector(connector="c", config={"k": "v"}))
    assert put.created
    assert leader.herder.get_config_state().config("c") == {"k": "v"}
    until(lambda: isinstance(leader.ask(DescribeConnector("c")), ConnectorDescription))
    again = leader.ask(PutConnector(connector="c", config={"k": "w"}))
    assert not again.created
    until(lambda: isinstance(leader.ask(DescribeConnector("c")), ConnectorDescription))
    assert leader.ask(DescribeConnector("c")).config == {"k": "w"}


def test_task_configs_reach_the_leader_whoever_runs_the_connector(cluster, pair):
    for name in ("c", "d"):
        pair[0].put(name)
    until(lambda: len(running(pair)) == 6)
    assert [each for each in cluster.forwarded if each.url == "http://a/"]


@pytest.mark.parametrize(
    "error",
    [
        PeerRefusedError("bad signature", status=403, error_code=403),
        PeerUnavailableError("no response"),
    ],
)
def test_task_configs_that_do_not_reach_the_leader_are_sent_again(cluster, pair, error):
    cluster.refusals.append(error)
    for name in ("c", "d"):
        pair[0].put(name)
    until(lambda: len(running(pair)) == 6)
    assert cluster.refusals == []
    assert len(cluster.forwarded) >= 2


@pytest.mark.parametrize(
    "plan", [TooManyTasksError("raise tasks.max"), RuntimeError("bug of a plugin")]
)
def test_a_connector_that_fails_to_say_its_tasks_holds_up_nobody(node, plan):
    node.worker.plans["bad"] = plan
    node.worker.plans["c"] = [{"t": "1"}]
    node.put("bad")
    node.put("c")
    until(lambda: set(node.worker.runs) == {"bad", "c"} | tasks("c", 1))
    assert node.herder.submit_request(CheckHealth()).result(WAIT_S) == RequestSucceeded()


def test_a_connector_that_failed_to_say_its_tasks_is_asked_again(node):
    plans = [RuntimeError("bug of a plugin"), [{"t": "1"}]]
    node.worker.plans["c"] = lambda: plans.pop(0)
    node.put("c")
    until(lambda: set(node.worker.runs) == {"c"} | tasks("c", 1))


def test_an_item_that_cannot_be_started_keeps_no_other_from_it(node):
    node.worker.refuses.add("bad")
    node.put("bad")
    node.put("c")
    until(lambda: "c" in node.worker.runs)

    def refused():
        reply = node.ask(RestartConnector("bad"))
        return isinstance(reply, RequestRefused) and "bad has no class" in reply.message

    until(refused)


def test_alone_it_starts_what_it_is_given_without_a_wait(cluster):
    alone = cluster.alone()
    alone.worker.plans["c"] = [{"t": "1"}]
    began_s = herding.CLOCK.now_s()
    alone.start()
    try:
        until(alone.herder.is_ready)
        alone.put("c")
        until(lambda: set(alone.worker.runs) == {"c"} | tasks("c", 1))
        assert herding.CLOCK.now_s() - began_s < 0.9, "it slept while there was something to do"
        alone.ask(DeleteConnector("c"))
        until(lambda: not alone.worker.runs)
    finally:
        alone.stop()


# What is validated, and by whom


def test_what_validation_refuses_is_the_answer(node):
    node.validation.finds = ConnectRestError(400, "no connector.class")
    future = node.herder.submit_request(PutConnector(connector="c", config={}))
    assert future.exception(WAIT_S).status == 400
    assert not node.herder.get_config_state().has_connector("c")


def test_a_patch_is_validated_and_put(node):
    node.ask(PutConnector(connector="c", config={"k": "v", "old": "x"}))
    reply = node.ask(PatchConnector(connector="c", patch={"k": "w", "old": None}))
    assert reply.config == {"k": "w"}
    node.validation.finds = ConnectRestError(400, "no")
    refused = node.herder.submit_request(PatchConnector(connector="c", patch={"k": "x"}))
    assert isinstance(refused.exception(WAIT_S), ConnectRestError)


def test_validation_and_keys_of_plugins_are_asked_elsewhere(node):
    assert node.herder.validate_connector_config({}).result(WAIT_S) is herding.NO_ERRORS
    missing = node.herder.connector_plugin_config("no.such", None)
    assert isinstance(missing.exception(WAIT_S), NotFoundError)


# What does not wait for the herder


def test_states_topics_and_levels_are_written_at_once(node):
    node.put("c")
    paused = TargetState.PAUSED
    assert node.herder.set_target_state("c", paused).result(WAIT_S) is None
    assert node.herder.get_config_state().target_state("c") is paused
    topic = TopicStatus(topic="t", connector="c", task=0, discovered_ms=1)
    node.statuses.put_topic_status(topic)
    assert node.herder.get_statuses().topics("c")
    assert node.herder.reset_connector_active_topics("c").result(WAIT_S) is None
    assert not node.herder.get_statuses().topics("c")


def test_a_level_for_the_cluster_reaches_every_worker(pair):
    name = "tests.herding.herder"
    try:
        pair[1].herder.set_cluster_logger_level(name, "ERROR").result(WAIT_S)
        until(lambda: logging.getLogger(name).level == logging.ERROR)
    finally:
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_level_that_nobody_knows_is_the_end_of_no_herder(node):
    node.herder.set_cluster_logger_level("tests.herding", "LOUD").result(WAIT_S)
    assert node.ask(CheckHealth()) == RequestSucceeded()


def test_a_failed_write_is_the_answer(cluster, node):
    cluster.configs.refusals.append(FatalError("too large"))
    future = node.herder.set_target_state("c", TargetState.PAUSED)
    assert str(future.exception(WAIT_S)) == "too large"


def test_what_has_no_place_is_told_that_too_many_wait(node):
    node.calls.stop(WAIT_S)
    assert isinstance(node.herder.validate_connector_config({}).exception(0), HerderQueueFullError)
    put = node.herder.submit_request(PutConnector(connector="c", config={}))
    assert isinstance(put.exception(0), HerderQueueFullError)


# What is deleted, and forgotten


def test_a_deleted_connector_stops_and_its_topics_and_statuses_are_forgotten(node):
    node.put("c")
    until(lambda: "c" in node.worker.runs)
    running_here = RunStatus(state=RunState.RUNNING, worker_id="a", generation=1)
    node.statuses.put("c", running_here)
    node.statuses.put_topic_status(TopicStatus(topic="t", connector="c", task=0, discovered_ms=1))
    assert node.ask(DeleteConnector("c")) == RequestSucceeded()
    until(lambda: not node.worker.runs)
    until(lambda: not node.herder.get_statuses().connectors())
    until(lambda: not node.herder.get_statuses().topics("c"))


# Who may ask


def test_signatures_are_looked_at_where_the_group_signs(node):
    until(lambda: node.herder.get_config_state().session_key is not None)
    body = b"[]"
    key = node.herder.get_config_state().session_key
    signed = session_keys.build_signature_headers(key, body, algorithm="HmacSHA256")
    assert node.herder.verify_request_signature(body, signed) == SignatureValid()
    assert node.herder.verify_request_signature(b"[1]", signed).status == 403
    assert node.herder.verify_request_signature(body, {}).status == 400


def test_before_any_round_they_are_looked_at_by_what_is_offered(cluster):
    unsigned = cluster.node("old", offers=ConnectProtocol.COMPATIBLE)
    signed = cluster.node("new")
    assert unsigned.herder.verify_request_signature(b"[]", {}) == SignatureValid()
    assert signed.herder.verify_request_signature(b"[]", {}).status == 400


# Too many, and too late


def test_a_full_inbox_turns_askers_away(cluster, monkeypatch):
    node = cluster.node("a")
    monkeypatch.setattr(herder_requests, "MAX_QUEUED_REQUESTS", 1)
    first = node.herder.submit_request(CheckHealth())
    second = node.herder.submit_request(CheckHealth())
    assert isinstance(second.exception(0), HerderQueueFullError)
    assert not first.done()
    node.start()
    assert first.result(WAIT_S) == RequestSucceeded()


@pytest.mark.parametrize(
    "request_",
    [
        CheckHealth(),
        PutConnector(connector="c", config={}),
        RestartConnectorAndTasks(RestartRequest(connector="c")),
    ],
)
def test_after_the_end_everybody_is_refused(node, request_):
    node.loop.request_stop()
    assert node.loop.join(WAIT_S)
    assert node.ask(request_) == CLOSED


def test_shows_what_it_was_given(node):
    assert node.herder.kafka_cluster_id() == "c1"
    assert node.herder.plugins() == ()
    assert node.herder.connector_type(None) is ConnectorType.UNKNOWN
