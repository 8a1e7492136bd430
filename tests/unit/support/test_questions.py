"""Which questions a run need not answer: each exception has a reason, is one, and is recorded."""

from __future__ import annotations

import pytest

from tests.support import questions

ASKED = set(questions.every(10))


@pytest.mark.parametrize("trouble", questions.ABOUT_TROUBLE)
def test_each_trouble_is_asked_about(trouble: str):
    assert questions.ABOUT_TROUBLE[trouble]
    assert any(questions.speaks_of(trouble, each) for each in ASKED)


@pytest.mark.parametrize("part", questions.NOT_MADE)
def test_what_no_run_answers_has_a_reason_and_is_recorded(part: str):
    assert len(questions.NOT_MADE[part].split()) > 4
    assert any(part in each for each in ASKED)
    assert part in questions.recorded()


def test_most_is_answered_while_all_is_well():
    well = {each for each in ASKED if not questions.is_about_trouble(each)}
    left = ASKED - well - questions.about_trouble(10)
    assert len(well) > 100
    assert len(left) < 8, left


def test_a_name_that_only_begins_like_a_trouble_is_none():
    assert questions.is_about_trouble("sum(mm2_incidents_total)")
    assert not questions.is_about_trouble("mm2_incidents_total_of_another")
    assert not questions.is_about_trouble("mm2_replication_lag_seconds")
