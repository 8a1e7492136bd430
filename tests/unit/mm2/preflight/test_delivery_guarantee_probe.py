"""What a probe found, as findings."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.preflight import delivery_guarantee_probe
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.preflight.delivery_guarantee_probe import ProbeResult
from mm2.replication import cluster_capabilities
from mm2.replication.cluster_capabilities import (
    CapabilityCheck,
    CapabilityCheckResult,
    CheckOutcome,
    ClusterCapabilities,
    ClusterRole,
)
from mm2.suggested_commands import ClusterCommands
from mm2.topics.flow_config import DeliveryMode, Flow

FLOW = Flow(source="east", target="west")
Outcome, Weight, Word = CheckOutcome, CheckSeverity, CheckArea
PREFIX = "mm2-east->west-"


def observed(
    alias: str,
    side: ClusterRole,
    outcome: CheckOutcome = Outcome.HOLDS,
    **spoken: int | None,
) -> ClusterCapabilities:
    answer = CapabilityCheckResult(outcome=outcome)
    return ClusterCapabilities(
        alias=alias,
        api_versions={
            **{each.name: each.high for each in cluster_capabilities.REQUIRED_APIS[side]},
            **spoken,
        },
        has_topic_ids=True,
        reports_producer_expiration=True,
        checks={
            **dict.fromkeys(CapabilityCheck, cluster_capabilities.CHECK_HOLDS),
            CapabilityCheck.TRANSACTIONAL_ID: answer,
        },
    )


def told(target: ClusterCapabilities, flow: Flow = FLOW) -> list[CheckFinding]:
    source = observed("east", ClusterRole.SOURCE)
    verdict = cluster_capabilities.assess_delivery(source, target, transactional_prefix=PREFIX)
    found = ProbeResult(flow=flow, source=source, target=target, verdict=verdict)
    return list(
        delivery_guarantee_probe.check_delivery_guarantee(found, ClusterCommands(bootstrap="t:1"))
    )


def target(outcome: CheckOutcome = Outcome.HOLDS, **spoken: int | None) -> ClusterCapabilities:
    return observed("west", ClusterRole.TARGET, outcome, **spoken)


def test_exactly_once_needs_no_words():
    assert told(target()) == []


def test_a_denied_transactional_id_is_a_right_with_its_command():
    (found,) = told(target(Outcome.DENIED))
    assert (found.code, found.area, found.severity) == (
        "at-least-once",
        Word.RIGHTS,
        Weight.WARNING,
    )
    assert "--transactional-id 'mm2-east->west-'" in found.command


def test_a_cluster_that_fences_nobody_is_a_matter_of_protocol():
    (found,) = told(target(Outcome.FAILS))
    assert (found.code, found.area) == ("at-least-once", Word.PROTOCOL)
    assert found.command == ""


def test_who_asked_for_at_least_once_is_not_told():
    modest = dataclasses.replace(FLOW, delivery=DeliveryMode.AT_LEAST_ONCE)
    assert told(target(Outcome.DENIED), modest) == []


def test_an_api_that_is_not_spoken_is_a_failure():
    (found,) = told(target(produce=None))
    assert (found.code, found.severity) == ("protocol", Weight.FAILED)
    assert "produce" in found.text


@pytest.mark.parametrize("ids", [True, False])
def test_what_is_different_there_is_a_note(ids):
    found = told(dataclasses.replace(target(), has_topic_ids=ids))
    assert [each.severity for each in found] == ([] if ids else [Weight.NOTE])
