"""What operators do to a flow arrives in its worker's API; and its refusals arrive here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.herder.herder_requests import RestartConnectorAndTasks, RestartTask
from connect_runtime.herder.requests_to_other_workers import PeerRefusedError
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from mm2.clusters import flow_rest_client
from mm2.clusters.flow_rest_client import FlowRestClient, FlowRestError, NoSuchTopicError
from mm2.config import pause_and_throttle_overrides
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest_server

NAME = flow_rest_client.SOURCE_CONNECTOR


@pytest.fixture
def herder() -> FakeHerder:
    made = FakeHerder()
    made.make(NAME, {"throttle": "5MB", "tasks.max": "2"})
    shares = ("orders-0,users-1", "orders-1")
    configs = [{"task.assigned.partitions": each} for each in shares]
    made.write(config_records.encode_task_configs(NAME, configs))
    made.write([config_records.encode_task_config_commit(NAME, 2)])
    return made


@pytest.fixture
def api(herder: FakeHerder) -> Iterator[FlowRestClient]:
    with rest_server.serving(herder, users={"mm2": "secret"}) as server:
        url = server.advertised_url.rstrip("/")
        yield FlowRestClient("a->b", url=url, user="mm2", password="secret")


def config(herder: FakeHerder) -> dict[str, str]:
    found = herder.get_config_state().config(NAME) or {}
    return {key: value for key, value in found.items() if value is not None}


def test_a_flow_is_paused_and_resumed(herder, api):
    api.pause()
    assert herder.get_config_state().target_state(NAME) is TargetState.PAUSED
    api.resume()
    assert herder.get_config_state().target_state(NAME) is TargetState.STARTED


def test_what_was_stopped_goes_on(herder, api):
    stopped = TargetState.STOPPED
    herder.make("MirrorCheckpointConnector", {"tasks.max": "2"})
    for name in (NAME, "MirrorCheckpointConnector"):
        herder.write([config_records.encode_target_state(name, stopped)])
    api.resume()
    for name in (NAME, "MirrorCheckpointConnector"):
        assert herder.get_config_state().target_state(name) is TargetState.STARTED


def test_topics_are_paused_without_touching_what_else_is_configured(herder, api):
    before = config(herder)
    api.pause_topic("orders")
    assert config(herder) == {**before, "live.paused.topic.orders": "true"}
    api.resume_topic("orders")
    assert config(herder) == before


def test_two_who_pause_topics_at_once_undo_nothing_of_each_other(herder, api):
    """Each has read the configuration before the other wrote."""
    before = api._read_connector_config()
    for topic, limit in (("users", "1MB"), ("orders", "2MB")):
        api._patch_config(
            before,
            pause_and_throttle_overrides.set_throttle(
                pause_and_throttle_overrides.pause_topic(before, topic), limit, topic=topic
            ),
        )
    assert pause_and_throttle_overrides.list_paused_topics(config(herder)) == ("orders", "users")
    limits = {key: value for key, value in config(herder).items() if "throttle.topic." in key}
    assert limits == {"live.throttle.topic.orders": "2MB", "live.throttle.topic.users": "1MB"}


def test_limits_are_set_and_given_back(herder, api):
    before = config(herder)
    api.set_throttle("none", topic="users")
    api.set_throttle("1MB", topic=None)
    given = {"live.throttle": "1MB", "live.throttle.topic.users": "none"}
    assert config(herder) == {**before, **given}
    api.set_throttle(None, topic=None)
    api.set_throttle(None, topic="users")
    assert config(herder) == before


def test_tasks_that_copy_a_topic_are_restarted_or_all_there_is(herder, api):
    assert api.restart_topic("orders") == [0, 1]
    assert api.restart_topic("users") == [0]
    asked = [each for each in herder.submitted if isinstance(each, RestartTask)]
    assert [each.task for each in asked] == [ConnectorTaskId(NAME, n) for n in (0, 1, 0)]
    assert api.restart() == [NAME]
    assert any(isinstance(each, RestartConnectorAndTasks) for each in herder.submitted)


def test_a_topic_that_nobody_copies_is_told(api):
    for ask in (api.pause_topic, api.restart_topic):
        with pytest.raises(NoSuchTopicError, match="no task of a->b replicates"):
            ask("order")


def test_refusals_and_silence_say_which_flow(herder):
    with rest_server.serving(herder, users={"mm2": "secret"}) as server:
        url = server.advertised_url.rstrip("/")
        stranger = FlowRestClient("a->b", url=url, user="mm2", password="wrong")
        with pytest.raises(FlowRestError, match="a->b: "):
            stranger.pause()
    gone = FlowRestClient("a->b", url=url, user="mm2", password="secret")
    with pytest.raises(FlowRestError, match="a->b: "):
        gone.pause()


def test_what_a_group_that_changes_turns_away_is_asked_again(herder, api, monkeypatch):
    send, refusals = api._peers.send_and_wait, [409, 409]

    def busy_at_first(call):
        if call.path.endswith("/pause") and refusals:
            raise PeerRefusedError("stale", status=refusals.pop(), error_code=409)
        return send(call)

    monkeypatch.setattr(flow_rest_client, "CONFLICT_RETRY_DELAY_S", 0.01)
    monkeypatch.setattr(api._peers, "send_and_wait", busy_at_first)
    api.pause()
    assert herder.get_config_state().target_state(NAME) is TargetState.PAUSED
    monkeypatch.setattr(flow_rest_client, "CONFLICT_TIMEOUT_S", 0.0)
    refusals.append(409)
    with pytest.raises(FlowRestError, match="a->b: stale"):
        api.pause()


def test_the_tasks_that_have_partitions_are_restarted_and_no_others(herder, api):
    assert api.restart_partitions([TopicPartition("orders", 1)]) == [1]
    assert api.restart_partitions([TopicPartition("nowhere", 0)]) == []
