from __future__ import annotations

from mm2.core.copy import opposite


def test_who_writes_without_an_id_is_known_from_the_start():
    assert opposite.Known().by_id == {opposite.NOBODY: False}


def test_whoever_was_asked_of_and_is_not_theirs_is_local():
    known = opposite.Known()
    known.learn([4, 5, 6], theirs={5})
    assert [known.by_id.get(each) for each in (4, 5, 6, 7)] == [False, True, False, None]


def test_ids_that_were_not_asked_of_may_be_told_too():
    known = opposite.Known()
    known.learn([4], theirs={9})
    assert known.by_id[9] is True


def test_of_locals_the_oldest_are_forgotten_and_theirs_never(monkeypatch):
    monkeypatch.setattr(opposite, "LOCALS_MAX", 2)
    known = opposite.Known()
    known.learn([1, 2], theirs={1})
    known.learn([3, 4], theirs=())
    known.learn([5], theirs=())
    assert known.by_id == {opposite.NOBODY: False, 1: True, 4: False, 5: False}
