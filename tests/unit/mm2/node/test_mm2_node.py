"""Who is told to end is waited for, at a reload and again at the process's end.

One `mm2 run`: its flows' workers begin, change and end with it. The data plane is the real one,
inline; the workers' group is a fake."""

from __future__ import annotations

import functools
import pathlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from connect_runtime.app.internal_rest_settings import InternalRestSettings
from connect_runtime.app.multi_worker_process import WorkerFleet
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.rest.audit_log import AuditedRequest
from connect_runtime.rest.http_pages import PageRenderer, PageResponse, PagesByPath
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from mm2.config import config_diff, config_loader, flow_connector_configs
from mm2.config.flow_connector_configs import FlowSelection
from mm2.config.mm2_settings import Mm2Settings
from mm2.connectors.status_registry import FlowState
from mm2.copier import shared_copy_engine
from mm2.copier.copy_engine import EngineState
from mm2.node.mm2_node import GracefulShutdown, Mm2Node
from tests.fakes import fleets
from tests.fakes.fleets import Fleet, Member
from tests.support import eventually

CLOCK = SystemClock()


@dataclass
class Worker:
    name: str
    has_ended: bool = False
    is_group_member: bool = True
    stop_requested: threading.Event = field(default_factory=threading.Event)


def test_who_is_late_is_told_and_waited_for_at_the_end(caplog):
    made, slow = GracefulShutdown(CLOCK), Worker("a->b")
    made.request_stop([slow])
    made.wait_for_workers(CLOCK.now_s() + 0.05)
    assert slow.stop_requested.is_set()
    assert "a->b did not stop in time" in caplog.text
    fresh = Worker("a->b", has_ended=True)
    made.request_stop([fresh])
    assert [each is slow for each in made.unfinished_workers] == [True]
    owned = ThreadGroup(on_unexpected_end=lambda end: None)

    def ends(stop: threading.Event) -> None:
        stop.wait(0.1)
        slow.has_ended = True
        stop.set()

    owned.start("ends", ends)
    caplog.clear()
    made.wait_for_workers(CLOCK.now_s() + 10.0)
    assert made.unfinished_workers == []
    assert caplog.text == ""
    assert owned.stop_all(1.0) == []


def test_nobody_is_waited_for_at_once():
    made = GracefulShutdown(CLOCK)
    made.request_stop([Worker("a->b", has_ended=True)])
    made.wait_for_workers(CLOCK.now_s() - 1.0)
    assert made.unfinished_workers == []


FILE = """clusters=a,b,c
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
c.bootstrap.servers=c:1
a->b.enabled=true
emit.heartbeats.enabled=false
mm2.spark.engine=inline
"""
TO_C = "a->c.enabled=true"
State = FlowState
WAIT_S = 10.0


def settings(*lines: str) -> Mm2Settings:
    text = FILE + "\n".join(lines)
    return config_loader.parse_mm2_properties(
        text, file="mm2", folder=pathlib.Path("/"), environment={}
    )


class Running:
    def __init__(
        self, *lines: str, choice: FlowSelection = flow_connector_configs.ALL_FLOWS
    ) -> None:
        self.fleet = Fleet()
        self.served: dict[str, PageRenderer] = {}
        self.file = settings(*lines)
        self.node = Mm2Node(
            self.file,
            selection=choice,
            environment={},
            create_fleet=self._make_fleet,
            pages=self.served,
        )

    def _make_fleet(
        self,
        internal: InternalRestSettings | None,
        *,
        pages: PagesByPath,
        on_change: Callable[[AuditedRequest], None],
    ) -> WorkerFleet:
        self.on_change = on_change
        return fleets.as_fleet(self.fleet)

    def begins(self) -> Running:
        """Each flow's worker has begun, and has written what its file says."""
        self.node.start()
        self.settles()
        return self

    def settles(self) -> None:
        eventually.eventually(lambda: self.node.has_applied_changes, WAIT_S)

    def reloads(self, *lines: str) -> None:
        after = settings(*lines)
        self.node.apply_changes(after, config_diff.plan_config_changes(self.node.settings, after))

    def states(self) -> dict[str, State]:
        return {each.flow: each.state for each in self.node.statuses()}

    def written(self, flow: str) -> dict[str, str | None]:
        return self.fleet.members[flow].stored[flow_connector_configs.SOURCE_CONNECTOR]


@pytest.fixture
def running() -> Iterator[type[Running]]:
    made: list[Running] = []

    class Stopped(Running):
        def __init__(
            self, *lines: str, choice: FlowSelection = flow_connector_configs.ALL_FLOWS
        ) -> None:
            super().__init__(*lines, choice=choice)
            made.append(self)

    yield Stopped
    for each in made:
        each.node.stop(1.0)


def test_every_flow_of_the_file_has_a_worker_and_is_shown(running):
    found = running(TO_C).begins()
    assert set(found.fleet.members) == {"a->b", "a->c"}
    assert list(found.states()) == ["a->b", "a->c"]
    assert not found.node.has_ended
    assert found.node.engine.state is EngineState.READY
    assert found.node.plugin_metrics() == {"a->b": (), "a->c": ()}
    assert found.node.rest_api == {
        "url": "http://h:1",
        "user": "mm2",
        "password": "made anew",
        "flows": {"a->b": "/a/b", "a->c": "/a/c"},
    }


def test_where_the_status_page_is_is_told_where_there_is_one(running, caplog):
    caplog.set_level("INFO")
    assert not running().node.is_engine_ready, "it has not begun"
    assert running().begins().node.is_engine_ready
    assert "status page" not in caplog.text
    found = running()
    found.served["/ui"] = lambda _: PageResponse(body=b"")
    found.begins()
    assert "the status page is available at http://h:1/ui" in caplog.text


def test_only_flows_that_were_chosen_run_here(running):
    found = running(TO_C, choice=FlowSelection(target_aliases=("c",))).begins()
    assert list(found.fleet.members) == ["a->c"]
    assert list(found.states()) == ["a->c"]


def test_a_stop_ends_the_workers_the_engine_and_the_servers(running):
    found = running(TO_C).begins()
    found.node.stop()
    assert all(each.calls == ["start", "stop"] for each in found.fleet.members.values())
    assert found.fleet.calls == ["open", "close"]
    assert set(found.states().values()) == {State.STOPPED}
    assert found.node.has_ended
    assert found.node.engine.state is EngineState.STOPPED


def test_what_does_not_begin_fails_its_flow_alone(running):
    found = running(TO_C)
    found.fleet.next.append(Member(refuses=FatalError("no such mechanism")))
    found.node.start()

    def failed() -> bool:
        return list(found.states().values()).count(State.FAILED) == 1

    eventually.eventually(failed, WAIT_S)
    assert not found.node.has_ended


def test_a_flow_that_was_stopped_and_can_be_resumed_does_not_end_the_process(running):
    found = running().begins()
    herder = found.fleet.members["a->b"].herder

    def is_stopped(expected: bool) -> bool:
        return (found.states()["a->b"] is State.STOPPED) is expected

    for state, shown in (
        (TargetState.STOPPED, True),
        (TargetState.STARTED, False),
    ):
        herder.write(
            [config_records.encode_target_state(flow_connector_configs.SOURCE_CONNECTOR, state)]
        )
        eventually.eventually(functools.partial(is_stopped, shown), WAIT_S)
        assert not found.node.has_ended


def test_an_error_of_ours_ends_the_process_and_says_what_it_was(running):
    found = running()
    found.fleet.next.append(Member(refuses=ZeroDivisionError("a bug")))
    found.node.start()
    eventually.eventually(lambda: found.node.crash_reason, WAIT_S)
    assert found.node.crash_reason == "flow a->b: ZeroDivisionError('a bug')"
    assert found.node.has_ended


def test_a_data_plane_that_fails_stops_all_flows_from_copying(running):
    found = running().begins()
    found.node.engine.stop(1.0)
    (status,) = found.node.statuses()
    assert status.state is State.FAILED
    assert "the engine failed" in status.reason
    shared_copy_engine.close(1.0)


def test_a_reload_changes_what_connectors_are_told_and_keeps_the_worker(running):
    found = running().begins()
    found.reloads("topics=x")
    found.settles()
    assert found.written("a->b")["topics"] == "x"
    assert found.fleet.members["a->b"].calls == ["start"]
    assert [name for name, _ in found.fleet.made] == ["a->b"]


def test_a_reload_begins_and_ends_flows(running):
    found = running().begins()
    found.reloads(TO_C)
    found.settles()
    assert list(found.states()) == ["a->b", "a->c"]
    found.reloads("a->b.enabled=false", TO_C)
    assert list(found.states()) == ["a->c"]
    assert found.fleet.members["a->b"].calls == ["start", "stop"]
    assert found.fleet.members["a->c"].calls == ["start"]
    assert not found.node.has_ended


def test_a_worker_whose_own_settings_change_ends_before_another_begins(running):
    found = running()
    found.fleet.next.extend([Member(rebalance_count=3), Member(rebalance_count=1)])
    found.begins()
    assert found.node.rebalance_counts() == {"a->b": 3}
    found.reloads("b.offset.flush.interval.ms=4711")
    found.settles()
    (_, before), (_, after) = found.fleet.made
    assert before.calls == ["start", "stop"]
    assert after.calls == ["start"]
    assert found.node.rebalance_counts() == {"a->b": 4}


def test_a_file_whose_worker_cannot_be_used_changes_nothing(running):
    found = running().begins()
    before = found.node.settings
    with pytest.raises(ConnectError):
        found.reloads("b.offset.flush.interval.ms=soon", TO_C)
    assert found.node.settings is before
    assert list(found.states()) == ["a->b"]


def test_a_reload_does_not_end_a_process_in_between(running):
    """While its only flow's worker is replaced."""
    found = running().begins()
    seen: set[bool] = set()

    def looks(stop: threading.Event) -> None:
        while not stop.is_set():
            seen.add(found.node.has_ended)

    looking = ThreadGroup(on_unexpected_end=lambda _: None)
    looking.start("looks", looks)
    found.reloads("b.offset.flush.interval.ms=4711")
    looking.stop_all(WAIT_S)
    assert seen == {False}


def test_who_does_not_lead_says_for_which_flows_its_file_changes_nothing(running):
    found = running()
    found.fleet.next.append(Member(is_leader=False, leader_url="http://h:1"))
    found.node.start()
    (line,) = eventually.eventually(lambda: found.node.ineffective_changes, WAIT_S)
    assert line.startswith("a->b: the node at http://h:1 leads")


def test_what_operators_do_once_it_has_stopped_is_in_the_log_alone(running, caplog):
    made = running().begins()
    made.node.stop(1.0)
    asked = AuditedRequest(
        method="PUT",
        path="/a/b/connectors/MirrorSourceConnector/pause",
        query="",
        body=b"",
        user="root (uid 0, pid 7)",
        client="",
        status=202,
    )
    made.on_change(asked)
    assert "a->b: 1 operator action not recorded in " in caplog.text
    assert "Recorded only in this log: pause a->b" in caplog.text
