"""Orders hold nobody up, and whoever asked for something is answered by what came of it."""

from __future__ import annotations

import dataclasses
import json
import logging

import pytest

from connect_runtime.api.config_infos import ConfigInfo, ConfigInfos, ConfigValueInfo
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import herder_requests, session_keys
from connect_runtime.herder.herder_actions import (
    ApplyTargetState,
    DeleteStatuses,
    FenceZombieProducers,
    ForwardTaskConfigs,
    HandleOffsetsRequest,
    LeaveGroupPermanently,
    PublishRestartingStatuses,
    ResetActiveTopics,
    SendReply,
    SetLoggerLevel,
    ValidateAndPutConnector,
    WriteLogLine,
)
from connect_runtime.herder.herder_events import RequestSubmitted, TaskConfigsForwarded
from connect_runtime.herder.herder_interface import (
    ConnectorOffsets,
    ConnectorOffsetsModified,
    ConnectRestError,
)
from connect_runtime.herder.herder_requests import (
    HerderQueueFullError,
    ModifyConnectorOffsets,
    PutConnector,
    ReadConnectorOffsets,
    RequestRefused,
    RequestSucceeded,
)
from connect_runtime.herder.requests_to_other_workers import PeerRefusedError, PeerUnavailableError
from connect_runtime.herder.session_keys import SessionKeySettings, SignatureValid
from connect_runtime.storage.cluster_config_state import SessionKey, TargetState
from connect_runtime.storage.status_records import RunState, RunStatus, TopicStatus
from tests.fakes import herding

WAIT_S = herding.WAIT_S
LEADER = "http://b/"
TASK = ConnectorTaskId("c", 0)


@pytest.fixture
def node(cluster):
    """A worker whose herder does not run: what is posted stays in the inbox."""
    made = cluster.node("a")
    made.statuses.start(1.0)
    made.configs.start(1.0)
    return made


@pytest.fixture
def posted(node):
    def take():
        node.inbox.wait_for_event(WAIT_S)
        return node.inbox.pop_all_events()

    node.inbox.pop_all_events()
    return take


def asked(node, order):
    """The future of the ticket that an order answers."""
    ticket, future = node.asked.create_reply_future()
    node.orders.execute_action(order(ticket))
    return future


def configured(node):
    node.configs.put_connector("c", {"name": "c"})
    node.inbox.pop_all_events()


def test_an_answer_reaches_who_asked(node):
    future = asked(node, lambda ticket: SendReply(ticket, RequestSucceeded()))
    assert future.result(0) == RequestSucceeded()


def test_at_the_end_everybody_is_refused(node):
    _, future = node.asked.create_reply_future()
    node.orders.refuse_all_requests()
    assert future.result(0).status == 500


def test_a_note_is_logged_and_orders_for_the_group_are_not_for_here(node, caplog):
    with caplog.at_level(logging.INFO):
        node.orders.execute_action(WriteLogLine("something changed"))
        node.orders.execute_action(WriteLogLine("somebody is lost", is_warning=True))
        node.orders.execute_action(LeaveGroupPermanently())
    told = [(each.levelname, each.message) for each in caplog.records]
    assert told == [("INFO", "something changed"), ("WARNING", "somebody is lost")]


def test_the_worker_is_told_of_target_states(node):
    node.worker.runs["c"] = {}
    paused = TargetState.PAUSED
    node.orders.execute_action(ApplyTargetState(connector="c", state=paused))
    assert node.worker.states == {"c": paused}


def test_statuses_are_said_and_forgotten(node):
    node.standing.generation = 7
    node.orders.execute_action(
        PublishRestartingStatuses(ConnectorsAndTasks(connectors=("c",), tasks=(TASK,)))
    )
    said = node.statuses.snapshot()
    expected = RunStatus(state=RunState.RESTARTING, worker_id="a", generation=7)
    assert said.connector("c") == expected
    assert said.by_task["c"] == {0: expected}
    node.orders.execute_action(DeleteStatuses((TASK, "c")))
    said = node.statuses.snapshot()
    assert (said.connectors(), dict(said.by_task)) == ([], {})


def test_topics_are_forgotten_for_one_connector(node):
    for name in ("c", "d"):
        node.statuses.put_topic_status(
            TopicStatus(topic="t", connector=name, task=0, discovered_ms=1)
        )
    node.orders.execute_action(ResetActiveTopics("c"))
    assert [bool(node.statuses.snapshot().topics(name)) for name in ("c", "d")] == [False, True]


@pytest.fixture
def logger():
    made = logging.getLogger("tests.herding.orders")
    yield made
    made.setLevel(logging.NOTSET)


def test_levels_are_set(node, logger):
    node.orders.execute_action(SetLoggerLevel(logger.name, "ERROR"))
    assert logger.level == logging.ERROR


def test_a_level_that_does_not_exist_changes_nothing(node, logger, caplog):
    """Anybody may have written it to the config topic."""
    node.orders.execute_action(SetLoggerLevel(logger.name, "LOUD"))
    assert logger.level == logging.NOTSET
    assert "unknown log level LOUD" in caplog.text


def test_a_level_for_a_very_deep_name_changes_nothing(node, caplog):
    """Every part of the name would take memory for good."""
    node.orders.execute_action(SetLoggerLevel("tests." * 1000, "INFO"))
    assert "tests." * 1000 not in logging.Logger.manager.loggerDict
    assert "at most 250 characters and 30 parts" in caplog.text


def forward(node, token=3):
    node.orders.execute_action(
        ForwardTaskConfigs(token=token, connector="c/d", configs=[{"k": "v"}], leader_url=LEADER)
    )


def test_forwards_signed_and_tells_what_the_leader_said(cluster, node, posted):
    key = SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=1)
    node.configs.put_session_key(key)
    node.inbox.pop_all_events()
    cluster.send_and_wait = cluster.forwarded.append
    forward(node)
    assert posted() == [TaskConfigsForwarded(token=3)]
    (call,) = cluster.forwarded
    assert (call.url, call.method, call.path) == (LEADER, "POST", "/connectors/c%2Fd/tasks")
    assert json.loads(call.body) == [{"k": "v"}]
    verdict = session_keys.verify_signature(
        call.body, call.signature, key=key, settings=SessionKeySettings()
    )
    assert verdict == SignatureValid()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PeerRefusedError("bad signature", status=403, error_code=403), 403),
        (PeerUnavailableError("no response"), None),
        (PeerUnavailableError("not signed", unsigned_status=403), 403),
        (ValueError("no url"), None),
    ],
)
def test_what_became_of_forwarding_is_told(cluster, node, posted, error, status):
    cluster.refusals.append(error)
    forward(node)
    assert posted() == [TaskConfigsForwarded(token=3, error=str(error), status=status)]


def test_without_peers_forwarding_has_failed_and_says_what_is_missing(node, posted):
    node.orders._deps = dataclasses.replace(node.orders._deps, peer_client=None)
    forward(node)
    (told,) = posted()
    assert (told.token, told.status) == (3, None)
    assert "dedicated.mode.enable.internal.rest" in told.error


def test_forwarding_that_finds_no_place_has_failed(node, posted):
    node.calls.stop(WAIT_S)
    forward(node, token=4)
    (told,) = posted()
    assert (told.token, told.status) == (4, None)
    assert "stopping" in told.error


PUT = PutConnector(
    connector="c",
    config={"name": "c"},
    target_state=TargetState.STOPPED,
    replace=False,
)


def test_what_was_validated_is_submitted_with_what_was_found(node, posted):
    ticket, future = node.asked.create_reply_future()
    node.orders.validate_and_put_connector(ticket, PUT)
    assert posted() == [RequestSubmitted(ticket=ticket, request=PUT)]
    assert not future.done()


def test_what_is_invalid_is_submitted_as_such(node, posted):
    value = ConfigValueInfo(
        name="k", value=None, recommended_values=(), errors=("k must not be",), visible=True
    )
    info = ConfigInfo(definition=None, value=value)
    node.validation.finds = ConfigInfos(name="x", error_count=1, groups=(), configs=(info,))
    ticket, _ = node.asked.create_reply_future()
    node.orders.execute_action(ValidateAndPutConnector(ticket=ticket, connector="c", config={}))
    (told,) = posted()
    assert "contains the following 1 error(s):\nk must not be" in told.request.invalid


@pytest.mark.parametrize("error", [ConnectRestError(400, "no class"), KeyError("plugin")])
def test_a_validation_that_raises_is_the_answer(node, error):
    node.validation.finds = error
    ticket, future = node.asked.create_reply_future()
    node.orders.validate_and_put_connector(ticket, PUT)
    assert future.exception(WAIT_S) is error


def test_validated_too_late_is_refused(node):
    node.inbox.close()
    ticket, future = node.asked.create_reply_future()
    node.orders.validate_and_put_connector(ticket, PUT)
    assert future.result(WAIT_S) == RequestRefused(500, "Worker is shutting down")


def test_validated_when_too_many_wait_is_told_so(node, monkeypatch):
    monkeypatch.setattr(herder_requests, "MAX_QUEUED_REQUESTS", 0)
    ticket, future = node.asked.create_reply_future()
    node.orders.validate_and_put_connector(ticket, PUT)
    assert isinstance(future.exception(WAIT_S), HerderQueueFullError)


def test_where_calls_have_no_place_askers_are_told_that_too_many_wait(node):
    configured(node)
    node.calls.stop(WAIT_S)
    ticket, put = node.asked.create_reply_future()
    node.orders.validate_and_put_connector(ticket, PUT)
    read = asked(node, lambda ticket: by_worker(ticket, ReadConnectorOffsets("c")))
    assert all(isinstance(each.exception(0), HerderQueueFullError) for each in (put, read))


def by_worker(ticket, request):
    return HandleOffsetsRequest(ticket=ticket, request=request)


def test_offsets_are_answered_by_the_worker(node):
    configured(node)
    read = asked(node, lambda ticket: by_worker(ticket, ReadConnectorOffsets("c")))
    modified = asked(node, lambda ticket: by_worker(ticket, ModifyConnectorOffsets("c", None)))
    assert read.result(WAIT_S) == ConnectorOffsets(())
    assert modified.result(WAIT_S) == ConnectorOffsetsModified("done")


def test_offsets_of_a_connector_that_is_gone_are_not_found(node):
    read = asked(node, lambda ticket: by_worker(ticket, ReadConnectorOffsets("c")))
    assert read.result(0) == RequestRefused(404, "Connector c not found")


def test_fencing_is_refused_as_not_offered(node):
    future = asked(
        node,
        lambda ticket: FenceZombieProducers(
            ticket=ticket, connector="c", producers=1, tasks=1, generation=None
        ),
    )
    assert future.result(0).status == 501
