"""The judge of incidents sees every surface that says something else than what is so."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mm2 import exit_codes
from tests.support import incidents
from tests.support.incidents import Expectation, Said, Surfaces

LOST = Expectation(
    health="unhealthy",
    reason="source east unreachable",
    lag=None,
    lag_code=exit_codes.FAILED,
    why="unreachable",
    failover="verdict: NO-GO",
    failover_code=exit_codes.FAILED,
    lost=frozenset({"source"}),
)
HEALTHY = Expectation(health="healthy")
REASON = "source east unreachable since 22:03:28Z: refused"


def finding(ok: bool, reason: str) -> dict[str, Any]:
    return {"findings": [{"flow": incidents.FLOW, "ok": ok, "reason": reason}]}


def surfaces(expected: Expectation, reason: str) -> Surfaces:
    """All say what is expected."""
    healthy = expected.health == "healthy"
    flow = {
        "health": expected.health,
        "state": "RUNNING",
        "reasons": [reason] if reason else [],
        "badge": "good" if healthy else "bad",
    }
    lag = {"lag_records": expected.lag, "lag_records_known": expected.lag is not None}
    verdict = "verdict: GO" if healthy else "verdict: NO-GO"
    return Surfaces(
        status=Said(code=0 if healthy else 1, text="", flow=flow),
        lag=Said(code=expected.lag_code, text="", flow=lag),
        why=Said(code=expected.why_code, text=reason),
        failover=Said(code=expected.failover_code, text=verdict),
        live=(200, {}),
        ready=(200, {}),
        replicating=(200 if healthy else 503, finding(healthy, reason or "healthy")),
        page=flow,
        metrics={
            "healthy": float(healthy),
            "source": float("source" not in expected.lost),
            "target": 1.0,
            "lag": expected.lag,
        },
    )


GOOD, BAD = surfaces(HEALTHY, ""), surfaces(LOST, REASON)


def test_where_all_agree_there_is_nothing_to_say():
    assert incidents.disagreements(HEALTHY, GOOD) == []
    assert incidents.disagreements(LOST, BAD) == []


def said(of: Said, **fields: Any) -> Said:
    """`flow` fields replace those in its flow; others are its own."""
    own = {name: fields.pop(name) for name in ("code", "text") if name in fields}
    return dataclasses.replace(of, flow={**of.flow, **fields}, **own)


@pytest.mark.parametrize(
    ("planted", "line"),
    [
        ({"status": said(BAD.status, code=0)}, "status: exit code: 0, expected 1"),
        ({"status": said(BAD.status, health="healthy")}, "status: health: 'healthy'"),
        ({"status": said(BAD.status, state="PLANNING")}, "status: state: 'PLANNING'"),
        ({"status": said(BAD.status, reasons=[])}, "status: reasons: ''"),
        ({"lag": said(BAD.lag, code=0)}, "lag: exit code: 0"),
        ({"lag": said(BAD.lag, lag_records=0, lag_records_known=True)}, "lag: records: 0"),
        ({"why": said(BAD.why, code=2)}, "why: exit code: 2"),
        ({"why": said(BAD.why, text="passed through")}, "why: 'passed through'"),
        ({"failover": said(BAD.failover, code=0)}, "failover: exit code: 0"),
        ({"failover": said(BAD.failover, text="verdict: GO")}, "failover: 'verdict: GO'"),
        ({"live": (0, {})}, "/health/live: 0"),
        ({"ready": (503, {})}, "/health/ready: 503"),
        ({"replicating": (200, BAD.replicating[1])}, "/health/replicating: 200"),
        ({"replicating": (503, finding(False, "?"))}, "/health/replicating: reasons: '?'"),
        ({"page": {**BAD.page, "health": "healthy"}}, "page: health: 'healthy'"),
        ({"page": {**BAD.page, "state": "STOPPED"}}, "page: state: 'STOPPED'"),
        ({"page": {**BAD.page, "reasons": ["?"]}}, "page: reasons: '?'"),
        ({"page": {**BAD.page, "badge": "good"}}, "page: badge good"),
        ({"metrics": {**BAD.metrics, "healthy": 1.0}}, "mm2_flow_healthy: 1.0"),
        ({"metrics": {**BAD.metrics, "healthy": None}}, "mm2_flow_healthy: None"),
        ({"metrics": {**BAD.metrics, "source": 1.0}}, "mm2_flow_cluster_reachable source: 1.0"),
        ({"metrics": {**BAD.metrics, "target": None}}, "mm2_flow_cluster_reachable target: None"),
        (
            {"metrics": {**BAD.metrics, "lag": 0.0}},
            "mm2_replication_lag_records: 0.0, expected None",
        ),
    ],
)
def test_one_surface_that_says_something_else_is_named(planted, line):
    (found,) = incidents.disagreements(LOST, dataclasses.replace(BAD, **planted))
    assert found.startswith(line)


def test_the_backlog_of_a_paused_flow_is_measured():
    expected = dataclasses.replace(LOST, state="PAUSED", lag=5)
    flow = {**BAD.page, "state": "PAUSED"}
    lag = said(BAD.lag, lag_records=5, lag_records_known=True)
    seen = dataclasses.replace(BAD, status=said(BAD.status, state="PAUSED"), page=flow, lag=lag)
    (found,) = incidents.disagreements(expected, seen)
    assert "absent" in found
    measured = dataclasses.replace(seen, metrics={**BAD.metrics, "lag": 5.0})
    assert incidents.disagreements(expected, measured) == []


def test_a_healthy_flow_has_no_reason():
    wrong = dataclasses.replace(GOOD, status=said(GOOD.status, reasons=["lag"]))
    assert incidents.disagreements(HEALTHY, wrong) == ["status: reasons: 'lag', expected ''"]
