from __future__ import annotations

import json

from connect_runtime.base import ids
from mm2.core.copy import match_messages
from mm2.core.offsets import matched_runs

ORDERS = ids.TopicPartition("orders", 3)


def sent(message):
    return json.loads(json.dumps(message))


def test_what_is_asked_arrives():
    bounds = (
        match_messages.Bounds(partition=ORDERS),
        match_messages.Bounds(
            partition=ORDERS, source_to=5, target_to=7, opposite=frozenset({9, 4})
        ),
    )
    asked = match_messages.Asked(bounds=bounds, memory_bytes=7_000, all_differ=True)
    assert match_messages.read_ask(sent(match_messages.ask(asked))) == asked


def answered(*found):
    answers = match_messages.Answers()
    got = []
    for each in found:
        for message in match_messages.answer(each):
            told = answers.add(sent(message))
            if told is not None:
                got.append(told)
    return got


def test_what_was_found_arrives():
    stretches = (
        matched_runs.Stretch(0, 9, 12, ((0, 3), (5, 2))),
        matched_runs.Stretch(9, 20, 30, ((9, 2),), below=4, above=5),
    )
    matched = matched_runs.Matched(
        first_source=0,
        first_target=1,
        stretches=stretches,
        matched=8,
        unsure=3,
        tail=2,
        writers=(7, -1),
    )
    found = match_messages.Compared(partition=ORDERS, matched=matched, source=11, target=12)
    nothing = match_messages.Compared(partition=ORDERS, source=1, target=2, why="it is damaged")
    assert answered(found, nothing, found) == [found, nothing, found]


def test_long_stretches_come_in_pieces():
    runs = tuple((at, -at) for at in range(50_000))
    matched = matched_runs.Matched(
        first_source=0,
        first_target=0,
        stretches=(matched_runs.Stretch(0, 60_000, 60_001, runs),),
        matched=1,
        unsure=0,
        tail=0,
        writers=(),
    )
    found = match_messages.Compared(partition=ORDERS, matched=matched)
    assert len(list(match_messages.answer(found))) == 4
    (got,) = answered(found)
    assert got.matched is not None
    assert sum((each.runs for each in got.matched.stretches), ()) == runs
    assert got.matched.through == 60_000
