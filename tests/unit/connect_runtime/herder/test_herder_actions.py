from __future__ import annotations

import typing

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import herder_actions
from connect_runtime.herder.herder_actions import (
    BackgroundAction,
    BlockingAction,
    ConfigWrite,
    FenceConfigWriters,
    FlushStatuses,
    ForwardTaskConfigs,
    GenerateTaskConfigs,
    HerderAction,
    ReadConfigTopic,
    ReconfigureRunningTasks,
    RemoveConnectorConfig,
    StartConnectorsAndTasks,
    StopConnectorsAndTasks,
    ValidateAndPutConnector,
    WriteConfigTopic,
    WriteConnectorConfig,
    WriteRestartRequest,
    WriteSessionKey,
    WriteTargetState,
    WriteTaskConfigs,
    WriteTaskCount,
)
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_records import RestartRequest

QUESTIONS = set(typing.get_args(BlockingAction))
ORDERS = set(typing.get_args(BackgroundAction))


def test_every_instruction_is_a_question_or_an_order():
    assert set(herder_actions.BLOCKING_ACTIONS) == QUESTIONS
    assert not QUESTIONS & ORDERS
    assert set(typing.get_args(HerderAction)) == QUESTIONS | ORDERS


def test_every_question_names_its_answers_and_no_order_has_one():
    for kind in QUESTIONS:
        assert "Outcome" in kind.__doc__, kind
    for kind in ORDERS:
        assert "Outcome:" not in kind.__doc__, kind


def test_configurations_are_in_no_representation():
    secret = {"password": "hunter2"}
    for each in (
        WriteConnectorConfig(connector="c", config=secret, target_state=None),
        WriteTaskConfigs(connector="c", configs=[secret]),
        ForwardTaskConfigs(token=1, connector="c", configs=[secret], leader_url="http://x/"),
        ValidateAndPutConnector(ticket=1, connector="c", config=secret),
    ):
        assert "hunter2" not in repr(each)


WORK = ConnectorsAndTasks(connectors=("c", "d"))
STATE = TargetState.STOPPED


@pytest.mark.parametrize(
    ("question", "described"),
    [
        (ReadConfigTopic(3), "reading to the end of the config topic"),
        (FenceConfigWriters(), "claiming write privileges for the config topic"),
        (StopConnectorsAndTasks(WORK), "stopping 2 connector(s) and 0 task(s)"),
        (StartConnectorsAndTasks(WORK), "starting 2 connector(s) and 0 task(s)"),
        (
            ReconfigureRunningTasks((ConnectorTaskId("c", 0),)),
            "offering new configurations to 1 task(s)",
        ),
        (GenerateTaskConfigs("c"), "generating task configs for connector c"),
        (FlushStatuses(), "flushing updates to the status topic"),
    ],
)
def test_every_question_is_described(question, described):
    assert herder_actions.describe_action(question) == described


WRITES = [
    (WriteConnectorConfig(connector="c", config={"p": "hunter2"}, target_state=None),
     "a config for connector c"),
    (RemoveConnectorConfig("c"), "the removal of connector c"),
    (WriteTaskConfigs(connector="c", configs=[{"p": "hunter2"}]),
     "1 task config for connector c"),
    (WriteTargetState(connector="c", state=STATE),
     "the STOPPED target state for connector c"),
    (WriteRestartRequest(RestartRequest(connector="c")),
     "restart request for connector c"),
    (WriteSessionKey(created_ms=5), "a new session key"),
    (WriteTaskCount(connector="c", tasks=3), "a task count record for connector c"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "described"), WRITES)
def test_every_write_is_described(write, described):
    assert (
        herder_actions.describe_action(WriteConfigTopic(write))
        == f"writing {described} to the config topic"
    )


def test_no_write_is_forgotten():
    assert {type(write) for write, _ in WRITES} == set(typing.get_args(ConfigWrite))
