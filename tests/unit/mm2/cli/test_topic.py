from __future__ import annotations

import json
import types
from typing import Any

import pytest

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import UnreachableError
from connect_runtime.storage.config_topic import ConfigTopicState
from connect_runtime.storage.status_topic import StatusTopicState
from mm2 import exit_codes
from mm2.cli import main, topic
from mm2.clusters import (
    connect_group_state,
    flow_cluster_pair,
    flow_kafka_clients,
    reachability_probe,
)
from mm2.clusters.connect_group_state import ConnectGroupSnapshot
from mm2.clusters.flow_rest_client import FlowRestError
from mm2.offsets.offset_map import OffsetMap
from mm2.repair import topic_reset
from mm2.repair.topic_reset import ResetDecision, ResetOutcome, ResetWaiter


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["east->wst", "t", "--from", "earliest"], "did you mean 'east->west'?"),
        (["east->west", "--from", "earliest"], "TOPIC"),
        (["east->west", "t"], "--from"),
        (["east->west", "t", "--partition", "-1", "--from", "earliest"], "--partition"),
        (["east->west", "t", "--from", "noon"], "milliseconds since 1970"),
        (["east->west", "t", "--from", "offset:x"], "or offset:N"),
        (["east->west", "t", "--from", f"offset:{2**63}"], "or offset:N"),
        (["east->west", "t", "--from", "offset:\u0663"], "or offset:N"),
        (["east->west", "t", "--from", "9" * 15], "or offset:N"),
        (["east->west", "t", "--from", "9999-12-31T23:59:59-14:00"], "or offset:N"),
        (
            ["east->west", "t", "--from", "offset:7"],
            "offset:N applies to a single partition: add --partition",
        ),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_asked(config, arguments, words, capsys):
    assert (
        main.run_command(["topic", "reset", *arguments, "--config", str(config)])
        == exit_codes.BAD_INPUT
    )
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


@pytest.mark.parametrize(
    ("start", "position"),
    [
        ("earliest", "earliest"),
        ("LATEST", "latest"),
        ("2026-01-31T08:00:00Z", "1769846400000"),
        ("2026-01-31T09:00:00+01:00", "1769846400000"),
        ("1769846400000", "1769846400000"),
        ("offset:0", "offset:0"),
        ("offset:1234567890123", "offset:1234567890123"),
    ],
)
def test_positions(start, position):
    assert topic.parse_reset_position(start) == position


P0 = TopicPartition("orders", 0)


class Api:
    """The flow's REST API: its tasks have what `numbers` says of the partitions asked for."""

    def __init__(self, *numbers: int, error: ConnectError | None = None) -> None:
        self.numbers, self.error = list(numbers), error

    def restart_partitions(self, partitions):
        assert partitions == [P0]
        if self.error is not None:
            raise self.error
        return self.numbers


@pytest.mark.parametrize(
    ("api", "restarted"),
    [
        (Api(0, 2), "restarted tasks 0, 2"),
        (Api(), "all"),
        (Api(error=FlowRestError("no response")), "all"),
        (None, "all"),
    ],
    ids=["tasks have it", "no task has it", "no response", "no process here"],
)
def test_where_no_task_has_the_partitions_the_connector_is_restarted(api, restarted):
    asked: list[Any] = []

    def by_record(partitions):
        asked.append(partitions)
        return "all"

    said = topic._restart_tasks(api, by_record, [P0])
    assert said == restarted
    assert asked == ([] if said.startswith("restarted") else [[P0]])


class Nothing:
    """A cluster, or a store, that is only opened and closed."""

    source = target = types.SimpleNamespace(admin=None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass

    def close(self, timeout_s):
        pass


DECISION = ResetDecision(
    partition=P0, position="earliest", request="r", partition_map=OffsetMap().get_partition(P0)
)
RECORDED = "orders-0: not replicated so far; starts again at the first record of the source's log."
AWAY = UnreachableError("west does not respond")


def raising(error):
    def fail(*args, **kwargs):
        raise error

    return fail


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    """Both clusters answer, the decision is recorded, and a process runs the flow somewhere."""
    monkeypatch.setenv("MM2_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(reachability_probe, "wait_for_clusters", lambda accesses, **_: {})
    monkeypatch.setattr(flow_cluster_pair, "FlowPair", Nothing)
    monkeypatch.setattr(flow_kafka_clients, "create_flow_state_store", Nothing)
    monkeypatch.setattr(topic_reset, "record_reset_decisions", lambda *args, **kwargs: [DECISION])
    found = ConnectGroupSnapshot(
        config=ConfigTopicState().snapshot(),
        statuses=StatusTopicState().snapshot(),
        hosts=("10.0.0.2",),
    )
    monkeypatch.setattr(connect_group_state, "read_connect_group", lambda *args, **kwargs: found)
    monkeypatch.setattr(
        topic_reset,
        "create_task_restarter_via_config_topic",
        lambda *args, **kwargs: lambda _: "restarted all tasks",
    )


def outcome(monkeypatch, replicating: bool | None) -> None:
    found = ResetOutcome(partition=P0, replicating=replicating, start_offset=0, reason="halted")
    monkeypatch.setattr(ResetWaiter, "wait_for_outcomes", lambda *args: [found])


def reset(config, *more: str) -> int:
    words = ["topic", "reset", "east->west", "orders", "--from", "earliest", *more]
    return main.run_command([*words, "--config", str(config)])


@pytest.mark.parametrize(
    ("replicating", "code"),
    [(True, exit_codes.DONE), (False, exit_codes.FAILED), (None, exit_codes.UNKNOWN)],
)
def test_the_code_says_whether_the_partitions_replicate(
    config, recorded, monkeypatch, replicating, code, capsys
):
    outcome(monkeypatch, replicating)
    assert reset(config, "--json") == code
    assert json.loads(capsys.readouterr().out)["decisions"] == [RECORDED]


@pytest.mark.parametrize("step", ["look", "restart"])
def test_what_was_recorded_is_printed_also_if_what_follows_fails(
    config, recorded, monkeypatch, step, capsys
):
    if step == "look":
        monkeypatch.setattr(connect_group_state, "read_connect_group", raising(AWAY))
    else:
        fail = raising(AWAY)
        monkeypatch.setattr(
            topic_reset, "create_task_restarter_via_config_topic", lambda *args, **kwargs: fail
        )
    assert reset(config, "--json") == exit_codes.FAILED
    told = capsys.readouterr()
    said = json.loads(told.out)
    assert (said["decisions"], said["error"]) == ([RECORDED], "west does not respond")
    assert (
        "mm2: the reset is recorded, but a later step failed: west does not respond. " in told.err
    )
    assert "mm2 restart 'east->west'" in told.err
    assert reset(config) == exit_codes.FAILED
    assert capsys.readouterr().out.startswith(f"{RECORDED}\nrecorded in ")


def test_what_could_not_be_recorded_is_an_error_alone(config, recorded, monkeypatch, capsys):
    monkeypatch.setattr(topic_reset, "record_reset_decisions", raising(AWAY))
    assert reset(config, "--json") == exit_codes.UNREACHABLE
    told = capsys.readouterr()
    assert (told.out, "mm2: west does not respond" in told.err) == ("", True)
