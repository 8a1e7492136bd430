"""Several workers of different groups in one process, and two such processes: dedicated mode."""

from __future__ import annotations

import contextlib
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from connect_runtime.app import distributed_settings, internal_rest_settings
from connect_runtime.app.multi_worker_process import FleetMember, WorkerFleet
from connect_runtime.app.worker_settings import WorkerSettingsSource
from connect_runtime.base.errors import ConnectError
from connect_runtime.herder.herder_requests import ForwardRequest, PutConnector, RequestRefused
from connect_runtime.rest.audit_log import AuditedRequest
from mm2.sandbox import port_reservation
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import connect_workers, eventually, kafka
from tests.support.watched import Watched

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WAIT_S = 60.0
FLOWS = {("a", "b c"): "/a/b%20c", ("b c", "a"): "/b%20c/a"}
ONE, OTHER = FLOWS
PLUGINS = Path(__file__).parents[1] / "support" / "plugins"
WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "scheduled.rebalance.max.delay.ms": "0",
    "heartbeat.interval.ms": "500",
    "offset.flush.interval.ms": "500",
    "plugin.path": str(PLUGINS),
    **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
}


class Node:
    """One process' worth: a fleet with a member for each flow. The leader writes connector `c`."""

    def __init__(self, group: str, on: SandboxCluster, *, one: Watched, rest: bool):
        self._source = WorkerSettingsSource(file="f", folder=Path.cwd(), environment={})
        self._config = {"name": "c", **one.config(tasks_max="3")}
        self._port = port_reservation.reserve_port()
        internal = None
        if rest:
            internal = internal_rest_settings.read_internal_rest_settings(
                {"listeners": f"http://127.0.0.1:{self._port.port}"}, self._source
            )
        self.watched = one
        self.led: list[tuple[str, ...]] = []
        self.replies: list[object] = []
        self.met: list[bool] = []
        self.changes: list[AuditedRequest] = []
        self.user = ""
        self.fleet = WorkerFleet(internal, on_change=self.changes.append)
        self.members: dict[tuple[str, str], FleetMember] = {}
        self._group, self._on = group, on
        self._http = httpx.Client(timeout=WAIT_S)  # one: each reads the system's certificates

    def __enter__(self) -> Node:
        self.fleet.open()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.members.values():
            each.stop()
        self._http.close()
        self.fleet.close()
        self._port.release()

    def add(self, flow: tuple[str, str], **more: str) -> FleetMember:
        name = f"{self._group}-{'-'.join(flow).replace(' ', '-')}"
        settings = distributed_settings.parse_fleet_worker_settings(
            {
                **WORKER,
                **self._on.client_properties(),
                **connect_workers.storage(name),
                **more,
            },
            self._source,
        )
        member = self.fleet.create_member(
            settings,
            namespace=flow,
            prefix=FLOWS[flow],
            on_leading=self._lead,
            before_joining=lambda among_others: self.met.append(among_others()),
        )
        member.start()
        self.members[flow] = member
        return member

    def _lead(self, member: FleetMember) -> None:
        self.led.append(member.namespace)
        if member.herder.get_config_state().config("c") is None:
            put = PutConnector(connector="c", config=self._config)
            reply = member.herder.submit_request(put).result(WAIT_S)
            self.replies.append(reply)

    def ask(self, method: str, flow: tuple[str, str], path: str, body: Any = None) -> Any:
        told = self.fleet.loopback_api
        url, user = f"{told.url}{FLOWS[flow]}{path}", (self.user or told.user, told.password)
        return self._http.request(method, url, auth=user, json=body)

    def states(self, flow: tuple[str, str]) -> list[tuple[str, str]]:
        """State and worker of the connector and its tasks."""
        answer = self.ask("GET", flow, "/connectors/c/status")
        if answer.status_code != httpx.codes.OK:
            return []
        told = answer.json()
        return [(each["state"], each["worker_id"]) for each in (told["connector"], *told["tasks"])]


@pytest.fixture
def nodes(
    east: SandboxCluster, topic: Callable[..., str], tmp_path: Path
) -> Iterator[Callable[..., Node]]:
    name = kafka.create_topic(east.client_properties(), topic(), partitions=1)
    one = Watched(name, tmp_path, topic=name)
    with contextlib.ExitStack() as stack:

        def make(*, rest: bool = True) -> Node:
            node = Node(name, east, one=one, rest=rest)
            return stack.enter_context(node)

        yield make


def running(node: Node, flow: tuple[str, str], count: int = 4) -> Callable[[], bool]:
    return lambda: [state for state, _ in node.states(flow)] == ["RUNNING"] * count


def shared(node: Node, flow: tuple[str, str], *, by: int) -> Callable[[], bool]:
    return lambda: running(node, flow)() and len({who for _, who in node.states(flow)}) == by


def test_two_nodes_share_the_work_of_two_flows(nodes):
    first, second = nodes(), nodes()
    for flow in FLOWS:
        first.add(flow)
        eventually.eventually(running(first, flow), WAIT_S, interval_s=0.2)
        assert first.members[flow].is_leader
    for flow in FLOWS:
        second.add(flow)
        eventually.eventually(shared(second, flow, by=2), WAIT_S, interval_s=0.2)
        assert not second.members[flow].is_leader
        assert [each for each in second.led if each == flow] == []
    assert (first.met, second.met) == ([False, False], [True, True])
    assert sorted(first.led) == sorted(FLOWS)
    refused = (RequestRefused, ForwardRequest)
    eventually.eventually(lambda: len(first.replies) == len(FLOWS), WAIT_S)
    assert not [each for each in first.replies if isinstance(each, refused)]
    assert first.members[ONE].herder.get_config_state().connectors() == ["c"]


def test_what_the_leader_must_do_is_asked_of_any_node(nodes):
    """It goes to the leader's internal server, signed; so do a follower's task configs."""
    first, second = nodes(), nodes()
    first.add(ONE)
    eventually.eventually(running(first, ONE), WAIT_S, interval_s=0.2)
    second.add(ONE)
    eventually.eventually(shared(second, ONE, by=2), WAIT_S, interval_s=0.2)
    starts = first.watched.count("task.start", "0")
    restart = second.ask("POST", ONE, "/connectors/c/restart?includeTasks=true&onlyFailed=false")
    assert restart.status_code == httpx.codes.ACCEPTED, restart.text
    eventually.eventually(lambda: first.watched.count("task.start", "0") > starts, WAIT_S)
    config = {"name": "c", **first.watched.config(tasks_max="5")}
    put = second.ask("PUT", ONE, "/connectors/c/config", config)
    assert put.status_code == httpx.codes.OK, put.text
    eventually.eventually(running(second, ONE, 6), WAIT_S, interval_s=0.2)
    assert second.ask("PUT", ONE, "/connectors/c/pause").status_code == httpx.codes.ACCEPTED
    eventually.eventually(
        lambda: {state for state, _ in first.states(ONE)} == {"PAUSED"}, WAIT_S, interval_s=0.2
    )


def test_whoever_is_no_worker_is_told_nothing(nodes):
    node = nodes()
    node.add(ONE)
    eventually.eventually(running(node, ONE), WAIT_S, interval_s=0.2)
    address = node.fleet.advertised_url.partition("://")[2].rstrip("/")
    assert {who for _, who in node.states(ONE)} == {f"{address}/a->b c"}
    there = node.fleet.advertised_url.rstrip("/") + FLOWS[ONE]
    assert httpx.get(f"{there}/connectors").status_code == 404
    assert httpx.post(f"{there}/connectors/c/restart").status_code == 404
    assert httpx.post(f"{there}/connectors/c/tasks", json=[]).status_code == 404, "not signed"
    here = node.fleet.loopback_api.url + FLOWS[ONE]
    assert httpx.get(f"{here}/connectors").status_code == 401
    assert httpx.get(f"{here}/connectors", auth=("mm2", "guess")).status_code == 401
    assert httpx.post(f"{here}/connectors/c/tasks", json=[]).status_code == 401
    assert node.fleet.loopback_api.password not in repr(node.fleet.loopback_api)


def test_who_leads_next_is_told_so(nodes):
    first, second = nodes(), nodes()
    first.add(ONE)
    eventually.eventually(running(first, ONE), WAIT_S, interval_s=0.2)
    second.add(ONE)
    eventually.eventually(shared(second, ONE, by=2), WAIT_S, interval_s=0.2)
    first.members.pop(ONE).stop()
    eventually.eventually(lambda: second.led == [ONE], WAIT_S)
    eventually.eventually(shared(second, ONE, by=1), WAIT_S, interval_s=0.2)
    assert first.ask("GET", ONE, "/connectors").status_code == 404, "it is there no more"
    first.add(ONE)
    eventually.eventually(shared(first, ONE, by=2), WAIT_S, interval_s=0.2)


def test_what_is_changed_over_loopback_is_reported_with_who_did_it(nodes):
    node, flow = nodes(), ONE
    node.add(flow)
    eventually.eventually(running(node, flow), WAIT_S, interval_s=0.2)
    node.changes.clear()
    node.user = "root (uid 0, pid 7)"
    assert node.ask("PUT", flow, "/connectors/c/pause").status_code == httpx.codes.ACCEPTED
    assert node.ask("GET", flow, "/connectors").status_code == httpx.codes.OK
    (found,) = node.changes
    assert (found.method, found.path, found.user, found.status) == (
        "PUT",
        f"{FLOWS[flow]}/connectors/c/pause",
        node.user,
        202,
    )


def test_without_internal_rest_a_node_works_alone(nodes):
    node = nodes(rest=False)
    node.add(ONE)
    eventually.eventually(running(node, ONE), WAIT_S, interval_s=0.2)
    assert node.fleet.advertised_url == "NOTUSED"
    (who,) = {who for _, who in node.states(ONE)}
    host, names, told_apart = who.split("/")
    assert (host, names) == (socket.gethostname(), "a->b c")
    assert str(uuid.UUID(told_apart)) == told_apart


def test_a_flow_that_cannot_start_leaves_nothing_behind_and_may_be_tried_again(nodes, monkeypatch):
    monkeypatch.setattr("connect_runtime.app.worker_assembly.CLUSTER_ID_TIMEOUT_S", 2.0)
    node = nodes()
    with pytest.raises(ConnectError):
        node.add(ONE, **{"bootstrap.servers": "127.0.0.1:1"})
    assert node.ask("GET", ONE, "/connectors").status_code == 404
    node.add(ONE)
    eventually.eventually(running(node, ONE), WAIT_S, interval_s=0.2)


def test_without_internal_rest_task_configs_wait_until_who_has_them_leads(nodes, caplog):
    """As with Java's nodes; the worker lives on, and says what is missing."""
    first, second = nodes(rest=False), nodes(rest=False)
    first.add(ONE)
    eventually.eventually(running(first, ONE), WAIT_S, interval_s=0.2)
    names = ("c", "d")
    config = first.watched.config(tasks_max="1")
    put = first.ask("PUT", ONE, "/connectors/d/config", {"name": "d", **config})
    assert put.is_success, put.text
    second.add(ONE)

    def found(path: str) -> list[Any]:
        answers = [second.ask("GET", ONE, f"/connectors/{each}{path}") for each in names]
        assert all(each.is_success for each in answers), answers
        return [each.json() for each in answers]

    def apart() -> bool:
        owners = {each["connector"]["worker_id"] for each in found("/status")}
        return len(owners) == len(names)

    def tasks() -> list[int]:
        return sorted(len(each["tasks"]) for each in found(""))

    eventually.eventually(apart, WAIT_S, interval_s=0.2)
    for each in names:
        more = {"name": each, **first.watched.config(tasks_max="4")}
        put = first.ask("PUT", ONE, f"/connectors/{each}/config", more)
        assert put.is_success, put.text
    eventually.eventually(lambda: tasks()[1] == 4, WAIT_S, interval_s=0.2)
    told = "dedicated.mode.enable.internal.rest"
    eventually.eventually(lambda: told in caplog.text, WAIT_S, interval_s=0.2)
    eventually.eventually(lambda: tasks()[0] < 4, WAIT_S, interval_s=0.2)
    first.members.pop(ONE).stop()
    eventually.eventually(lambda: tasks() == [4, 4], WAIT_S, interval_s=0.2)
    assert second.members[ONE].failure is None
