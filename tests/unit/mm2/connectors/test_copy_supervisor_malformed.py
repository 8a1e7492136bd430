"""A malformed message of a copy process ends that copy process, and nothing else."""

from __future__ import annotations

import base64
import math
import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mm2.connectors.copy_process_supervisor import CopyStarter, CopySupervisor, CopySupervisorDeps
from mm2.connectors.status_registry import TaskState
from mm2.copier import control_channel_messages, progress_reports
from mm2.copier.control_channel_messages import ClusterAccess, CopyConfiguration
from mm2.copier.copy_engine import CopyState
from mm2.replication import replication_latency
from mm2.replication.partition_setup import PartitionSetup
from tests.fakes import taking

NOW_S = 1000.0
INT64_MAX = 2**63 - 1


class Channel:
    connected = True

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.closed = ""

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def close(self, reason: str) -> None:
        self.closed = reason


class Supervised:
    """A copy process that has just been started, and what its supervisor does for it."""

    def __init__(self) -> None:
        self.channel = Channel()
        self.cancelled: list[bool] = []
        self.appended: list[Any] = []
        self.requests: list[Any] = []
        self.queried: list[Any] = []
        self.gauges: list[Any] = []
        self.on_streamed: Any = lambda _: None
        handle = SimpleNamespace(
            state=CopyState.RUNNING, error="", cancel=lambda: self.cancelled.append(True)
        )
        self.started: list[Any] = []

        def start() -> Any:
            self.started.append(SimpleNamespace(channel=self.channel, handle=handle))
            return self.started[-1]

        store = SimpleNamespace(
            append=lambda item, on_recorded: self.appended.append((item, on_recorded)),
            request_recovered_state=self.requests.append,
        )
        deps = CopySupervisorDeps(
            starter=cast(CopyStarter, SimpleNamespace(start=start)),
            store=cast(Any, store),
            random=random.Random(1),
            on_log_broken=lambda error: None,
            query_producer_ids=lambda producers, answer: self.queried.append(producers),
            may_acquire=lambda _: True,
            may_keep_running=lambda _: True,
            on_streamed=lambda items: self.on_streamed(items),
            on_progress_report=lambda where, gauge: self.gauges.append((where, gauge)),
        )
        self.setup: PartitionSetup = taking.where()
        east, west = (
            ClusterAccess(alias=alias, bootstrap=(), security={}, client_id="")
            for alias in ("east", "west")
        )
        settings = CopyConfiguration(
            flow="east->west",
            task=0,
            owner=taking.ME,
            source=east,
            target=west,
            partitions=(self.setup,),
            budget_bytes=1 << 20,
        )
        self.supervisor = CopySupervisor(settings, deps)
        self.supervisor.tick(NOW_S)

    def handle(self, message: dict[str, Any]) -> None:
        self.supervisor.handle_message(message, NOW_S)


@pytest.fixture
def made() -> Supervised:
    return Supervised()


def pulse(**changed: Any) -> list[Any]:
    values = {
        "counts": [0] * replication_latency.BUCKET_COUNT,
        "sum_ms": 0,
        "ahead_ms": 0,
        "crossed_s": "-inf",
        "idle_s": "-inf",
        "life": 0,
    }
    return list((values | changed).values())


def gauge(**changed: Any) -> list[Any]:
    values: dict[str, Any] = {
        "index": 0,
        "phase": "copying",
        **dict.fromkeys(
            ("records", "bytes", "copied_to", "source_end", "log_start", "age_ms", "oldest"), 1
        ),
        "transactional": False,
        "reason": "",
        "cause": "",
        "reencode_reason": "",
        "fenced": True,
        "arrival_ages": [0, 0, 0, 0],
        "acknowledged_ages": [0, 0, 0, 0],
        "batches": 1,
        "reencoded": 0,
        "already_stored": 0,
        "newest": -1,
        "unrecorded_since_s": None,
    }
    assert changed.keys() <= values.keys()
    return list((values | changed).values())


def gauges(*partitions: Any, **changed: Any) -> dict[str, Any]:
    message = {"type": "progress", "now_s": 9.0, "partitions": list(partitions), "troubles": {}}
    return message | {"pulse": pulse()} | changed


def record(*items: Any, first: Any = 1) -> dict[str, Any]:
    return {"type": "record", "first": first, "items": list(items)}


KEY = base64.b64encode(b"key").decode()
READ = {
    "type": "recovered_state_request",
    "id": 1,
    "topic": "orders",
    "partition": 0,
    "target": None,
}


def test_well_formed_messages_are_handled(made):
    where = made.setup
    made.handle(gauges(gauge(), gauge(age_ms=INT64_MAX, unrecorded_since_s="inf")))
    made.handle(record([KEY, None, False], [KEY, KEY, False]))
    made.handle(record([KEY, KEY, False], first=3))
    made.handle(READ | {"topic": where.topic, "partition": where.partition, "target": 7})
    made.handle({"type": "reverse_producers_request", "id": 2, "producers": [4, 5]})
    assert made.supervisor.state is TaskState.RUNNING
    assert [each.index for _, each in made.gauges] == [0, 0]
    assert len(made.appended) == 3
    assert made.requests[0].target == 7
    assert made.queried == [[4, 5]]
    assert not made.cancelled


MALFORMED = {
    "no gauges": {"type": "progress"},
    "a time that is infinite": gauges(now_s=1e999),
    "a time that is a text": gauges(now_s="9"),
    "a time beyond a float": gauges(now_s=10**400),
    "gauges that are none": gauges(5),
    "a gauge without fields": gauges([0, "copying"]),
    "a negative index": gauges(gauge(index=-1)),
    "an index beyond the partitions": gauges(gauge(index=1)),
    "an index that is a text": gauges(gauge(index="0")),
    "a number that is a truth value": gauges(gauge(records=True)),
    "a number beyond 64 bits": gauges(gauge(records=INT64_MAX + 1)),
    "an unknown phase": gauges(gauge(phase="x")),
    "an unknown cause": gauges(gauge(cause="x")),
    "ages of another length": gauges(gauge(arrival_ages=[0])),
    "ages that are texts": gauges(gauge(acknowledged_ages=["0"] * 4)),
    "a moment that is no number": gauges(gauge(unrecorded_since_s="nan")),
    "a moment that is a text": gauges(gauge(unrecorded_since_s="soon")),
    "buckets of another length": gauges(pulse=pulse(counts=[1])),
    "buckets that are texts": gauges(pulse=pulse(counts=["1"] * replication_latency.BUCKET_COUNT)),
    "a last batch at no time": gauges(pulse=pulse(crossed_s=math.nan)),
    "errors that are a list": gauges(troubles=[1]),
    "an error that is a number": gauges(troubles={"a:1": 2}),
    "no items": {"type": "record"},
    "items that are a number": {"type": "record", "first": 1, "items": 5},
    "an item without fields": record([KEY]),
    "an item that is not base64": record(["%", None, False]),
    "an item without a key": record([None, None, False]),
    "an incident that is none": record([KEY, KEY, True]),
    "items that begin too late": record([KEY, None, False], first=2),
    "items that begin at a text": record([KEY, None, False], first="1"),
    "a request of a foreign partition": READ | {"topic": "x"},
    "a request without a partition": {"type": "recovered_state_request", "id": 1},
    "a request without a number": READ | {"id": None},
    "a request of a text": READ | {"target": "x"},
    "producers that are none": {"type": "reverse_producers_request", "id": 1, "producers": [{}]},
    "no producers": {"type": "reverse_producers_request", "id": 1},
    "a wish without a number": {"type": "acquisition_request"},
    "an end without a reason": {"type": "ended"},
    "an unknown type": {"type": "run"},
    "an end for a list": {"type": "ended", "fatal": [1], "reason": ""},
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_message_ends_its_copy_process_alone(made, message):
    made.handle(message)
    assert made.supervisor.state is TaskState.RESTARTING
    expected = f"the copy process sent a malformed message {message['type']!r}: "
    assert made.supervisor.reason.startswith(expected)
    assert made.channel.closed == made.supervisor.reason
    assert made.cancelled == [True]
    assert (made.appended, made.requests, made.queried, made.gauges) == ([], [], [], [])
    made.supervisor.tick(NOW_S + 60.0)
    assert len(made.started) == 2, "another one is started"


def test_a_fault_of_mm2_is_not_blamed_on_the_copy_process(made):
    def fail(items):
        raise KeyError("a fault of mm2")

    made.on_streamed = fail
    with pytest.raises(KeyError, match="a fault of mm2"):
        made.handle(record([KEY, KEY, False]))
    assert not made.cancelled


def test_an_error_quotes_a_bounded_part_of_a_message(made):
    made.handle(gauges(gauge(unrecorded_since_s="x" * 10_000)))
    assert len(made.supervisor.reason) < 300


def test_long_texts_and_many_errors_are_cut(made):
    long = "x" * 1_000_000
    troubles = {f"{index}:{long}": long for index in range(1_000)}
    made.handle(gauges(gauge(reason=long, reencode_reason=long), troubles=troubles))
    (_, found) = made.gauges[0]
    assert (
        len(found.reason) == len(found.reencode_reason) == control_channel_messages.MAX_TEXT_CHARS
    )
    decoded = progress_reports.decode_connection_errors(gauges(troubles=troubles))
    assert len(decoded) == progress_reports.MAX_CONNECTION_ERRORS
    assert {len(text) for item in decoded.items() for text in item} == {
        control_channel_messages.MAX_TEXT_CHARS
    }
    made.handle({"type": "ended", "fatal": long, "reason": ""})
    made.handle({"type": "closed", "reason": "end"})
    made.supervisor.tick(NOW_S + 60.0)
    assert len(made.supervisor.reason) == control_channel_messages.MAX_TEXT_CHARS


def test_lone_surrogates_are_replaced(made):
    made.handle(gauges(gauge(phase="waiting", reason="\ud800 ü")))
    assert made.gauges[0][1].reason == "? ü"


def test_a_halt_is_logged_once_a_second_and_at_the_end(made, caplog):
    for number in range(50):
        made.handle(gauges(gauge(phase="halted", reason=f"reason {number}")))
        made.handle(gauges(gauge()))
    made.handle(gauges(gauge(phase="halted", reason="last")))
    assert [each.split(": ")[1] for each in stopped(caplog)] == ["reason 0"]
    made.supervisor.tick(NOW_S + 1.0)
    assert [each.split(": ")[1] for each in stopped(caplog)] == ["reason 0", "last"]
    made.handle(gauges(gauge(phase="fenced", reason="fenced")))
    assert made.supervisor.fenced_reason == "fenced"
    made.supervisor.restart("test", NOW_S + 1.0)
    assert stopped(caplog)[2:] == ["fenced"]


def stopped(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]


def test_items_of_the_next_copy_process_are_numbered_from_1_again(made):
    made.handle(record([KEY, None, False]))
    made.supervisor.restart("test", NOW_S)
    made.supervisor.tick(NOW_S + 60.0)
    made.handle(record([KEY, None, False]))
    assert made.supervisor.state is TaskState.STARTING
    assert len(made.appended) == 2


def test_a_closed_message_without_a_reason_ends_the_copy_process(made):
    made.handle({"type": "closed"})
    made.supervisor.tick(NOW_S + 60.0)
    assert made.supervisor.state is TaskState.RESTARTING


def test_integers_and_texts():
    assert control_channel_messages.decode_integer(-(2**63)) == -(2**63)
    for value in (True, 1.0, "1", None, 2**63):
        with pytest.raises(ValueError, match="64-bit"):
            control_channel_messages.decode_integer(value)
    with pytest.raises(TypeError, match="string"):
        control_channel_messages.decode_text(1)
