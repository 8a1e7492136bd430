"""What a probe found, as findings."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.app import probe
from mm2.app.preflight import delivery
from mm2.core import capabilities, commands, flows
from mm2.core.preflight import findings

FLOW = flows.Flow(source="east", target="west")
Outcome, Weight, Word = capabilities.Outcome, findings.Weight, findings.Word
PREFIX = "mm2-east->west-"


def observed(
    alias: str,
    side: capabilities.Side,
    outcome: capabilities.Outcome = Outcome.HOLDS,
    **spoken: int | None,
) -> capabilities.Observed:
    answer = capabilities.Answer(outcome=outcome)
    return capabilities.Observed(
        alias=alias,
        spoken={**{each.name: each.high for each in capabilities.NEEDED[side]}, **spoken},
        topic_ids=True,
        tells_expiration=True,
        checks={
            **dict.fromkeys(capabilities.Check, capabilities.HOLDS),
            capabilities.Check.TRANSACTIONAL_ID: answer,
        },
    )


def told(target: capabilities.Observed, flow: flows.Flow = FLOW) -> list[findings.Finding]:
    source = observed("east", capabilities.Side.SOURCE)
    verdict = capabilities.decide(source, target, transactional_prefix=PREFIX)
    found = probe.Found(flow=flow, source=source, target=target, verdict=verdict)
    return list(delivery.judge(found, commands.Cluster(bootstrap="t:1")))


def target(
    outcome: capabilities.Outcome = Outcome.HOLDS, **spoken: int | None
) -> capabilities.Observed:
    return observed("west", capabilities.Side.TARGET, outcome, **spoken)


def test_exactly_once_needs_no_words():
    assert told(target()) == []


def test_a_denied_transactional_id_is_a_right_with_its_command():
    (found,) = told(target(Outcome.DENIED))
    assert (found.code, found.word, found.weight) == ("at-least-once", Word.RIGHTS, Weight.WARNING)
    assert "--transactional-id 'mm2-east->west-'" in found.command


def test_a_cluster_that_fences_nobody_is_a_matter_of_protocol():
    (found,) = told(target(Outcome.FAILS))
    assert (found.code, found.word) == ("at-least-once", Word.PROTOCOL)
    assert found.command == ""


def test_who_asked_for_at_least_once_is_not_told():
    modest = dataclasses.replace(FLOW, delivery=flows.Delivery.AT_LEAST_ONCE)
    assert told(target(Outcome.DENIED), modest) == []


def test_an_api_that_is_not_spoken_is_a_failure():
    (found,) = told(target(produce=None))
    assert (found.code, found.weight) == ("protocol", Weight.FAILED)
    assert "produce" in found.text


@pytest.mark.parametrize("ids", [True, False])
def test_what_is_different_there_is_a_note(ids):
    found = told(dataclasses.replace(target(), topic_ids=ids))
    assert [each.weight for each in found] == ([] if ids else [Weight.NOTE])
