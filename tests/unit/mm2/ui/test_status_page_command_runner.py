from __future__ import annotations

import dataclasses
import json
import tempfile
import threading

import pytest

from mm2 import version
from mm2.failover import plan_output
from mm2.failover.failover_plan import FailoverPlan
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.plan_findings import PlanFinding, PlanSeverity
from mm2.topics.flow_config import Flow
from mm2.ui import status_page_command_runner
from mm2.ui.status_page_command_runner import (
    CommandFailedError,
    CommandResult,
    CommandRunner,
    UnsupportedOutputVersionError,
)
from mm2.ui.status_page_json import Badge
from tests.fakes.plugin_contexts import Context
from tests.support import eventually

FLOW = Flow(source="east", target="west")
INCIDENTS = status_page_command_runner.make_incidents_command(FLOW, "c.yaml")
NOTHING = json.dumps({"version": 1, "incidents": []}).encode()
SOON_S = 20.0


class Commands:
    """Commands that answer when they are let."""

    def __init__(self):
        self.asked = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.was_gone = False
        self.says: bytes | Exception = NOTHING

    def run(self, words, timeout_s, gone):
        self.asked.append((tuple(words), timeout_s))
        eventually.eventually(lambda: self.may_answer.is_set() or gone(), SOON_S)
        self.was_gone = gone()
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.fixture
def commands():
    made = Commands()
    yield made
    made.may_answer.set()


@pytest.fixture
def clock():
    return Context().clock


@pytest.fixture
def asked(commands, clock):
    made = CommandRunner(commands.run, clock=clock)
    yield made
    commands.may_answer.set()
    made.stop()


def settled(asked, question=INCIDENTS):
    eventually.eventually(lambda: not asked.get_last_result(question).running, SOON_S)
    return asked.get_last_result(question)


def test_the_questions_are_mm2s_own_commands():
    assert INCIDENTS.arguments == ("incidents", "c.yaml", "--flow", "east->west", "--json")
    assert status_page_command_runner.make_plan_command(FLOW, "c.yaml").arguments == (
        *("failover", "--from", "east", "--to", "west", "--config", "c.yaml"),
        *("--snapshot-timeout", "60", "--json"),
    )
    assert status_page_command_runner.make_plan_command(FLOW, "c.yaml").timeout_s > 60.0, (
        "its look comes first"
    )


def test_whoever_asks_waits_for_nobody_and_finds_the_answer_later(asked, commands, clock):
    commands.may_answer.clear()
    assert asked.get_last_result(INCIDENTS) == CommandResult()
    assert asked.request_result(INCIDENTS).running
    assert asked.request_result(INCIDENTS).running, "it runs already"
    assert asked.get_last_result(INCIDENTS).output is None
    commands.may_answer.set()
    found = settled(asked)
    assert found.output == status_page_command_runner.parse_incidents(
        {"version": 1, "incidents": []}
    )
    assert (found.at_ms, found.error) == (clock.wall_ms(), "")
    assert [words for words, _ in commands.asked] == [INCIDENTS.arguments]


def test_the_same_is_not_asked_again_too_soon_after_its_end(asked, commands, clock):
    """However long it takes: it does not run all the time, whoever looks."""
    commands.may_answer.clear()
    asked.request_result(INCIDENTS)
    eventually.eventually(lambda: commands.asked, SOON_S)
    clock.now += 5 * status_page_command_runner.INCIDENTS_INTERVAL_S
    commands.may_answer.set()
    assert settled(asked).took_s == 5 * status_page_command_runner.INCIDENTS_INTERVAL_S
    clock.now += status_page_command_runner.INCIDENTS_INTERVAL_S - 0.1
    assert not asked.request_result(INCIDENTS).running
    clock.now += 0.1
    assert asked.request_result(INCIDENTS).running
    settled(asked)
    assert len(commands.asked) == 2


@pytest.mark.parametrize("raised", [RecursionError("too deep"), OSError("no"), MemoryError()])
def test_whatever_goes_wrong_it_is_asked_again_later(asked, commands, clock, raised):
    commands.says = raised
    asked.request_result(INCIDENTS)
    assert repr(raised) in settled(asked).error
    commands.says = NOTHING
    clock.now += status_page_command_runner.INCIDENTS_INTERVAL_S
    assert asked.request_result(INCIDENTS).running
    assert settled(asked).error == ""


def test_what_was_found_stays_beside_why_nothing_newer_was(asked, commands, clock):
    asked.request_result(INCIDENTS)
    first = settled(asked)
    commands.says = CommandFailedError("mm2 incidents gave no response within 30 s")
    clock.now += 100
    clock.wall += 100_000
    asked.request_result(INCIDENTS)
    second = settled(asked)
    assert (second.output, second.at_ms) == (first.output, first.at_ms)
    assert second.error == "mm2 incidents gave no response within 30 s"
    told = status_page_command_runner.result_to_json(second)
    assert told["result_ms"] == first.at_ms
    assert (told["running"], told["error"]) == (False, second.error)


@pytest.mark.parametrize(
    "says", [b"oops", b"[]", b"{}", b'{"version": 2}', b'{"version": 1, "incidents": 3}']
)
def test_what_is_no_answer_is_told_as_such(asked, commands, says):
    commands.says = says
    asked.request_result(INCIDENTS)
    assert settled(asked).error.startswith(
        "mm2 incidents c.yaml --flow 'east->west' --json: invalid output"
    )


def test_one_command_runs_at_a_time_and_only_so_many_wait(asked, commands):
    commands.may_answer.clear()
    others = [
        dataclasses.replace(INCIDENTS, arguments=("incidents", str(number)))
        for number in range(status_page_command_runner.QUEUED_COMMANDS_MAX + 3)
    ]
    asked.request_result(INCIDENTS)
    eventually.eventually(lambda: commands.asked, SOON_S)
    answers = [asked.request_result(each) for each in others]
    assert len(commands.asked) == 1
    refused = [each for each in answers if not each.running]
    assert len(refused) == 3
    assert all("try again later" in each.error for each in refused)
    commands.may_answer.set()
    for each in others:
        settled(asked, each)
    assert len(commands.asked) == 1 + status_page_command_runner.QUEUED_COMMANDS_MAX


def test_a_command_is_told_when_nobody_waits_for_it_any_more(asked, commands):
    commands.may_answer.clear()
    asked.request_result(INCIDENTS)
    eventually.eventually(lambda: commands.asked, SOON_S)
    asked.stop()
    assert commands.was_gone
    assert (
        "is stopping"
        in asked.request_result(status_page_command_runner.make_plan_command(FLOW, "c.yaml")).error
    )


def _nobody() -> bool:
    """Has gone."""
    return False


FILE = """
clusters: {east: {bootstrap.servers: '127.0.0.1:1'}, west: {bootstrap.servers: '127.0.0.1:1'}}
flows:
- {from: east, to: west}
"""


def test_a_commands_answer_is_what_it_printed():
    assert (
        version.VERSION
        in status_page_command_runner.run_command(["--version"], 60.0, _nobody).decode()
    )


def test_a_command_loads_no_module_of_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "contextlib.py").write_text("raise SystemExit('a foreign module runs')")
    monkeypatch.chdir(tmp_path)
    assert (
        version.VERSION
        in status_page_command_runner.run_command(["--version"], 60.0, _nobody).decode()
    )


def test_a_command_that_says_why_it_cannot_is_quoted(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("clusters: 3")
    with pytest.raises(CommandFailedError, match=r"mm2 incidents .* exited with 2: 2 problems in "):
        status_page_command_runner.run_command(["incidents", str(file), "--json"], 60.0, _nobody)


def test_a_command_that_takes_too_long_is_ended(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(FILE)
    with pytest.raises(CommandFailedError, match=r"was ended: timed out after 1 s"):
        status_page_command_runner.run_command(
            ["incidents", str(file), "--timeout", "600", "--json"], 1.0, _nobody
        )


def test_a_command_that_failed_without_an_answer_is_no_answer(tmp_path, monkeypatch):
    file = tmp_path / "c.yaml"
    file.write_text(FILE)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(CommandFailedError, match=r"exited with 4: mm2: .*127\.0\.0\.1:1"):
        status_page_command_runner.run_command(
            ["incidents", str(file), "--timeout", "0.5", "--json"], 60.0, _nobody
        )
    assert [each.name for each in tmp_path.iterdir()] == ["c.yaml"], "nothing is left behind"


def test_an_answer_goes_through_json():
    with pytest.raises(json.JSONDecodeError):
        json.loads(status_page_command_runner.run_command(["--version"], 60.0, _nobody))


def test_a_command_that_nobody_waits_for_is_ended_and_leaves_nothing(tmp_path, monkeypatch):
    file = tmp_path / "c.yaml"
    file.write_text(FILE)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(CommandFailedError, match="was ended: the process is stopping"):
        status_page_command_runner.run_command(
            ["incidents", str(file), "--timeout", "600"], 60.0, lambda: True
        )
    assert [each.name for each in tmp_path.iterdir()] == ["c.yaml"]


WANTED = FailoverRequest(origin="east", destination="west", kind=FailoverKind.EMERGENCY)


def incident(number, **fields):
    given = {
        "flow": "east->west",
        "topic": "orders",
        "partition": 0,
        "kind": "source-gone",
        "source": [3, 9],
        "target": None,
        "at_ms": number,
        "detail": "they were deleted",
        "id": f"id{number}",
    }
    return given | fields


def finding(number, weight=PlanSeverity.COSTS):
    return PlanFinding(severity=weight, code=f"c{number}", text=f"t{number}", group="g")


def planned(*findings):
    made = FailoverPlan(
        request=WANTED, at_ms=7, flow="east->west", mirrored=(), groups=(), findings=findings
    )
    return status_page_command_runner.parse_failover_plan(
        plan_output.plan_to_json(made, [], {"bootstrap.servers": "w:1"})
    )


def test_incidents_are_told_newest_first_and_counted_by_kind():
    found = status_page_command_runner.parse_incidents(
        {"version": 1, "incidents": [incident(1), incident(3, kind="poison"), incident(2)]}
    )
    assert [each["at_ms"] for each in found["incidents"]] == [3, 2, 1]
    assert (found["incident_count"], found["kinds"]) == (3, {"poison": 1, "source-gone": 2})
    assert found["incidents"][1] == {
        "id": "id2",
        "at_ms": 2,
        "topic": "orders",
        "partition": 0,
        "kind": "source-gone",
        "source": [3, 9],
        "target": None,
        "detail": "they were deleted",
    }


def test_what_operators_did_is_apart_from_losses_and_duplicates():
    done = [incident(number, kind="operator-action") for number in range(2)]
    found = status_page_command_runner.parse_incidents(
        {"version": 1, "incidents": [*done, incident(5)]}
    )
    assert (found["incident_count"], found["kinds"]) == (1, {"source-gone": 1})
    assert [each["at_ms"] for each in found["incidents"]] == [5]
    assert [each["at_ms"] for each in found["actions"]] == [1, 0]


def test_only_the_newest_incidents_are_shown_and_all_are_counted():
    many = [
        incident(number) for number in range(status_page_command_runner.LISTED_INCIDENTS_MAX + 20)
    ]
    found = status_page_command_runner.parse_incidents({"version": 1, "incidents": many})
    assert len(found["incidents"]) == status_page_command_runner.LISTED_INCIDENTS_MAX
    assert found["incident_count"] == status_page_command_runner.LISTED_INCIDENTS_MAX + 20
    assert found["incidents"][-1]["at_ms"] == 20


@pytest.mark.parametrize(
    ("weights", "verdict", "badge"),
    [
        ([], "GO", "good"),
        ([PlanSeverity.NOTE], "GO", "good"),
        ([PlanSeverity.NOTE, PlanSeverity.COSTS], "GO, AT A COST", "wait"),
        ([PlanSeverity.COSTS, PlanSeverity.FORBIDS], "NO-GO", "bad"),
    ],
)
def test_a_plan_is_told_as_the_command_says_it(weights, verdict, badge):
    found = planned(*(finding(number, weight) for number, weight in enumerate(weights)))
    assert (found["verdict"], found["badge"], found["plan_ms"]) == (verdict, badge, 7)
    assert (found["group_count"], found["lag_records"], found["reread"]) == (
        0,
        0,
        "at most 0 records",
    )


def test_what_forbids_comes_first_and_only_so_much_is_told():
    costs = [finding(number) for number in range(40)]
    found = planned(*costs, finding(99, PlanSeverity.FORBIDS))
    assert found["findings"][0] == {
        "severity": "no-go",
        "badge": "bad",
        "code": "c99",
        "text": "t99",
    }
    assert len(found["findings"]) == status_page_command_runner.LISTED_FINDINGS_MAX
    assert found["findings_hidden"] == 41 - status_page_command_runner.LISTED_FINDINGS_MAX


def test_what_clients_need_to_get_in_is_not_told_on():
    assert "w:1" not in str(planned())


@pytest.mark.parametrize("weight", list(PlanSeverity))
def test_every_weight_has_a_tone_and_no_finding_looks_well(weight):
    (told,) = planned(finding(0, weight))["findings"]
    assert told["badge"] in {each.value for each in Badge} - {"good"}


@pytest.mark.parametrize(
    "read",
    [status_page_command_runner.parse_incidents, status_page_command_runner.parse_failover_plan],
)
def test_another_release_is_not_guessed_at(read):
    with pytest.raises(UnsupportedOutputVersionError, match="output version 2"):
        read({"version": 2})
