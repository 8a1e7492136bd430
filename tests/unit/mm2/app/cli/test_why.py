from __future__ import annotations

import json
import os

import pytest

from connect_runtime.system import threads
from mm2.app import exits, run_socket
from mm2.app.cli import main

LINES = ("a->b: orders -> a.orders, partition 0: passed through",)


@pytest.fixture
def answering(config, tmp_path, monkeypatch):
    """A process that runs `config`, and answers questions with what `answers` holds."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("MM2_RUN_DIR", str(folder))
    answers: list[run_socket.Answer] = []
    asked = []
    made = run_socket.RunSocket(config, where=folder)

    def reply(question):
        asked.append(question)
        return answers[0]

    def body(stop):
        while not stop.is_set():
            made.serve(reply, 0.05)

    failures: list[threads.UnaskedEnd] = []
    owned = threads.Threads(on_unasked_end=failures.append)
    owned.start("answering", body)
    yield answers, asked
    assert owned.stop_all(5.0) == []
    made.close()
    assert failures == []


def test_what_a_running_process_says_is_printed(answering, config, capsys):
    answers, asked = answering
    answers.append(run_socket.Answer(code=exits.DONE, lines=LINES))
    assert main.run(["why", str(config), "orders"]) == exits.DONE
    assert capsys.readouterr().out.splitlines() == list(LINES)
    assert asked == [run_socket.WhyQuestion(topic="orders")]


def test_without_a_file_it_is_clusters_yaml(answering, config, capsys, monkeypatch):
    answers, _ = answering
    answers.append(run_socket.Answer(code=exits.DONE, lines=LINES))
    monkeypatch.chdir(config.parent)
    assert main.run(["why", "orders"]) == exits.DONE
    assert capsys.readouterr().out.splitlines() == list(LINES)


def test_programs_get_the_detail_with_the_process(answering, config, capsys):
    answers, _ = answering
    detail = {"topic": "orders", "flows": [{"flow": "a->b", "partitions": []}]}
    answers.append(run_socket.Answer(code=exits.DONE, lines=LINES, detail=detail))
    assert main.run(["why", str(config), "orders", "--json"]) == exits.DONE
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "topic": "orders",
        "flows": [{"process": os.getpid(), "flow": "a->b", "partitions": []}],
    }


def test_an_unknown_topic_is_bad_input(answering, config, capsys):
    answers, _ = answering
    answers.append(run_socket.Answer(code=exits.BAD_INPUT, lines=("no such topic",)))
    assert main.run(["why", str(config), "orders"]) == exits.BAD_INPUT
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "no such topic\n")


def test_nobody_runs_it(config, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("MM2_RUN_DIR", str(tmp_path))
    assert main.run(["why", str(config), "orders"]) == exits.FAILED
    assert f"no process runs {config} here" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["a", "b", "c"]])
def test_a_topic_must_be_named(words, capsys):
    assert main.run(["why", *words]) == exits.BAD_INPUT
    assert "mm2 why [FILE] TOPIC" in capsys.readouterr().err
