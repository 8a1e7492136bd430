"""What becomes of a copy's stream: appended in order, acknowledged once stored, told if it is a
incident.

A copy begins before it is known what it copies, and waits a while for that."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base import log_context
from connect_runtime.base.log_context import LogContextFilter
from mm2.connectors import copy_process_supervisor
from mm2.connectors.copy_process_supervisor import (
    CopyStarter,
    CopySupervisor,
    CopySupervisorDeps,
    EarlyCopyStart,
    StoredStreamPosition,
)
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.connectors.reverse_flow_producer_ids import ProducerIdsCallback
from mm2.connectors.status_registry import TaskState
from mm2.copier import control_channel_messages, control_channel_server, progress_reports
from mm2.copier.control_channel_messages import ClusterAccess, CopyConfiguration, CopyEndpoints
from mm2.copier.control_channel_server import ChannelInbox
from mm2.copier.copy_engine import CopyState
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.kafka.flow_state_log_writer import UnacknowledgedRecordLimits
from mm2.replication.recovery_instructions import FlowStateRecord
from mm2.replication.replication_latency import LatencySnapshot
from mm2.topics import replication_policy
from tests.fakes import copy_plane, taking
from tests.fakes.admin import FakeCluster
from tests.fakes.copy_plane import FakePlane
from tests.fakes.flow_log import FakeFlowStateLog
from tests.fakes.mirror_task import MirrorTask
from tests.support import eventually

LOST = Incident(
    topic="orders",
    partition=4,
    id="source-gone-0-30",
    kind=IncidentKind.SOURCE_GONE,
    flow="east->west",
    at_ms=1,
    detail="deleted before it was copied",
    source=(0, 30),
)


class Channel:
    is_connected = True
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
        self.cluster = FakeCluster()
        bounds = UnacknowledgedRecordLimits(records=records)
        log = FakeFlowStateLog(self.cluster, source_alias="east", bounds=bounds)
        self.store = FlowStateStore(log)
        self.store.open(5.0)
        self.broken: list[Exception] = []
        self.asked: list[tuple[Sequence[int], ProducerIdsCallback]] = []
        self.channel = Channel()
        self.handle = SimpleNamespace(
            state=CopyState.RUNNING, error="", cancel=lambda: None, wait=lambda s: None
        )
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
            partitions=(taking.where(),),
            budget_bytes=1 << 20,
        )
        place = CopyStarter(
            flow="east->west",
            task=0,
            plane=cast(
                Any,
                SimpleNamespace(
                    engine=SimpleNamespace(start=lambda job: self.handle),
                    server=SimpleNamespace(
                        open_channel=lambda name, inbox: self.channel, address="here"
                    ),
                    standby_copies=SimpleNamespace(take_standby_process=lambda name, inbox: None),
                ),
            ),
            inbox=cast(Any, None),
        )
        around = CopySupervisorDeps(
            starter=place,
            store=self.store,
            random=random.Random(1),
            on_log_broken=self.broken.append,
            query_producer_ids=lambda producers, answer: self.asked.append((producers, answer)),
            may_acquire=lambda _: True,
            may_keep_running=lambda _: True,
            on_streamed=lambda _: None,
            on_progress_report=lambda *_: None,
        )
        self.supervisor = CopySupervisor(settings, around, early_copy=ahead)
        self.now_s = 1000.0

    def turn(self) -> None:
        self.store.run_once(0.0)
        self.supervisor.tick(self.now_s)
        self.supervisor.acknowledge_stored_items()

    def stream(self, first: int, *items: FlowStateRecord) -> None:
        self.supervisor.handle_message(
            control_channel_messages.encode_flow_state_records(first, items), self.now_s
        )

    @property
    def log(self) -> list[bytes]:
        return [
            key
            for key, _ in self.cluster.topics[
                replication_policy.format_offset_map_topic("east")
            ].log
        ]

    @property
    def told(self) -> list[int]:
        return [each["through"] for each in self.channel.sent if each["type"] == "recorded"]


def item(key: bytes) -> FlowStateRecord:
    return FlowStateRecord(key=key, value=b"")


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
    del made.cluster.topics[replication_policy.format_offset_map_topic("east")]
    made.stream(1, item(b"1"))
    made.store._log.poll(0.0)
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


def test_an_incident_is_told_once_it_is_stored(caplog):
    made = Supervised()
    made.turn()
    key, value = incident_records.encode_incident(LOST)
    made.stream(1, FlowStateRecord(key=key, value=value, incident=True))
    caplog.handler.addFilter(LogContextFilter())
    with caplog.at_level(logging.WARNING), log_context.bind_log_fields(flow="east->west"):
        assert caplog.messages == []
        made.turn()
    (record,) = caplog.records
    told = "incident source-gone: orders-4, source offsets [0, 30): deleted before it was copied"
    assert (record.context, record.getMessage()) == ("[east->west|task 0] ", told)
    assert made.supervisor.incidents.counts == {("orders", "source-gone"): 1}


def test_why_one_copy_ended_is_not_told_of_the_next():
    """Its engine may say that it has ended before its channel does."""
    made = Supervised()
    made.turn()
    made.supervisor.handle_message(
        {"type": "ended", "reason": "", "fatal": "a wrong password"}, made.now_s
    )
    made.handle.state = CopyState.ENDED
    made.turn()
    assert made.supervisor.reason == "a wrong password"
    made.handle.state = CopyState.RUNNING
    made.now_s += 60.0
    made.turn()
    made.supervisor.handle_message({"type": "closed", "reason": "killed"}, made.now_s)
    made.now_s += copy_process_supervisor.LAST_MESSAGE_TIMEOUT_S
    made.turn()
    assert made.supervisor.reason == "lost the copy process (killed)"


def test_a_copy_that_follows_another_counts_on():
    """Its share has changed. What was stated before is not new when it is stated again."""
    first = Supervised()
    first.turn()
    key, value = incident_records.encode_incident(LOST)
    first.stream(1, FlowStateRecord(key=key, value=value, incident=True))
    first.turn()
    first.supervisor.restart("killed", first.now_s)
    around = first.supervisor._deps
    later = CopySupervisor(first.supervisor.settings, around, previous=first.supervisor)
    assert later.incidents.record_stored_incident(key, value) is None
    assert later.incidents.counts == {("orders", "source-gone"): 1}
    assert later.restarts == 1


# The end of a copy


def closed(made: Supervised) -> None:
    made.supervisor.handle_message(
        {"type": control_channel_server.CLOSED_MESSAGE_TYPE, "reason": "reset"}, made.now_s
    )


def test_nothing_waits_for_what_an_engine_says_of_a_copy_whose_connection_broke():
    """A hundred copies may end at once, when the JVM dies."""
    made = Supervised()
    made.turn()
    made.handle.wait = pytest.fail
    closed(made)
    made.turn()
    assert made.supervisor.state is TaskState.STARTING
    made.handle.state, made.handle.error = CopyState.ENDED, "the JVM died"
    made.turn()
    assert (made.supervisor.state, made.supervisor.reason) == (
        TaskState.RESTARTING,
        "the JVM died",
    )
    assert made.supervisor.channel is None


def test_an_engine_that_says_nothing_is_waited_for_a_moment():
    made = Supervised()
    made.turn()
    cancelled: list[bool] = []
    made.handle.cancel = lambda: cancelled.append(True)
    closed(made)
    made.now_s += copy_process_supervisor.LAST_MESSAGE_TIMEOUT_S
    made.turn()
    assert made.supervisor.reason == "lost the copy process (reset)"
    assert (made.supervisor.channel, cancelled) == (None, [True])
    made.now_s += 60.0
    made.turn()
    made.turn()
    assert made.supervisor.state is TaskState.STARTING, "the next one has all its time"
    assert made.supervisor.restarts == 1


def test_a_copy_that_was_told_to_stop_has_stopped_when_its_connection_ends():
    made = Supervised()
    made.turn()
    made.supervisor.stop()
    made.handle.state = CopyState.ENDED
    closed(made)
    assert made.supervisor.state is TaskState.STOPPED


def test_a_copy_that_lost_a_partition_settles_the_others():
    made = Supervised()
    made.turn()
    lost = {**copy_plane.PLAIN, "index": 0, "phase": "fenced", "reason": "another owner"}
    gauges = progress_reports.encode_progress_reports(
        [PartitionProgressReport(**lost, copied_to=5)],
        connection_errors={},
        latency=LatencySnapshot(),
        now_s=made.now_s,
    )
    made.supervisor.handle_message(gauges, made.now_s)
    assert made.supervisor.fenced_reason == "another owner"
    made.supervisor.stop(1.5)
    assert made.channel.sent[-1] == {"type": "stop", "deadline_s": 1.5}


def test_a_copy_that_asks_whose_a_producer_is_gets_the_answer():
    made = Supervised()
    made.turn()
    made.supervisor.handle_message(
        control_channel_messages.encode_reverse_flow_producers_request(3, [4, 5]), made.now_s
    )
    ((producers, answer),) = made.asked
    assert producers == [4, 5]
    answer(frozenset({4}), "")
    assert made.channel.sent[-1] == control_channel_messages.encode_reverse_flow_producers(3, {4})


@pytest.mark.parametrize("ends", ["restart", "abandon", "usable"])
def test_a_copy_ahead_that_is_not_used_is_ended_and_never_started(ends):
    ended: list[str] = []
    channel = Channel()
    ahead = SimpleNamespace(
        is_usable=ends != "usable", kill_process=ended.append, channel=channel, handle=None
    )
    made = Supervised(ahead=ahead)
    if ends == "restart":
        made.supervisor.restart(copy_process_supervisor.GROUP_CONTACT_LOST, made.now_s)
    elif ends == "abandon":
        made.supervisor.kill_and_mark_stopped()
    made.turn()
    assert len(ended) == 1
    assert channel.sent == []
    assert id(made.supervisor.channel) == id(made.channel)
    assert made.channel.sent[0]["type"] == "configure"


ACCESS = ClusterAccess(alias="x", bootstrap=(), security={}, client_id="")
REACH = CopyEndpoints(source=ACCESS, target=ACCESS, topics=(), remote_topics=())


@pytest.fixture
def plane() -> FakePlane:
    return FakePlane()


@pytest.fixture
def ahead(plane: FakePlane) -> EarlyCopyStart:
    inbox = ChannelInbox()
    return EarlyCopyStart(
        CopyStarter(flow="A->B", task=3, plane=cast(Any, plane), inbox=inbox), lambda: REACH
    )


def test_it_begins_once_and_is_taken_once(plane, ahead):
    assert ahead.take_started_process() is None
    ahead.tick(0.0)
    ahead.tick(1.0)
    taken = ahead.take_started_process()
    assert taken is not None
    assert taken.channel is cast(Any, plane.copy)
    assert (len(plane.handles), plane.handles[0].cancelled) == (1, False)
    assert ahead.take_started_process() is None
    ahead.tick(2.0)
    assert len(plane.handles) == 1


def test_it_does_not_wait_for_ever(plane, ahead):
    ahead.tick(0.0)
    ahead.tick(copy_process_supervisor.EARLY_START_TIMEOUT_S)
    assert plane.handles[0].cancelled
    assert plane.copy.closed
    ahead.tick(2 * copy_process_supervisor.EARLY_START_TIMEOUT_S)
    assert (ahead.take_started_process(), len(plane.handles)) == (None, 1)


@pytest.mark.parametrize("how", ["handle", "channel"])
def test_one_that_has_ended_is_not_taken(plane, ahead, how):
    ahead.tick(0.0)
    if how == "handle":
        plane.handles[0].state = CopyState.ENDED
    else:
        plane.copy.closed_reason = "the copy is gone"
    assert ahead.take_started_process() is None


def test_a_task_lets_its_copy_begin_while_it_asks_its_clusters():
    found = MirrorTask(there=False)
    found.turn()
    assert [each["type"] for each in found.plane.copy.sent] == ["endpoints"]
    told = control_channel_messages.decode_endpoints(found.plane.copy.sent[0])
    assert (told.topics, told.remote_topics) == (("orders",), ("A.orders",))
    found.task.stop()
    assert found.plane.handles[0].cancelled
    assert found.plane.copy.closed == "the task is stopping"


def test_the_copy_that_has_begun_is_told_what_to_copy():
    found = MirrorTask()
    found.turn()
    assert len(found.plane.handles) == 1
    found.runs()
    assert len(found.plane.handles) == 1
    told, configured = (
        control_channel_messages.decode_endpoints(found.plane.copy.sent[0]),
        found.plane.configured(),
    )
    assert (told.source, told.target) == (configured.source, configured.target)
    assert told.remote_topics == tuple({each.remote_topic for each in configured.partitions})
    found.task.stop()


def test_one_that_has_ended_meanwhile_is_followed_by_another():
    found = MirrorTask()
    found.turn()
    found.plane.handles[0].state = CopyState.ENDED
    found.begins()
    eventually.eventually(lambda: len(found.plane.handles) == 2, 10.0)
    found.task.stop()


def test_nothing_is_stored_at_first():
    assert StoredStreamPosition().take_new_position() is None


def test_a_gap_holds_back_what_is_stored_behind_it():
    stored = StoredStreamPosition()
    found = []
    for number in (2, 4, 1, 3, 5):
        stored.mark_item_stored(number)
        found.append(stored.take_new_position())
    assert found == [None, None, 2, 4, 5]


def test_news_are_told_once():
    stored = StoredStreamPosition()
    stored.mark_item_stored(1)
    assert [stored.take_new_position(), stored.take_new_position()] == [1, None]


@given(st.permutations(range(1, 9)))
def test_all_up_to_through_are_stored_and_the_next_is_not(order):
    stored = StoredStreamPosition()
    for at, number in enumerate(order, 1):
        stored.mark_item_stored(number)
        so_far = set(order[:at])
        assert so_far.issuperset(range(1, stored.through + 1))
        assert stored.through + 1 not in so_far


def test_an_item_cannot_be_stored_again_behind_through():
    stored = StoredStreamPosition()
    stored.mark_item_stored(1)
    with pytest.raises(AssertionError):
        stored.mark_item_stored(1)
