from __future__ import annotations

import json
import os
from typing import Any

import pytest

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2 import exit_codes
from mm2.cli import flow_reports, main, why
from mm2.clusters import incident_log
from mm2.clusters.incident_log import IncidentLog
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.status import status_document, topic_explanation
from mm2.status.process_socket import ExplainRequest, ProcessResponse, ProcessSocket
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState

LINES = ["east->west: orders -> east.orders, partition 0: passed through"]
KNOWS: dict[str, Any] = {
    "topic": "orders",
    "flows": [
        {"flow": "east->west", "partitions": [{"partition": 0}], "lines": LINES, "state": "RUNNING"}
    ],
}
KNOWS_NOTHING: dict[str, Any] = {
    "topic": "orders",
    "flows": [
        {
            "flow": "east->west",
            "partitions": [],
            "lines": ["nothing"],
            "state": "PLANNING",
            "reason": "creating topic mm2-configs",
            "unhealthy": "pending: creating topic mm2-configs",
        }
    ],
}
KNOWN = ProcessResponse(code=exit_codes.DONE, lines=tuple(LINES), detail=KNOWS)
UNKNOWN = ProcessResponse(code=exit_codes.BAD_INPUT, lines=("nothing",), detail=KNOWS_NOTHING)


@pytest.fixture
def answering(config, tmp_path, monkeypatch):
    """A process that runs `config`, and answers questions with what `answers` holds."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("MM2_RUN_DIR", str(folder))
    answers: list[ProcessResponse] = []
    asked = []
    made = ProcessSocket(config, folder=folder)

    def reply(question):
        asked.append(question)
        return answers[0]

    def body(stop):
        while not stop.is_set():
            made.serve_request(reply, 0.05)

    failures: list[UnexpectedThreadEnd] = []
    owned = ThreadGroup(on_unexpected_end=failures.append)
    owned.start("answering", body)
    yield answers, asked
    assert owned.stop_all(5.0) == []
    made.close()
    assert failures == []


def test_what_a_running_process_says_is_printed(answering, config, capsys, clusters):
    answers, asked = answering
    answers.append(KNOWN)
    assert main.run_command(["why", str(config), "orders"]) == exit_codes.DONE
    assert capsys.readouterr().out.splitlines()[:1] == LINES
    assert asked == [ExplainRequest(topic="orders")]


def test_without_a_file_it_is_clusters_yaml(answering, config, capsys, monkeypatch, clusters):
    answers, _ = answering
    answers.append(KNOWN)
    monkeypatch.chdir(config.parent)
    assert main.run_command(["why", "orders"]) == exit_codes.DONE
    assert capsys.readouterr().out.splitlines()[:1] == LINES


def test_programs_get_the_detail_with_the_process(answering, config, capsys, clusters):
    answers, _ = answering
    answers.append(KNOWN)
    assert main.run_command(["why", str(config), "orders", "--json"]) == exit_codes.DONE
    told = json.loads(capsys.readouterr().out)
    assert (told["version"], told["topic"]) == (1, "orders")
    flow = {**KNOWS["flows"][0], "operator_actions": []}
    assert told["flows"][0] == {"process": os.getpid(), **flow}


def action(verb, at_ms, topic=""):
    return Incident(
        topic=topic,
        partition=incident_records.NO_PARTITION,
        id=f"operator-action-{verb}",
        kind=IncidentKind.OPERATOR_ACTION,
        flow="east->west",
        at_ms=at_ms,
        detail=f"operator root (uid 0, pid 7): {verb} {topic or 'east->west'}",
    )


@pytest.fixture
def recorded(monkeypatch):
    """What the incidents topic on the target has; an error: what reading it raises."""
    found: list[Incident | ConnectError] = []

    def read(side, source, *, timeout_s):
        assert (side.alias, source) == ("west", "east")
        assert 0 < timeout_s <= why.EXTRA_TIMEOUT_S
        for each in found:
            if isinstance(each, ConnectError):
                raise each
        stated = [each for each in found if isinstance(each, Incident)]
        return IncidentLog(incidents=stated)

    monkeypatch.setattr(incident_log, "read_incidents", read)
    return found


PAUSED_TOPIC = {"partitions": [{"partition": 0, "state": "paused"}], "state": "RUNNING"}
PAUSED = {**PAUSED_TOPIC, "state": "PAUSED"}
STOPPED = {"partitions": [{"partition": 0, "state": "unseen"}], "state": "STOPPED"}


@pytest.mark.parametrize(
    ("flow", "actions", "said"),
    [
        (PAUSED, [action("pause", 5_000)], ["pause east->west"]),
        (PAUSED, [action("resume", 5_000), action("pause", 6_000)], ["pause east->west"]),
        (STOPPED, [action("pause", 4_000), action("stop", 5_000)], ["stop east->west"]),
        (PAUSED_TOPIC, [action("pause", 5_000, "orders")], ["pause orders"]),
        (
            PAUSED,
            [action("pause", 5_000), action("pause", 4_000, "orders")],
            ["pause orders", "pause east->west"],
        ),
        # The record that led to this state is missing.
        (PAUSED, [action("pause", 5_000), action("resume", 6_000)], []),
        (STOPPED, [action("pause", 5_000)], []),
        (PAUSED_TOPIC, [action("pause", 5_000, "bills"), action("throttle", 5_000, "orders")], []),
        (PAUSED, [RetriableError("no response")], []),
    ],
)
def test_who_paused_or_stopped_it_is_named(
    answering, config, capsys, clusters, recorded, flow, actions, said
):
    answers, _ = answering
    told = {"flow": "east->west", "topic": "orders", "lines": LINES, **flow}
    answers.append(ProcessResponse(code=exit_codes.DONE, lines=(), detail={"flows": [told]}))
    recorded += actions
    assert main.run_command(["why", str(config), "orders"]) == exit_codes.DONE
    lines = [each for each in capsys.readouterr().out.splitlines() if "operator root" in each]
    assert [each.partition("pid 7): ")[2] for each in lines] == said
    assert main.run_command(["why", str(config), "orders", "--json"]) == exit_codes.DONE
    (flow_json,) = [
        each
        for each in json.loads(capsys.readouterr().out)["flows"]
        if each["flow"] == "east->west"
    ]
    assert [each["detail"].partition("pid 7): ")[2] for each in flow_json["operator_actions"]] == (
        said
    )
    assert [each for each in flow_json["lines"] if each not in LINES] == lines


def test_when_it_was_paused_is_said(answering, config, capsys, clusters, recorded):
    answers, _ = answering
    told = {"flow": "east->west", "topic": "orders", "lines": LINES, **PAUSED}
    answers.append(ProcessResponse(code=exit_codes.DONE, lines=(), detail={"flows": [told]}))
    recorded.append(action("pause", 1_700_000_000_000))
    main.run_command(["why", str(config), "orders"])
    line = "east->west: 2023-11-14T22:13:20Z operator root (uid 0, pid 7): pause east->west"
    assert line in capsys.readouterr().out.splitlines()


def test_a_process_that_failed_is_reported_beside_the_clusters_answer(
    answering, config, capsys, clusters
):
    answers, _ = answering
    answers.append(ProcessResponse(code=exit_codes.FAILED, lines=("no usable question",)))
    assert main.run_command(["why", str(config), "orders"]) == exit_codes.DONE
    assert f"process {os.getpid()}: no usable question" in capsys.readouterr().err


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """Nobody runs anything here."""
    monkeypatch.setenv("MM2_RUN_DIR", str(tmp_path))


def test_nobody_runs_it_and_no_cluster_answers(config, capsys, alone):
    command = ["why", str(config), "orders", "--timeout", "0.2"]
    assert main.run_command(command) == exit_codes.UNREACHABLE
    assert "west->east: the status of orders is unknown: source " in capsys.readouterr().err


THERE = ("orders", "mm2-status.x.internal")


def seen(flow, **more):
    part = PartitionReport(
        topic="orders", partition=0, mirror=f"{flow.source}.orders", copied_to=4, start=0, end=9
    )
    given: dict[str, Any] = {
        "state": ReportedFlowState.NOT_RUNNING,
        "reason": "nobody",
        "partitions": (part,),
    }
    return FlowReport(
        flow=flow.name, seen_by=(status_document.REPORTED_BY_CLUSTERS,), at_ms=5, **given | more
    )


@pytest.fixture
def clusters(monkeypatch):
    """Both clusters of a flow tell what `seen` says, unless a test wants more; sources have the
    topics that are `THERE`."""
    more: dict[str, Any] = {}
    monkeypatch.setattr(
        topic_explanation,
        "find_existing_topics",
        lambda settings, flows, topic, **_: {each.name: topic in THERE for each in flows},
    )
    monkeypatch.setattr(
        flow_reports,
        "make_flow_report_collector",
        lambda settings, timeout_s: lambda flow: seen(flow, **more),
    )
    return more


def test_nobody_runs_it_and_the_clusters_tell_how_far_it_is(config, capsys, alone, clusters):
    assert main.run_command(["why", str(config), "east.orders"]) == exit_codes.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "east->west: orders -> east.orders, partition 0: unseen: no problem is visible in its "
        "logs; the "
        "flow is NOT_RUNNING: nobody"
    )
    assert lines[1] == "east->west: orders is replicated by topics includes .*; lag: 5 records, -"
    assert lines[2] == "east->west is unhealthy: nobody"
    assert lines[-1].startswith("no process runs")


def test_programs_get_the_same_of_no_process(config, capsys, alone, clusters):
    assert main.run_command(["why", str(config), "orders", "--json"]) == exit_codes.DONE
    told = json.loads(capsys.readouterr().out)
    flow = told["flows"][0]
    assert (told["version"], flow["process"], flow["seen_by"]) == (1, None, ["clusters"])
    assert (flow["rule"], flow["lag_records"], flow["lag_ms"]) == ("topics includes .*", 5, None)
    (part,) = flow["partitions"]
    assert (part["state"], part["copied_to"], part["lag_records"]) == ("unseen", 4, 5)


def test_a_process_that_does_not_know_it_leaves_it_to_the_clusters(
    answering, config, capsys, clusters
):
    answers, _ = answering
    answers.append(UNKNOWN)
    assert main.run_command(["why", str(config), "orders"]) == exit_codes.DONE
    printed = capsys.readouterr().out
    assert (
        "no process on this machine replicates the topic; the explanation was read from the "
        "clusters" in printed
    )
    assert "the flow is PLANNING: creating topic mm2-configs" in printed, "the process knows best"


def test_nobody_knows_it(config, capsys, alone, clusters):
    clusters["partitions"] = ()
    assert main.run_command(["why", str(config), "orders"]) == exit_codes.BAD_INPUT
    assert "the source has no topic orders" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("topic", "code", "said"),
    [
        ("mm2-status.x.internal", exit_codes.DONE, "is not replicated: internal topics of Kafka"),
        ("__nosuch", exit_codes.BAD_INPUT, "is not replicated and does not exist: internal topics"),
    ],
)
def test_of_a_topic_that_is_not_mirrored_it_is_said_whether_it_exists(
    config, capsys, alone, clusters, topic, code, said
):
    clusters["partitions"] = ()
    assert main.run_command(["why", str(config), topic]) == code
    captured = capsys.readouterr()
    assert f"east->west: {topic} {said}" in captured.out + captured.err


@pytest.mark.parametrize("words", [[], ["a", "b", "c"]])
def test_a_topic_must_be_named(words, capsys):
    assert main.run_command(["why", *words]) == exit_codes.BAD_INPUT
    assert "mm2 why [FILE] TOPIC" in capsys.readouterr().err
