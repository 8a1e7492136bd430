from __future__ import annotations

from mm2.core.offsets import log_items, matched_runs


def items(*offsets, start=0, end=None):
    made = log_items.Items(start=start)
    for offset in offsets:
        made.skip_to(offset)
        made.add(offset, offset, writer=offset % 2)
    made.skip_to(made.end if end is None else end)
    return made


def found(*sure, pairs=None, unsure=()):
    chain = [matched_runs.Pair(*each) for each in sure]
    return matched_runs.Found(
        pairs=chain if pairs is None else [matched_runs.Pair(*each) for each in pairs],
        sure=chain,
        unsure=frozenset(unsure),
    )


def test_runs_begin_where_the_distance_changes():
    source, target = items(0, 1, 3, 4, end=6), items(2, 3, 4, 6, end=7)
    made = matched_runs.fold(source, target, found((0, 0), (1, 1), (2, 2), (3, 3)))
    runs = ((0, 2), (3, 1), (4, 2))
    assert made.stretches == (matched_runs.Stretch(0, 6, 7, runs),)
    assert (made.first_source, made.first_target, made.matched, made.tail) == (0, 0, 4, 0)
    assert made.writers == (0, 1)


def test_what_is_unsure_is_a_stretch_of_its_own_with_its_bound():
    source, target = items(0, 1, 5, 6), items(0, 1, 2, 3, 4)
    made = matched_runs.fold(source, target, found((0, 0), (1, 1), (2, 3), (3, 4), unsure={1}))
    assert made.stretches == (
        matched_runs.Stretch(0, 1, 1, ((0, 0),)),
        matched_runs.Stretch(1, 5, 3, ((1, 0),), below=2, above=1),
        matched_runs.Stretch(5, 7, 5, ((5, -2),)),
    )
    assert made.unsure == 3


def test_it_begins_behind_what_has_no_copy_and_ends_before_it():
    source, target = items(0, 1, 2, 3, end=9), items(7, 8, start=5)
    made = matched_runs.fold(source, target, found((1, 0), (2, 1)))
    assert (made.first_source, made.first_target) == (1, 5)
    assert (made.stretches[-1].through, made.stretches[-1].target_next) == (3, 9)


def test_with_something_unknown_behind_it_it_ends_with_the_last_that_is_sure():
    source, target = items(0, 1, 2), items(0, 1, 9)
    made = matched_runs.fold(source, target, found((0, 0), (1, 1)))
    assert (made.stretches[-1].through, made.stretches[-1].target_next) == (2, 2)
    assert made.tail == 1
