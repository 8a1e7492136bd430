from __future__ import annotations

import dataclasses

import pytest

from mm2.replication import mirror_generations, producer_fencing, recovery_outcomes
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.producer_fencing import (
    FencingDenied,
    FencingInterrupted,
    NewerOwner,
    ProducerFence,
)
from mm2.replication.recovery_instructions import (
    InstructionDone,
    InstructionRefused,
    NoResponse,
    ProducerIdentity,
    RecoveredState,
)
from mm2.replication.recovery_outcomes import (
    OwnershipLost,
    RecoveryAttempt,
    RecoveryContext,
    RetryRecovery,
)
from tests.fakes import taking

WHERE = PartitionSetup(
    flow="a->b", topic="orders", remote_topic="a.orders", partition=7, transactional_id="mm2-x"
)


def attempt(producers, producer_id):
    return RecoveryAttempt(
        context=RecoveryContext(setup=WHERE, owner=b"12345678", wall_ms=lambda: 0),
        fence=ProducerFence(
            producer=ProducerIdentity(id=producer_id, epoch=3),
            marker_offset=10,
            leader_epoch=1,
        ),
        state=RecoveredState(producers=producers),
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
    assert found.setup is WHERE


def test_an_id_that_comes_back_behind_newer_owners_gets_a_newer_place():
    """What it then says must count: the right to it was gone for a while."""
    known = taking.known(taking.anchor(100, 8, order=(300, 0)), producers={4711: 1, 9: 300})
    again = dataclasses.replace(attempt({}, 4711), state=known)
    assert again.ordinal == 301
    assert mirror_generations.create_producer_records(again, era=1) != []


def test_so_does_one_that_comes_back_behind_an_era_whose_owner_died_before_its_anchor():
    """Else that era held nothing yet for every owner to come, and was read from its beginning."""
    known = taking.known(
        taking.anchor(100, 8), producers={4711: 1, 9: 300}, is_era_empty=True, era_ordinal=300
    )
    again = dataclasses.replace(attempt({}, 4711), state=known)
    assert again.ordinal == 301


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (InstructionRefused(code=14), "error 14"),
        (InstructionRefused(code=14, message="loading"), "loading"),
        (NoResponse(reason="connection lost"), "connection lost"),
    ],
)
def test_beginning_again_says_what_was_being_done_and_why_it_failed(answer, why):
    assert (
        recovery_outcomes.retry_after_failed_instruction("reading the map", answer).reason
        == f"reading the map: {why}"
    )


def test_an_answer_of_the_wrong_kind_is_a_programmers_error():
    with pytest.raises(AssertionError, match="reading the map: answered with InstructionDone"):
        recovery_outcomes.retry_after_failed_instruction("reading the map", InstructionDone())


def test_a_broker_that_gives_nothing_is_given_up():
    assert recovery_outcomes.retry_after_empty_reads("pairing").reason == (
        f"pairing: the broker returned no new records in {recovery_outcomes.EMPTY_READS_MAX} reads"
    )


def test_what_keeps_a_marker_from_being_written_is_told_by_what_follows():
    us = ProducerIdentity(id=7, epoch=3)
    fenced = recovery_outcomes.convert_fencing_failure(WHERE, NewerOwner(fenced_producer=us))
    assert fenced == OwnershipLost(fenced_producer=us)
    again = recovery_outcomes.convert_fencing_failure(
        WHERE, FencingInterrupted(reason="a leader moved")
    )
    assert again == RetryRecovery(reason="a leader moved")
    stop = recovery_outcomes.convert_fencing_failure(WHERE, FencingDenied(code=29, message="no"))
    assert isinstance(stop, PartitionHalt)
    assert (stop.cause, stop.retry_after_s) == (
        HaltCause.REFUSED_BY_TARGET,
        producer_fencing.DENIED_RETRY_DELAY_S,
    )
    assert "a.orders-7: no" in stop.message


def test_producers_are_nobodys_concern_where_no_flow_leads_back():
    assert taking.context().reverse_producers is None
    assert taking.context(opposite_map="theirs").reverse_producers == {-1: False}
