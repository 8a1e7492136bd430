"""Health over HTTP: 200 or 503, and a body that says why."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from connect_runtime.ports import pages
from mm2.app import health_pages, overview
from mm2.connectors import board, flow_status
from mm2.core import health
from mm2.core import holds as holding
from mm2.core.copy import crossing
from tests.support import statuses

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
            self.running, self.beats, health.Crossings(), within_s=60.0, clock=self.clock
        )

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


def test_replicating_is_told_of_all_flows_or_of_one(served):
    served.running.flows = [
        statuses.flow(statuses.partition()),
        statuses.flow(statuses.partition(), name="west->east"),
    ]
    place = board.BOARD.pulse("east->west", 0)
    try:
        place.put(crossing.Pulse(crossed_ms=NOW_MS - 500))
        status, told = served.ask(health_pages.REPLICATING)
        assert (status, [each["ok"] for each in told["findings"]]) == (503, [True, False])
        status, told = served.ask(health_pages.REPLICATING, flow="east->west")
        assert (status, [each["flow"] for each in told["findings"]]) == (200, ["east->west"])
        assert served.ask(health_pages.REPLICATING, flow="west->east")[0] == 503
        assert served.ask(health_pages.REPLICATING, flow="a->b")[0] == 404
    finally:
        place.leave()


@pytest.mark.parametrize(
    ("flow", "reason"),
    [
        (statuses.flow(), overview.NOTHING_TO_COPY),
        (statuses.flow(elsewhere=3), "nothing has crossed yet"),
        (statuses.flow(holds=holding.Holds(paused=True)), "it is paused, until mm2 resume"),
        (statuses.flow(state=flow_status.FlowState.PLANNING, reason="x"), "it is PLANNING: x"),
    ],
)
def test_why_a_flow_does_not_replicate_is_told(served, flow, reason):
    served.running.flows = [flow]
    status, told = served.ask(health_pages.REPLICATING)
    assert status == 503
    assert told["findings"][0]["reason"].startswith(reason)


@pytest.fixture
def pulse():
    """Of task 0: nothing is left to copy, as of now."""
    place = board.BOARD.pulse("east->west", 0)
    place.put(crossing.Pulse(idle_ms=NOW_MS))
    yield place
    place.leave()


FAILED = statuses.task(1, flow_status.TaskState.FAILED)


@pytest.mark.parametrize(
    ("flow", "replicates"),
    [
        (statuses.flow(statuses.partition()), True),
        (statuses.flow(statuses.partition(), tasks=[statuses.task(0), FAILED]), False),
        (statuses.flow(statuses.partition(), statuses.partition("b", phase="waiting")), False),
        (statuses.flow(statuses.partition(), statuses.partition("b", phase="stopped")), False),
        (statuses.flow(statuses.partition(), statuses.partition("b", task=-1, phase="x")), True),
    ],
)
def test_nothing_is_left_where_all_of_the_flow_here_is_copied(served, pulse, flow, replicates):
    served.running.flows = [flow]
    status, told = served.ask(health_pages.REPLICATING)
    assert (status == 200) is replicates, told


def test_what_has_failed_since_goes_on_counting_from_when_all_was_copied(served, pulse):
    served.running.flows = [statuses.flow(statuses.partition())]
    assert served.ask(health_pages.REPLICATING)[0] == 200
    served.running.flows = [statuses.flow(statuses.partition(phase="waiting"), tasks=[FAILED])]
    pulse.leave()
    status, told = served.ask(health_pages.REPLICATING)
    assert (status, told["findings"][0]["reason"]) == (
        200,
        "0.0 s ago all of the source was copied, and its brokers answered",
    )


def test_a_node_with_findings_of_its_connector_alone_copies_nothing(served):
    """They are of no task."""
    finding = statuses.partition(task=-1, phase="stopped")
    served.running.flows = [statuses.flow(finding, tasks=(), elsewhere=3)]
    status, told = served.ask(health_pages.REPLICATING)
    assert status == 200, told
    assert "copied by other nodes" in told["findings"][0]["reason"]


@pytest.mark.parametrize(
    ("flow", "reason"),
    [
        (statuses.flow(state=flow_status.FlowState.FAILED, reason="no"), "it is FAILED: no"),
        (statuses.flow(state=flow_status.FlowState.STOPPED), "it is STOPPED"),
        (statuses.flow(holds=holding.Holds(paused=True)), "it is paused, until mm2 resume"),
    ],
)
def test_what_is_held_does_not_replicate(served, flow, reason):
    served.running.flows = [flow]
    status, told = served.ask(health_pages.REPLICATING)
    assert (status, told["findings"][0]["reason"]) == (503, reason)


def test_whoever_ends_processes_is_answered_at_once_and_waits_for_nobody_else(served):
    lanes = {path: pages.lane(make) for path, make in served.pages.items()}
    assert lanes == {
        health_pages.LIVE: pages.Lane.AT_ONCE,
        health_pages.READY: pages.Lane.PROBES,
        health_pages.REPLICATING: pages.Lane.PROBES,
    }


@pytest.mark.parametrize("path", [health_pages.READY, health_pages.REPLICATING])
def test_many_who_ask_cost_one_look_a_second(served, path):
    served.running.flows = [statuses.flow(statuses.partition())]
    make = served.pages[path]
    for number in range(100):
        make(pages.Asked(path=path, query={"flow": f"{number}"}))
    assert served.running.looks == 1
    served.clock.at_s += health_pages.KEPT_S
    make(pages.Asked(path=path))
    assert served.running.looks == 2
