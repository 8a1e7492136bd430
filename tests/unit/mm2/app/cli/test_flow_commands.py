"""`mm2 pause`, `resume`, `throttle` and `restart` find a flow and say what they did."""

from __future__ import annotations

import json

import pytest

from connect_runtime.core.state import cluster_config, config_records
from connect_runtime.rest import app as rest_app
from connect_runtime.rest import basic_auth, namespaces
from connect_runtime.system import threads
from mm2.app import exits, flow_api, run_socket
from mm2.app.cli import main
from tests.fakes import rest_herder
from tests.support import rest, rest_server

NAME = flow_api.SOURCE
FLOW = "east->west"


@pytest.fixture
def herder(config, tmp_path, monkeypatch):
    """That of the flow, in a process that runs `config`."""
    made = rest_herder.FakeHerder()
    made.make(NAME)
    made.write(config_records.task_configs(NAME, [{"task.assigned.partitions": "orders-0"}]))
    made.write([config_records.commit(NAME, 1)])
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("MM2_RUN_DIR", str(folder))
    socket = run_socket.RunSocket(config, where=folder)
    own = namespaces.Namespaces()
    configured = rest_server.at()
    own.put(("east", "west"), rest_app.build(rest.parts(made), configured).main)
    with rest_server.started(configured) as server:
        guarded = basic_auth.BasicAuth(own, users={"mm2": "secret"})
        server.attach(rest_app.Apps(main=guarded, admin=None))
        detail = {
            "url": server.advertised_url.rstrip("/"),
            "user": "mm2",
            "password": "secret",
            "flows": {FLOW: "/east/west"},
        }
        answer = run_socket.Answer(code=exits.DONE, lines=(), detail=detail)

        def body(stop):
            while not stop.is_set():
                socket.serve(lambda _: answer, 0.05)

        failures: list[threads.UnaskedEnd] = []
        owned = threads.Threads(on_unasked_end=failures.append)
        owned.start("answering", body)
        yield made
        assert owned.stop_all(5.0) == []
    socket.close()
    assert failures == []


def run(config, capsys, *words: str) -> str:
    command, *others = words
    assert main.run([command, FLOW, *others, "--config", str(config)]) == exits.DONE
    return str(capsys.readouterr().out)


def live(herder) -> dict[str, str]:
    found = herder.config().config(NAME) or {}
    return {key: value for key, value in found.items() if key.startswith("live.")}


def test_a_flow_is_paused_and_goes_on(herder, config, capsys):
    undo = f"mm2 resume 'east->west' --config {config}"
    told = run(config, capsys, "pause")
    assert told == f"east->west: paused, also across restarts, until: {undo}\n"
    assert herder.config().target_state(NAME) is cluster_config.TargetState.PAUSED
    told = run(config, capsys, "resume")
    assert told == "east->west: resumed; replication continues where it was paused\n"
    assert herder.config().target_state(NAME) is cluster_config.TargetState.STARTED


def test_so_is_a_topic(herder, config, capsys):
    told = run(config, capsys, "pause", "--topic", "orders")
    assert told.startswith("east->west, topic orders: paused, also across restarts, until: mm2 ")
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
    assert told == "east->west: limited as the configuration says\n"
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
        (["pause", FLOW, "--topic", "order"], "no task of east->west copies a topic 'order'"),
        (["throttle", FLOW, "fast"], "or none, or default"),
        (["throttle", FLOW], "RATE"),
    ],
)
def test_wrong_words_are_bad_input(herder, config, capsys, words, told):
    assert main.run([*words, "--config", str(config)]) == exits.BAD_INPUT
    assert told in capsys.readouterr().err


def test_nobody_runs_the_file(config, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("MM2_RUN_DIR", str(tmp_path / "none"))
    assert main.run(["pause", FLOW, "--config", str(config)]) == exits.UNREACHABLE
    told = capsys.readouterr().err
    assert f"no process runs {config} on this machine" in told
    assert "name the file of the running process with --config FILE or MM2_CONFIG" in told
