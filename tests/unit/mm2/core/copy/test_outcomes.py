from __future__ import annotations

import dataclasses

import pytest

from mm2.core.copy import eras, facts, fence, instructions, outcomes, setup, stops
from tests.fakes import taking

WHERE = setup.PartitionSetup(
    flow="a->b", topic="orders", remote_topic="a.orders", partition=7, transactional_id="mm2-x"
)


def attempt(producers, producer_id):
    return outcomes.Attempt(
        context=outcomes.Context(where=WHERE, owner=b"12345678", wall_ms=lambda: 0),
        fence=fence.Fence(
            producer=instructions.ProducerIdentity(id=producer_id, epoch=3),
            marker_offset=10,
            leader_epoch=1,
        ),
        known=facts.Facts(producers=producers),
    )


@pytest.mark.parametrize(
    ("producers", "producer_id", "ordinal"),
    [
        ({}, 4711, 1),
        ({4711: 1}, 4711, 1),
        ({4711: 1}, 4712, 2),
        ({4711: 1, 4712: 2}, 4711, 1),
        ({4711: 2, 4712: 5}, 9, 6),
    ],
    ids=["first", "known", "new", "an earlier one came back", "behind the highest"],
)
def test_a_producer_ids_place_among_all_that_ever_wrote(producers, producer_id, ordinal):
    found = attempt(producers, producer_id)
    assert found.ordinal == ordinal
    assert found.where is WHERE


def test_an_id_that_comes_back_behind_newer_owners_gets_a_newer_place():
    """What it then says must count: the right to it was gone for a while."""
    known = taking.known(taking.anchor(100, 8, order=(300, 0)), producers={4711: 1, 9: 300})
    again = dataclasses.replace(attempt({}, 4711), known=known)
    assert again.ordinal == 301
    assert eras.producer_items(again, era=1) != []


def test_so_does_one_that_comes_back_behind_an_era_whose_owner_died_before_its_anchor():
    """Else that era held nothing yet for every owner to come, and was read from its beginning."""
    known = taking.known(
        taking.anchor(100, 8), producers={4711: 1, 9: 300}, untaken=True, era_ordinal=300
    )
    again = dataclasses.replace(attempt({}, 4711), known=known)
    assert again.ordinal == 301


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (instructions.Refused(code=14), "error 14"),
        (instructions.Refused(code=14, message="loading"), "loading"),
        (instructions.Unanswered(reason="connection lost"), "connection lost"),
    ],
)
def test_beginning_again_says_what_was_being_done_and_why_it_failed(answer, why):
    assert outcomes.again("reading the map", answer).reason == f"reading the map: {why}"


def test_an_answer_of_the_wrong_kind_is_a_programmers_error():
    with pytest.raises(AssertionError, match="reading the map: answered with Done"):
        outcomes.again("reading the map", instructions.Done())


def test_a_broker_that_gives_nothing_is_given_up():
    assert outcomes.stuck("pairing").reason == (
        f"pairing: the broker gave nothing new in {outcomes.READS_WITHOUT_NEWS} reads"
    )


def test_what_keeps_a_marker_from_being_written_is_told_by_what_follows():
    us = instructions.ProducerIdentity(id=7, epoch=3)
    fenced = outcomes.not_fenced(WHERE, fence.NewerOwner(than=us))
    assert fenced == outcomes.Fenced(than=us)
    again = outcomes.not_fenced(WHERE, fence.Disturbed(reason="a leader moved"))
    assert again == outcomes.BeginAgain(reason="a leader moved")
    stop = outcomes.not_fenced(WHERE, fence.Refusal(code=29, message="no"))
    assert isinstance(stop, stops.Stop)
    assert (stop.cause, stop.retry_after_s) == (stops.Cause.REFUSED, fence.RETRY_REFUSED_S)
    assert "a.orders-7: no" in stop.message


def test_producers_are_nobodys_concern_where_no_flow_leads_back():
    assert taking.context().producers is None
    assert taking.context(opposite_map="theirs").producers == {-1: False}
