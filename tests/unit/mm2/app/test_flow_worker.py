"""What a flow's worker takes over of a file that is read again, as it runs."""

from __future__ import annotations

import pathlib

import pytest

from connect_runtime.app import fleet
from connect_runtime.system import clock
from mm2.app import flow_plan, flow_worker
from mm2.app.settings import load

FILE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
"""


def plan(*lines: str) -> flow_plan.FlowPlan:
    text = FILE + "\n".join(lines)
    found = load.parse_properties(text, file="mm2", folder=pathlib.Path("/"), environment={})
    return next(
        each
        for each in flow_plan.plans(found, flow_plan.EVERYTHING, environment={})
        if each.name == "a->b"
    )


@pytest.fixture
def worker() -> flow_worker.FlowWorker:
    return flow_worker.FlowWorker(
        plan(), fleet.Fleet(None), can_copy=lambda: True, clock=clock.SystemClock()
    )


def test_how_often_what_fails_is_started_again_is_what_the_file_says_now(worker):
    assert worker._failures.restarts.most == 10
    worker.configure(plan("task.restart.max=3"))
    assert worker._failures.restarts.most == 3
