"""What becomes of a copy's stream: appended in order, acknowledged once stored, told if it is a
receipt."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.base import log_context
from mm2.cluster import flow_log_writer
from mm2.connectors import flow_status
from mm2.connectors.share import copy_start, copy_supervisor, flow_ledger, opposite_ids
from mm2.core import naming
from mm2.core.copy import crossing, instructions, messages
from mm2.formats import receipt
from mm2.pipeline import control_channel, engine
from tests.fakes import admin, copy_plane, flow_log, taking

LOST = receipt.Receipt(
    topic="orders",
    partition=4,
    id="source-gone-0-30",
    kind=receipt.ReceiptKind.SOURCE_GONE,
    flow="east->west",
    at_ms=1,
    detail="deleted before it was copied",
    source=(0, 30),
)


class Channel:
    connected = True
    token = b"token"

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def close(self, reason: str) -> None:
        pass


class Supervised:
    """A copy that has just started; its flow's log has room for two records at a time."""

    def __init__(self, records: int = 2, ahead: Any = None) -> None:
        self.cluster = admin.FakeCluster()
        bounds = flow_log_writer.Bounds(records=records)
        log = flow_log.FakeFlowLog(self.cluster, source_alias="east", bounds=bounds)
        self.ledger = flow_ledger.FlowLedger(log)
        self.ledger.open(5.0)
        self.broken: list[Exception] = []
        self.asked: list[tuple[Sequence[int], opposite_ids.Answer]] = []
        self.channel = Channel()
        self.handle = SimpleNamespace(
            state=engine.CopyState.RUNNING, error="", cancel=lambda: None, wait=lambda s: None
        )
        east, west = (
            messages.ClusterAccess(alias=alias, bootstrap=(), security={}, client_id="")
            for alias in ("east", "west")
        )
        settings = messages.Configure(
            flow="east->west",
            task=0,
            owner=taking.ME,
            source=east,
            target=west,
            partitions=(taking.where(),),
            budget_bytes=1 << 20,
        )
        place = copy_start.Place(
            flow="east->west",
            task=0,
            plane=cast(
                Any,
                SimpleNamespace(
                    engine=SimpleNamespace(start=lambda job: self.handle),
                    server=SimpleNamespace(open=lambda name, inbox: self.channel, address="here"),
                    spares=SimpleNamespace(take=lambda name, inbox: None),
                ),
            ),
            inbox=cast(Any, None),
        )
        around = copy_supervisor.Surroundings(
            place=place,
            ledger=self.ledger,
            random=random.Random(1),
            log_broken=self.broken.append,
            whose=lambda producers, answer: self.asked.append((producers, answer)),
            may_take=lambda _: True,
            may_live=lambda _: True,
            streamed=lambda _: None,
            gauged=lambda *_: None,
        )
        self.supervisor = copy_supervisor.CopySupervisor(settings, around, ahead=ahead)
        self.now_s = 1000.0

    def turn(self) -> None:
        self.ledger.work(0.0)
        self.supervisor.tick(self.now_s)
        self.supervisor.tell_stored()

    def stream(self, first: int, *items: instructions.LogItem) -> None:
        self.supervisor.received(messages.record(first, items), self.now_s)

    @property
    def log(self) -> list[bytes]:
        return [key for key, _ in self.cluster.topics[naming.map_topic("east")].log]

    @property
    def told(self) -> list[int]:
        return [each["through"] for each in self.channel.sent if each["type"] == "recorded"]


def item(key: bytes) -> instructions.LogItem:
    return instructions.LogItem(key=key, value=b"")


def test_a_full_log_holds_the_stream_up_and_nothing_is_lost_or_acknowledged_early():
    made = Supervised(records=2)
    made.turn()
    made.stream(1, *[item(b"%d" % each) for each in range(1, 4)])
    made.stream(4, item(b"4"), item(b"5"))
    assert made.told == []
    made.turn()
    assert (made.log, made.told) == ([b"1", b"2"], [2])
    made.turn()
    made.turn()
    assert (made.log, made.told) == ([b"1", b"2", b"3", b"4", b"5"], [2, 4, 5])
    assert made.broken == []


def test_a_log_that_breaks_is_told_and_takes_no_more():
    made = Supervised()
    made.turn()
    del made.cluster.topics[naming.map_topic("east")]
    made.stream(1, item(b"1"))
    made.ledger._log.poll(0.0)
    assert len(made.broken) == 1
    made.stream(2, item(b"2"), item(b"3"))
    assert len(made.broken) == 2
    assert made.told == []


def test_what_a_copy_could_not_append_ends_with_it():
    made = Supervised(records=1)
    made.turn()
    made.stream(1, item(b"1"), item(b"of the old one"))
    made.supervisor.restart("its log broke", made.now_s)
    made.now_s += 60.0
    made.turn()
    made.stream(1, item(b"of the new one"))
    made.turn()
    made.turn()
    assert made.log == [b"1", b"of the new one"]


def test_a_receipt_is_told_once_it_is_stored(caplog):
    made = Supervised()
    made.turn()
    key, value = receipt.encode(LOST)
    made.stream(1, instructions.LogItem(key=key, value=value, receipt=True))
    caplog.handler.addFilter(log_context.ContextFilter())
    with caplog.at_level(logging.WARNING), log_context.within(flow="east->west"):
        assert caplog.messages == []
        made.turn()
    (record,) = caplog.records
    told = "receipt source-gone: orders-4, source offsets [0, 30): deleted before it was copied"
    assert (record.context, record.getMessage()) == ("[east->west|task 0] ", told)
    assert made.supervisor.receipts.counts == {("orders", "source-gone"): 1}


def test_why_one_copy_ended_is_not_told_of_the_next():
    """Its engine may say that it has ended before its channel does."""
    made = Supervised()
    made.turn()
    made.supervisor.received(
        {"type": "ended", "reason": "", "fatal": "a wrong password"}, made.now_s
    )
    made.handle.state = engine.CopyState.ENDED
    made.turn()
    assert made.supervisor.reason == "a wrong password"
    made.handle.state = engine.CopyState.RUNNING
    made.now_s += 60.0
    made.turn()
    made.supervisor.received({"type": "closed", "reason": "killed"}, made.now_s)
    made.now_s += copy_supervisor.LAST_WORDS_S
    made.turn()
    assert made.supervisor.reason == "the copy is gone (killed)"


def test_a_copy_that_follows_another_counts_on():
    """Its share has changed. What was stated before is not new when it is stated again."""
    first = Supervised()
    first.turn()
    key, value = receipt.encode(LOST)
    first.stream(1, instructions.LogItem(key=key, value=value, receipt=True))
    first.turn()
    first.supervisor.restart("killed", first.now_s)
    around = first.supervisor._around
    later = copy_supervisor.CopySupervisor(
        first.supervisor.settings, around, before=first.supervisor
    )
    assert later.receipts.stored(key, value) is None
    assert later.receipts.counts == {("orders", "source-gone"): 1}
    assert later.restarts == 1


# The end of a copy


def closed(made: Supervised) -> None:
    made.supervisor.received({"type": control_channel.CLOSED, "reason": "reset"}, made.now_s)


def test_nothing_waits_for_what_an_engine_says_of_a_copy_whose_connection_broke():
    """A hundred copies may end at once, when the JVM dies."""
    made = Supervised()
    made.turn()
    made.handle.wait = pytest.fail
    closed(made)
    made.turn()
    assert made.supervisor.state is flow_status.TaskState.STARTING
    made.handle.state, made.handle.error = engine.CopyState.ENDED, "the JVM died"
    made.turn()
    assert (made.supervisor.state, made.supervisor.reason) == (
        flow_status.TaskState.RESTARTING,
        "the JVM died",
    )
    assert made.supervisor.channel is None


def test_an_engine_that_says_nothing_is_waited_for_a_moment():
    made = Supervised()
    made.turn()
    cancelled: list[bool] = []
    made.handle.cancel = lambda: cancelled.append(True)
    closed(made)
    made.now_s += copy_supervisor.LAST_WORDS_S
    made.turn()
    assert made.supervisor.reason == "the copy is gone (reset)"
    assert (made.supervisor.channel, cancelled) == (None, [True])
    made.now_s += 60.0
    made.turn()
    made.turn()
    assert made.supervisor.state is flow_status.TaskState.STARTING, "the next one has all its time"
    assert made.supervisor.restarts == 1


def test_a_copy_that_was_told_to_stop_has_stopped_when_its_connection_ends():
    made = Supervised()
    made.turn()
    made.supervisor.stop()
    made.handle.state = engine.CopyState.ENDED
    closed(made)
    assert made.supervisor.state is flow_status.TaskState.STOPPED


def test_a_copy_that_lost_a_partition_settles_the_others():
    made = Supervised()
    made.turn()
    lost = {**copy_plane.PLAIN, "index": 0, "phase": "fenced", "reason": "another owner"}
    gauges = messages.gauges(
        [messages.Gauge(**lost, copied_to=5)], troubles={}, pulse=crossing.Pulse(), now_s=made.now_s
    )
    made.supervisor.received(gauges, made.now_s)
    assert made.supervisor.taken_over == "another owner"
    made.supervisor.stop(1.5)
    assert made.channel.sent[-1] == {"type": "stop", "deadline_s": 1.5}


def test_a_copy_that_asks_whose_a_producer_is_gets_the_answer():
    made = Supervised()
    made.turn()
    made.supervisor.received(messages.opposite_request(3, [4, 5]), made.now_s)
    ((producers, answer),) = made.asked
    assert producers == [4, 5]
    answer(frozenset({4}), "")
    assert made.channel.sent[-1] == messages.opposite_answer(3, {4})


@pytest.mark.parametrize("ends", ["restart", "abandon", "usable"])
def test_a_copy_ahead_that_is_not_used_is_ended_and_never_started(ends):
    ended: list[str] = []
    channel = Channel()
    ahead = SimpleNamespace(usable=ends != "usable", end=ended.append, channel=channel, handle=None)
    made = Supervised(ahead=ahead)
    if ends == "restart":
        made.supervisor.restart(copy_supervisor.UNSURE, made.now_s)
    elif ends == "abandon":
        made.supervisor.abandon()
    made.turn()
    assert len(ended) == 1
    assert channel.sent == []
    assert id(made.supervisor.channel) == id(made.channel)
    assert made.channel.sent[0]["type"] == "configure"
