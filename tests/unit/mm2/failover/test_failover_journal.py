from __future__ import annotations

import pytest

from mm2.failover import failover_journal
from mm2.failover.failover_journal import FailoverIdentity, JournalError
from mm2.failover.failover_request import ClusterIds, FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep

Step = FailoverStep
BEGUN = FailoverIdentity(
    request=FailoverRequest(
        origin="east",
        destination="west",
        kind=FailoverKind.EMERGENCY,
        accepted=frozenset({"halted"}),
        groups=frozenset({"billing"}),
        export="tail.jsonl",
    ),
    flow="east->west",
    hooks=("start-consumers",),
    clusters=ClusterIds(origin="idE", destination="idW"),
)
FIRST = failover_journal.encode_begun_entry(BEGUN, at_ms=5)


def test_what_was_begun_is_read_again():
    found = failover_journal.read_journal(FIRST)
    assert (found.identity, found.begun_at_ms) == (BEGUN, 5)
    assert found.next_step is Step.RECORD


def test_it_goes_on_with_the_first_step_that_is_not_done():
    text = FIRST
    for step in BEGUN.steps:
        assert failover_journal.read_journal(text).next_step is step
        text += failover_journal.encode_step_started(step, at_ms=6)
        assert failover_journal.read_journal(text).next_step is step
        text += failover_journal.encode_step_done(step, {"n": 1}, at_ms=9)
    found = failover_journal.read_journal(text)
    assert found.next_step is None
    assert found.details[Step.FENCE] == {"n": 1}
    assert (found.started_ms[Step.FENCE], found.done_ms[Step.FENCE]) == (6, 9)


def test_what_is_accepted_later_counts_as_if_it_had_been():
    found = failover_journal.read_journal(
        FIRST + failover_journal.encode_accepted_entry(["lag"], at_ms=6)
    )
    assert found.identity is not None
    assert found.identity.request.accepted == {"halted", "lag"}
    assert found.identity.request.groups == BEGUN.request.groups


def test_groups_that_were_moved_are_known():
    text = (
        FIRST
        + failover_journal.encode_group_moved_entry("billing", at_ms=6)
        + failover_journal.encode_group_moved_entry("x", at_ms=7)
    )
    assert failover_journal.read_journal(text).moved == {"billing", "x"}


def test_a_failed_step_is_done_again():
    text = (
        FIRST
        + failover_journal.encode_step_started(Step.RECORD, at_ms=6)
        + failover_journal.encode_step_failed(Step.RECORD, "x", at_ms=7)
    )
    found = failover_journal.read_journal(text)
    assert found.next_step is Step.RECORD
    assert found.failures == [(Step.RECORD, "x")]


def test_what_is_voided_is_done_again():
    text = FIRST + failover_journal.encode_step_done(Step.RECORD, {"n": 1}, at_ms=6)
    text += failover_journal.encode_step_voided(Step.RECORD, at_ms=7)
    found = failover_journal.read_journal(text)
    assert (found.next_step, found.details, found.done_ms) == (Step.RECORD, {}, {})
    assert found.voided == {Step.RECORD: {"n": 1}}
    assert (
        failover_journal.read_journal(
            text + failover_journal.encode_step_done(Step.RECORD, {}, at_ms=8)
        ).done_ms[Step.RECORD]
        == 8
    )


def test_a_line_that_a_crash_cut_off_was_not_written():
    text = FIRST + failover_journal.encode_step_done(Step.RECORD, {}, at_ms=6)
    for length in range(len(FIRST), len(text)):
        assert failover_journal.read_journal(text[:length]).next_step is Step.RECORD


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no line that begins a failover"),
        ("nonsense\n", "line 1"),
        ("[1]\n", "line 1"),
        (FIRST + "{}\n", "version None"),
        (FIRST.replace('"v":3', '"v":1'), "version 1"),
        (FIRST + '{"v":3,"at_ms":1,"what":"done","step":"fly"}\n', "line 2"),
        (FIRST + '{"v":3,"at_ms":1,"what":"dreamt"}\n', "line 2"),
        (failover_journal.encode_accepted_entry(["lag"], at_ms=1), "line 1"),
        (FIRST + '{"v":3,"at_ms":1e999,"what":"accepted","codes":[]}\n', "line 2"),
        (FIRST + '{"v":3,"at_ms":1' + "0" * 100 + ',"what":"accepted","codes":[]}\n', "line 2"),
        (FIRST + "[" * 100_000 + "\n", "line 2"),
        (FIRST.replace('"from":"east"', '"from":5'), "line 1"),
    ],
)
def test_what_cannot_be_read_is_told(text, words):
    with pytest.raises(JournalError, match=words):
        failover_journal.read_journal(text)
