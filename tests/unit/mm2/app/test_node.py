"""One `mm2 run`: its flows' workers begin, change and end with it. The data plane is the real one,
inline; the workers' group is a fake."""

from __future__ import annotations

import functools
import pathlib
import threading
from collections.abc import Callable, Iterator

import pytest

from connect_runtime.app import fleet
from connect_runtime.app.settings import internal_rest
from connect_runtime.base import errors
from connect_runtime.core.state import cluster_config, config_records
from connect_runtime.ports import pages
from connect_runtime.rest import change_log
from connect_runtime.system import threads
from mm2.app import flow_plan, node
from mm2.app.settings import differences, load
from mm2.app.settings import settings as app_settings
from mm2.connectors import flow_status
from mm2.pipeline import data_plane, engine
from tests.fakes import fleets
from tests.support import eventually

FILE = """clusters=a,b,c
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
c.bootstrap.servers=c:1
a->b.enabled=true
emit.heartbeats.enabled=false
mm2.spark.engine=inline
"""
TO_C = "a->c.enabled=true"
State = flow_status.FlowState
WAIT_S = 10.0


def settings(*lines: str) -> app_settings.Settings:
    text = FILE + "\n".join(lines)
    return load.parse_properties(text, file="mm2", folder=pathlib.Path("/"), environment={})


class Running:
    def __init__(self, *lines: str, choice: flow_plan.Choice = flow_plan.EVERYTHING) -> None:
        self.fleet = fleets.Fleet()
        self.served: dict[str, pages.Make] = {}
        self.file = settings(*lines)
        self.node = node.Node(
            self.file,
            choice=choice,
            environment={},
            make_fleet=self._make_fleet,
            served=self.served,
        )

    def _make_fleet(
        self,
        internal: internal_rest.InternalRest | None,
        *,
        served: pages.Pages,
        on_change: Callable[[change_log.Change], None],
    ) -> fleet.Fleet:
        self.on_change = on_change
        return fleets.as_fleet(self.fleet)

    def begins(self) -> Running:
        """Each flow's worker has begun, and has written what its file says."""
        self.node.start()
        self.settles()
        return self

    def settles(self) -> None:
        eventually.eventually(lambda: self.node.settled, WAIT_S)

    def reloads(self, *lines: str) -> None:
        after = settings(*lines)
        self.node.apply(after, differences.plan(self.node.settings, after))

    def states(self) -> dict[str, State]:
        return {each.flow: each.state for each in self.node.statuses()}

    def written(self, flow: str) -> dict[str, str | None]:
        return self.fleet.members[flow].stored[flow_plan.SOURCE]


@pytest.fixture
def running() -> Iterator[type[Running]]:
    made: list[Running] = []

    class Stopped(Running):
        def __init__(self, *lines: str, choice: flow_plan.Choice = flow_plan.EVERYTHING) -> None:
            super().__init__(*lines, choice=choice)
            made.append(self)

    yield Stopped
    for each in made:
        each.node.stop(1.0)


def test_every_flow_of_the_file_has_a_worker_and_is_shown(running):
    found = running(TO_C).begins()
    assert set(found.fleet.members) == {"a->b", "a->c"}
    assert list(found.states()) == ["a->b", "a->c"]
    assert not found.node.ended
    assert found.node.engine.state is engine.EngineState.READY
    assert found.node.published() == {"a->b": (), "a->c": ()}
    assert found.node.api == {
        "url": "http://h:1",
        "user": "mm2",
        "password": "made anew",
        "flows": {"a->b": "/a/b", "a->c": "/a/c"},
    }


def test_where_the_status_page_is_is_told_where_there_is_one(running, caplog):
    caplog.set_level("INFO")
    assert not running().node.engine_ready, "it has not begun"
    assert running().begins().node.engine_ready
    assert "status page" not in caplog.text
    found = running()
    found.served["/ui"] = lambda _: pages.Page(body=b"")
    found.begins()
    assert "the status page is at http://h:2/ui" in caplog.text


def test_only_flows_that_were_chosen_run_here(running):
    found = running(TO_C, choice=flow_plan.Choice(near=("c",))).begins()
    assert list(found.fleet.members) == ["a->c"]
    assert list(found.states()) == ["a->c"]


def test_a_stop_ends_the_workers_the_engine_and_the_servers(running):
    found = running(TO_C).begins()
    found.node.stop()
    assert all(each.calls == ["start", "stop"] for each in found.fleet.members.values())
    assert found.fleet.calls == ["open", "close"]
    assert set(found.states().values()) == {State.STOPPED}
    assert found.node.ended
    assert found.node.engine.state is engine.EngineState.STOPPED


def test_what_does_not_begin_fails_its_flow_alone(running):
    found = running(TO_C)
    found.fleet.next.append(fleets.Member(refuses=errors.FatalError("no such mechanism")))
    found.node.start()

    def failed() -> bool:
        return list(found.states().values()).count(State.FAILED) == 1

    eventually.eventually(failed, WAIT_S)
    assert not found.node.ended


def test_a_flow_that_was_stopped_and_can_be_resumed_does_not_end_the_process(running):
    found = running().begins()
    herder = found.fleet.members["a->b"].herder

    def is_stopped(expected: bool) -> bool:
        return (found.states()["a->b"] is State.STOPPED) is expected

    for state, shown in (
        (cluster_config.TargetState.STOPPED, True),
        (cluster_config.TargetState.STARTED, False),
    ):
        herder.write([config_records.target_state(flow_plan.SOURCE, state)])
        eventually.eventually(functools.partial(is_stopped, shown), WAIT_S)
        assert not found.node.ended


def test_an_error_of_ours_ends_the_process_and_says_what_it_was(running):
    found = running()
    found.fleet.next.append(fleets.Member(refuses=ZeroDivisionError("a bug")))
    found.node.start()
    eventually.eventually(lambda: found.node.crashed, WAIT_S)
    assert found.node.crashed == "flow a->b: ZeroDivisionError('a bug')"
    assert found.node.ended


def test_a_data_plane_that_fails_stops_all_flows_from_copying(running):
    found = running().begins()
    found.node.engine.stop(1.0)
    (status,) = found.node.statuses()
    assert status.state is State.FAILED
    assert "the engine has failed" in status.reason
    data_plane.close(1.0)


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
    assert not found.node.ended


def test_a_worker_whose_own_settings_change_ends_before_another_begins(running):
    found = running()
    found.fleet.next.extend([fleets.Member(rebalances=3), fleets.Member(rebalances=1)])
    found.begins()
    assert found.node.rebalances() == {"a->b": 3}
    found.reloads("b.offset.flush.interval.ms=4711")
    found.settles()
    (_, before), (_, after) = found.fleet.made
    assert before.calls == ["start", "stop"]
    assert after.calls == ["start"]
    assert found.node.rebalances() == {"a->b": 4}


def test_a_file_whose_worker_cannot_be_used_changes_nothing(running):
    found = running().begins()
    before = found.node.settings
    with pytest.raises(errors.ConnectError):
        found.reloads("b.offset.flush.interval.ms=soon", TO_C)
    assert found.node.settings is before
    assert list(found.states()) == ["a->b"]


def test_a_reload_does_not_end_a_process_in_between(running):
    """While its only flow's worker is replaced."""
    found = running().begins()
    seen: set[bool] = set()

    def looks(stop: threading.Event) -> None:
        while not stop.is_set():
            seen.add(found.node.ended)

    looking = threads.Threads(on_unasked_end=lambda _: None)
    looking.start("looks", looks)
    found.reloads("b.offset.flush.interval.ms=4711")
    looking.stop_all(WAIT_S)
    assert seen == {False}


def test_who_does_not_lead_says_for_which_flows_its_file_changes_nothing(running):
    found = running()
    found.fleet.next.append(fleets.Member(leads=False, leader_url="http://h:1"))
    found.node.start()
    (line,) = eventually.eventually(lambda: found.node.not_in_force, WAIT_S)
    assert line.startswith("a->b: the node at http://h:1 leads")


def test_what_operators_do_once_it_has_stopped_is_in_the_log_alone(running, caplog):
    made = running().begins()
    made.node.stop(1.0)
    asked = change_log.Change(
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
    assert "Only this log has: pause a->b" in caplog.text
