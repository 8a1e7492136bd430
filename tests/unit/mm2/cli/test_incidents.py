from __future__ import annotations

import json
import threading

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from mm2 import exit_codes
from mm2.cli import incidents, main
from mm2.clusters import incident_log, reachability_probe
from mm2.clusters.incident_log import IncidentLog, UnreadableIncident
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind

GONE, UNPAIRED = IncidentKind.SOURCE_GONE, IncidentKind.NOT_PAIRED


def stated(topic, kind, **more):
    return Incident(
        topic=topic,
        partition=0,
        id=f"{topic}-{kind.value}",
        kind=kind,
        flow="east->west",
        at_ms=1_700_000_000_000,
        detail="deleted before it was copied",
        **more,
    )


@pytest.fixture
def unreadable():
    """The records that are no incidents, by the source's alias."""
    return {}


@pytest.fixture
def topics(monkeypatch, unreadable):
    """What the incidents topics of the targets have, by the source's alias."""
    found: dict[str, list[Incident] | ConnectError] = {
        "east": [stated("orders", GONE, source=(3, 9)), stated("bills", UNPAIRED, target=(1, 2))],
        "west": [],
    }

    def read(side, source, *, timeout_s):
        assert side.alias != source
        answer = found[source]
        if isinstance(answer, ConnectError):
            raise answer
        return IncidentLog(incidents=answer, unreadable=unreadable.get(source, []))

    monkeypatch.setattr(reachability_probe, "wait_for_clusters", lambda accesses, **_: {})
    monkeypatch.setattr(incident_log, "read_incidents", read)
    return found


def listed(capsys):
    return [line.split()[1:5] for line in capsys.readouterr().out.splitlines()[1:]]


def test_all_incidents_of_all_flows(topics, config, capsys):
    assert main.run_command(["incidents", str(config)]) == exit_codes.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("AT", "FLOW", "TOPIC", "PARTITION", "KIND", "SOURCE", "MIRROR", "DETAIL"),
    ]
    assert lines[1].split()[:7] == [
        *("2023-11-14T22:13:20Z", "east->west", "orders", "0", "source-gone", "[3,9)", "-"),
    ]
    assert lines[2].split()[5:7] == ["-", "[1,2)"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--topic", "orders"], [["east->west", "orders", "0", "source-gone"]]),
        (["--kind", "not-paired"], [["east->west", "bills", "0", "not-paired"]]),
        (["--kind", "not-paired", "--topic", "orders"], []),
        (["--flow", "west->east"], []),
    ],
)
def test_only_some(topics, config, capsys, options, expected):
    assert main.run_command(["incidents", str(config), *options]) == exit_codes.DONE
    assert listed(capsys) == expected


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], exit_codes.FAILED),
        (["--topic", "x"], exit_codes.DONE),
        (["--kind", "source-gone"], exit_codes.FAILED),
    ],
)
def test_scripts_may_fail_where_there_is_any(topics, config, capsys, options, code):
    assert main.run_command(["incidents", str(config), "--exit-code", *options]) == code


ACTION = Incident(
    topic="",
    partition=incident_records.NO_PARTITION,
    id="operator-action-pause",
    kind=IncidentKind.OPERATOR_ACTION,
    flow="east->west",
    at_ms=1_700_000_000_000,
    detail="operator root (uid 0, pid 17): pause east->west",
)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], exit_codes.DONE),
        (["--kind", "operator-action"], exit_codes.FAILED),
        (["--kind", "source-gone"], exit_codes.DONE),
        (["--kind", "source-gone", "--kind", "operator-action"], exit_codes.FAILED),
    ],
)
def test_what_operators_did_fails_a_script_only_where_it_asks_for_it(
    topics, config, capsys, options, code
):
    topics["east"] = [ACTION]
    assert main.run_command(["incidents", str(config), "--exit-code", *options]) == code


def test_what_operators_did_is_listed(topics, config, capsys):
    topics["east"] = [ACTION]
    assert main.run_command(["incidents", str(config)]) == exit_codes.DONE
    line = capsys.readouterr().out.splitlines()[1]
    assert line.split()[1:7] == ["east->west", "-", "-", "operator-action", "-", "-"]
    assert line.endswith(ACTION.detail)
    assert main.run_command(["incidents", str(config), "--json"]) == exit_codes.DONE
    (told,) = json.loads(capsys.readouterr().out)["incidents"]
    assert (told["topic"], told["partition"], told["source"]) == (None, None, None)
    assert (told["kind"], told["detail"]) == ("operator-action", ACTION.detail)


def test_programs(topics, config, capsys):
    assert (
        main.run_command(["incidents", str(config), "--json", "--topic", "orders"])
        == exit_codes.DONE
    )
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "incidents": [
            {
                "flow": "east->west",
                "topic": "orders",
                "partition": 0,
                "kind": "source-gone",
                "source": [3, 9],
                "target": None,
                "at_ms": 1_700_000_000_000,
                "detail": "deleted before it was copied",
                "id": "orders-source-gone",
            }
        ],
        "unreadable": [],
        "errors": [],
    }


def test_none_is_said(topics, config, capsys):
    topics["east"] = []
    assert main.run_command(["incidents", str(config)]) == exit_codes.DONE
    assert capsys.readouterr().out == "no incidents\n"


def test_what_other_targets_have_is_listed_where_one_does_not_answer(topics, config, capsys):
    topics["west"] = RetriableError("no route")
    assert main.run_command(["incidents", str(config)]) == exit_codes.UNKNOWN
    captured = capsys.readouterr()
    assert [line.split()[1:3] for line in captured.out.splitlines()[1:]] == [
        ["east->west", "orders"],
        ["east->west", "bills"],
    ]
    assert captured.err == "mm2: cannot read the incidents of west->east on east: no route\n"
    assert main.run_command(["incidents", str(config), "--exit-code"]) == exit_codes.UNKNOWN


def test_programs_get_the_errors_too(topics, config, capsys):
    topics["east"] = FatalError("refused")
    assert main.run_command(["incidents", str(config), "--json"]) == exit_codes.UNKNOWN
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "incidents": [],
        "unreadable": [],
        "errors": [{"flow": "east->west", "cluster": "west", "error": "refused"}],
    }


def test_no_incidents_is_said_only_of_targets_that_were_read(topics, config, capsys):
    topics["east"] = RetriableError("no route")
    main.run_command(["incidents", str(config)])
    assert capsys.readouterr().out == "no incidents of west->east\n"
    topics["west"] = RetriableError("no route")
    assert main.run_command(["incidents", str(config)]) == exit_codes.UNREACHABLE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 2


def test_targets_are_read_in_parallel_and_one_that_hangs_is_given_up(config, capsys, monkeypatch):
    both, never = threading.Barrier(2, timeout=30.0), threading.Event()

    def read(side, source, *, timeout_s):
        both.wait()
        if source == "west":
            never.wait()
        return IncidentLog()

    monkeypatch.setattr(reachability_probe, "wait_for_clusters", lambda accesses, **_: {})
    monkeypatch.setattr(incident_log, "read_incidents", read)
    monkeypatch.setattr(incidents, "_TIMEOUT_SLACK_S", 0.0)
    try:
        words = ["incidents", str(config), "--timeout", "1"]
        assert main.run_command(words) == exit_codes.UNKNOWN
    finally:
        never.set()
    assert "of west->east on east: no response within 1 s" in capsys.readouterr().err


def test_an_unknown_kind_is_bad_input(config, capsys):
    assert main.run_command(["incidents", str(config), "--kind", "x"]) == exit_codes.BAD_INPUT


def test_a_record_that_cannot_be_read_is_listed_with_the_others(topics, unreadable, config, capsys):
    topics["east"] = topics["east"][:1]
    unreadable["east"] = [UnreadableIncident(topic="r", offset=7, reason="its key is not JSON")]
    assert main.run_command(["incidents", str(config)]) == exit_codes.DONE
    _, first, second = capsys.readouterr().out.splitlines()
    assert "source-gone" in first
    assert second.split()[:7] == ["-", "east->west", "-", "-", "unreadable", "-", "-"]
    assert second.endswith("offset 7 of r: its key is not JSON")
    assert main.run_command(["incidents", str(config), "--json"]) == exit_codes.DONE
    told = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in told["incidents"]] == ["source-gone"]
    assert told["unreadable"] == [
        {
            "flow": "east->west",
            "cluster": "west",
            "topic": "r",
            "offset": 7,
            "error": "its key is not JSON",
        }
    ]
    topics["east"] = []
    assert main.run_command(["incidents", str(config), "--exit-code"]) == exit_codes.FAILED
