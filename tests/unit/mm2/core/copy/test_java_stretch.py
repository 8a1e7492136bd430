from __future__ import annotations

from typing import Any

import pytest

from mm2.core.copy import facts, instructions, java_stretch, outcomes, resume, stops, take
from mm2.formats import compression
from tests.fakes import scripts, taking
from tests.fakes.java_mirror import ANCHOR, SOURCE, STRANGER, java, mirror, wrote

# Where both logs begin


@pytest.mark.parametrize("answers", [1, 2])
def test_without_the_starts_of_the_logs_the_take_begins_again(answers):
    given: dict[Any, Any] = taking.answers(facts.Facts(java=java(101)))
    if answers == 1:
        given[instructions.FindSourceOffset] = scripts.LOST
    else:
        given[instructions.ReadTarget] = [mirror(), instructions.Refused(code=6)]
    assert isinstance(scripts.play(take.take(taking.context()), given).outcome, outcomes.BeginAgain)


def began(progress, **changed):
    answers = taking.answers(facts.Facts(java=progress), **changed)
    answers[instructions.FindSourceOffset] = instructions.SourceOffset(offset=100)
    attempt = taking.attempt(facts.Facts(java=progress))
    return scripts.play(java_stretch.where_both_begin(attempt, progress), answers).outcome


def test_without_a_sync_it_is_looked_for_from_the_starts_of_both_logs():
    stretch = began(java(101), ReadTarget=mirror(start=3))
    assert stretch == java_stretch.Stretch(source=100, target=3, exact=False)


def test_a_mirror_that_was_emptied_begins_where_it_ends():
    gone = instructions.Refused(code=1, log_start=50)
    assert began(java(101), ReadTarget=gone).target == 50


def test_a_mirror_that_is_too_long_is_read_only_if_java_says_nothing(monkeypatch):
    monkeypatch.setattr(java_stretch, "LONGEST", 49)
    assert began(java(101), ReadTarget=mirror()) is None
    assert began(java(0), ReadTarget=mirror()) is not None


# Behind our anchor


def looked(progress, *held, source=SOURCE, **changed):
    attempt = taking.attempt(taking.known(ANCHOR, java=progress))
    given: dict[str, Any] = {"ReadTarget": mirror(*held), "ReadSource": source}
    answers = taking.answers(**(given | changed))
    return scripts.play(java_stretch.look_behind(attempt, copied=41), answers)


THERE = java_stretch.Stretch(source=102, target=42)


@pytest.mark.parametrize("side", ["source", "mirror"])
def test_a_sync_that_names_a_batch_too_large_to_be_opened_stops_the_partition(side, monkeypatch):
    monkeypatch.setattr(compression, "OPENED_BYTES_MAX", 1 << 20)
    large = bytes(2 << 20)
    source, there = SOURCE, wrote(42, b"c")
    if side == "source":
        source = scripts.Log(scripts.data(102, large, codec=4), start=100)
    else:
        there = wrote(42, large, codec=4)
    found = looked(java(103, (102, 42)), there, source=source).outcome
    assert isinstance(found, stops.Stop)
    assert found.cause is stops.Cause.BATCH_TOO_LARGE


def test_a_sync_is_believed_if_a_stranger_wrote_that_record_there():
    assert looked(java(103, (102, 42)), wrote(41, b"b", b"c")).outcome == THERE


@pytest.mark.parametrize(
    "held",
    [
        wrote(41, b"b", b"c", producer=taking.OURS),
        wrote(42, b"c", producer=taking.BEFORE),
        wrote(42, b"another"),
        wrote(43, b"c"),
        scripts.marker(42, STRANGER),
    ],
    ids=["ours", "our owner's before", "another record", "elsewhere", "a marker"],
)
def test_a_sync_is_not_believed_if_not(held):
    assert looked(java(103, (102, 42)), held).outcome is None


@pytest.mark.parametrize("progress", [None, java(103), java(103, (102, 40)), java(103, (102, 50))])
def test_nothing_is_asked_where_no_sync_stands_behind_our_anchor(progress):
    played = looked(progress, wrote(41, b"b", b"c"))
    assert (played.outcome, played.asked) == (None, [])


@pytest.mark.parametrize("kind", ["ReadTarget", "ReadSource"])
def test_what_one_side_does_not_have_is_not_believed(kind):
    gone = instructions.Refused(code=1, log_start=200)
    played = looked(java(103, (102, 42)), wrote(42, b"c"), **{kind: gone})
    assert played.outcome is None


@pytest.mark.parametrize("kind", ["ReadTarget", "ReadSource"])
def test_without_an_answer_about_a_sync_the_take_begins_again(kind):
    played = looked(java(103, (102, 42)), wrote(42, b"c"), **{kind: scripts.LOST})
    assert isinstance(played.outcome, outcomes.BeginAgain)
    attempt = taking.attempt(taking.known(ANCHOR, java=java(103, (102, 42))))
    position = resume.Position(era=1, source=101, target=41)
    answers = taking.answers(ReadTarget=scripts.LOST)
    again = scripts.play(resume.pair(attempt, position), answers).outcome
    assert isinstance(again, outcomes.BeginAgain)


def test_what_a_sync_names_is_read_again_where_it_is_damaged_or_crowded_out():
    bad = bytearray(wrote(42, b"c"))
    bad[-1] ^= 1
    log = mirror(wrote(42, b"c"))
    played = looked(
        java(103, (102, 42)),
        ReadTarget=[mirror(bytes(bad)), scripts.records(end=51), log],
    )
    assert (played.outcome, len(played.slept)) == (THERE, 1)
    starved = looked(java(103, (102, 42)), ReadTarget=scripts.records(end=51)).outcome
    assert starved == outcomes.stuck("reading what an OffsetSync names on the mirror")
