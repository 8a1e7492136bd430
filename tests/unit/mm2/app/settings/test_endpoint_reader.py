from __future__ import annotations

import pytest

from mm2.app.settings import settings

BASE = """
clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}
flows: [{from: a, to: b}]
"""


def test_metrics_are_local_unless_said_otherwise(read):
    assert read(BASE).metrics == settings.MetricsSettings()
    found = read(f"{BASE}metrics: {{enabled: false, host: 0.0.0.0, port: 0}}\n").metrics
    assert found == settings.MetricsSettings(enabled=False, host="0.0.0.0", port=0)


@pytest.mark.parametrize("key", ["port: 70000", "host: a b", "ports: 1", "enabled: maybe"])
def test_mistakes_in_metrics(wrong, key):
    (problem,) = wrong(f"{BASE}metrics:\n  {key}\n")
    assert (problem.line, problem.key) == (5, f"metrics.{key.split(':')[0]}")


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
