"""`mm2 pause`, `resume`, `throttle` and `restart` find a flow and say what they did."""

from __future__ import annotations

import json

import pytest

from connect_runtime.rest import rest_app
from connect_runtime.rest.basic_auth import BasicAuthMiddleware
from connect_runtime.rest.path_prefix_router import NamespaceRouter
from connect_runtime.rest.rest_app import RestApplications
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2 import exit_codes
from mm2.cli import main
from mm2.clusters import flow_rest_client
from mm2.status.process_socket import ProcessResponse, ProcessSocket
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest, rest_server

NAME = flow_rest_client.SOURCE_CONNECTOR
FLOW = "east->west"


@pytest.fixture
def herder(config, tmp_path, monkeypatch):
    """That of the flow, in a process that runs `config`."""
    made = FakeHerder()
    made.make(NAME)
    made.write(config_records.encode_task_configs(NAME, [{"task.assigned.partitions": "orders-0"}]))
    made.write([config_records.encode_task_config_commit(NAME, 1)])
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("MM2_RUN_DIR", str(folder))
    socket = ProcessSocket(config, folder=folder)
    own = NamespaceRouter()
    configured = rest_server.at()
    own.mount_application(
        ("east", "west"), rest_app.build_applications(rest.parts(made), configured).main
    )
    with rest_server.started(configured) as server:
        guarded = BasicAuthMiddleware(own, users={"mm2": "secret"})
        server.attach_applications(RestApplications(main=guarded, admin=None))
        detail = {
            "url": server.advertised_url.rstrip("/"),
            "user": "mm2",
            "password": "secret",
            "flows": {FLOW: "/east/west"},
        }
        answer = ProcessResponse(code=exit_codes.DONE, lines=(), detail=detail)

        def body(stop):
            while not stop.is_set():
                socket.serve_request(lambda _: answer, 0.05)

        failures: list[UnexpectedThreadEnd] = []
        owned = ThreadGroup(on_unexpected_end=failures.append)
        owned.start("answering", body)
        yield made
        assert owned.stop_all(5.0) == []
    socket.close()
    assert failures == []


def run(config, capsys, *words: str) -> str:
    command, *others = words
    assert main.run_command([command, FLOW, *others, "--config", str(config)]) == exit_codes.DONE
    return str(capsys.readouterr().out)


def live(herder) -> dict[str, str]:
    found = herder.get_config_state().config(NAME) or {}
    return {key: value for key, value in found.items() if key.startswith("live.")}


def test_a_flow_is_paused_and_goes_on(herder, config, capsys):
    undo = f"mm2 resume 'east->west' --config {config}"
    told = run(config, capsys, "pause")
    assert told == f"east->west: paused until resumed, even across restarts; to resume: {undo}\n"
    assert herder.get_config_state().target_state(NAME) is TargetState.PAUSED
    told = run(config, capsys, "resume")
    assert told == "east->west: resumed; replication continues where it was paused\n"
    assert herder.get_config_state().target_state(NAME) is TargetState.STARTED


def test_so_is_a_topic(herder, config, capsys):
    told = run(config, capsys, "pause", "--topic", "orders")
    assert told.startswith(
        "east->west, topic orders: paused until resumed, even across restarts; to resume: mm2 "
    )
    assert "--topic orders" in told
    assert live(herder) == {"live.paused.topic.orders": "true"}
    run(config, capsys, "resume", "--topic", "orders")
    assert live(herder) == {}


def test_rates_are_set_and_given_back(herder, config, capsys):
    told = run(config, capsys, "throttle", "none", "--topic", "orders")
    assert told == "east->west, topic orders: not throttled, until changed\n"
    told = run(config, capsys, "throttle", "20MB")
    assert told == "east->west: throttled to 20 MB/s until changed\n"
    assert live(herder) == {"live.throttle": "20MB", "live.throttle.topic.orders": "none"}
    told = run(config, capsys, "throttle", "default")
    assert told == "east->west: throttled to the limit set in the configuration\n"
    assert live(herder) == {"live.throttle.topic.orders": "none"}


def test_restarting_says_what(herder, config, capsys):
    told = run(config, capsys, "restart")
    assert told == f"east->west: restarting {NAME} and all their tasks\n"
    told = run(config, capsys, "restart", "--topic", "orders")
    assert told == "east->west, topic orders: restarting task 0\n"


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (["pause"], {"topic": None, "paused": True}),
        (["pause", "--topic", "orders"], {"topic": "orders", "paused": True}),
        (["resume"], {"topic": None, "paused": False}),
        (
            ["throttle", "1MB"],
            {"topic": None, "throttle_bytes_s": 1_000_000, "from_configuration": False},
        ),
        (
            ["throttle", "none"],
            {"topic": None, "throttle_bytes_s": None, "from_configuration": False},
        ),
        (
            ["throttle", "default"],
            {"topic": None, "throttle_bytes_s": None, "from_configuration": True},
        ),
        (["restart"], {"topic": None, "connectors": [NAME]}),
        (["restart", "--topic", "orders"], {"topic": "orders", "tasks": [0]}),
    ],
)
def test_programs(herder, config, capsys, words, detail):
    told = json.loads(run(config, capsys, *words, "--json"))
    assert told == {"version": 1, "flow": FLOW, **detail}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pause", "east->wst"], "did you mean 'east->west'?"),
        (["pause", FLOW, "--topic", "order"], "no task of east->west replicates topic 'order'"),
        (["throttle", FLOW, "fast"], "or none, or default"),
        (["throttle", FLOW], "RATE"),
    ],
)
def test_wrong_words_are_bad_input(herder, config, capsys, words, told):
    assert main.run_command([*words, "--config", str(config)]) == exit_codes.BAD_INPUT
    assert told in capsys.readouterr().err


def test_nobody_runs_the_file(config, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("MM2_RUN_DIR", str(tmp_path / "none"))
    assert main.run_command(["pause", FLOW, "--config", str(config)]) == exit_codes.UNREACHABLE
    told = capsys.readouterr().err
    assert f"no process runs {config} on this machine" in told
    assert "specify the running process's file with --config FILE or MM2_CONFIG" in told
