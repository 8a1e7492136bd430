from __future__ import annotations

import dataclasses

import pytest

from mm2.app import overview
from mm2.app.reports import flow_report, flow_verdict
from mm2.app.ui import estimates, tones
from mm2.core import flows, time_to_loss

Kind = estimates.Kind
FLOW = flows.Flow(source="east", target="west")
NOW_MS = 1_700_000_000_000
DONE = flow_report.Partition(
    topic="orders", partition=0, mirror="m", state="copying", copied_to=9, end=9
)


HEALTHY = flow_verdict.Verdict(health=flow_verdict.Health.HEALTHY)


def estimate(*parts, state=flow_report.State.RUNNING, **fields):
    report = flow_report.FlowReport(
        flow=FLOW.name,
        seen_by=("process 1",),
        at_ms=NOW_MS,
        state=state,
        partitions=tuple(dataclasses.replace(DONE, **each) for each in parts),
        **fields,
    )
    return estimates.make(report, FLOW, verdict=HEALTHY)


def test_where_all_is_copied_nothing_is_known_against_it_and_that_is_all_it_says():
    found = estimate({})
    assert estimates.as_json(found) == {
        "verdict": "nothing known against it",
        "tone": "good",
        "findings": [],
        "command": "mm2 failover --from east --to west",
    }


def test_what_is_not_copied_yet_costs_and_is_counted():
    found = estimate({"end": 12, "waiting_since_ms": NOW_MS - 5_000}, {"partition": 1, "end": 10})
    assert found.kind is Kind.COSTS
    assert found.findings == ("up to 4 records of east are not on west yet, 5.0 s",)


@pytest.mark.parametrize(
    ("parts", "fields", "kind", "words"),
    [
        ([{"state": "stopped"}], {}, Kind.COSTS, "1 partition halted"),
        ([{"end": None}], {}, Kind.UNKNOWN, "nobody knows how far"),
        ([{}], {"elsewhere": 2}, Kind.UNKNOWN, "2 partitions are copied by other processes"),
        ([{}], {"state": flow_report.State.PLANNING}, Kind.UNKNOWN, "the flow is PLANNING"),
        ([{}], {"state": flow_report.State.PAUSED}, Kind.UNKNOWN, "the flow is PAUSED"),
        ([], {}, Kind.UNKNOWN, "it has nothing to copy: no topic of the source matches"),
        (
            [{"outlook": time_to_loss.Outlook(kind=time_to_loss.Kind.GONE, gone=7)}],
            {},
            Kind.COSTS,
            "the source deleted 7 offsets before they were copied",
        ),
    ],
)
def test_what_was_found_decides_and_is_told(parts, fields, kind, words):
    found = estimate(*parts, **fields)
    assert found.kind is kind
    assert words in found.findings[0]


def test_what_is_unknown_decides_and_what_costs_is_told_too():
    found = estimate({"state": "stopped"}, {"partition": 1, "end": None}, elsewhere=1)
    assert found.kind is Kind.UNKNOWN
    assert len(found.findings) == 3


@pytest.mark.parametrize("kind", list(Kind))
def test_only_where_nothing_is_known_against_it_it_looks_well(kind):
    told = estimates.as_json(estimates.Estimate(kind=kind, findings=(), command=""))
    assert (told["tone"] == tones.Tone.GOOD.value) == (kind is Kind.NOTHING_KNOWN)


def test_a_flow_that_does_not_replicate_cannot_be_judged():
    report = flow_report.FlowReport(
        flow=FLOW.name,
        seen_by=(),
        at_ms=NOW_MS,
        state=flow_report.State.RUNNING,
        partitions=(DONE,),
    )
    unreachable = "source east unreachable since 22:03:28Z: refused"
    verdict = flow_verdict.Verdict(health=flow_verdict.Health.UNHEALTHY, reasons=(unreachable,))
    found = estimates.make(report, FLOW, verdict=verdict)
    assert (found.kind, found.findings) == (Kind.UNKNOWN, (unreachable,))


def test_where_nothing_is_copied_why_is_told_once():
    empty = flow_report.FlowReport(
        flow=FLOW.name, seen_by=(), at_ms=NOW_MS, state=flow_report.State.RUNNING
    )
    found = estimates.make(empty, FLOW, verdict=flow_verdict.judge(empty, within_s=60.0))
    assert (found.kind, found.findings) == (Kind.UNKNOWN, (overview.NOTHING_TO_COPY,))
    others = dataclasses.replace(empty, elsewhere=3)
    found = estimates.make(others, FLOW, verdict=flow_verdict.judge(others, within_s=60.0))
    assert "no partition is copied here" in found.findings
