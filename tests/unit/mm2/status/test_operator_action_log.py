"""What operators do is logged in the words of the commands, with who did it, and recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import threading

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.rest.audit_log import AuditedRequest
from connect_runtime.system.system_clock import SystemClock
from mm2.config import config_loader
from mm2.formats import incident_records
from mm2.formats.incident_records import IncidentKind
from mm2.status import operator_action_log
from mm2.status.operator_action_log import OperatorLog
from mm2.topics import replication_policy
from tests.fakes.one_side import FakeSide, WritingWriter
from tests.support import eventually

SOURCE = "/east/west/connectors/MirrorSourceConnector"
WHO = "root (uid 0, pid 17)"


def change(method: str, path: str, body: object = None, status: int = 202) -> AuditedRequest:
    return AuditedRequest(
        method=method,
        path=path,
        query="",
        body=b"" if body is None else json.dumps(body).encode(),
        user=WHO,
        client="127.0.0.1:5",
        status=status,
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("PUT", f"{SOURCE}/pause"), "pause east->west"),
        (("PUT", f"{SOURCE}/resume"), "resume east->west"),
        (("PUT", f"{SOURCE}/stop"), "stop east->west"),
        (
            ("PUT", "/east/west/connectors/MirrorCheckpointConnector/resume"),
            "resume MirrorCheckpointConnector of east->west",
        ),
        (("POST", f"{SOURCE}/restart"), "restart east->west"),
        (("POST", f"{SOURCE}/tasks/2/restart"), "restart task 2 of east->west"),
        (("PATCH", f"{SOURCE}/config", {"live.throttle": "1MB"}), "throttle east->west: 1MB"),
        (
            ("PATCH", f"{SOURCE}/config", {"live.throttle": None, "live.paused.topic.a.b": "true"}),
            "pause topic a.b of east->west; throttle east->west: as configured",
        ),
        (
            ("PATCH", f"{SOURCE}/config", {"live.throttle.topic.orders": "2MB"}),
            "throttle topic orders of east->west: 2MB",
        ),
        (
            ("PATCH", f"{SOURCE}/config", {"live.paused.topic.orders": None}),
            "resume topic orders of east->west",
        ),
        (
            ("PATCH", f"{SOURCE}/config", {"source.cluster.sasl.jaas.config": "secret"}),
            "change source.cluster.sasl.jaas.config of east->west",
        ),
        (("PATCH", f"{SOURCE}/config", [1]), "change the configuration of east->west"),
        (("PUT", f"{SOURCE}/config", {}), "configure east->west"),
        (("DELETE", f"{SOURCE}/offsets"), "reset the offsets of east->west"),
        (("PATCH", f"{SOURCE}/offsets", {}), "alter the offsets of east->west"),
        (("DELETE", SOURCE), "delete east->west"),
        (("PUT", "/east/west/admin/loggers/x"), "PUT /east/west/admin/loggers/x"),
    ],
)
def test_actions_in_words(asked, words):
    found = operator_action_log.parse_actions(change(*asked))
    assert "; ".join(each.text for each in found) == words
    assert {each.flow for each in found} == {"east->west"}


def test_who_did_what_is_a_line_with_fields(caplog):
    caplog.set_level("INFO")
    scene = Scene()
    scene.log.log_operator_request(change("PUT", f"{SOURCE}/pause"))
    scene.log.close(WAIT_S)
    (record,) = caplog.records
    assert record.getMessage() == f"operator {WHO}: pause east->west"
    assert (record.levelname, record.operator, record.flow) == ("INFO", WHO, "east->west")


def test_what_was_refused_is_a_warning(caplog):
    Scene().log.log_operator_request(change("PUT", f"{SOURCE}/pause", status=409))
    (record,) = caplog.records
    assert record.getMessage() == f"operator {WHO}: pause east->west: rejected with 409"
    assert record.levelname == "WARNING"


# Recording

FILE = """clusters: {east: {bootstrap.servers: 'e:1'}, west: {bootstrap.servers: 'w:1'}}
flows:
- {from: east, to: west}
"""
TOPIC = "mm2-incidents.east.internal"
WAIT_S = 10.0


class Scene:
    """A flow and its target. `missing`: the target has no incidents topic; `gate`: opening the
    target waits for it."""

    def __init__(self, *, missing=False, gate=None):
        self.settings = config_loader.parse_clusters_yaml(
            FILE, file="c.yaml", folder=pathlib.Path("/"), environment={}
        )
        self.clock = SystemClock()
        self.target = FakeSide("west")
        self.opened = 0
        self.gate = gate
        if not missing:
            self.target.cluster.create(TOPIC)
            self.target.topics.topics[TOPIC] = []
        self.log = OperatorLog(lambda: self.settings, now=self.clock, open_target=self.open)

    def open(self, settings, flow):
        assert flow.name == "east->west"
        self.opened += 1
        if self.gate is not None:
            self.gate.wait(WAIT_S)
        return contextlib.nullcontext(self.target)

    def recorded(self):
        """All there is at the end."""
        self.log.close(WAIT_S)
        return self.target.incidents(TOPIC)


@pytest.fixture
def warnings(caplog):
    return lambda: [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


def test_what_was_done_is_recorded_in_the_words_of_the_log(caplog):
    caplog.set_level("INFO")
    scene = Scene()
    before_ms = scene.clock.wall_ms()
    scene.log.log_operator_request(change("PATCH", f"{SOURCE}/config", {"live.throttle": "20MB"}))
    (found,) = scene.recorded()
    assert found.detail == f"operator {WHO}: throttle east->west: 20MB"
    assert found.detail in [each.getMessage() for each in caplog.records]
    assert (found.topic, found.partition, found.flow) == (
        "",
        incident_records.NO_PARTITION,
        "east->west",
    )
    assert (found.kind, found.id) == (
        IncidentKind.OPERATOR_ACTION,
        "operator-action-throttle",
    )
    assert before_ms <= found.at_ms <= scene.clock.wall_ms()


def test_each_of_several_changes_is_a_record_of_its_topic():
    scene = Scene()
    sent = {"live.throttle": "1MB", "live.paused.topic.a.b": "true", "source.secret": "s3cret"}
    scene.log.log_operator_request(change("PATCH", f"{SOURCE}/config", sent))
    found = scene.recorded()
    assert {(each.topic, each.id.removeprefix("operator-action-")) for each in found} == {
        ("", "throttle"),
        ("a.b", "pause"),
        ("", "change"),
    }
    assert "s3cret" not in str(found)


def test_the_value_is_not_part_of_the_key_so_that_keys_are_bounded():
    scene = Scene()
    for number in range(20):
        sent = {"live.throttle": f"{number}MB", f"own.{number}": "x", "live.throttle.topic.a": "1"}
        scene.log.log_operator_request(change("PATCH", f"{SOURCE}/config", sent))
        scene.log.log_operator_request(change("PUT", f"/east/west/admin/loggers/x{number}"))
    scene.log.close(WAIT_S)
    assert len({key for key, _ in scene.target.topics.topics[TOPIC]}) == 4


@pytest.mark.parametrize(
    "asked",
    [
        change("PUT", f"{SOURCE}/pause", status=409),
        change("PUT", f"{SOURCE}/pause", status=0),
        change("PUT", "/east/north/connectors/MirrorSourceConnector/pause"),
        change("PUT", "/x"),
    ],
)
def test_what_was_refused_or_is_of_no_flow_is_not_recorded(asked):
    scene = Scene()
    scene.log.log_operator_request(asked)
    assert scene.recorded() == []
    assert scene.opened == 0


def test_nothing_is_created(warnings):
    scene = Scene(missing=True)
    scene.log.log_operator_request(change("PUT", f"{SOURCE}/pause"))
    assert scene.recorded() == []
    assert scene.target.cluster.topics == {}
    assert warnings() == [
        f"east->west: 1 operator action not recorded in {TOPIC} on west: the topic does not exist "
        "yet; the flow creates the topic when replication starts. Recorded only in this log: "
        "pause east->west"
    ]


@pytest.mark.parametrize("refused", [False, True])
def test_a_target_that_does_not_answer_is_a_warning(warnings, refused):
    scene = Scene()
    if refused:
        scene.target.refusal = RetriableError("writing: connection refused")
    else:
        scene.target.cluster.away = True
    scene.log.log_operator_request(change("PUT", f"{SOURCE}/pause"))
    assert scene.recorded() == []
    (told,) = warnings()
    assert told.startswith("east->west: 1 operator action not recorded in ")
    assert told.endswith(". Recorded only in this log: pause east->west")
    scene = Scene()
    scene.log.log_operator_request(change("PUT", f"{SOURCE}/pause"))
    assert len(scene.recorded()) == 1


def test_who_logs_never_waits_and_what_waits_is_bounded(warnings):
    gate = threading.Event()
    scene = Scene(gate=gate)
    for _ in range(operator_action_log.MAX_PENDING_ACTIONS):
        scene.log.log_operator_request(change("PUT", f"{SOURCE}/pause"))
    assert warnings() == []
    scene.log.log_operator_request(change("PUT", f"{SOURCE}/resume"))
    (told,) = warnings()
    assert "1 operator action not recorded" in told
    assert told.endswith(
        ": 1000 other actions have not been written yet. Recorded only in this log: resume "
        "east->west"
    )
    gate.set()
    assert len(scene.recorded()) == operator_action_log.MAX_PENDING_ACTIONS
    assert scene.opened <= 3, "what waits is written together"


def test_the_end_waits_no_longer_than_it_may(warnings):
    gate = threading.Event()
    scene = Scene(gate=gate)
    for verb in ("pause", "resume"):
        scene.log.log_operator_request(change("PUT", f"{SOURCE}/{verb}"))
    begun_s = scene.clock.now_s()
    scene.log.close(0.2)
    assert scene.clock.now_s() - begun_s < WAIT_S / 2
    (told,) = warnings()
    assert told.startswith("east->west: 2 operator actions not recorded in ")
    assert told.endswith(". Recorded only in this log: pause east->west; resume east->west")
    scene.log.log_operator_request(change("PUT", f"{SOURCE}/stop"))
    assert warnings()[1].endswith(": stop east->west")
    gate.set()
    scene.log.close(WAIT_S)
    assert len(warnings()) == 2, "each action is told once"


def test_a_silent_target_is_asked_last():
    scene = Scene()
    other = replication_policy.format_incidents_topic("west")
    scene.target.cluster.create(other)
    scene.target.topics.topics[other] = []
    text = FILE + "- {from: west, to: east}\n"
    settings = config_loader.parse_clusters_yaml(
        text, file="c.yaml", folder=pathlib.Path("/"), environment={}
    )
    asked: list[str] = []
    gate = threading.Event()

    def open_target(settings, flow):
        asked.append(flow.name)
        if flow.name == "east->west":
            raise RetriableError("no response")
        gate.wait(WAIT_S)
        return contextlib.nullcontext(scene.target)

    log = OperatorLog(lambda: settings, now=scene.clock, open_target=open_target)
    log.record_reload(WHO, before=settings)
    eventually.eventually(lambda: len(asked) == 2, WAIT_S)
    log.record_reload(WHO, before=settings)
    gate.set()
    log.close(WAIT_S)
    assert asked == ["east->west", "west->east", "west->east", "east->west"]


class SilentWriter:
    """Takes records, and acknowledges none; `clock` passes while it is polled."""

    def __init__(self, passing):
        self._passing = passing
        self.closed = False

    def write(self, key, value, *, on_written):
        assert not self.closed

    def poll(self, timeout_s):
        self._passing.s += 1.0

    def close(self, timeout_s):
        self.closed = True


class PassingClock(SystemClock):
    s = 0.0

    def now_s(self):
        return self.s


def test_what_is_not_acknowledged_in_time_is_given_up(warnings, monkeypatch):
    scene = Scene()
    passing = PassingClock()
    silent = SilentWriter(passing)
    monkeypatch.setattr(scene.target, "create_writer", lambda topic: silent, raising=False)
    log = OperatorLog(lambda: scene.settings, now=passing, open_target=scene.open)
    log.log_operator_request(change("PUT", f"{SOURCE}/pause"))
    eventually.eventually(lambda: bool(warnings()), WAIT_S)
    assert ": not acknowledged within 30 s. Recorded only in this log: " in warnings()[0]
    assert silent.closed
    log.close(WAIT_S)


def test_a_mistake_of_ours_ends_no_thread(warnings, monkeypatch):
    scene = Scene()
    answers = iter([RuntimeError("oops")])

    def writer(topic):
        for error in answers:
            raise error
        return WritingWriter(scene.target.topics, topic)

    monkeypatch.setattr(scene.target, "create_writer", writer, raising=False)
    scene.log.log_operator_request(change("PUT", f"{SOURCE}/pause"))
    eventually.eventually(lambda: bool(warnings()), WAIT_S)
    assert "internal error in mm2: RuntimeError('oops')" in warnings()[0]
    scene.log.log_operator_request(change("PUT", f"{SOURCE}/resume"))
    assert [each.id for each in scene.recorded()] == ["operator-action-resume"]


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 50_000])
def test_a_body_nested_by_the_thousand_changes_the_configuration(body):
    asked = dataclasses.replace(change("PATCH", f"{SOURCE}/config"), body=body)
    found = operator_action_log.parse_actions(asked)
    assert [each.id for each in found] == ["change"]
