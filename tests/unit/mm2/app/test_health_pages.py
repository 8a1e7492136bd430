"""Health over HTTP: 200 or 503, and a body that says why."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field

import pytest

from connect_runtime.ports import pages
from mm2.app import health_pages
from mm2.app.reports import flow_report
from mm2.connectors import flow_status
from mm2.core import health, reachability
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
    flows: list[flow_status.FlowStatus] = field(default_factory=list)
    serves: bool = True
    crashed: str = ""
    engine_ready: bool = True
    looks: int = 0

    def statuses(self) -> list[flow_status.FlowStatus]:
        self.looks += 1
        return self.flows

    def standings(self) -> list[health.Standing]:
        return [
            health.Standing(flow=each.flow, joined=True, configured=True, serves=self.serves)
            for each in self.flows
        ]


class Served:
    def __init__(self) -> None:
        self.running, self.clock = Running(), Clock()
        self.beats = health_pages.Beats(self.clock)
        self.pages = health_pages.served(
            self.running, self.beats, lambda: self.reports, within_s=60.0, clock=self.clock
        )
        self.reports: list[flow_report.FlowReport] = []

    def ask(self, path: str, **query: str) -> tuple[int, dict]:
        """When what was judged before is no longer kept."""
        if path != health_pages.LIVE:
            self.clock.at_s += health_pages.KEPT_S
        page = self.pages[path](pages.Asked(path=path, query=query))
        assert page.content_type == "application/json"
        assert page.headers == {"Cache-Control": "no-store"}
        return page.status, json.loads(page.body)


@pytest.fixture
def served():
    return Served()


def test_live_follows_the_main_loop(served):
    status, told = served.ask(health_pages.LIVE)
    assert (status, told["status"]) == (200, "ok")
    served.clock.at_s += 100.0
    status, told = served.ask(health_pages.LIVE)
    assert (status, told["status"]) == (503, "failing")
    assert told["findings"] == [
        {"ok": False, "reason": "the main loop has not come round for 100 s; allowed are 60 s"}
    ]
    served.beats.beat()
    assert served.ask(health_pages.LIVE)[0] == 200


def test_ready_says_which_flow_is_not(served):
    served.running.flows = [statuses.flow()]
    assert served.ask(health_pages.READY)[0] == 200
    served.running.serves = False
    status, told = served.ask(health_pages.READY)
    assert status == 503
    assert [each.get("flow") for each in told["findings"] if not each["ok"]] == ["east->west"]


def test_a_node_whose_target_does_not_answer_is_in_no_group(served):
    served.running.flows = [statuses.flow()]
    lost = reachability.Unreachable(
        side=reachability.Side.TARGET, cluster="west", reason="refused", since_ms=NOW_MS
    )
    served.reports = [seen_flows.report(unreachable=(lost,))]
    status, told = served.ask(health_pages.READY)
    assert status == 503
    (finding,) = [each for each in told["findings"] if not each["ok"]]
    assert finding["reason"].startswith("has not joined its group: target west unreachable since")
    served.reports = [
        seen_flows.report(unreachable=(dataclasses.replace(lost, side=reachability.Side.SOURCE),))
    ]
    assert served.ask(health_pages.READY)[0] == 200


def test_replicating_is_the_verdict_of_all_flows_or_of_one(served):
    served.reports = [
        seen_flows.report(seen_flows.part()),
        seen_flows.report(seen_flows.part(state="stopped"), flow="west->east"),
    ]
    status, told = served.ask(health_pages.REPLICATING)
    assert (status, told["findings"]) == (
        503,
        [
            {"flow": "east->west", "ok": True, "reason": "healthy"},
            {"flow": "west->east", "ok": False, "reason": "1 partition halted"},
        ],
    )
    status, told = served.ask(health_pages.REPLICATING, flow="east->west")
    assert (status, [each["flow"] for each in told["findings"]]) == (200, ["east->west"])
    assert served.ask(health_pages.REPLICATING, flow="west->east")[0] == 503
    assert served.ask(health_pages.REPLICATING, flow="a->b")[0] == 404


def test_without_a_flow_nothing_replicates(served):
    status, told = served.ask(health_pages.REPLICATING)
    assert (status, told["findings"][0]["reason"]) == (503, "the file has no flow that replicates")


def test_whoever_ends_processes_is_answered_at_once_and_waits_for_nobody_else(served):
    lanes = {path: pages.lane(make) for path, make in served.pages.items()}
    assert lanes == {
        health_pages.LIVE: pages.Lane.AT_ONCE,
        health_pages.READY: pages.Lane.PROBES,
        health_pages.REPLICATING: pages.Lane.PROBES,
    }


def test_many_who_ask_cost_one_look_a_second(served):
    served.running.flows = [statuses.flow(statuses.partition())]
    make = served.pages[health_pages.READY]
    for number in range(100):
        make(pages.Asked(path=health_pages.READY, query={"flow": f"{number}"}))
    assert served.running.looks == 1
    served.clock.at_s += health_pages.KEPT_S
    make(pages.Asked(path=health_pages.READY))
    assert served.running.looks == 2
