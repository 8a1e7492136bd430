"""`mm2 status` and `mm2 lag`, asked of a process that runs the file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2 import exit_codes
from mm2.cli import main
from mm2.status import status_document
from mm2.status.process_socket import ProcessResponse, ProcessSocket
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState, TaskReport
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

AT_MS = 1_700_000_000_000


def part(topic="orders", number=0, **more):
    given: dict[str, Any] = {"state": "copying", "start": 0, "end": 10, "copied_to": 10}
    return PartitionReport(topic=topic, partition=number, mirror=f"east.{topic}", **given | more)


def report(*partitions, **more):
    given: dict[str, Any] = {"flow": "east->west", "state": ReportedFlowState.RUNNING}
    return FlowReport(seen_by=("process 7",), at_ms=AT_MS, partitions=partitions, **given | more)


SOURCE_LOST = UnreachableCluster(
    side=ClusterSide.SOURCE, cluster="east", reason="refused", since_ms=AT_MS
)
LATE = part("bills", copied_to=4, waiting_since_ms=AT_MS - 5_000)
BACK = report(part(), flow="west->east")


@pytest.fixture
def process(config, tmp_path, monkeypatch):
    """A process that runs `config`; what it tells of its flows."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("MM2_RUN_DIR", str(folder))
    reports = [report(part()), BACK]
    made = ProcessSocket(config, folder=folder)

    def answer(_):
        told = [status_document.report_to_json(each) for each in reports]
        detail = {"version": status_document.STATUS_JSON_VERSION, "flows": told}
        return ProcessResponse(code=exit_codes.DONE, lines=(), detail=detail)

    def body(stop):
        while not stop.is_set():
            made.serve_request(answer, 0.05)

    failures: list[UnexpectedThreadEnd] = []
    owned = ThreadGroup(on_unexpected_end=failures.append)
    owned.start("answering", body)
    yield reports
    assert owned.stop_all(5.0) == []
    made.close()
    assert failures == []


def test_flows_that_are_well(process, config, capsys):
    assert main.run_command(["status", str(config)]) == exit_codes.DONE
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if "process 7" in line]
    assert [line.split("  ")[0] for line in heads] == ["east->west", "west->east"]
    assert all("RUNNING, healthy" in line for line in heads)


@pytest.mark.parametrize(
    "first",
    [
        report(part(state="halted", reason="damaged")),
        report(part(), state=ReportedFlowState.PAUSED),
        report(part(), tasks=(TaskReport(number=0, state="FAILED"),)),
        report(part(end=None), unreachable=(SOURCE_LOST,)),
    ],
)
def test_one_flow_that_is_not_well_is_enough_to_fail(process, config, capsys, first):
    process[0] = first
    assert main.run_command(["status", str(config)]) == exit_codes.FAILED
    assert main.run_command(["status", str(config), "--flow", "west->east"]) == exit_codes.DONE


def test_status_for_programs(process, config, capsys):
    process[0] = report(LATE)
    assert main.run_command(["status", str(config), "--json"]) == exit_codes.DONE
    told = json.loads(capsys.readouterr().out)
    assert (told["version"], told["notes"]) == (1, [])
    flow, _ = told["flows"]
    assert status_document.parse_report(flow) == process[0]
    assert (flow["health"], flow["reasons"], flow["notes"]) == ("healthy", [], [])
    assert (flow["lag_records"], flow["lag_ms"]) == (6, 5_000)


def test_an_unreachable_source_makes_the_lag_unknown(process, config, capsys):
    process[0] = report(part(end=None), unreachable=(SOURCE_LOST,))
    assert main.run_command(["status", str(config)]) == exit_codes.FAILED
    assert "source east unreachable since 22:13:20Z: refused" in capsys.readouterr().out
    assert main.run_command(["status", str(config), "--json"]) == exit_codes.FAILED
    flow, _ = json.loads(capsys.readouterr().out)["flows"]
    assert (flow["health"], flow["lag_records"]) == ("unhealthy", None)
    assert main.run_command(["lag", str(config), "--max-records", "0"]) != exit_codes.DONE


def test_no_such_flow(process, config, capsys):
    assert main.run_command(["status", str(config), "--flow", "x->y"]) == exit_codes.BAD_INPUT
    assert "has no flow 'x->y'" in capsys.readouterr().err


def test_lag_topic_by_topic_or_partition_by_partition(process, config, capsys):
    process[0] = report(LATE, part(), part(number=1))
    only = [str(config), "--flow", "east->west"]
    assert main.run_command(["lag", *only]) == exit_codes.DONE
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[2:-1]]
    assert rows == [["bills", "*"], ["orders", "*"], ["*", "*"]]
    assert main.run_command(["lag", *only, "--partitions"]) == exit_codes.DONE
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[2:-1]]
    assert rows == [["bills", "0"], ["orders", "0"], ["orders", "1"], ["orders", "*"], ["*", "*"]]


@pytest.mark.parametrize(
    ("first", "options", "code"),
    [
        (report(LATE), [], exit_codes.DONE),
        (report(LATE), ["--max-records", "6"], exit_codes.DONE),
        (report(LATE), ["--max-records", "5"], exit_codes.FAILED),
        (report(LATE), ["--max-seconds", "5"], exit_codes.DONE),
        (report(LATE), ["--max-seconds", "4.9"], exit_codes.FAILED),
        (report(part(copied_to=4)), ["--max-records", "6"], exit_codes.DONE),
        (report(part(copied_to=4)), ["--max-seconds", "60"], exit_codes.UNKNOWN),
        (report(part(end=None)), [], exit_codes.UNKNOWN),
        (report(LATE, part(end=None)), [], exit_codes.UNKNOWN),
        (report(LATE, part(end=None)), ["--max-records", "6"], exit_codes.UNKNOWN),
        (report(), [], exit_codes.UNKNOWN),
        (report(state=ReportedFlowState.UNKNOWN), [], exit_codes.UNKNOWN),
    ],
)
def test_when_a_lag_is_too_much_or_not_known(process, config, capsys, first, options, code):
    process[0] = first
    assert main.run_command(["lag", str(config), *options]) == code


def test_lag_for_programs(process, config, capsys):
    process[0] = report(LATE, part(), part(number=1, copied_to=7))
    assert main.run_command(["lag", str(config), "--json"]) == exit_codes.DONE
    told = json.loads(capsys.readouterr().out)
    assert told["version"] == 1
    flow, _ = told["flows"]
    assert (flow["flow"], flow["state"], flow["seen_by"]) == (
        "east->west",
        "RUNNING",
        ["process 7"],
    )
    assert (flow["lag_records"], flow["lag_records_known"], flow["lag_ms_known"]) == (
        9,
        True,
        False,
    )
    assert [(each["topic"], each["lag_records"]) for each in flow["topics"]] == [
        ("bills", 6),
        ("orders", 3),
    ]
    assert [each["lag_records"] for each in flow["partitions"]] == [6, 0, 3]


def test_one_topic_or_none_of_that_name(process, config, capsys):
    assert main.run_command(["lag", str(config), "--topic", "east.orders"]) == exit_codes.DONE
    assert "orders  0  " in capsys.readouterr().out
    assert main.run_command(["lag", str(config), "--topic", "users"]) == exit_codes.BAD_INPUT
    assert "no flow replicates 'users'" in capsys.readouterr().err


def test_clusters_that_do_not_answer_are_told(process, config, capsys):
    asked = ["status", str(config), "--clusters", "--timeout", "0.2", "--flow", "east->west"]
    assert main.run_command(asked) == exit_codes.UNREACHABLE
    told = capsys.readouterr().out
    assert told.startswith("east->west  unknown: source east unreachable: ")
    assert "target west unreachable: " in told
