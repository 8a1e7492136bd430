"""`mm2 pause`, `resume`, `throttle` and `restart` find a flow and say what they did."""

from __future__ import annotations

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
    assert run(config, capsys, "pause") == "east->west is paused\n"
    assert herder.config().target_state(NAME) is cluster_config.TargetState.PAUSED
    assert run(config, capsys, "resume") == "east->west goes on\n"
    assert herder.config().target_state(NAME) is cluster_config.TargetState.STARTED


def test_so_is_a_topic(herder, config, capsys):
    told = run(config, capsys, "pause", "--topic", "orders")
    assert told == "topic orders of east->west is paused\n"
    assert live(herder) == {"live.paused.topic.orders": "true"}
    run(config, capsys, "resume", "--topic", "orders")
    assert live(herder) == {}


def test_rates_are_set_and_given_back(herder, config, capsys):
    run(config, capsys, "throttle", "none", "--topic", "orders")
    assert run(config, capsys, "throttle", "20MB") == "east->west: 20MB\n"
    assert live(herder) == {"live.throttle": "20MB", "live.throttle.topic.orders": "none"}
    assert run(config, capsys, "throttle", "default") == "east->west: as the file says\n"
    assert live(herder) == {"live.throttle.topic.orders": "none"}


def test_restarting_says_what(herder, config, capsys):
    assert run(config, capsys, "restart") == f"east->west: restarted {NAME}\n"
    told = run(config, capsys, "restart", "--topic", "orders")
    assert told == "east->west: restarted task 0\n"


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
    assert main.run(["pause", FLOW, "--config", str(config)]) == exits.FAILED
    assert "no process runs" in capsys.readouterr().err
