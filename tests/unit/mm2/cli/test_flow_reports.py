"""Asking the clusters of several flows, in one command."""

from __future__ import annotations

import os
from typing import Any

import pytest

from connect_runtime.base.errors import RetriableError
from mm2.cli import flow_reports
from mm2.clusters import reachability_probe
from mm2.config import config_loader
from mm2.status import status_from_clusters
from mm2.unreachable_cluster import ClusterSide

SOURCE, TARGET = ClusterSide


class World:
    """Time passes while clusters are waited for, which takes as long as may be, and while flows
    are looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed_s = 0.0
        self.silent: set[str] = set()
        self.waits: list[list[str]] = []
        self.looks: list[dict[str, Any]] = []
        monkeypatch.setattr(flow_reports, "SystemClock", lambda: self)
        monkeypatch.setattr(reachability_probe, "wait_for_clusters", self.wait)
        monkeypatch.setattr(status_from_clusters, "collect_report", self.look)

    def now_s(self) -> float:
        return self.passed_s

    def wait(self, accesses, *, timeout_s, **more):
        self.waits.append([each.name for each in accesses])
        missing = {each.name for each in accesses} & self.silent
        if missing:
            self.passed_s += timeout_s
        return {each: RetriableError("no response") for each in missing}

    def look(self, settings, flow, plan, *, timeout_s, lost, **more):
        self.looks.append({"flow": flow.name, "timeout_s": timeout_s, "lost": set(lost)})
        return flow.name

    def ask(self, config, *, timeout_s: float) -> None:
        settings = config_loader.load_config_file(config, environment=os.environ)
        ask = flow_reports.make_flow_report_collector(settings, timeout_s=timeout_s)
        for flow in settings.flows:
            assert ask(flow) == flow.name


def test_a_flow_takes_no_longer_than_its_timeout(config, monkeypatch):
    world = World(monkeypatch)
    world.silent = {"east"}
    world.ask(config, timeout_s=30.0)
    first = world.looks[0]
    assert world.passed_s + first["timeout_s"] <= 30.0
    assert first["timeout_s"] >= 10.0, "a silent cluster leaves time to ask the other one"


def test_each_cluster_is_waited_for_once(config, monkeypatch):
    world = World(monkeypatch)
    world.silent = {"east"}
    world.ask(config, timeout_s=30.0)
    assert sorted(name for each in world.waits for name in each) == ["east", "west"]
    assert world.looks[0]["lost"] == {SOURCE}
    assert world.looks[1] == {"flow": "west->east", "timeout_s": 30.0, "lost": {TARGET}}


def test_clusters_that_answer_are_not_waited_for_again_either(config, monkeypatch):
    world = World(monkeypatch)
    world.ask(config, timeout_s=30.0)
    assert sorted(name for each in world.waits for name in each) == ["east", "west"]
    assert [each["lost"] for each in world.looks] == [set(), set()]
