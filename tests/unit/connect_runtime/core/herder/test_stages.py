from __future__ import annotations

import typing

import pytest

from connect_runtime.base import ids
from connect_runtime.core.assignment import work
from connect_runtime.core.herder import instructions, stages
from connect_runtime.core.state import cluster_config, config_records

WORK = work.Work(connectors=("c", "d"))
STATE = cluster_config.TargetState.STOPPED


@pytest.mark.parametrize(
    ("question", "described"),
    [
        (instructions.ReadConfigs(3), "reading to the end of the config topic"),
        (instructions.ClaimWrites(), "claiming write privileges for the config topic"),
        (instructions.StopWork(WORK), "stopping 2 connector(s) and 0 task(s)"),
        (instructions.StartWork(WORK), "starting 2 connector(s) and 0 task(s)"),
        (
            instructions.RenewTasks((ids.ConnectorTaskId("c", 0),)),
            "telling 1 task(s) what is configured for them now",
        ),
        (instructions.GenerateTaskConfigs("c"), "generating task configs for connector c"),
        (instructions.FlushStatuses(), "flushing updates to the status topic"),
    ],
)
def test_every_question_is_described(question, described):
    assert stages.describe(question) == described


WRITES = [
    (instructions.WriteConnector(connector="c", config={"p": "hunter2"}, target_state=None),
     "a config for connector c"),
    (instructions.RemoveConnector("c"), "the removal of connector c"),
    (instructions.WriteTaskConfigs(connector="c", configs=[{"p": "hunter2"}]),
     "1 task config for connector c"),
    (instructions.WriteTargetState(connector="c", state=STATE),
     "the STOPPED target state for connector c"),
    (instructions.WriteRestart(config_records.RestartRequest(connector="c")),
     "restart request for connector c"),
    (instructions.WriteNewSessionKey(created_ms=5), "a new session key"),
    (instructions.WriteFencingCount(connector="c", tasks=3), "a task count record for connector c"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "described"), WRITES)
def test_every_write_is_described(write, described):
    assert stages.describe(instructions.Write(write)) == f"writing {described} to the config topic"


def test_no_write_is_forgotten():
    assert {type(write) for write, _ in WRITES} == set(typing.get_args(instructions.ConfigWrite))
