from __future__ import annotations

import dataclasses

import pytest

from mm2.replication import cluster_capabilities
from mm2.replication.cluster_capabilities import (
    CapabilityCheck,
    CapabilityCheckResult,
    CheckOutcome,
    ClusterCapabilities,
    ClusterRole,
    DeliveryAssessment,
    DeliveryGuarantee,
)

PREFIX = "mm2-a->b-"


def spoken(side: ClusterRole, **other: int | None) -> dict[str, int | None]:
    return {api.name: api.high for api in cluster_capabilities.REQUIRED_APIS[side]} | other


def source(**other: int | None) -> ClusterCapabilities:
    return ClusterCapabilities(
        alias="a", api_versions=spoken(ClusterRole.SOURCE, **other), has_topic_ids=True
    )


def target(
    answers: dict[CapabilityCheck, CapabilityCheckResult] | None = None, **other: int | None
) -> ClusterCapabilities:
    checks = dict.fromkeys(CapabilityCheck, cluster_capabilities.CHECK_HOLDS) | (answers or {})
    return ClusterCapabilities(
        alias="b",
        api_versions=spoken(ClusterRole.TARGET, **other),
        has_topic_ids=True,
        checks=checks,
    )


def decide(here: ClusterCapabilities, there: ClusterCapabilities) -> DeliveryAssessment:
    return cluster_capabilities.assess_delivery(here, there, transactional_prefix=PREFIX)


def fails(
    outcome: CheckOutcome = CheckOutcome.FAILS, detail: str = "seen so"
) -> CapabilityCheckResult:
    return CapabilityCheckResult(outcome=outcome, detail=detail)


def test_all_that_is_needed_makes_it_exactly_once():
    verdict = decide(source(), target())

    assert (verdict.guarantee, verdict.is_verified, verdict.is_fenced) == (
        DeliveryGuarantee.EXACTLY_ONCE,
        True,
        True,
    )
    assert (verdict.reasons, verdict.notes, str(verdict)) == ((), (), "exactly once")


@pytest.mark.parametrize(
    "check", sorted(set(CapabilityCheck) - {CapabilityCheck.UNCHANGED}, key=str)
)
def test_each_check_that_fails_makes_it_at_least_once_and_says_why(check):
    verdict = decide(source(), target({check: fails()}))

    assert verdict.guarantee is DeliveryGuarantee.AT_LEAST_ONCE
    assert not verdict.is_fenced
    (reason,) = verdict.reasons
    assert check.value in reason
    assert "seen so" in reason


def test_a_denied_transactional_id_names_the_rights_to_grant():
    verdict = decide(
        source(), target({CapabilityCheck.TRANSACTIONAL_ID: fails(CheckOutcome.DENIED)})
    )

    (reason,) = verdict.reasons
    assert "WRITE and DESCRIBE on transactional ids with the prefix mm2-a->b-" in reason


@pytest.mark.parametrize(
    "check", sorted(set(CapabilityCheck) - {CapabilityCheck.UNCHANGED}, key=str)
)
def test_what_was_not_tried_is_taken_for_granted_and_said(check):
    verdict = decide(
        source(), target({check: fails(CheckOutcome.UNKNOWN, "no right to create it")})
    )

    assert str(verdict) == "exactly once, not verified"
    assert verdict.is_fenced
    assert "no right to create it" in verdict.notes[0]


def test_what_fails_counts_more_than_what_is_unknown():
    answers = {
        CapabilityCheck.TRANSACTIONAL_ID: fails(),
        CapabilityCheck.FENCE: fails(CheckOutcome.UNKNOWN),
    }
    assert decide(source(), target(answers)).guarantee is DeliveryGuarantee.AT_LEAST_ONCE


def test_a_target_that_rewrites_batches_is_only_noted():
    verdict = decide(source(), target({CapabilityCheck.UNCHANGED: fails()}))

    assert verdict.guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert "rewrites batches" in verdict.notes[0]


@pytest.mark.parametrize("name", ["find_coordinator", "add_partitions_to_txn", "end_txn"])
def test_without_transactions_nothing_is_fenced(name):
    verdict = decide(source(), target(**{name: None}))

    assert verdict.guarantee is DeliveryGuarantee.AT_LEAST_ONCE
    assert name in verdict.reasons[0]


@pytest.mark.parametrize(
    "name", [api.name for api in cluster_capabilities.REQUIRED_APIS[ClusterRole.SOURCE]]
)
def test_what_a_source_must_speak_is_needed_for_anything(name):
    verdict = decide(source(**{name: None}), target())

    assert verdict.guarantee is DeliveryGuarantee.NONE
    assert f"a does not support {name}" in verdict.reasons[0]


@pytest.mark.parametrize("name", ["produce", "init_producer_id", "offset_for_leader_epoch"])
def test_what_a_target_must_speak_is_needed_for_anything(name):
    assert decide(source(), target(**{name: None})).guarantee is DeliveryGuarantee.NONE


def test_a_cluster_without_topic_ids_is_noted():
    old = ClusterCapabilities(
        alias="a", api_versions=spoken(ClusterRole.SOURCE), has_topic_ids=False
    )

    (note,) = decide(old, target()).notes
    assert note.startswith("a has no topic ids")


def test_brokers_that_do_not_tell_how_long_they_remember_are_noted():
    silent = dataclasses.replace(target(), reports_producer_expiration=False)

    (note,) = decide(source(), silent).notes
    assert "24 hours are assumed" in note
    assert (
        decide(source(), dataclasses.replace(target(), reports_producer_expiration=True)).notes
        == ()
    )
