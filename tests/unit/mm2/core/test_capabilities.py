from __future__ import annotations

import dataclasses

import pytest

from mm2.core import capabilities
from mm2.core.capabilities import Answer, Check, Delivery, Outcome, Side

PREFIX = "mm2-a->b-"


def spoken(side: Side, **other: int | None) -> dict[str, int | None]:
    return {api.name: api.high for api in capabilities.NEEDED[side]} | other


def source(**other: int | None) -> capabilities.Observed:
    return capabilities.Observed(alias="a", spoken=spoken(Side.SOURCE, **other), topic_ids=True)


def target(
    answers: dict[Check, Answer] | None = None, **other: int | None
) -> capabilities.Observed:
    checks = dict.fromkeys(Check, capabilities.HOLDS) | (answers or {})
    return capabilities.Observed(
        alias="b", spoken=spoken(Side.TARGET, **other), topic_ids=True, checks=checks
    )


def decide(here: capabilities.Observed, there: capabilities.Observed) -> capabilities.Verdict:
    return capabilities.decide(here, there, transactional_prefix=PREFIX)


def fails(outcome: Outcome = Outcome.FAILS, detail: str = "seen so") -> Answer:
    return Answer(outcome=outcome, detail=detail)


def test_all_that_is_needed_makes_it_exactly_once():
    verdict = decide(source(), target())

    assert (verdict.delivery, verdict.proven, verdict.fenced) == (
        Delivery.EXACTLY_ONCE,
        True,
        True,
    )
    assert (verdict.reasons, verdict.notes, str(verdict)) == ((), (), "exactly once")


@pytest.mark.parametrize("check", sorted(set(Check) - {Check.UNCHANGED}, key=str))
def test_each_check_that_fails_makes_it_at_least_once_and_says_why(check):
    verdict = decide(source(), target({check: fails()}))

    assert verdict.delivery is Delivery.AT_LEAST_ONCE
    assert not verdict.fenced
    (reason,) = verdict.reasons
    assert check.value in reason
    assert "seen so" in reason


def test_a_denied_transactional_id_names_the_rights_to_grant():
    verdict = decide(source(), target({Check.TRANSACTIONAL_ID: fails(Outcome.DENIED)}))

    (reason,) = verdict.reasons
    assert "WRITE and DESCRIBE on transactional ids with the prefix mm2-a->b-" in reason


@pytest.mark.parametrize("check", sorted(set(Check) - {Check.UNCHANGED}, key=str))
def test_what_was_not_tried_is_taken_for_granted_and_said(check):
    verdict = decide(source(), target({check: fails(Outcome.UNKNOWN, "no right to create it")}))

    assert str(verdict) == "exactly once, not proven here"
    assert verdict.fenced
    assert "no right to create it" in verdict.notes[0]


def test_what_fails_counts_more_than_what_is_unknown():
    answers = {Check.TRANSACTIONAL_ID: fails(), Check.FENCE: fails(Outcome.UNKNOWN)}
    assert decide(source(), target(answers)).delivery is Delivery.AT_LEAST_ONCE


def test_a_target_that_rewrites_batches_is_only_noted():
    verdict = decide(source(), target({Check.UNCHANGED: fails()}))

    assert verdict.delivery is Delivery.EXACTLY_ONCE
    assert "rewrites batches" in verdict.notes[0]


@pytest.mark.parametrize("name", ["find_coordinator", "add_partitions_to_txn", "end_txn"])
def test_without_transactions_nothing_is_fenced(name):
    verdict = decide(source(), target(**{name: None}))

    assert verdict.delivery is Delivery.AT_LEAST_ONCE
    assert name in verdict.reasons[0]


@pytest.mark.parametrize("name", [api.name for api in capabilities.NEEDED[Side.SOURCE]])
def test_what_a_source_must_speak_is_needed_for_anything(name):
    verdict = decide(source(**{name: None}), target())

    assert verdict.delivery is Delivery.NONE
    assert f"a does not speak {name}" in verdict.reasons[0]


@pytest.mark.parametrize("name", ["produce", "init_producer_id", "offset_for_leader_epoch"])
def test_what_a_target_must_speak_is_needed_for_anything(name):
    assert decide(source(), target(**{name: None})).delivery is Delivery.NONE


def test_a_cluster_without_topic_ids_is_noted():
    old = capabilities.Observed(alias="a", spoken=spoken(Side.SOURCE), topic_ids=False)

    (note,) = decide(old, target()).notes
    assert note.startswith("a has no topic ids")


def test_brokers_that_do_not_tell_how_long_they_remember_are_noted():
    silent = dataclasses.replace(target(), tells_expiration=False)

    (note,) = decide(source(), silent).notes
    assert "24 hours are assumed" in note
    assert decide(source(), dataclasses.replace(target(), tells_expiration=True)).notes == ()
