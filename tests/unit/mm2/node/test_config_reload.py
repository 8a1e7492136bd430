from __future__ import annotations

import contextlib
import json
import pathlib

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.system.signals import SignalFlag
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes
from mm2.config import config_loader
from mm2.config.config_diff import ReloadPlan
from mm2.node import config_reload
from mm2.node.config_reload import ConfigReloader
from mm2.status import status_document
from mm2.status.operator_action_log import OperatorLog
from mm2.status.process_socket import ExplainRequest, ReloadRequest, RestApiRequest, StatusRequest
from mm2.status.status_document import FlowReport, ReportedFlowState
from mm2.topics import replication_policy
from tests.fakes.one_side import FakeSide
from tests.support import eventually, statuses

INCIDENTS = replication_policy.format_incidents_topic("a")
BASE = """clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}
flows:
"""
FLOW = BASE + "- {from: a, to: b}\n"
REPORT = FlowReport(flow="a->b", seen_by=("process 1",), at_ms=5, state=ReportedFlowState.RUNNING)
QUESTION, DRY = ReloadRequest(), ReloadRequest(dry_run=True)


class Running:
    """A process that runs one flow; `failure` is what keeps it from changing."""

    def __init__(self):
        self.file = FLOW
        self.settings = self.load()
        self.has_applied_changes = True
        self.ineffective_changes: list[str] = []
        self.rest_api: dict[str, object] = {"url": "http://h:1", "user": "mm2"}
        self.applied: list[ReloadPlan] = []
        self.failure: Exception | None = None
        self.cluster = FakeSide("b")
        self.cluster.cluster.create(INCIDENTS)
        self.cluster.topics.topics[INCIDENTS] = []
        self.action_log = OperatorLog(
            lambda: self.settings,
            now=SystemClock(),
            open_target=lambda *_: contextlib.nullcontext(self.cluster),
        )

    def recorded(self):
        """What the action log has recorded until its end."""
        self.action_log.close(5.0)
        return self.cluster.incidents(INCIDENTS)

    def load(self):
        return config_loader.parse_clusters_yaml(
            self.file, file="c.yaml", folder=pathlib.Path("/"), environment={}
        )

    def apply_changes(self, settings, changes):
        if self.failure is not None:
            raise self.failure
        self.settings = settings
        self.applied.append(changes)


@pytest.fixture
def running():
    made = Running()
    yield made
    made.action_log.close(5.0)


@pytest.fixture
def made(running):
    return ConfigReloader(
        running,
        running.load,
        reload_signal=SignalFlag(),
        socket=None,
        reports=lambda: [REPORT],
        clock=SystemClock(),
    )


def test_what_changed_is_told_and_done(running, made):
    running.file = FLOW.replace("to: b", "to: b, throttle: 1MB")
    expected = ("a->b is reconfigured while running", "  throttle: not set -> 1000000")
    dry = made.reload_config(DRY)
    assert dry.lines == (*expected, "dry run: nothing was applied")
    assert (dry.code, dry.detail["outcome"]) == (exit_codes.DONE, "dry run")
    assert running.applied == []
    done = made.reload_config(QUESTION)
    assert done.lines == (*expected, "applied")
    assert (done.code, done.detail["outcome"]) == (exit_codes.DONE, "applied")
    reasons = ["throttle: not set -> 1000000"]
    assert done.detail["flows"] == [{"flow": "a->b", "step": "live", "reasons": reasons}]
    assert running.settings.flows[0].throttles.flow == 1_000_000
    assert made.reload_config(QUESTION).lines == ("nothing has changed",)


def test_who_reloads_is_logged_and_who_only_looks_is_not(made, caplog):
    caplog.set_level("INFO")
    made.answer_request(ReloadRequest(dry_run=True, peer="root (uid 0, pid 7)"))
    assert "operator" not in caplog.text
    made.answer_request(ReloadRequest(peer="root (uid 0, pid 7)"))
    made.answer_request(ReloadRequest())
    told = [each for each in caplog.messages if each.startswith("operator")]
    assert told == ["operator root (uid 0, pid 7): reload", "operator unknown (SIGHUP): reload"]


def test_a_reload_is_recorded_for_each_flow_of_the_file_as_it_is_and_was(running, made):
    running.file = BASE + "- {from: b, to: a}\n"
    running.cluster.cluster.create(replication_policy.format_incidents_topic("b"))
    running.cluster.topics.topics[replication_policy.format_incidents_topic("b")] = []
    made.answer_request(ReloadRequest(peer="root (uid 0, pid 7)"))
    (one,) = running.recorded()
    (other,) = running.cluster.incidents(replication_policy.format_incidents_topic("b"))
    assert (one.flow, one.detail) == ("a->b", "operator root (uid 0, pid 7): reload")
    assert other.flow == "b->a"


@pytest.mark.parametrize("failure", [None, RetriableError("no response")])
def test_a_reload_that_fails_or_only_looks_is_not_recorded(running, made, failure):
    made.answer_request(DRY)
    running.failure = failure
    running.file = FLOW.replace("to: b", "to: b, topics: x" if failure else "to: nowhere")
    assert made.answer_request(QUESTION).code != exit_codes.DONE
    assert running.recorded() == []


def test_who_asks_for_the_rest_api_is_who_uses_it(made):
    answer = made.answer_request(RestApiRequest(peer="root (uid 0, pid 7)"))
    assert answer.detail["user"] == "root (uid 0, pid 7)"


def test_who_does_not_lead_says_who_does(running, made):
    running.ineffective_changes = ["a->b: the node at http://h:1/ leads"]
    assert made.reload_config(QUESTION).lines == (
        "nothing has changed",
        *running.ineffective_changes,
    )
    assert made.reload_config(DRY).lines == ("nothing has changed", "dry run: nothing was applied")
    running.file = FLOW.replace("to: b", "to: b, throttle: 1MB")
    assert (
        made.reload_config(QUESTION).lines[-1]
        == "applied, except for changes that another node must write"
    )


def test_what_takes_effect_at_the_next_start_is_not_called_applied(running, made):
    running.file = FLOW + "metrics: {port: 0}\n"
    assert made.reload_config(QUESTION).lines == (
        "metrics.port: 9464 -> 0; takes effect after mm2 run is restarted",
        "nothing was applied to the running process",
    )


@pytest.mark.parametrize("question", [QUESTION, DRY])
def test_a_wrong_file_changes_nothing_and_every_mistake_is_told(running, made, question):
    before = running.settings
    running.file = FLOW.replace("to: b", "to: x, tasks.max: many")
    answer = made.reload_config(question)
    assert answer.code == exit_codes.BAD_INPUT
    assert [line.partition(": ")[2].partition(":")[0] for line in answer.lines[:-1]] == [
        "flows[0].tasks.max",
        "flows[0].to",
    ]
    assert answer.lines[-1] == config_reload.CONFIG_KEPT_TEXT
    assert running.settings is before
    assert running.applied == []


def test_what_cannot_be_applied_is_told(running, made):
    running.file = FLOW.replace("to: b", "to: b, topics: x")
    running.failure = RetriableError("cluster a does not respond")
    answer = made.reload_config(QUESTION)
    assert answer.code == exit_codes.FAILED
    assert answer.lines == ("cluster a does not respond", config_reload.CONFIG_KEPT_TEXT)
    assert answer.detail == {"outcome": "failed", "errors": ["cluster a does not respond"]}


@pytest.mark.parametrize("question", [ReloadRequest(), ExplainRequest(topic="orders")])
def test_a_mistake_of_ours_is_told_and_logged_and_ends_nothing(running, made, question, caplog):
    class Wrong:
        @property
        def settings(self):
            raise KeyError("gone")

    made._node = Wrong()
    found = made.answer_request(question)
    assert found.code == exit_codes.FAILED
    assert "KeyError" in found.lines[0]
    assert "Traceback" in caplog.text


def test_warnings_are_told_with_what_changed(running, made):
    running.file = FLOW.replace(
        "to: b", "to: b, refresh.topics.enabled: false, sync.topic.configs.interval.seconds: 5"
    )
    first, *_ = made.reload_config(DRY).lines
    assert first.startswith("warning: c.yaml:3: flows[0].sync.topic")


def test_sighup_reloads(running, made):
    running.file = FLOW.replace("to: b", "to: b, tasks.max: 2")
    failures: list[UnexpectedThreadEnd] = []
    owned = ThreadGroup(on_unexpected_end=failures.append)
    owned.start("reload", made.run)
    made._hang_up.set()
    eventually.eventually(lambda: len(running.applied) == 1, 5.0)
    running.file = "nonsense"
    made._hang_up.set()
    eventually.eventually(lambda: not made._hang_up.is_set(), 5.0)
    assert owned.stop_all(5.0) == []
    assert failures == []
    assert len(running.applied) == 1
    with pytest.raises(SettingsError):
        running.load()


def test_why_is_answered_from_what_the_flows_show(running, made):
    shown = [statuses.flow(statuses.partition("orders", reencode_reason="gaps"), name="a->b")]
    running.statuses = lambda: shown
    answer = made.answer_request(ExplainRequest(topic="orders"))
    line = "a->b: orders -> a.orders, partition 0: re-encoded (gaps)"
    assert (answer.code, answer.lines[0]) == (exit_codes.DONE, line)
    assert answer.detail["flows"][0]["partitions"][0]["path"] == [
        {"property": "re-encoded", "reason": "gaps"}
    ]
    assert made.answer_request(ExplainRequest(topic="bills")).code == exit_codes.BAD_INPUT
    assert running.applied == []


def test_how_its_flows_stand_is_answered_as_their_reports_say(made):
    answer = made.answer_request(StatusRequest())
    assert answer.code == exit_codes.DONE
    (told,) = answer.detail["flows"]
    assert status_document.parse_report(json.loads(json.dumps(told))) == REPORT
    assert answer.detail["version"] == status_document.STATUS_JSON_VERSION


def test_both_kinds_of_questions_are_answered(running, made):
    assert made.answer_request(QUESTION).lines == ("nothing has changed",)
