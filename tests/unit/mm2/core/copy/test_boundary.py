from __future__ import annotations

import pytest

from mm2.core.copy import boundary, facts, fence, instructions, setup, stops, transactions
from mm2.core.offsets import offset_map
from mm2.formats import map_record
from tests.fakes import scripts, taking

US = instructions.ProducerIdentity(id=7, epoch=3)
ME, OTHER = taking.ME, b"other___"
OLD_ID = 5
ALONE = taking.context()
SHARED = taking.context(target_topics=setup.TargetTopics.SHARED)
for each in (ALONE, SHARED):
    each.ours.update((OLD_ID, US.id))


def log():
    return scripts.Log(scripts.marker(40, (7, 3), leader_epoch=5))


def answers(**changed):
    given = {
        instructions.AddToTransaction: scripts.DONE,
        instructions.CommitTransaction: scripts.DONE,
        instructions.ReadTarget: log(),
    }
    return given | {getattr(instructions, name): answer for name, answer in changed.items()}


def test_a_commit_ends_behind_its_marker():
    played = scripts.play(boundary.commit(US, next_target=40, context=ALONE), answers())
    assert played.outcome == boundary.Boundary(next_target=41, leader_epoch=5)
    assert played.asked == [
        instructions.CommitTransaction(producer=US),
        instructions.ReadTarget(offset=40),
    ]


def test_renewing_is_an_empty_transaction():
    played = scripts.play(boundary.renew(US, next_target=40, context=ALONE), answers())
    assert played.outcome == boundary.Boundary(next_target=41, leader_epoch=5)
    assert played.asked == [
        instructions.AddToTransaction(producer=US),
        instructions.CommitTransaction(producer=US),
        instructions.ReadTarget(offset=40),
    ]


def test_opening_a_transaction_only_adds_the_partition():
    played = scripts.play(boundary.open_transaction(US), answers())
    assert played.outcome == boundary.Opened()
    assert played.asked == [instructions.AddToTransaction(producer=US)]


@pytest.mark.parametrize(
    ("step", "same"),
    [
        (transactions.Step.OPEN, boundary.open_transaction(US)),
        (transactions.Step.COMMIT, boundary.commit(US, next_target=40, context=ALONE)),
        (transactions.Step.RENEW, boundary.renew(US, next_target=40, context=ALONE)),
    ],
    ids=lambda each: str(each)[:12],
)
def test_each_step_has_its_script(step, same):
    played = scripts.play(boundary.cross(step, US, next_target=40, context=ALONE), answers())
    assert played == scripts.play(same, answers())


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (instructions.Refused(code=47), fence.NewerOwner),
        (instructions.Refused(code=53), fence.Refusal),
        (instructions.Refused(code=7), fence.Disturbed),
        (scripts.LOST, fence.Disturbed),
    ],
)
def test_what_goes_wrong_is_told_and_nothing_more_is_asked(answer, kind):
    lost_commit = scripts.play(
        boundary.commit(US, next_target=40, context=ALONE), answers(CommitTransaction=answer)
    )
    assert isinstance(lost_commit.outcome, kind)
    assert len(lost_commit.asked) == 1
    lost_add = scripts.play(
        boundary.renew(US, next_target=40, context=ALONE), answers(AddToTransaction=answer)
    )
    assert isinstance(lost_add.outcome, kind)
    assert len(lost_add.asked) == 1
    opened = scripts.play(boundary.open_transaction(US), answers(AddToTransaction=answer))
    assert isinstance(opened.outcome, kind)


@pytest.mark.parametrize("answer", [instructions.Refused(code=1), scripts.LOST])
def test_a_marker_that_cannot_be_read_begins_again(answer):
    for script in (
        boundary.commit(US, next_target=40, context=ALONE),
        boundary.renew(US, next_target=40, context=ALONE),
    ):
        played = scripts.play(script, answers(ReadTarget=answer))
        assert isinstance(played.outcome, fence.Disturbed)


def told(stable):
    """Our marker at 40, and up to where readers of committed records see."""
    return scripts.records(scripts.marker(40, (7, 3), leader_epoch=5), end=41, last_stable=stable)


def open_(*found):
    """What the broker tells: (producer id, where its transaction begins)."""
    return instructions.OpenTransactions(
        transactions=tuple(
            instructions.OpenTransaction(producer_id=producer_id, start=start)
            for producer_id, start in found
        )
    )


def crossed(step, context, *, stable, found=None):
    """How far readers of committed records see, told with our marker, and what is open there."""
    given = answers(ReadTarget=told(stable), FindOpenTransactions=[found] if found else [])
    return scripts.play(boundary.cross(step, US, next_target=40, context=context), given)


COMMIT, RENEW = transactions.Step.COMMIT, transactions.Step.RENEW
HANGING = open_((OLD_ID, 12))


@pytest.mark.parametrize("step", [COMMIT, RENEW])
def test_a_marker_that_readers_of_committed_records_do_not_reach_begins_again(step):
    outcome = crossed(step, ALONE, stable=12, found=HANGING).outcome
    assert isinstance(outcome, fence.Disturbed)
    assert outcome.reason == (
        "a.orders-4: a transaction is open before our marker at 40: readers of committed records "
        "stand still at 12"
    )


@pytest.mark.parametrize("step", [COMMIT, RENEW])
def test_a_broker_may_tell_a_moment_late_how_far_they_see(step):
    played = crossed(step, ALONE, stable=40, found=open_((US.id, 41)))
    assert played.outcome == boundary.Boundary(next_target=41, leader_epoch=5)


def test_where_they_see_our_marker_nobody_is_asked():
    assert crossed(COMMIT, ALONE, stable=41).outcome == boundary.Boundary(
        next_target=41, leader_epoch=5
    )


@pytest.mark.parametrize("untold", [instructions.Refused(code=29), scripts.LOST])
@pytest.mark.parametrize(
    ("later", "outcome"),
    [
        (told(41), boundary.Boundary),
        (told(None), boundary.Boundary),
        (told(40), fence.Disturbed),
        (scripts.LOST, fence.Disturbed),
    ],
)
def test_where_it_is_not_said_which_are_open_it_is_read_once_more_how_far_they_see(
    untold, later, outcome
):
    given = answers(ReadTarget=[told(40), later], FindOpenTransactions=[untold])
    played = scripts.play(boundary.commit(US, next_target=40, context=ALONE), given)
    assert isinstance(played.outcome, outcome)
    assert played.slept == [0.5]
    assert played.asked[-1] == instructions.ReadTarget(offset=40)


def test_where_it_cannot_be_told_whose_it_is_an_exclusive_mirror_is_taken_again():
    refused = instructions.Refused(code=35)
    assert isinstance(crossed(RENEW, ALONE, stable=12, found=refused).outcome, fence.Disturbed)
    assert isinstance(crossed(RENEW, SHARED, stable=12, found=refused).outcome, boundary.Boundary)


def test_where_others_write_too_only_ours_count_and_only_at_renewals():
    theirs = open_((99, 12))
    assert isinstance(crossed(RENEW, SHARED, stable=12, found=theirs).outcome, boundary.Boundary)
    assert isinstance(crossed(RENEW, SHARED, stable=12, found=HANGING).outcome, fence.Disturbed)
    assert isinstance(crossed(COMMIT, SHARED, stable=12).outcome, boundary.Boundary)


# Who fenced us?


def known(ordinal, epoch, *, owner, producers=None):
    key = map_record.SegmentKey(
        topic="t", partition=0, era=1, ordinal=ordinal, epoch=epoch, first_source=0
    )
    segment = map_record.Segment(
        leader_epoch=0,
        source_epoch=0,
        owner=owner,
        take_start=0,
        through=0,
        target_next=1,
        last_crc=None,
        runs=(),
    )
    anchor = offset_map.Anchor(key=key, segment=segment)
    return facts.Facts(anchor=anchor, producers={7: 1} if producers is None else producers)


def by_another(*facts_told):
    given = list(facts_told) if len(facts_told) > 1 else facts_told[0]
    script = boundary.who_fenced_us(ALONE, than=US)
    return scripts.play(script, {instructions.ReadFacts: given})


def test_a_newer_anchor_of_another_owner_means_that_it_took_over():
    assert by_another(known(1, 4, owner=OTHER)).outcome is True


def test_a_newer_producer_id_counts_whatever_its_epoch():
    assert by_another(known(2, 0, owner=OTHER)).outcome is True


def test_the_new_owner_may_take_a_while_to_store_its_anchor():
    played = by_another(known(1, 3, owner=ME), scripts.LOST, known(1, 5, owner=OTHER))
    assert played.outcome is True
    assert len(played.asked) == 3


@pytest.mark.parametrize(
    "answer",
    [
        known(1, 4, owner=ME),
        known(1, 3, owner=OTHER),
        known(1, 2, owner=OTHER),
        known(1, 4, owner=OTHER, producers={}),
        facts.Facts(),
        scripts.LOST,
        instructions.Refused(code=3),
    ],
    ids=[
        "our own newer anchor",
        "our own epoch",
        "an older owner",
        "our producer id was never recorded",
        "no anchor",
        "unanswered",
        "refused",
    ],
)
def test_anything_else_is_watched_for_a_takes_deadline_and_then_blamed_on_ourselves(answer):
    played = by_another(answer)
    assert played.outcome is False
    assert len(played.asked) == boundary.FENCE_CHECK_S / boundary.FENCE_CHECK_STEP_S


def test_a_map_that_may_not_be_read_says_nothing_of_other_owners():
    unreadable = facts.UnreadableRecord(offset=9, why="garbage")
    played = by_another(facts.Facts(unreadable=unreadable))
    assert played.outcome == stops.map_unreadable(ALONE.where, unreadable)
    assert len(played.asked) == 1
