"""Health over HTTP: 200 or 503, and a body that says why."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field

import pytest

from connect_runtime.rest import http_pages
from connect_runtime.rest.http_pages import PageRequest, PageThreadPool
from mm2.connectors.status_registry import FlowStatus
from mm2.status import health_endpoints
from mm2.status.health_endpoints import MainLoopHeartbeat
from mm2.status.process_health import FlowReadiness
from mm2.status.status_document import FlowReport
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster
from tests.support import seen_flows, statuses

NOW_MS = 1_790_000_000_000


@dataclass
class Clock:
    at_s: float = 100.0

    def now_s(self) -> float:
        return self.at_s

    def wall_ms(self) -> int:
        return NOW_MS


@dataclass
class Running:
    flows: list[FlowStatus] = field(default_factory=list)
    serves: bool = True
    crash_reason: str = ""
    is_engine_ready: bool = True
    looks: int = 0

    def statuses(self) -> list[FlowStatus]:
        self.looks += 1
        return self.flows

    def readiness(self) -> list[FlowReadiness]:
        return [
            FlowReadiness(flow=each.flow, joined=True, configured=True, is_serving=self.serves)
            for each in self.flows
        ]


class Served:
    def __init__(self) -> None:
        self.running, self.clock = Running(), Clock()
        self.beats = MainLoopHeartbeat(self.clock)
        self.pages = health_endpoints.make_health_pages(
            self.running, self.beats, lambda: self.reports, within_s=60.0, clock=self.clock
        )
        self.reports: list[FlowReport] = []

    def ask(self, path: str, **query: str) -> tuple[int, dict]:
        """When what was judged before is no longer kept."""
        if path != health_endpoints.LIVE_PATH:
            self.clock.at_s += health_endpoints.RESULT_MAX_AGE_S
        page = self.pages[path](PageRequest(path=path, query=query))
        assert page.content_type == "application/json"
        assert page.headers == {"Cache-Control": "no-store"}
        return page.status, json.loads(page.body)


@pytest.fixture
def served():
    return Served()


def test_live_follows_the_main_loop(served):
    status, told = served.ask(health_endpoints.LIVE_PATH)
    assert (status, told["status"]) == (200, "ok")
    served.clock.at_s += 100.0
    status, told = served.ask(health_endpoints.LIVE_PATH)
    assert (status, told["status"]) == (503, "failing")
    assert told["findings"] == [
        {"ok": False, "reason": "no iteration of the main loop for 100 s (maximum 60 s)"}
    ]
    served.beats.record_iteration()
    assert served.ask(health_endpoints.LIVE_PATH)[0] == 200


def test_ready_says_which_flow_is_not(served):
    served.running.flows = [statuses.flow()]
    assert served.ask(health_endpoints.READY_PATH)[0] == 200
    served.running.serves = False
    status, told = served.ask(health_endpoints.READY_PATH)
    assert status == 503
    assert [each.get("flow") for each in told["findings"] if not each["ok"]] == ["east->west"]


def test_a_reason_that_is_not_utf_8_breaks_no_page(served):
    served.running.crash_reason = "lone \ud800"
    status, told = served.ask(health_endpoints.LIVE_PATH)
    assert (status, told["findings"][0]["reason"][-6:]) == (503, "lone ?")


def test_a_node_whose_target_does_not_answer_is_in_no_group(served):
    served.running.flows = [statuses.flow()]
    lost = UnreachableCluster(
        side=ClusterSide.TARGET, cluster="west", reason="refused", since_ms=NOW_MS
    )
    served.reports = [seen_flows.report(unreachable=(lost,))]
    status, told = served.ask(health_endpoints.READY_PATH)
    assert status == 503
    (finding,) = [each for each in told["findings"] if not each["ok"]]
    assert finding["reason"].startswith("has not joined its group: target west unreachable since")
    served.reports = [
        seen_flows.report(unreachable=(dataclasses.replace(lost, side=ClusterSide.SOURCE),))
    ]
    assert served.ask(health_endpoints.READY_PATH)[0] == 200


def test_replicating_is_the_verdict_of_all_flows_or_of_one(served):
    served.reports = [
        seen_flows.report(seen_flows.part()),
        seen_flows.report(seen_flows.part(state="halted"), flow="west->east"),
    ]
    status, told = served.ask(health_endpoints.REPLICATING_PATH)
    assert (status, told["findings"]) == (
        503,
        [
            {"flow": "east->west", "ok": True, "reason": "healthy"},
            {"flow": "west->east", "ok": False, "reason": "1 partition halted"},
        ],
    )
    status, told = served.ask(health_endpoints.REPLICATING_PATH, flow="east->west")
    assert (status, [each["flow"] for each in told["findings"]]) == (200, ["east->west"])
    assert served.ask(health_endpoints.REPLICATING_PATH, flow="west->east")[0] == 503
    assert served.ask(health_endpoints.REPLICATING_PATH, flow="a->b")[0] == 404


def test_without_a_flow_nothing_replicates(served):
    status, told = served.ask(health_endpoints.REPLICATING_PATH)
    assert (status, told["findings"][0]["reason"]) == (
        503,
        "the configuration file has no flow that replicates",
    )


def test_whoever_ends_processes_is_answered_at_once_and_waits_for_nobody_else(served):
    lanes = {path: http_pages.get_thread_pool(make) for path, make in served.pages.items()}
    assert lanes == {
        health_endpoints.LIVE_PATH: PageThreadPool.EVENT_LOOP,
        health_endpoints.READY_PATH: PageThreadPool.PROBES,
        health_endpoints.REPLICATING_PATH: PageThreadPool.PROBES,
    }


def test_many_who_ask_cost_one_look_a_second(served):
    served.running.flows = [statuses.flow(statuses.partition())]
    make = served.pages[health_endpoints.READY_PATH]
    for number in range(100):
        make(PageRequest(path=health_endpoints.READY_PATH, query={"flow": f"{number}"}))
    assert served.running.looks == 1
    served.clock.at_s += health_endpoints.RESULT_MAX_AGE_S
    make(PageRequest(path=health_endpoints.READY_PATH))
    assert served.running.looks == 2
