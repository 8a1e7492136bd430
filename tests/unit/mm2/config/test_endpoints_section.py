from __future__ import annotations

import pathlib

import pytest

from mm2.config.mm2_settings import HealthSettings, MetricsEndpointSettings

BASE = """
clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}
flows: [{from: a, to: b}]
"""


def test_metrics_are_local_unless_said_otherwise(read):
    assert read(BASE).metrics == MetricsEndpointSettings()
    found = read(f"{BASE}metrics: {{enabled: false, host: 0.0.0.0, port: 0, by: partition}}\n")
    assert found.metrics == MetricsEndpointSettings(
        enabled=False, host="0.0.0.0", port=0, by_partition=True
    )


@pytest.mark.parametrize(
    "key", ["port: 70000", "host: a b", "ports: 1", "enabled: maybe", "by: task"]
)
def test_mistakes_in_metrics(wrong, key):
    (problem,) = wrong(f"{BASE}metrics:\n  {key}\n")
    assert (problem.line, problem.key) == (5, f"metrics.{key.split(':')[0]}")


def test_what_counts_as_well_and_where_drills_are_noted(read):
    assert read(BASE).health == HealthSettings()
    given = "health: {replicating.within.seconds: 5}\ndrill: {report: /var/drills.json}\n"
    found = read(BASE + given)
    assert found.health.replicating_within_s == 5.0
    assert found.health.drill_report == pathlib.Path("/var/drills.json")
    assert found.flat.props["mm2.health.replicating.within.seconds"] == "5"
    assert found.flat.props["mm2.drill.report"] == "/var/drills.json"
    report = read(BASE + "drill: {report: drills.json}\n").health.drill_report
    assert report is not None
    assert report.is_absolute()


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("health: {replicating.within.seconds: 0}", "health.replicating.within.seconds"),
        ("health: {replicating: 5}", "health.replicating"),
        ("drill: {reports: x}", "drill.reports"),
        ("drill: {report: ''}", "drill.report"),
    ],
)
def test_mistakes_in_health_and_drill(wrong, line, key):
    (problem,) = wrong(f"{BASE}{line}\n")
    assert (problem.line, problem.key) == (4, key)


def test_what_workers_and_their_api_are_told(read, wrong):
    found = read(f"{BASE}rest:\n").flat.props
    assert found["listeners"] == "http://:0"
    assert found["dedicated.mode.enable.internal.rest"] == "true"
    assert found["b.scheduled.rebalance.max.delay.ms"] == "5000"
    given = "rest: {listeners: 'http://:8083'}\nworker: {scheduled.rebalance.max.delay.ms: 7}\n"
    found = read(BASE + given).flat.props
    assert found["listeners"] == "http://:8083"
    assert found["b.scheduled.rebalance.max.delay.ms"] == "7"
    (problem,) = wrong(f"{BASE}rest: {{listener: 'http://:8083'}}\n")
    assert problem.nearest == "listeners"
